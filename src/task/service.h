/*
 * service - the task store on a keeper, for the HTTP routes, the library in process and the DAG.
 *
 * A request is a struct that the caller keeps, with all it refers to, until its `done` is called:
 *
 *     struct task_request r = {.kind = TASK_UPDATE, .update = {...}, .done = on_done, .arg = me};
 *     service_submit(s, &r);
 *
 * `done` is called exactly once, possibly before service_submit() returns, when the answer may
 * leave: the change, and everything that the answer saw, has passed the keeper's gate. It may
 * submit again.
 *
 * How it works. A request is checked and applied to the store in memory; its changes are committed
 * to the keeper as one transaction, with the caller's extra operations; the answer leaves when the
 * commit is durable. Requests take effect in the order of submission.
 *  - On the embedded keeper the commit is decided at once (nobody else writes below /drover/tasks),
 *    so requests are pipelined, and only their answers wait for the disk. A refused commit (a
 *    failing extra check, a full disk) is undone in memory before the next request runs.
 *  - On an ensemble there is one commit in flight at a time, and requests that arrive meanwhile
 *    form the next batch. The store in memory is at most one batch ahead of the tree, so a refused
 *    batch is undone and its requests are tried one by one. Every commit checks the leader's fence;
 *    if that fails, another process leads, and the service stops (the leader's callback starts it
 *    again). If the outcome is unknown, a new fence stops what may still be in flight; then the tag
 *    in the head tells whether the commit happened.
 *
 * What always holds: the store in memory is never behind the tree; no answer leaves before its
 * commit is durable.
 *
 * Time. A timespec is wall time by definition. The service uses a monotonic clock that was set to
 * wall time at the start, so that a jump of the system clock neither ends a lease early nor keeps
 * it for ever. After a restart wall time is read again.
 *
 * Threads: with a `wake`, service_submit(), service_dispatch(), service_tick() and service_cancel()
 * belong to one thread, that of a loop, and `done` is called there. service_call() is for all other
 * threads; its `done` may be called on either. `done` is called without any lock of the service
 * held.
 */
#ifndef TASK_SERVICE_H
#define TASK_SERVICE_H

#include "base/err.h"
#include "keeper/keeper.h"
#include "task/store.h"

struct service;

enum task_kind { TASK_UPDATE, TASK_CLAIM, TASK_READ };

/* The answer: err 0 and tasks; REFUSED and the reasons; or another error. Valid during the call. */
struct task_reply {
    int err;
    const struct task *tasks;
    size_t task_count;
    const char *const *errors;
    size_t error_count;
};

struct task_txn;

struct task_request {
    enum task_kind kind;
    struct task_update update;
    struct task_claim claim;
    int64_t wait_ms; /* claim: how long to wait for a task. Its deletes happen at once */

    /*
     * Optional: the client's name for this request (at most REQUEST_LOG_ID_LEN_MAX bytes). A
     * repetition from the same client with the same hash is answered and not executed again.
     */
    struct str requestid;
    uint64_t request_hash;

    /*
     * Optional, of an update: called with the store as it is, under the service's lock, right
     * before it is checked: for changes that depend on the state. An error fails the request. On
     * an ensemble it may be called again.
     */
    int (*prepare)(void *arg, struct store *s, int64_t now_ms, struct task_update *u);

    /*
     * Optional, of an update: called when the check has passed, under the lock, before the commit,
     * with the tasks of the answer: for extra operations that name them. Likewise called again.
     */
    void (*decided)(void *arg, const struct task *tasks, size_t count);

    /* Optional: committed in the same transaction. A failing one fails all, with its error. */
    const struct keeper_op *extra;
    size_t extra_count;

    /*
     * Reads: called with the store as it is, under the service's lock. Copy what you need. On an
     * ensemble it is called again if the batch of the request was refused: start over then.
     */
    void (*read)(void *arg, struct store *s, int64_t now_ms);

    /*
     * Optional: called when the changes are certain, before any later request runs, under the
     * service's lock: for what the store has beside its tasks.
     */
    void (*settled)(void *arg, struct store *s);

    void (*done)(void *arg, const struct task_reply *reply);
    void *arg;

    /* The service's own. */
    struct {
        struct task_request *next;
        struct task_txn *txn;
        struct claim_link *links; /* of a claim that waits */
        int64_t zxid, deadline_ms;
        uint32_t wait_ref;
        int err;
        bool deleted; /* its deletes and edits have happened */
        bool counted;
        bool known;    /* it was executed before */
        bool park;     /* it waits, once its changes are committed */
        bool called;   /* by service_call() */
        bool finished; /* done has returned */
    } own;
};

struct service_options {
    /*
     * A session of the embedded keeper, opened with the `wake` below; the service closes it, also
     * when service_open() fails. NULL: an ensemble, whose session service_start() brings.
     */
    struct keeper *keeper;

    /*
     * Asks for service_dispatch() soon, and for a new look at service_due_ms(): from any thread,
     * also under locks. NULL: there are only callers of service_call().
     */
    void (*wake)(void *arg);
    void *wake_arg;

    int64_t (*now_ms)(void *arg); /* NULL: the clock above */
    void *now_arg;

    /*
     * For the store in process: gets each commit before it is made, may refuse it; or NULL. If it
     * stores commits later, so that a crash may lose them after their answer, journal_now does not.
     */
    int (*journal)(void *arg, const struct keeper_op *ops, size_t count);
    int (*journal_now)(void *arg, const struct keeper_op *ops, size_t count);
    void *journal_arg;

    /* The fence has failed, or the outcome of a commit is unknown: stand for election again. */
    void (*doubt)(void *arg);
    void *doubt_arg;
};

/* Embedded: loads the tasks, and is ready. On an ensemble, service_start() makes it ready. */
int service_open(const struct service_options *o, struct service **ret_service,
                 struct err_info *ret_error);
void service_close(struct service *s);

/*
 * On an ensemble, when this process leads: loads the tasks (which is slow: not on the loop) and is
 * ready. fence is part of every commit; its path is copied. service_stop() when it no longer leads:
 * requests in flight get UNKNOWN, queued ones NOT_LEADER.
 */
int service_start(struct service *s, struct keeper *k, const struct keeper_op *fence,
                  struct err_info *ret_error);
void service_stop(struct service *s);
bool service_is_ready(struct service *s);

void service_submit(struct service *s, struct task_request *r);

/* The same, and returns when done was called. Not on the thread that dispatches. */
void service_call(struct service *s, struct task_request *r);

/* The client has gone. True: the claim waited, and done will not be called. False: it will be. */
bool service_cancel(struct service *s, struct task_request *r);

/* Delivers the answers that may leave. */
void service_dispatch(struct service *s);

/* Serves the waiting claims whose deadline has passed, or for which a task has become available. */
void service_tick(struct service *s);

/* When service_tick() is next needed, by clock_boot_ms(); INT64_MAX: not needed. */
int64_t service_due_ms(struct service *s);

/*
 * For the manager of managed tasks (store.h).
 *  - wanted: a claim found nothing in its groups; `waits` says whether it waits. Called on any
 *    thread, with the service's lock held: it must not call the service.
 *  - changed: another client has claimed or updated a managed task, and that is durable. Called on
 *    the thread that dispatches, before the client's own answer.
 */
struct service_observer {
    void (*wanted)(void *arg, const struct task_claim *c, bool waits);
    void (*changed)(void *arg, int64_t slot, const struct task *t);
    void *arg;
};

void service_observe(struct service *s, const struct service_observer *o);

/*
 * Calls `event` for each change of a task, when it is durable, in the order of the answers: on the
 * thread that dispatches, or on that of a service_call(). One watcher; NULL: none any more.
 */
typedef void service_event_fn(void *arg, const struct task_txn_change *change);
void service_watch(struct service *s, service_event_fn *event, void *arg);

/* Lets the waiting claims look again, after settings have changed. In `settled`. */
void service_look_again(struct service *s);

/* The number of tasks that the waiting claims of this group would take, at most max. */
size_t service_wanted(struct service *s, struct str group, size_t max);

/* The service's clock. */
int64_t service_now_ms(struct service *s);

/* Reads the store as it is in memory, durable or not: for metrics. */
void service_look(struct service *s, void (*look)(void *arg, struct store *s, int64_t now_ms),
                  void *arg);

/*
 * Counts by group (tally.h), for metrics: from now on. Groups for which `has` is true are folded
 * into one; it is called under the service's lock, and not after service_unfold(). The look is
 * under the lock, too; store NULL: another process leads.
 */
void service_tally(struct service *s);
void service_fold(struct service *s, const char *label, bool (*has)(void *arg, struct str group),
                  void *arg);
void service_unfold(struct service *s, const void *arg);
/* The tallies, in a request that reads, which has the lock; NULL: none. */
struct task_tallies *service_tallies(struct service *s);

void service_look_at_tallies(struct service *s,
                             void (*look)(void *arg, struct task_tallies *t, struct store *store,
                                          int64_t now_ms),
                             void *arg);

struct service_stats {
    uint64_t updates, claims, claimed, refusals, commits, waiting;
    size_t tasks;
    int64_t last_id;
};

void service_stats(struct service *s, struct service_stats *ret_stats);

#endif
