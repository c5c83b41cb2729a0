/* dag_impl - what the files of the service share. Private to this directory. */
#ifndef DAG_DAG_IMPL_H
#define DAG_DAG_IMPL_H

#include <stdatomic.h>

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
    size_t put_count, add_count;
    struct commit_claim {
        struct dag_node *node;
        dag_claimed_fn *fn;
        void *arg;
    } * claims;
    size_t claim_count, claim_cap;
    struct commit_waiter {
        dag_done_fn *fn;
        void *arg;
    } * waiters;
    size_t waiter_count, waiter_cap;
};

struct dag_addition;

/* Claims of agents that found nothing and do not wait: hashes of their groups. */
enum { DAG_MISSED_MAX = 64 };

struct dag {
    struct dag_options o;
    struct graph graph;
    bool ready;
    int failing; /* the error of a commit; handled at the end of the loop iteration */
    int64_t client;
    struct dag_commit *commit;   /* the open batch: collects changes; NULL: none */
    struct dag_commit *inflight; /* batches that were submitted */
    struct dag_commit *stalled;  /* of these, batches that wait for disk space, in order */
    bool retrying;               /* the first stalled batch was submitted again */
    uint64_t commit_number;
    uv_check_t check;
    uv_idle_t idle; /* active while there is work, so that the loop does not block */
    uv_timer_t timer;
    uv_async_t wake; /* from any thread: agents want nodes */
    bool idling;
    int open_handles;
    int64_t timer_at;

    struct map buckets[BUCKET_KINDS]; /* by number + 1 */
    struct map by_slot;               /* refs of the nodes that have a task */
    struct dag_node **running;        /* nodes that have an agent */
    uint32_t running_count, running_cap;
    struct dag_node **parked; /* nodes that wait for their next attempt */
    uint32_t parked_count, parked_cap;
    struct dag_addition *adding, *adding_last;
    struct serve_agent *agent;
    struct started *started; /* NULL: it is not known which runs were started */

    struct http_topic topic; /* keys: dag_key() */
    uint64_t kill_number;    /* of the last kill of a run of an agent */
    atomic_bool has_ready;   /* there are ready nodes that are not offered */
    uv_mutex_t missed_lock;
    uint32_t missed[DAG_MISSED_MAX], missed_count;
};

/* Commit batches. dag_commit_open() returns the open batch. */
struct dag_commit *dag_commit_open(struct dag *d);
void dag_commit_touch(struct dag_commit *t, struct dag_node *n);  /* will be published */
void dag_commit_record(struct dag_commit *t, struct dag_node *n); /* and its record written */
void dag_commit_then(struct dag_commit *t, dag_done_fn *done, void *arg); /* done may be NULL */
void dag_commit_op(struct dag_commit *t, struct keeper_op op);            /* copies path and data */
void dag_commit_bucket(struct dag_commit *t, enum bucket_kind kind, uint64_t number);
void dag_commit_drop(struct dag_commit *t, int64_t slot);
void dag_commit_unmark(struct dag_commit *t, struct dag_node *n);
void dag_commit_flush(struct dag *d);
void dag_commit_free(struct dag_commit *t);
void dag_commit_notify(struct dag_commit *t, int err);
void dag_commit_retry(struct dag *d);
void dag_commit_touch_all(struct dag_commit *t, const struct plan_changes *c);
void dag_soon(struct dag *d); /* there is something to flush or to start */

/* Creates or updates the node's task, or deletes it, with this batch. */
void dag_put_task(struct dag_commit *t, struct dag_node *n);
void dag_drop_task(struct dag_commit *t, struct dag_node *n);
void dag_set_slot(struct dag *d, struct dag_node *n, int64_t slot); /* 0: it has no task */

/* Paths. */
enum { DAG_PATH_LEN = 96 };

void dag_path(char to[DAG_PATH_LEN], enum bucket_kind kind, uint64_t id);
void dag_bucket_path(char to[DAG_PATH_LEN], enum bucket_kind kind, uint64_t bucket);
uint64_t dag_bucket(enum bucket_kind kind, uint64_t id);

#define DAG_ROOT "/drover/dag"
#define DAG_HEAD DAG_ROOT "/head"

void dag_put_head(struct buf *b, const struct dag *d, uint64_t last);

/* The lists of running and parked nodes. */
void dag_enter_running(struct dag *d, struct dag_node *n, int64_t agent, int64_t lease_at);
void dag_leave_running(struct dag *d, struct dag_node *n);
void dag_park(struct dag *d, struct dag_node *n, int64_t due_ms);
void dag_unpark(struct dag *d, struct dag_node *n);
void dag_arm(struct dag *d, int64_t at_ms);

enum node_state dag_visible(const struct dag *d, const struct dag_node *n);
void dag_show(struct dag *d, struct dag_node *n); /* publishes the state if it has changed */

/* Sets the end times of nodes that ended because others did; adds the changes to a batch. */
void dag_set_end_times(struct dag *d, const struct plan_changes *c);
void dag_follow(struct dag *d, struct dag_commit *t, struct plan_changes *c);
bool dag_needs_task(const struct dag *d, const struct dag_node *n);

/* A node starts an attempt. */
void dag_start_attempt(struct dag *d, struct dag_node *n, int64_t agent, int64_t lease_at);

/* Ends the current run of a node. */
void dag_end_run(struct dag *d, struct dag_commit *t, struct dag_node *n,
                 const struct run_outcome *o);

/* Releases a node that was claimed and not started: the attempt does not count. */
void dag_unclaim(struct dag *d, struct dag_node *n);

/* agents.c: agents on other machines. */
void dag_observe(struct dag *d, bool on);
void dag_offer(struct dag *d);
void dag_lease_ended(struct dag *d, struct dag_node *n);

void dag_drop_adds(struct dag *d, int err);

/* The ids of the parents, comma-separated, or "root". */
const char *dag_parent_text(const struct dag *d, const struct dag_node *n, struct arena *a);

/* How to run the node now: the timeout of a condition is what is left of it. */
void dag_command(const struct dag *d, const struct dag_node *n, struct arena *a,
                 struct node_command *ret_command);

/*
 * What requests wait for: "added", new nodes; "output", more output of a node, by its id; "kill", a
 * node to be killed, by the client id of its agent.
 */
uint64_t dag_key(const char *kind, int64_t number);

/* The built-in agent. */
struct serve_agent;

struct serve_agent *serve_agent_open(struct dag *d);
void serve_agent_close(struct serve_agent *a);
void serve_agent_schedule(struct serve_agent *a); /* claims nodes for the free jobs */
void serve_agent_kill(struct serve_agent *a, struct dag_node *n);
int64_t serve_agent_tick(struct serve_agent *a, int64_t now_ms); /* returns when to call it again */
void serve_agent_drop(struct serve_agent *a); /* the DAG was stopped: kills all runs */

#endif
