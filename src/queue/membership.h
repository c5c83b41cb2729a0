/*
 * membership - the two lists from which workers compute who handles what, as read from the keeper, and
 * what follows from them.
 *
 * Each worker's node says what it handles ("queues"), and may say that it handles no others than some
 * ("only", which is ours). Queues that the same workers may handle are assigned among these workers,
 * see assign.h.
 *
 * The lists are read node by node while others write. A queue that moved meanwhile may be seen at both
 * workers, and then it is where it was written last; or at none, as on its way.
 *
 * What cannot be understood is left out (a name) or counts as empty (a node's data), and `note` gets one
 * line about it, once for as long as the node stays as it is.
 */
#ifndef QUEUE_MEMBERSHIP_H
#define QUEUE_MEMBERSHIP_H

#include "base/arena.h"
#include "queue/queue.h"

struct queue_member {
    const char *name;
    int64_t mzxid;      /* when it said this */
    struct str *queues; /* that it says it handles */
    size_t queue_count;
    struct str *only; /* that it would handle; NULL: any */
    size_t only_count;
};

struct queue_membership {
    struct arena arena; /* of all below */
    struct queue_member *workers;
    size_t worker_count; /* sorted by name */
    const char **queues;
    size_t queue_count; /* sorted */
};

/* What was noted already. Zero-initialise; release. */
struct queue_warnings {
    void (*note)(void *arg, const char *line); /* NULL: dropped */
    void *arg;
    uint64_t *seen;
    size_t count;
};

void queue_warnings_release(struct queue_warnings *n);

/* A line about a node, unless there was one already. */
void queue_warn(struct queue_warnings *n, const char *path, int64_t mzxid, const char *what);

/* Zero-initialise. Reads both lists anew. */
int queue_membership_read(struct queue_membership *c, const struct queues *qs,
                          struct queue_warnings *n);
void queue_membership_release(struct queue_membership *c);

/* The place of a name in a list, or -1. */
int32_t queue_membership_find_worker(const struct queue_membership *c, const char *name);
int32_t queue_membership_find_queue(const struct queue_membership *c, struct str name);

/* Who should handle each queue: a place in the list of workers, or ASSIGN_NOBODY. Pure. */
void queue_membership_assign(const struct queue_membership *c, int32_t *ret_owners);

/* What a worker's node holds, written and read (name and mzxid are left). False: it is rubbish. */
bool queue_membership_parse_worker(struct arena *a, struct str data, struct queue_member *w);
void queue_membership_put_worker(struct buf *b, const char *const *queues, size_t queue_count,
                                 const char *const *only, size_t only_count);

#endif
