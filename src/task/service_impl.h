/*
 * service_impl - the inside of struct service. service.c runs requests and commits them to the
 * embedded keeper, ensemble_commit.c to an ensemble; lifecycle.c opens and closes.
 */
#ifndef TASK_SERVICE_IMPL_H
#define TASK_SERVICE_IMPL_H

#include <pthread.h>

#include "task/claim_queue.h"
#include "task/service.h"
#include "task/tally.h"
#include "task/task_tree.h"

struct task_queue {
    struct task_request *first, *last;
    size_t count;
};

void queue_put(struct task_queue *q, struct task_request *r);
struct task_request *queue_take(struct task_queue *q);

enum { SERVICE_SPARE_MAX = 256 };

enum service_state {
    SERVICE_STOPPED, /* another process leads, or none yet */
    SERVICE_READY,
    SERVICE_DOUBT, /* the outcome of the last commit is unknown */
};

struct service {
    struct service_options o;
    struct service_observer observer;
    service_event_fn *event;
    void *event_arg;
    int64_t offset_ms; /* of our clock to clock_boot_ms() */
    int64_t last_id;   /* of the store before this one */

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t finished;
    enum service_state state;
    struct keeper *keeper; /* embedded: o.keeper; ensemble: borrowed while we lead */
    struct store *store;
    struct task_tree *tree;
    struct claim_queue waiting;
    struct store_random random;
    struct task_tallies *tallies; /* NULL: nothing is counted by group */

    struct task_txn *spare[SERVICE_SPARE_MAX]; /* transactions to use again */
    size_t spare_count;

    struct task_queue answers; /* in the order of their zxids; they leave when it passes the gate */
    struct task_queue called;  /* the same, for service_call() */
    int64_t zxid;              /* embedded: of the last commit */
    struct task_commit commit; /* being made, or in flight */

    /* Removes what has expired, one request at a time (sweep.c). */
    struct task_sweep *sweep;

    /* Ensemble. */
    struct keeper_op fence;
    struct task_queue queue; /* not yet run */
    struct task_queue batch; /* run, and in the commit in flight */
    size_t one_by_one;       /* so many of the queue are committed alone: their batch was refused */
    uint64_t tag;            /* of the commit in flight */
    int32_t head_version;
    struct sent_commit *sent; /* in flight; NULL: none */

    struct service_stats stats;
};

/* service.c. Under the lock, except service_wake(), which asks for a dispatch. */
bool service_has_changes(const struct task_request *r);
void service_run(struct service *s,
                 struct task_request *r); /* checks, applies, commits or queues */
void service_feed(struct service *s);     /* the claims that wait */
void service_put(struct service *s, struct task_request *r); /* into the commit being made */
void service_undo(struct service *s, struct task_request *r);
void service_settle(struct service *s, struct task_request *r);
void service_answer(struct service *s, struct task_request *r, int err); /* at the gate */
int64_t service_next_due_ms(const struct service *s);        /* by the service's clock */
void service_tell_due(struct service *s, int64_t before_ms); /* wakes if something is due earlier */
void service_wake(struct service *s);

/* sweep.c: under the lock. */
struct task_sweep *sweep_new(struct service *s);
void sweep_start(struct task_sweep *w, int64_t now_ms);
int64_t sweep_due_ms(const struct task_sweep *w); /* by the service's clock */

/* ensemble_commit.c: commits what was run. Under the lock. */
void ensemble_commit_start(struct service *s);
void ensemble_commit_resolve(struct service *s, uint64_t head_tag);
void ensemble_commit_undo(struct service *s);
void ensemble_commit_drop(struct service *s);
void ensemble_commit_abandon(struct service *s);

#endif
