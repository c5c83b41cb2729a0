/* dag_impl - what the files of the service share. For the files of this folder only. */
#ifndef DAG_DAG_IMPL_H
#define DAG_DAG_IMPL_H

#include "dag/service.h"
#include "dag/started.h"

enum bucket_kind { BUCKET_SPECS, BUCKET_NODES, BUCKET_SLOTS, BUCKET_KINDS };

/* A commit batch: changes that are committed as one transaction. */
struct dag_commit {
    struct dag_commit *next, *prev;  /* in the list of submitted batches */
    struct dag_commit *stalled_next; /* in the list of stalled batches */
    uint64_t number;
    struct dag *dag; /* NULL: the DAG was stopped meanwhile */
    struct task_request request;
    struct arena arena;
    struct dag_node **nodes; /* touched and pinned; published when the batch is durable */
    size_t node_count, node_cap;
    struct keeper_op *ops;
    size_t op_count, op_cap, len;
    int64_t *drops; /* tasks of nodes that no longer exist */
    size_t drop_count, drop_cap;
    uint32_t *marks; /* start marks of the runs whose ends are in this batch */
    size_t mark_count, mark_cap;
    struct dag_node **puts; /* nodes whose tasks are in the reply, in the same order */
    size_t put_count;
    struct commit_claim {
        struct dag_node *node;
        dag_claimed_fn *fn;
        void *arg;
    } * claims;
    size_t claim_count, claim_cap;
    struct commit_waiter {
        dag_done_fn *fn;
        void *arg;
    } * dones;
    size_t done_count, done_cap;
};

struct dag_listener {
    dag_shown_fn *fn;
    void *arg;
};

enum { DAG_LISTENERS_MAX = 4 };

struct dag_addition;

struct dag {
    struct dag_options o;
    struct graph graph;
    bool ready;
    int failing; /* the error of a commit: told at the end of the turn */
    int64_t client;
    struct dag_commit *commit;   /* the open batch: collects changes; NULL: none */
    struct dag_commit *inflight; /* batches that were submitted */
    struct dag_commit *stalled;  /* of these, batches that wait for disk space, in order */
    bool retrying;               /* the first stalled batch was submitted again */
    uint64_t commit_number;
    uv_check_t check;
    uv_idle_t idle; /* runs while there is something to flush, so that the loop does not sleep */
    uv_timer_t timer;
    bool idling;
    int open_handles;
    int64_t timer_at;

    struct map buckets[BUCKET_KINDS]; /* by number + 1 */
    struct dag_node **running;        /* that have an agent */
    uint32_t running_count, running_cap;
    struct dag_node **parked; /* that wait to be tried again */
    uint32_t parked_count, parked_cap;
    struct dag_addition *adding, *adding_last;
    struct serve_agent *agent;
    struct started *started; /* NULL: it is not known which runs were started */
    struct http_topic topic_ready, topic_kill;
    struct dag_listener listeners[DAG_LISTENERS_MAX];
    int listener_count;
};

/* Turns. */
struct dag_commit *dag_commit_open(struct dag *d);
void dag_commit_touch(struct dag_commit *t, struct dag_node *n);  /* will be shown */
void dag_commit_record(struct dag_commit *t, struct dag_node *n); /* and its record written */
void dag_commit_then(struct dag_commit *t, dag_done_fn *done, void *arg); /* NULL: nobody waits */
void dag_commit_op(struct dag_commit *t, struct keeper_op op); /* path and data are copied */
void dag_commit_bucket(struct dag_commit *t, enum bucket_kind kind, uint64_t number);
void dag_commit_drop(struct dag_commit *t, int64_t task);
void dag_commit_unmark(struct dag_commit *t, struct dag_node *n);
void dag_commit_flush(struct dag *d);
void dag_commit_free(struct dag_commit *t);
void dag_commit_notify(struct dag_commit *t, int err);
void dag_commit_retry(struct dag *d);
void dag_commit_touch_all(struct dag_commit *t, const struct plan_changes *c);
void dag_soon(struct dag *d); /* there is something to flush or to start */
void dag_schedule(struct dag *d);

/* What a node's task is to become, with the turn that it is touched in. */
void dag_put_task(struct dag_commit *t, struct dag_node *n);
void dag_drop_task(struct dag_commit *t, struct dag_node *n);

/* Paths. */
enum { DAG_PATH_LEN = 96 };

void dag_path(char to[DAG_PATH_LEN], enum bucket_kind kind, uint64_t id);
void dag_bucket_path(char to[DAG_PATH_LEN], enum bucket_kind kind, uint64_t bucket);
uint64_t dag_bucket(enum bucket_kind kind, uint64_t id);

#define DAG_ROOT "/drover/dag"
#define DAG_HEAD DAG_ROOT "/head"

void dag_put_head(struct buf *b, const struct dag *d, uint64_t last);

/* Lists of running and parked nodes. */
void dag_enter_running(struct dag *d, struct dag_node *n, int64_t agent, int64_t lease_ms);
void dag_leave_running(struct dag *d, struct dag_node *n);
void dag_park(struct dag *d, struct dag_node *n, int64_t due_ms);
void dag_unpark(struct dag *d, struct dag_node *n);
void dag_arm(struct dag *d, int64_t at_ms);

enum node_state dag_visible(const struct dag *d, const struct dag_node *n);
void dag_show(struct dag *d, struct dag_node *n); /* tells who listens, if it is news */

/* The end of a run whose agent is known to have it. */
void dag_end_run(struct dag *d, struct dag_commit *t, struct dag_node *n,
                 const struct run_outcome *o);

/* A node that was claimed ahead and not started: anybody may have it. */
void dag_unclaim(struct dag *d, struct dag_node *n);

void dag_drop_adds(struct dag *d, int err);

/* The ids of its parents, with commas, or "root". */
const char *dag_parent_text(const struct dag *d, const struct dag_node *n, struct arena *a);

/* The agent built in. */
struct serve_agent *serve_agent_open(struct dag *d);
void serve_agent_close(struct serve_agent *a);
void serve_agent_schedule(struct serve_agent *a); /* claims as many as there is room for */
void serve_agent_kill(struct serve_agent *a, struct dag_node *n);
int64_t serve_agent_tick(struct serve_agent *a, int64_t now_ms); /* returns when to call it again */
void serve_agent_drop(struct serve_agent *a); /* the DAG has ended: kills what runs */

#endif
