/*
 * registration - a worker's node in the keeper, and the queues it owns.
 *
 * In order: join; take, advance, release and confirm in any order; leave, or the end of the
 * session. Blocking calls on the keeper, from one thread. queue_step() runs the one that the state
 * machine (worker.h) asks for.
 *
 * What always holds:
 *  - A queue is owned by the one worker that created its owner node. Each change is one
 *    transaction.
 *  - Taking a queue also sets the queue's node, to the data it has, so its version rises. From then
 *    on each change of the queue checks the version that the owner saw last. An earlier owner,
 *    whatever became of its session, can neither move `last` nor release what another worker owns,
 *    although a new owner node has the same version as the old one.
 *  - The worker's node lists what it owns, in the same transaction.
 *
 * Every call can be repeated after it failed: it checks first whether it has already happened.
 * UNKNOWN is resolved inside, and returned only while the keeper cannot be reached.
 *
 * SESSION_EXPIRED: the session, or the worker's node, is gone. Everything it owned is lost: leave,
 * and join again with a new session.
 */
#ifndef QUEUE_REGISTRATION_H
#define QUEUE_REGISTRATION_H

#include "queue/worker.h"

struct queue_hold {
    char queue[QUEUE_NAME_LEN_MAX + 1];
    int64_t last;    /* messages up to this id are processed */
    int64_t fence;   /* czxid of the owner node: rises with each owner */
    int32_t version; /* of the queue's node, as last seen */
};

struct queue_registration {
    struct queues queues;
    char name[64]; /* "worker-0000000101"; empty: not joined */
    struct queue_hold *holds;
    size_t hold_count, hold_cap;
    const char *const *only; /* the queues it may handle; NULL: any */
    size_t only_count;
};

/* Creates the namespace if needed, and the worker's node. Set queues and only first. */
int queue_registration_join(struct queue_registration *m);

/* Deletes the worker's nodes if it can, and frees its memory. */
void queue_registration_leave(struct queue_registration *m);

/* A queue it owns, or NULL. */
struct queue_hold *queue_registration_find(struct queue_registration *m, const char *queue);

/*
 * Becomes the owner. IN_USE: another worker is; NO_NODE: no such queue; DAMAGED: its node holds
 * invalid data, which is left alone.
 */
int queue_registration_take(struct queue_registration *m, const char *queue);

/*
 * Records that messages up to `last` are processed. FENCED: the queue is no longer ours; NO_NODE:
 * the queue is gone; both end the ownership. DAMAGED: it is ours, but its node holds invalid data.
 * BAD_VERSION: it is ours, but another client has set `last`; that value counts, and stands in the
 * hold.
 */
int queue_registration_advance(struct queue_registration *m, const char *queue, int64_t last);

/* Stops being the owner. 0 also if it no longer was. */
int queue_registration_release(struct queue_registration *m, const char *queue);

/* A worker's state machine with what it needs to carry out its actions on the keeper. */
struct queue_steps {
    struct queue_registration registration;
    struct queue_worker worker;
    struct queue_membership membership;
    struct queue_warnings warnings;
    int64_t (*now_ms)(void *arg);
    void *arg;
};

/*
 * Carries out an action and reports its result to the worker; returns its error. WAIT and WORK are
 * the caller's. Before a JOIN other than the first, the caller sets a keeper with a new session.
 */
int queue_step(struct queue_steps *s, const struct queue_worker_action *a);

void queue_steps_release(struct queue_steps *s);

#endif
