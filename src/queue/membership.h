/*
 * membership - the list of workers and the list of queues, read from the keeper, and the assignment
 * that follows from them.
 *
 * A worker's node lists the queues it handles ("queues") and may restrict it to some ("only", an
 * addition of ours). Queues that the same workers may handle are assigned among these workers.
 *
 * The lists are read node by node while others write. A queue that moves meanwhile may appear at
 * two workers, and then the later write counts; or at none.
 *
 * A node with an invalid name is skipped, invalid data counts as empty. Each such node causes one
 * warning, and another only after it has changed.
 */
#ifndef QUEUE_MEMBERSHIP_H
#define QUEUE_MEMBERSHIP_H

#include "base/arena.h"
#include "queue/queue.h"

struct queue_member {
    const char *name;
    int64_t mzxid;      /* of its node */
    struct str *queues; /* that it handles */
    size_t queue_count;
    struct str *only; /* the only ones it may handle; NULL: any */
    size_t only_count;
};

struct queue_membership {
    struct arena arena; /* holds all below */
    struct queue_member *workers;
    size_t worker_count; /* sorted by name */
    const char **queues;
    size_t queue_count; /* sorted */
};

/* Warns once per node. Zero-initialise; release. */
struct queue_warnings {
    void (*note)(void *arg, const char *line); /* NULL: no warnings */
    void *arg;
    uint64_t *seen;
    size_t count;
};

void queue_warnings_release(struct queue_warnings *n);

/* Warns about a node, unless it did so before. */
void queue_warn(struct queue_warnings *n, const char *path, int64_t mzxid, const char *what);

/* Zero-initialise. Reads both lists again. */
int queue_membership_read(struct queue_membership *c, const struct queues *qs,
                          struct queue_warnings *n);
void queue_membership_release(struct queue_membership *c);

/*
 * Assignment: which worker handles which queue. Pure.
 *
 * Workers and queues are indexes into the two sorted lists. What a worker holds is part of the
 * input (it stands in the data of the worker's node): no function of the names alone can both
 * balance exactly and move as few queues as possible (see membership.c).
 *
 * What always holds:
 *  - Balanced: two workers never differ by more than one queue.
 *  - Minimal: no balanced assignment leaves more queues where they are.
 *  - Stable: after any subset of the moves the result is the same. Workers that read the lists at
 *    different moments of a re-balancing agree.
 */
enum { ASSIGN_NOBODY = -1 };

/*
 * holders[q] is the worker that handles queue q now, or NOBODY. ret_owners[q] becomes the worker
 * that should handle it; NOBODY only without workers. The two may be the same array.
 */
void assign(size_t worker_count, size_t queue_count, const int32_t *holders, int32_t *ret_owners);

/* The same for the lists: an index into workers, or ASSIGN_NOBODY. Each class on its own. */
void queue_membership_assign(const struct queue_membership *c, int32_t *ret_owners);

int queue_compare_names(const void *a, const void *b); /* for qsort() of a list of names */

/* The data of a worker's node. Parsing leaves name and mzxid alone; false: invalid. */
bool queue_membership_parse_worker(struct arena *a, struct str data, struct queue_member *w);
void queue_membership_put_worker(struct buf *b, const char *const *queues, size_t queue_count,
                                 const char *const *only, size_t only_count);

#endif
