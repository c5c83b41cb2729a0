/*
 * queue - the queues of a namespace in the keeper, as the document shows them.
 *
 *   /mozilla-qdo/queues/<32 hex digits>          {"last": "4711"}: messages up to there are processed
 *   /mozilla-qdo/queues/<32 hex digits>/owner    {"worker": "worker-0000000101"}, ephemeral
 *   /mozilla-qdo/workers/worker-0000000101       {"queues": [...]}, ephemeral, sequential
 *
 * Only how far a queue has been processed is kept here. Its messages are tasks of the group of the same
 * name (messages.h). What a worker does with these nodes stands in member.h.
 *
 * What is read may have been written by others: it is input, and rubbish gives DAMAGED.
 */
#ifndef QUEUE_QUEUE_H
#define QUEUE_QUEUE_H

#include <stdbool.h>

#include "keeper/keeper.h"

#define QUEUE_NAMESPACE "/mozilla-qdo"
#define QUEUE_ERROR "qdo_error" /* the group of messages that were skipped; it has no node */

enum {
    QUEUE_NAME_LEN = 32,
    QUEUE_NAMESPACE_LEN_MAX = 255,
    QUEUE_PATH_SIZE = 512,  /* room for any path below a namespace */
    QUEUE_COUNT_MAX = 20000 /* ZooKeeper does not give out longer lists of children (1 MB) */
};

/* Where the queues are. Borrows both. The namespace is a path; "/" is the top of the keeper. */
struct queues {
    struct keeper *keeper;
    const char *ns;
};

/* Whether a namespace, or the name of a queue, is one. */
bool queues_valid_namespace(const char *ns);
bool queue_valid_name(struct str name);

/* The path of a node below the namespace, from its parts: "workers", "queues/" name "/owner". */
void queues_path(const struct queues *qs, char path[QUEUE_PATH_SIZE], const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Makes the namespace's own nodes where they are missing. */
int queues_init(const struct queues *qs);

/* A new queue, with a random name. TOO_BIG when there are QUEUE_COUNT_MAX. */
int queue_create(const struct queues *qs, char ret_name[QUEUE_NAME_LEN + 1]);

/* Removes a queue, from under its owner if it has one: the owner's next change is refused. */
int queue_remove(const struct queues *qs, const char *name);

struct queue_info {
    int64_t last;     /* 0: no message has been processed */
    int32_t version;  /* of the queue's node: rises with each change of last and of owner */
    char worker[256]; /* that owns it; empty: nobody */
};

int queue_get(const struct queues *qs, const char *name, struct queue_info *ret_info);

/* Sets how far the queue is processed. BAD_VERSION when it moved meanwhile. */
int queue_set_last(const struct queues *qs, const char *name, int64_t last, int32_t version);

/* The names of the queues, sorted. What is no queue's name is left out. None without a namespace. */
int queues_list(const struct queues *qs, struct keeper_names *ret_names);

/* What the nodes hold, written and read. Parsing gives 0 or DAMAGED. */
void queue_put_last(struct buf *b, int64_t last);
int queue_parse_last(struct str data, int64_t *ret_last);
void queue_put_owner(struct buf *b, const char *worker);
int queue_parse_owner(struct str data, char worker[256]);

#endif
