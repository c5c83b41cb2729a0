/*
 * member - a worker's place in the keeper: its node, and the queues it owns.
 *
 * In order: queue_registration_join -> queue_registration_take, queue_registration_advance, queue_registration_release, queue_registration_confirm in any order
 * -> queue_registration_leave, or the end of the session. Straight-line code on the keeper; one thread.
 *
 * What always holds:
 *  - A queue is owned by the one member that made its owner node. Each change is one transaction.
 *  - Taking a queue also sets the queue's node, to what it was: its version rises. From then on each
 *    change of the queue insists on the version that the owner saw last. So whoever owned the queue
 *    before, and whatever became of its session, cannot move `last` any more, nor give up what is now
 *    another's; even though a new owner node looks to its version like the old one.
 *  - The member's node says what it owns, in the same transaction.
 *
 * Every call may be made again after it failed: it looks first whether it has happened. UNKNOWN is
 * settled inside; it is returned only when the keeper cannot be reached.
 *
 * SESSION_EXPIRED: the session, or the node of this member, is gone. Everything it owned is lost; leave
 * and join anew, with another session.
 */
#ifndef QUEUE_REGISTRATION_H
#define QUEUE_REGISTRATION_H

#include "queue/queue.h"

struct queue_hold {
    char queue[QUEUE_NAME_LEN + 1];
    int64_t last;    /* how far it is processed */
    int64_t fence;   /* rises with each owner: the czxid of the owner node */
    int32_t version; /* of the queue's node, as we saw it last */
};

struct queue_registration {
    struct queues queues;
    char name[64]; /* "worker-0000000101"; empty: not joined */
    struct queue_hold *holds;
    size_t hold_count, hold_cap;
    const char *const *only; /* the queues it would handle; NULL: any */
    size_t only_count;
};

/* Makes the namespace, if need be, and the member's node. Set queues and only first. */
int queue_registration_join(struct queue_registration *m);

/* Frees what the member holds in memory. Deletes its nodes if it can. */
void queue_registration_leave(struct queue_registration *m);

/* What it owns, or NULL. */
struct queue_hold *queue_registration_find(struct queue_registration *m, const char *queue);

/*
 * Becomes the owner. IN_USE: another is; NO_NODE: there is no such queue; DAMAGED: its node holds
 * rubbish, which we leave alone.
 */
int queue_registration_take(struct queue_registration *m, const char *queue);

/*
 * Says that messages up to `last` are processed. FENCED: it was not ours any more; NO_NODE: the queue is
 * gone; both end the ownership. DAMAGED: it is ours, but somebody put rubbish in its node. BAD_VERSION: it is ours, but somebody else set `last` meanwhile: their
 * value stands, and is in the hold.
 */
int queue_registration_advance(struct queue_registration *m, const char *queue, int64_t last);

/* Stops being the owner. 0 also when it was not ours any more. */
int queue_registration_release(struct queue_registration *m, const char *queue);

/* Whether the session and the node stand, at the time of the call. */
int queue_registration_confirm(struct queue_registration *m);

#endif
