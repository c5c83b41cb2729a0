/*
 * service_impl - the inside of struct service. service.c runs requests, embedded.c and batch.c commit
 * them to the embedded keeper and to an ensemble, load.c reads tasks back.
 */
#ifndef TASK_SERVICE_IMPL_H
#define TASK_SERVICE_IMPL_H

#include <pthread.h>

#include "task/claim_queue.h"
#include "task/service.h"
#include "task/task_tree.h"

struct task_queue {
    struct task_request *first, *last;
    size_t count;
};

void queue_put(struct task_queue *q, struct task_request *r);
struct task_request *queue_take(struct task_queue *q);

enum service_state {
    SERVICE_STOPPED, /* another leads, or nobody yet */
    SERVICE_READY,
    SERVICE_DOUBT, /* it is not known whether the last commit happened */
};

struct service {
    struct service_options o;
    struct service_observer observer;
    int64_t offset_ms; /* of our clock to clock_boot_ms() */

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t finished;
    enum service_state state;
    struct keeper *keeper; /* embedded: our own; ensemble: lent while we lead */
    struct store *store;
    struct task_tree *tree;
    struct claim_queue waiting;
    struct store_random random;

    struct task_txn **spare; /* transactions to use again */
    size_t spare_count;

    struct task_queue answers; /* by zxid: they leave when it is durable */
    struct task_queue called;  /* the same, for those in service_call() */
    int64_t zxid;              /* embedded: of the last commit */
    struct task_commit commit; /* being made, or under way */

    /* Ensemble. */
    struct keeper_op fence;
    struct task_queue queue; /* not yet run */
    struct task_queue batch; /* run, and in the commit under way */
    bool under_way;
    size_t one_by_one; /* so many of the queue go alone: together they were refused */
    uint64_t tag;      /* of the commit under way */
    int32_t head_version;
    unsigned term;            /* counts starts, so that an answer from before is known */
    struct sent_commit *sent; /* commits whose callbacks are still to come */

    struct service_stats stats;
};

/* service.c. Under the lock. */
void service_run(struct service *s, struct task_request *r); /* checks, applies, and hands over */
void service_feed(struct service *s);                        /* the claims that wait */
void service_answer(struct service *s, struct task_request *r); /* when what was seen is durable */
void service_park(struct service *s, struct task_request *r);
void service_undo(struct service *s, struct task_request *r);
void service_settle(struct service *s, struct task_request *r);
void service_put(struct service *s, struct task_request *r); /* into the commit being made */

/* Without the lock: calls what may be called. By whoever dispatches, and by whoever waits in a call. */
void service_deliver(struct service *s);
void service_deliver_called(struct service *s);

/* Has the timer looked at, if something is due earlier than before. Under the lock. */
void service_tell_due(struct service *s, int64_t before_ms);

/* Has somebody dispatch. */
void service_wake(struct service *s);

/* embedded.c, batch.c: what has been run becomes durable. Under the lock. */
void local_commit(struct service *s, struct task_request *r);
void ensemble_commit_start(struct service *s);
void ensemble_commit_resolve(struct service *s, uint64_t head_tag);
void ensemble_commit_undo(struct service *s);
void ensemble_commit_drop(struct service *s);
void ensemble_commit_forget_sent(struct service *s);

/* load.c: into an empty store and ledger, which nobody else knows yet. */
struct task_load_target {
    struct keeper *keeper;
    struct store *store;
    struct task_tree *tree;
    int64_t now_ms;

    struct task_node_head head;
    int32_t head_version;
};

int load_tasks(struct task_load_target *t, struct err_info *e);

bool service_has_changes(const struct task_request *r);

#endif
