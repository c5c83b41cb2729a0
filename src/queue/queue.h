/*
 * queue - the queues of a namespace in the keeper, at the document's paths.
 *
 *   /mozilla-qdo/queues/<name>                {"last": "4711"}: processed up to this message
 *   /mozilla-qdo/queues/<name>/owner          {"worker": "worker-0000000101"}, ephemeral
 *   /mozilla-qdo/workers/worker-0000000101    {"queues": [...]}, ephemeral, sequential
 *
 * A queue that is given no name gets 32 random hex digits. A name begins with a letter or digit and
 * has letters, digits, '.', '_' and '-'.
 *
 * The keeper holds only how far a queue has been processed. Its messages are tasks of the group of
 * the same name (message.h). registration.h does what a worker does with these nodes.
 *
 * Other clients write here too: invalid data gives DAMAGED.
 */
#ifndef QUEUE_QUEUE_H
#define QUEUE_QUEUE_H

#include <stdbool.h>

#include "keeper/keeper.h"

#define QUEUE_NAMESPACE "/mozilla-qdo"
#define QUEUE_ERROR "qdo_error" /* the group of messages that were skipped; it has no node */
#define QUEUE_NAME_RULE                                                                            \
    "a queue's name has at most 64 letters, digits, '.', '_' and '-', and begins with one of the " \
    "first two"

enum {
    QUEUE_NAME_LEN = 32, /* of a name that queue_create() makes */
    QUEUE_NAME_LEN_MAX = 64,
    QUEUE_NAMESPACE_LEN_MAX = 255,
    QUEUE_PATH_SIZE = 512,  /* enough for any path below a namespace */
    QUEUE_COUNT_MAX = 20000 /* ZooKeeper clients refuse longer lists of children (1 MB) */
};

/* Where the queues are. Borrows both. The namespace is a path; "/" is the root of the keeper. */
struct queues {
    struct keeper *keeper;
    const char *ns;
};

/* Validates a namespace; the name of a queue. */
bool queues_valid_namespace(const char *ns);
bool queue_valid_name(struct str name);

/* The path of a node below the namespace: "workers", "queues/%s/owner". */
void queues_path(const struct queues *qs, char path[QUEUE_PATH_SIZE], const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Creates the namespace's own nodes if they are missing. */
int queues_init(const struct queues *qs);

/* Makes a random name; whether a name looks like one. */
void queue_make_name(char ret_name[QUEUE_NAME_LEN + 1]);
bool queue_is_made_name(struct str name);

/*
 * Creates a queue. EXISTS if there is one of that name; TOO_BIG if there are QUEUE_COUNT_MAX. After
 * a lost answer, a random name that exists is the caller's own, and any other may be.
 */
int queue_create(const struct queues *qs, const char *name);

/* Removes a queue, also if a worker owns it: the owner's next change is refused. */
int queue_remove(const struct queues *qs, const char *name);

struct queue_info {
    int64_t last;     /* 0: no message has been processed */
    int32_t version;  /* of the queue's node: rises with each change of `last` and of the owner */
    int64_t fence;    /* czxid of the owner node: rises with each owner */
    char worker[256]; /* the owner; empty: none; "?": its node holds invalid data */
};

int queue_get(const struct queues *qs, const char *name, struct queue_info *ret_info);

/*
 * The same, with the data of the queue's node. The queue is read first, then its owner: if the
 * owner is ours, the queue's version was read while we owned it, and a later owner raises it. After
 * DAMAGED all but `last` is known.
 */
int queue_look(const struct queues *qs, const char *name, struct buf *ret_data,
               struct queue_info *ret_info);

/* Sets how far the queue is processed. BAD_VERSION if it was changed meanwhile. */
int queue_set_last(const struct queues *qs, const char *name, int64_t last, int32_t version);

/* The names of the queues, sorted. Skips invalid names. Empty if there is no namespace. */
int queues_list(const struct queues *qs, struct keeper_names *ret_names);

/* Whether a sorted list has the name. */
bool queues_have(const struct keeper_names *names, struct str name);

/* Writes and parses node data. Parsing returns 0 or DAMAGED. */
void queue_put_last(struct buf *b, int64_t last);
int queue_parse_id(struct str text, int64_t *ret_id); /* empty: 0 */
int queue_parse_last(struct str data, int64_t *ret_last);
void queue_put_owner(struct buf *b, const char *worker);
int queue_parse_owner(struct str data, char worker[256]);

#endif
