/* dag_impl - what the files of the service share. For the files of this folder only. */
#ifndef DAG_DAG_IMPL_H
#define DAG_DAG_IMPL_H

#include "dag/service.h"
#include "dag/started.h"

enum bucket_kind { BUCKET_SPECS, BUCKET_NODES, BUCKET_SLOTS, BUCKET_KINDS };

/* Changes that are committed together. */
struct turn {
    struct turn *next, *prev;  /* those under way */
    struct turn *stalled_next; /* those that wait for room on the disk */
    uint64_t number;
    struct dag *dag; /* NULL: it has ended meanwhile */
    struct task_request request;
    struct arena arena;
    struct node **nodes; /* touched: to be shown when this is durable; pinned */
    size_t node_count, node_cap;
    struct keeper_op *ops;
    size_t op_count, op_cap, len;
    int64_t *drops; /* tasks of nodes that are gone */
    size_t drop_count, drop_cap;
    uint32_t *marks; /* of runs whose ends are in it */
    size_t mark_count, mark_cap;
    struct node **puts; /* those whose tasks are in the answer, in its order */
    size_t put_count;
    struct claim_done {
        struct node *node;
        dag_claimed_fn *fn;
        void *arg;
    } * claims;
    size_t claim_count, claim_cap;
    struct turn_done {
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

struct adding;

struct dag {
    struct dag_options o;
    struct graph graph;
    bool ready;
    int failing; /* the error of a commit: told at the end of the turn */
    int64_t client;
    struct turn *turn;    /* gathers */
    struct turn *flying;  /* under way */
    struct turn *stalled; /* of these, those that wait for room on the disk, in order */
    bool unstalling;      /* the first of them is being tried */
    uint64_t turn_number;
    uv_check_t check;
    uv_idle_t idle; /* runs while there is something to flush, so that the loop does not sleep */
    uv_timer_t timer;
    bool idling;
    int open_handles;
    int64_t timer_at;

    struct map buckets[BUCKET_KINDS]; /* by number + 1 */
    struct node **running;            /* that have an agent */
    uint32_t running_count, running_cap;
    struct node **parked; /* that wait to be tried again */
    uint32_t parked_count, parked_cap;
    struct adding *adding, *adding_last;
    struct serve_agent *agent;
    struct started *started; /* NULL: it is not known which runs were started */
    struct http_topic topic_ready, topic_kill;
    struct dag_listener listeners[DAG_LISTENERS_MAX];
    int listener_count;
};

/* Turns. */
struct turn *turn_open(struct dag *d);
void turn_touch(struct turn *t, struct node *n);              /* will be shown */
void turn_record(struct turn *t, struct node *n);             /* and its record written */
void turn_then(struct turn *t, dag_done_fn *done, void *arg); /* NULL: nobody waits */
void turn_op(struct turn *t, struct keeper_op op);            /* path and data are copied */
void turn_bucket(struct turn *t, enum bucket_kind kind, uint64_t number);
void turn_drop(struct turn *t, int64_t task);
void turn_unmark(struct turn *t, struct node *n);
void turn_flush(struct dag *d);
void turn_free(struct turn *t);
void turn_tell(struct turn *t, int err);
void turn_unstall(struct dag *d);
void turn_changes(struct turn *t, const struct plan_changes *c);
void dag_soon(struct dag *d); /* there is something to flush or to start */
void dag_schedule(struct dag *d);

/* What a node's task is to become, with the turn that it is touched in. */
void dag_put_task(struct turn *t, struct node *n);
void dag_drop_task(struct turn *t, struct node *n);

/* Paths. */
enum { DAG_PATH_LEN = 96 };

void dag_path(char to[DAG_PATH_LEN], enum bucket_kind kind, uint64_t id);
void dag_bucket_path(char to[DAG_PATH_LEN], enum bucket_kind kind, uint64_t bucket);
uint64_t dag_bucket(enum bucket_kind kind, uint64_t id);

#define DAG_ROOT "/drover/dag"
#define DAG_HEAD DAG_ROOT "/head"

void dag_put_head(struct buf *b, const struct dag *d, uint64_t last);

/* Lists of running and parked nodes. */
void dag_enter_running(struct dag *d, struct node *n, int64_t agent, int64_t lease_ms);
void dag_leave_running(struct dag *d, struct node *n);
void dag_park(struct dag *d, struct node *n, int64_t due_ms);
void dag_unpark(struct dag *d, struct node *n);
void dag_arm(struct dag *d, int64_t at_ms);

enum node_state dag_visible(const struct dag *d, const struct node *n);
void dag_show(struct dag *d, struct node *n); /* tells who listens, if it is news */

/* The end of a run whose agent is known to have it. */
void dag_end_run(struct dag *d, struct turn *t, struct node *n, const struct outcome *o);

/* A node that was claimed ahead and not started: anybody may have it. */
void dag_unclaim(struct dag *d, struct node *n);

void dag_drop_adds(struct dag *d, int err);

/* The ids of its parents, with commas, or "root". */
const char *dag_parent_text(const struct dag *d, const struct node *n, struct arena *a);

/* The agent built in. */
struct serve_agent *serve_agent_open(struct dag *d);
void serve_agent_close(struct serve_agent *a);
void serve_agent_schedule(struct serve_agent *a); /* claims as many as there is room for */
void serve_agent_kill(struct serve_agent *a, struct node *n);
int64_t serve_agent_tick(struct serve_agent *a, int64_t now_ms); /* returns when to call it again */
void serve_agent_drop(struct serve_agent *a); /* the DAG has ended: kills what runs */

#endif
