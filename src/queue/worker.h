/*
 * worker - the state machine of a worker: what it does next. Pure: no keeper, no clock, no thread.
 *
 * The user asks queue_worker_next() what to do, does it, and reports the result with the function
 * of the same name in the past tense (LOOK, queue_worker_looked). It asks again until the answer is
 * WAIT, and then at the given time or at the next event. Time is any clock, in milliseconds.
 *
 * WORK runs beside the rest: reading the first message after `last` and handling it may take any
 * time, up to `parallel` at once, each of another queue. All other actions run one after the other.
 *
 *   join -> (lists change) quiet -> look -> release what the plan gives to others, after the
 *   message in progress; take what it gives to us as soon as nobody owns it -> work, advance, ...
 *
 * What always holds:
 *  - A message is started only by the owner of its queue, provided that clocks run at the same
 *    speed: the keeper confirmed the session within the last third of its timeout.
 *  - The next message is started after `last` was moved to the one before. So nothing is skipped
 *    and nothing is out of order; the message in progress when a worker dies is handled again.
 *  - No two messages of one queue are in progress, not even after a session was lost and the queue
 *    was taken again.
 */
#ifndef QUEUE_WORKER_H
#define QUEUE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/membership.h"

enum queue_worker_policy {
    WORKER_STOP,  /* a failed message stops the worker */
    WORKER_SKIP,  /* a failed message goes to the error queue */
    WORKER_RETRY, /* a failed message is retried, then goes to the error queue */
};

enum {
    WORKER_QUIET_MS = 3000,
    WORKER_QUIET_ROUNDS = 10,   /* lists that keep changing are read after that many quiet times */
    WORKER_POLL_MS = 10 * 1000, /* finds messages whose announcement was lost */
    WORKER_RETRIES = 10,
    WORKER_BACKOFF_MS = 1000,
    WORKER_BACKOFF_MAX_MS = 60 * 1000,
    WORKER_AGAIN_MS = 200, /* after the keeper could not be reached */
    WORKER_LOOK_MS = 1000, /* between looks until the plan is carried out; doubles each time */
    WORKER_LOOK_MAX_MS = 10 * 1000, /* between looks at rest, plus LOOK_EACH_MS per worker */
    WORKER_LOOK_EACH_MS = 100,
};

struct queue_worker_options {
    int64_t quiet_ms, poll_ms;
    int64_t timeout_ms; /* of the session */
    enum queue_worker_policy policy;
    int64_t back_off_ms; /* after the first failure */
    int retries;         /* before a message goes to the error queue, with RETRY */
    int parallel;        /* messages in progress, at least 1 */
};

enum queue_worker_kind {
    WORKER_WAIT,    /* until at_ms, or until an event */
    WORKER_JOIN,    /* with a new session, unless it is the first */
    WORKER_LOOK,    /* read the lists */
    WORKER_TAKE,    /* become the owner of `queue` */
    WORKER_RELEASE, /* stop being the owner of `queue` */
    WORKER_ADVANCE, /* set `last` of `queue` */
    WORKER_CONFIRM, /* check that the session exists */
    WORKER_WORK,    /* handle the first message of `queue` after `last`, beside the rest */
    WORKER_END,     /* leave: everything has been released */
};

struct queue_worker_action {
    enum queue_worker_kind kind;
    int64_t at_ms;
    char queue[QUEUE_NAME_LEN_MAX + 1];
    int64_t last;
    bool aside; /* WORK: if it fails, post it to the error queue */
};

/* The result of handling the first message. */
enum queue_worker_result {
    WORKER_NOTHING, /* there was none */
    WORKER_DONE,    /* handled, or moved to the error queue */
    WORKER_FAILED,
    WORKER_TROUBLE, /* messages could not be read, or not moved to the error queue */
};

/* A queue that this worker owns or should own; see worker.c. */
enum queue_stage { WANTED, IDLE, WORKING, PROCESSED };

struct queue_assignment {
    char queue[QUEUE_NAME_LEN_MAX + 1];
    enum queue_stage stage;
    bool planned;   /* the plan gives it to this worker */
    bool doubt;     /* WANTED: the owner node may be ours; IDLE: it may not be */
    bool empty;     /* IDLE: the last read found no message */
    bool news;      /* WORKING: messages may have arrived since the read */
    bool orphan;    /* WORKING: it was started in a session that has ended */
    int64_t due_ms; /* of the next step */
    int64_t last, processed;
    int failures; /* of the next message */
};

/* Whether this worker owns the queue, as far as it knows. */
static inline bool queue_assignment_is_held(const struct queue_assignment *d)
{
    return d->stage != WANTED && !d->orphan && !(d->stage == IDLE && d->doubt);
}

struct queue_worker {
    struct queue_worker_options o;
    char name[64];
    bool joined, stopping;
    int64_t join_ms;
    int64_t asked_ms;   /* time of the last call to the keeper */
    int64_t contact_ms; /* time of the last call that it answered */
    int64_t confirm_ms; /* no confirmation before this time */

    bool changed, planned; /* lists changed since the last look; there is a plan */
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

/* Results. Errors are those of registration.h. */
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
 * Events: one of the lists changed; a queue that we want may be free; a queue (NULL: any) may have
 * new messages; the session ended.
 */
void queue_worker_changed(struct queue_worker *w, int64_t now_ms);
void queue_worker_freed(struct queue_worker *w, int64_t now_ms, const char *queue);
void queue_worker_posted(struct queue_worker *w, int64_t now_ms, const char *queue);
void queue_worker_expired(struct queue_worker *w, int64_t now_ms);

/* Finish what is in progress, release everything, end. */
void queue_worker_stop(struct queue_worker *w, int64_t now_ms);

#endif
