/*
 * worker - what a worker does next. Pure: no keeper, no clock, no thread.
 *
 * The user asks worker_next() what to do, does it, and says how it went with the function of the same
 * name in the past tense (LOOK, worker_looked). It asks again until the answer is WAIT, and then after
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

#include "queue/census.h"

enum worker_policy {
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

struct worker_options {
    int64_t quiet_ms, poll_ms;
    int64_t timeout_ms; /* of the session */
    enum worker_policy policy;
    int retries;  /* before a message goes to the error queue, with RETRY */
    int parallel; /* messages in hand, at least 1 */
};

enum worker_kind {
    WORKER_WAIT,    /* until at_ms, or until something happens */
    WORKER_JOIN,    /* with a new session, unless it is the first */
    WORKER_LOOK,    /* read the lists */
    WORKER_TAKE,    /* become the owner of `queue` */
    WORKER_GIVE_UP, /* stop being it */
    WORKER_ADVANCE, /* set `last` of `queue` */
    WORKER_CONFIRM, /* ask whether the session stands */
    WORKER_WORK,    /* handle the first message of `queue` after `last`, beside the rest */
    WORKER_END,     /* leave: everything has been given up */
};

struct worker_action {
    enum worker_kind kind;
    int64_t at_ms;
    char queue[QUEUE_NAME_LEN + 1];
    int64_t last;
    bool aside; /* WORK: should it fail, post it to the error queue */
};

/* How handling the first message went. */
enum worker_result {
    WORKER_NOTHING, /* there was none */
    WORKER_DONE,    /* handled, or set aside in the error queue */
    WORKER_FAILED,
    WORKER_TROUBLE, /* messages could not be read or set aside */
};

struct duty; /* a queue that is ours, or should be */

struct worker {
    struct worker_options o;
    char name[64];
    bool joined, stopping;
    int64_t join_ms;
    int64_t asked_ms,
        contact_ms; /* when the keeper was asked last; and when, of what it answered */

    int64_t confirm_ms; /* not before, after it failed */

    bool changed, planned; /* since the last look; whether there is a plan */
    int64_t changed_ms, quiet_ms;
    int64_t look_ms, look_again_ms; /* next look; the pause before it */

    struct duty *duties;
    size_t duty_count, duty_cap;
    int working;
};

void worker_init(struct worker *w, const struct worker_options *o);
void worker_release(struct worker *w);

void worker_next(struct worker *w, int64_t now_ms, struct worker_action *ret_action);

/* What came of it. Errors are those of member.h. */
void worker_joined(struct worker *w, int64_t now_ms, int err, const char *name);
void worker_looked(struct worker *w, int64_t now_ms, int err, const struct census *c);
void worker_took(struct worker *w, int64_t now_ms, const char *queue, int err, int64_t last);
void worker_gave_up(struct worker *w, int64_t now_ms, const char *queue, int err);
void worker_advanced(struct worker *w, int64_t now_ms, const char *queue, int err, int64_t last);
void worker_confirmed(struct worker *w, int64_t now_ms, int err);
void worker_worked(struct worker *w, int64_t now_ms, const char *queue, enum worker_result result,
                   int64_t id);

/*
 * What happens: one of the lists changed; a queue that we want may be free; a queue (NULL: any) may have
 * got messages; the session is over.
 */
void worker_changed(struct worker *w, int64_t now_ms);
void worker_freed(struct worker *w, int64_t now_ms, const char *queue);
void worker_posted(struct worker *w, int64_t now_ms, const char *queue);
void worker_expired(struct worker *w, int64_t now_ms);

/* Finish what is in hand, give up everything, end. */
void worker_stop(struct worker *w, int64_t now_ms);

/* Whether it owns the queue, as far as it knows; and how many it owns. */
bool worker_owns(const struct worker *w, const char *queue);
size_t worker_owned(const struct worker *w);

#endif
