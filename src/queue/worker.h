/*
 * worker - what a worker does next. Pure: no keeper, no clock, no thread.
 *
 * The user asks queue_worker_next() what to do, does it, and says how it went with the function of the same
 * name in the past tense (LOOK, queue_worker_looked). It asks again until the answer is WAIT, and then after
 * the time given or the next thing that happens. Time is whatever clock the user has, in milliseconds.
 *
 * WORK runs beside the rest: reading the first message after `last` and handling it may take as long as
 * they like, up to `parallel` of them at a time, each of another queue. Everything else is done at once,
 * one after the other.
 *
 *   join -> (lists change) quiet -> look -> give up what the plan gives to others, after the message in
 *   hand; take what it gives to us as soon as nobody holds it -> work, advance, work, advance ...
 *
 * What always holds:
 *  - A message is begun only by the owner of its queue, as long as the clocks run alike: the keeper
 *    confirmed the session within the last third of its timeout.
 *  - The next message is begun after `last` has been moved to the one before. So nothing is skipped and
 *    nothing is out of order; what was in hand when a worker died is handled again.
 *  - Of one queue no two messages are in hand, not even after a session was lost and the queue was taken
 *    again.
 */
#ifndef QUEUE_WORKER_H
#define QUEUE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/membership.h"

enum queue_worker_policy {
    WORKER_STOP,  /* a message that failed stops the worker */
    WORKER_SKIP,  /* it goes to the error queue */
    WORKER_RETRY, /* it is tried again, later and later, and then goes to the error queue */
};

enum {
    WORKER_QUIET_MS = 3000,
    WORKER_QUIET_ROUNDS = 10, /* lists that never rest are looked at after that many quiet times */
    WORKER_POLL_MS = 10 * 1000, /* news come by themselves: this is for those that got lost */
    WORKER_RETRIES = 10,
    WORKER_BACKOFF_MS = 1000,
    WORKER_BACKOFF_MAX_MS = 60 * 1000,
    WORKER_AGAIN_MS = 200, /* after the keeper could not be reached */
    WORKER_LOOK_MS = 1000, /* again, while the plan is not carried out; doubles each time */
    WORKER_LOOK_MAX_MS =
        10 * 1000, /* again, at rest; and WORKER_LOOK_EACH_MS more for each worker */
    WORKER_LOOK_EACH_MS = 100,
};

struct queue_worker_options {
    int64_t quiet_ms, poll_ms;
    int64_t timeout_ms; /* of the session */
    enum queue_worker_policy policy;
    int retries;  /* before a message goes to the error queue, with RETRY */
    int parallel; /* messages in hand, at least 1 */
};

enum queue_worker_kind {
    WORKER_WAIT,    /* until at_ms, or until something happens */
    WORKER_JOIN,    /* with a new session, unless it is the first */
    WORKER_LOOK,    /* read the lists */
    WORKER_TAKE,    /* become the owner of `queue` */
    WORKER_RELEASE, /* stop being it */
    WORKER_ADVANCE, /* set `last` of `queue` */
    WORKER_CONFIRM, /* ask whether the session stands */
    WORKER_WORK,    /* handle the first message of `queue` after `last`, beside the rest */
    WORKER_END,     /* leave: everything has been given up */
};

struct queue_worker_action {
    enum queue_worker_kind kind;
    int64_t at_ms;
    char queue[QUEUE_NAME_LEN + 1];
    int64_t last;
    bool aside; /* WORK: should it fail, post it to the error queue */
};

/* How handling the first message went. */
enum queue_worker_result {
    WORKER_NOTHING, /* there was none */
    WORKER_DONE,    /* handled, or set aside in the error queue */
    WORKER_FAILED,
    WORKER_TROUBLE, /* messages could not be read or set aside */
};

struct queue_assignment; /* a queue that is ours, or should be */

struct queue_worker {
    struct queue_worker_options o;
    char name[64];
    bool joined, stopping;
    int64_t join_ms;
    int64_t asked_ms,
        contact_ms; /* when the keeper was asked last; and when, of what it answered */

    int64_t confirm_ms; /* not before, after it failed */

    bool changed, planned; /* since the last look; whether there is a plan */
    int64_t changed_ms, quiet_ms;
    int64_t look_ms, look_again_ms; /* next look; the pause before it */

    struct queue_assignment *assignments;
    size_t assignment_count, assignment_cap;
    int working;
};

void queue_worker_init(struct queue_worker *w, const struct queue_worker_options *o);
void queue_worker_release(struct queue_worker *w);

void queue_worker_next(struct queue_worker *w, int64_t now_ms,
                       struct queue_worker_action *ret_action);

/* What came of it. Errors are those of member.h. */
void queue_worker_joined(struct queue_worker *w, int64_t now_ms, int err, const char *name);
void queue_worker_looked(struct queue_worker *w, int64_t now_ms, int err,
                         const struct queue_membership *c);
void queue_worker_took(struct queue_worker *w, int64_t now_ms, const char *queue, int err,
                       int64_t last);
void queue_worker_released(struct queue_worker *w, int64_t now_ms, const char *queue, int err);
void queue_worker_advanced(struct queue_worker *w, int64_t now_ms, const char *queue, int err,
                           int64_t last);
void queue_worker_confirmed(struct queue_worker *w, int64_t now_ms, int err);
void queue_worker_worked(struct queue_worker *w, int64_t now_ms, const char *queue,
                         enum queue_worker_result result, int64_t id);

/*
 * What happens: one of the lists changed; a queue that we want may be free; a queue (NULL: any) may have
 * got messages; the session is over.
 */
void queue_worker_changed(struct queue_worker *w, int64_t now_ms);
void queue_worker_freed(struct queue_worker *w, int64_t now_ms, const char *queue);
void queue_worker_posted(struct queue_worker *w, int64_t now_ms, const char *queue);
void queue_worker_expired(struct queue_worker *w, int64_t now_ms);

/* Finish what is in hand, give up everything, end. */
void queue_worker_stop(struct queue_worker *w, int64_t now_ms);

/* Whether it owns the queue, as far as it knows; and how many it owns. */
bool queue_worker_owns(const struct queue_worker *w, const char *queue);
size_t queue_worker_owned(const struct queue_worker *w);

#endif
