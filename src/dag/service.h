/*
 * service - the DAG bound to a keeper and to the task store. The routes and the agents use it.
 *
 * In order: dag_read(), which blocks, on any thread; dag_begin() with the result, on the loop ->
 * requests and agents -> the DAG stops when another server leads or a commit failed, and again from
 * dag_read(). Everything but dag_read() runs on the loop's thread.
 *
 * Stored below /drover/dag:
 *
 *   head                   {"client":N,"last":N,"runs":N}: a random number of this DAG, the last
 *                          node id, the last number of a run if there was one
 *   specs/<bucket>/<id>    a chunk of specs, named by its first id (node.h); {"removed":N} while a
 *                          run is removed: its N records, then the chunk itself
 *   nodes/<bucket>/<id>    a node's record (node.h); {"state":"deleted"} in a chunk that has others
 *   slots/<bucket>/<id>-n  a piece of a large value
 *
 * In the task store, in the node's group, there is a managed task (task/store.h) for each node that
 * runs, that waits for its next attempt, or that is offered to agents:
 *
 *   {"node":7,"attempt":1,"started":...}                      offered, or claimed by an agent
 *   {"node":7,"agent":"serve","attempt":1,"started":...}      the built-in agent runs it
 *   {"node":7,"agent":"","attempt":1,"started":...}           it waits for its next attempt
 *
 * Invariants, at every point where the process may die:
 *  - A chunk counts when the head's `last` has reached its ids, so a graph is stored completely or
 *    not at all.
 *  - A command is started only after its claim is durable. So a node whose task has an agent may
 *    have run; any other has not. With the embedded keeper, a file says which were started
 *    (started.h).
 *  - The end of a node, the deletion of its task and the tasks of the nodes that start next are one
 *    transaction.
 *  - A run is in each of its chunks, so it is stored and counts with its nodes. All its chunks are
 *    marked as removed in one transaction, before the first of its records is deleted: a run is
 *    removed completely or not at all, and no state is computed from a part of it.
 *  - States that follow from records (skipped nodes, finished groups, ready nodes) are not stored
 *    but computed.
 *
 * All changes of one loop iteration form a commit batch (struct dag_commit). States are published
 * (to readers, waiting requests, events) when they are durable. doc/design.md has the protocol of
 * agents.
 */
#ifndef DAG_SERVICE_H
#define DAG_SERVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "dag/graph.h"
#include "dag/runner.h"
#include "dag/started.h"
#include "keeper/keeper.h"
#include "server/context.h"
#include "task/service.h"

enum {
    DAG_OFFERED_MAX = 64,     /* offered nodes of a group */
    DAG_MISSED_MAX = 64,      /* claims of agents that found nothing and do not wait */
    DAG_GRACE_MS = 10 * 1000, /* for agents to renew, after a start of the server */
    DAG_COMMIT_NODES_MAX = 400,
    DAG_COMMIT_LEN_MAX = 400 * 1024,
};

/* The built-in agent, which runs the default group. Other agents have positive client ids. */
enum { AGENT_NONE = 0, AGENT_SERVE = -1, DAG_GROUP_DEFAULT = 0 };

/* A node is in one list at most, at its list_at. */
struct node_list {
    struct dag_node **nodes;
    uint32_t count, cap;
};

enum bucket_kind { BUCKET_SPECS, BUCKET_NODES, BUCKET_SLOTS, BUCKET_KINDS };

/* metrics.c: how a run ended. */
enum dag_outcome {
    DAG_OUTCOME_FINISHED,
    DAG_OUTCOME_FAILED,
    DAG_OUTCOME_KILLED,
    DAG_OUTCOME_TIMED_OUT,
    DAG_OUTCOME_LOST,
    DAG_OUTCOMES,
};

struct dag_metrics {
    struct counter *started, *ended[DAG_OUTCOMES];
    struct histogram *seconds[DAG_OUTCOMES];
};

/* Ended runs that are kept: so many, and those that ended so many ms ago; -1: all. */
struct dag_keep {
    int64_t count, ms;
};

struct dag {
    struct context *context;
    struct dag_metrics metrics;
    uint32_t jobs; /* of the built-in agent */
    struct policy *policy;
    const char *log_dir; /* for the output of its runs; NULL: none */
    struct graph graph;
    uint64_t last_id, last_run; /* of the graph before this one */
    struct dag_keep keep;       /* which runs are kept */
    bool runs_ended;            /* since old ones were removed */
    int64_t prune_at;           /* when the next one is to be removed */
    uint64_t *stops;            /* numbers of the runs to be stopped */
    size_t stop_count, stop_cap;
    bool ready, closing;
    bool loading; /* dag_begin() waits for its tasks; news waits for that */
    int failing;  /* the error of a commit; handled at the end of the loop iteration */
    int64_t client;
    struct dag_commit *commit;   /* the open batch: collects changes; NULL: none */
    struct dag_commit *inflight; /* batches that were submitted, the newest first */
    uint32_t stalled;            /* of these, batches that wait for disk space */
    bool retrying;               /* the oldest stalled batch was submitted again */
    uv_check_t check;
    uv_idle_t idle; /* active while there is work, so that the loop does not block */
    bool idling;
    uv_timer_t timer;
    int64_t timer_at;
    uv_timer_t again;   /* reads the stored state again after a failure */
    uv_timer_t printer; /* wakes the requests that wait for output */
    uv_work_t reading;
    int read_err;
    struct err_info read_why;
    int open_handles; /* and the read in flight */

    struct map buckets[BUCKET_KINDS]; /* by number + 1 */
    struct map by_slot;               /* refs of the nodes that have a task */
    struct node_list running;         /* nodes that have an agent */
    struct node_list parked;          /* nodes that wait for their next attempt */
    struct dag_addition *adding, **adding_end;
    struct serve_agent {
        struct runner *runner;
        uint32_t busy;                         /* jobs: being claimed, waiting, running */
        uint32_t running;                      /* of these */
        struct serve_job *ahead, **ahead_last; /* claimed ahead and waiting, oldest first */
        bool eager;                            /* the last command was short */
        uint64_t epoch;      /* incremented when the DAG is stopped: earlier jobs have no node */
    } agent;                 /* the built-in agent */
    struct started *started; /* NULL: it is not known which runs were started */
    struct dag_agents *agents;

    struct http_topic topic; /* keys: dag_key() */
    uint64_t kill_number;    /* of the last kill of a run of an agent */
    atomic_bool has_ready;   /* there are ready nodes that are not offered */

    uv_async_t wake; /* from any thread: agents want nodes, or the leader has news */
    pthread_mutex_t lock;
    uint32_t missed[DAG_MISSED_MAX], missed_count; /* hashes of their groups */
    struct dag_saved *saved;                       /* news: the state to begin with; NULL: none */
    bool stopped;                                  /* news: this server does not lead any more */
};

/* Reads the stored state. Blocks; any thread. If it fails, the error names the node. */
int dag_read(struct keeper *k, struct dag_saved **ret_saved, struct err_info *ret_error);
void dag_saved_free(struct dag_saved *saved); /* NULL: does nothing */

/* Takes saved. */
void dag_begin(struct dag *d, struct dag_saved *saved);

/* A run of the built-in agent has new output. */
void dag_printed(struct dag *d);

/*
 * The published state of a node has changed, or a node is about to be removed (its state is then
 * SHOWN_NONE), or nodes were added or the DAG was stopped (n NULL).
 */
void dag_publish(struct dag *d, struct dag_node *n);

/*
 * Requests. Each calls `done`, which may be NULL, once, with 0 or an error, when its change is
 * durable or has failed. A request that is refused returns an error at once and does not call
 * `done`.
 */
typedef void dag_done_fn(void *arg, int err);

/*
 * Checks nodes, also against the policy of commands; the draft is for dag_add(), which takes it, or
 * is released. Both need a DAG that is ready.
 */
int dag_draft(struct dag *d, const struct json *nodes, struct arena *a, struct draft *ret_draft,
              struct err_info *ret_error);
int dag_draft_run(struct dag *d, const struct json *nodes, struct str name, bool keep_going,
                  struct arena *a, struct draft *ret_draft, struct err_info *ret_error);
void dag_add(struct dag *d, struct draft *draft, dag_done_fn *done, void *arg);

/* Whether one of the nodes with these ids has not ended. */
bool dag_lives(const struct dag *d, uint64_t first_id, uint64_t count);

void dag_kill(struct dag *d, struct dag_node *n, dag_done_fn *done, void *arg);
int dag_check_retry(const struct dag *d, const struct dag_node *n, struct err_info *e);
void dag_retry(struct dag *d, struct dag_node *n, dag_done_fn *done, void *arg); /* after that */

/* The nodes that a removal removes: the node, and with chain all its descendants. */
int dag_remove(struct dag *d, const struct plan_changes *nodes, bool chain, dag_done_fn *done,
               void *arg, struct err_info *e);

/*
 * run_verbs.c. What a text from outside names: a node, by its id or as RUN/NAME; or a run, by its
 * id or by its name, which is the newest run of that name. Both are NULL: nothing.
 */
struct dag_target {
    struct dag_node *node;
    struct dag_run *run;
};

struct dag_target dag_resolve(const struct dag *d, struct str text);

/* A node of a run has failed or was killed: the run is stopped, unless it keeps going. */
void dag_stop_run(struct dag *d, struct dag_node *n);
void dag_stop_runs(struct dag *d); /* kills what has not started in those runs */

/* Removes a run that has ended. */
int dag_check_remove_run(struct dag *d, const struct dag_run *r, struct err_info *e);
void dag_remove_run(struct dag *d, struct dag_run *r, dag_done_fn *done, void *arg);

/* Removes ended runs beyond what is kept, the oldest first. Returns how many. */
size_t dag_prune(struct dag *d, const struct dag_keep *keep, dag_done_fn *done, void *arg);
void dag_keep_runs(struct dag *d); /* by the option of the server */

/* Stores a value: writes the node's record, and slots for large text. */
void dag_save_value(struct dag *d, struct dag_node *n, struct node_datum *v, dag_done_fn *done,
                    void *arg);

/*
 * Change a text before dag_save_value(): append to it; append a piece, or replace the piece that
 * begins at start (false: no piece begins there).
 */
void dag_append_text(struct dag *d, struct dag_node *n, struct node_datum *v, struct str text);
bool dag_put_piece(struct dag *d, struct dag_node *n, struct node_datum *v, uint64_t start,
                   struct str text);
void dag_drop_slots(struct dag *d, struct dag_node *n, struct node_datum *v);

extern const char *const DAG_OUTPUTS[RUN_STREAMS]; /* the data keys of the outputs */

/* The value of an output of the current run; that of an earlier run is emptied. */
struct node_datum *dag_output_value(struct dag *d, struct dag_node *n, enum run_stream s);

/* Ends the run of a node. */
void dag_end_run(struct dag *d, struct dag_node *n, const struct run_end *end, dag_done_fn *done,
                 void *arg);

/* Releases a node that was claimed and not started: the attempt does not count. */
void dag_unclaim(struct dag *d, struct dag_node *n);

int64_t dag_now_ms(const struct dag *d);
void dag_arm(struct dag *d, int64_t at_ms);
void dag_soon(struct dag *d); /* there is something to flush or to start */

enum node_state dag_visible(const struct dag *d, const struct dag_node *n);
void dag_show(struct dag *d, struct dag_node *n); /* publishes the state if it has changed */

/* The lists of running and parked nodes. */
void dag_enter_running(struct dag *d, struct dag_node *n, int64_t agent, int64_t lease_at);
void dag_leave_running(struct dag *d, struct dag_node *n);
void dag_park(struct dag *d, struct dag_node *n, int64_t due_ms);
void dag_unpark(struct dag *d, struct dag_node *n);

/* Sets the end times of nodes that ended because others did; adds the changes to a batch. */
void dag_set_end_times(struct dag *d, const struct plan_changes *c);
void dag_follow(struct dag *d, struct dag_commit *t, struct plan_changes *c);
bool dag_needs_task(const struct dag *d, const struct dag_node *n);

void dag_drop_adds(struct dag *d, int err);

/* Paths: of a chunk or record; of a slot; of a directory of them. */
struct dag_path {
    char text[96];
};

struct dag_path dag_path(enum bucket_kind kind, uint64_t id);
struct dag_path dag_slot_path(uint64_t id, uint32_t slot);
struct dag_path dag_bucket_path(enum bucket_kind kind, uint64_t bucket);

/* A commit batch: changes that are committed as one transaction. */
struct dag_commit {
    struct dag_commit *next; /* in the list of submitted batches */
    bool stalled;            /* waits for disk space */
    struct dag *dag;         /* NULL: the DAG was stopped meanwhile */
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
    struct commit_waiter {
        dag_done_fn *fn;
        void *arg;
    } * waiters;
    size_t waiter_count, waiter_cap;
};

/* dag_commit_open() returns the open batch. */
struct dag_commit *dag_commit_open(struct dag *d);
void dag_commit_touch(struct dag_commit *t, struct dag_node *n);  /* will be published */
void dag_commit_record(struct dag_commit *t, struct dag_node *n); /* and its record written */
void dag_commit_then(struct dag_commit *t, dag_done_fn *done, void *arg); /* done may be NULL */
void dag_commit_op(struct dag_commit *t, struct keeper_op op);            /* copies path and data */
void dag_commit_create(struct dag_commit *t, enum bucket_kind kind, uint64_t id,
                       struct dag_path path, struct str text); /* with its directory */
void dag_commit_delete(struct dag_commit *t, struct dag_path path);
void dag_commit_put_record(struct dag_commit *t, const struct dag_node *n, struct str text);
void dag_commit_drop(struct dag_commit *t, int64_t slot);
void dag_commit_unmark(struct dag_commit *t, struct dag_node *n);
void dag_commit_flush(struct dag *d);
void dag_commit_retry(struct dag *d);
void dag_commit_drop_all(struct dag *d, int err); /* the DAG is stopped */

/* Creates or updates the node's task, or deletes it, with this batch. */
void dag_put_task(struct dag_commit *t, struct dag_node *n);
void dag_drop_task(struct dag_commit *t, struct dag_node *n);
void dag_set_slot(struct dag *d, struct dag_node *n, int64_t slot); /* 0: it has no task */

#define DAG_ROOT "/drover/dag"
#define DAG_HEAD DAG_ROOT "/head"
extern const char *const DAG_KIND_ROOTS[BUCKET_KINDS]; /* the directories of their buckets */
#define DAG_DELETED "{\"state\":\"deleted\"}"          /* the record of a deleted node */

/* metrics.c: a command was started, and has ended; not all ends are those of a command. */
void dag_metrics_open(struct dag *d);
void dag_count_start(struct dag *d, struct dag_node *n);
void dag_count_end(struct dag *d, struct dag_node *n, enum node_state state,
                   const struct run_end *end);

/* agents.c: agents on other machines. */
void dag_observe(struct dag *d, bool on);
void dag_offer(struct dag *d);

/* agent_list.c: those that have announced themselves, and whether one takes no more nodes. */
struct dag_agents *dag_agents_new(void);
void dag_agents_free(struct dag_agents *all);
bool dag_agent_drains(struct dag *d, int64_t client);

/* Whether this agent runs this attempt of the node. */
bool dag_is_run_by(const struct dag_node *n, int64_t agent, int64_t attempt);

/* The ids of the parents, comma-separated, or "root". */
const char *dag_parent_text(const struct dag *d, const struct dag_node *n, struct arena *a);

/* How to run the node now: the timeout of a condition is what is left of it. */
void dag_command(const struct dag *d, const struct dag_node *n, struct arena *a,
                 struct node_command *ret_command);

/*
 * What requests wait for: "added", new nodes; "output", more output of a node, by its id; "ended",
 * the end or the removal of a node, by its id; "run", the end of a run, by its number; "kill", a
 * node to be killed, by the client id of its agent; "stopped", the end of the service.
 */
uint64_t dag_key(const char *kind, int64_t number);
void dag_wake_all(struct dag *d, const char *kind, int64_t number);

/* The token of a run (struct run_spec): the DAG's client, the node, the attempt. */
#define DAG_RUN_TOKEN "DROVER_RUN=%" PRId64 ".%" PRIu64 ".%" PRIu32

/* The built-in agent. How many jobs: one per core; what is wanted, or the descriptors allow. */
const char *serve_agent_default_jobs(void);
uint32_t serve_agent_jobs(int64_t wanted);
void serve_agent_schedule(struct dag *d); /* claims nodes for the free jobs */
void serve_agent_kill(struct dag *d, struct dag_node *n);
int64_t serve_agent_tick(struct dag *d, int64_t now_ms); /* returns when to call it again */
void serve_agent_drop(struct dag *d);                    /* the DAG was stopped: kills all runs */

/* What the routes share (http_routes.c). */

/* The fields of all routes. */
struct dag_in {
    struct str id, key;    /* id: of the node, in the path or the body */
    const struct str *ids; /* of nodes and runs */
    const struct str *types, *states, *metadata;
    size_t id_count, type_count, state_count, metadata_count;
    const struct str *parents;
    size_t parent_count;
    int when;
    int64_t priority;
    struct str name, group, run, before, host;
    const struct str *groups;
    size_t group_count;
    const struct json *labels;
    int64_t jobs, lease;
    bool drain, draining;
    int64_t since, until, keep, older;
    bool keep_going;
    struct str new_id, start, pid, reason, outputs[RUN_STREAMS];
    int64_t limit, wait, timeout, clientid, task, attempt, after, status;
    const struct json *value, *nodes;
    int how; /* enum run_how */
    bool chain;
};

struct route_table dag_routes(void *dag);

/* A request that is answered later. It outlives its client. */
struct dag_call {
    struct dag *dag;
    struct http_request *r; /* NULL: the client has left */
    struct arena arena;
    const struct str *ids;
    size_t count, pending;
    int err;
    struct buf out;
};

struct dag_call *dag_call_new(struct http_request *r);
void dag_call_free(struct dag_call *c); /* the request was answered, or its client has left */

/* A dag_done_fn: answers a call with an error or with `out`, and frees it. */
void dag_call_done(void *call, int err);

/* The argument of a request is the DAG. False after the answer that it is not available here. */
bool http_is_ready(struct http_request *r);

/* The node that the request names, or NULL after an answer; the same of a run. */
struct dag_node *http_node(struct http_request *r);
struct dag_run *http_run(struct http_request *r, struct str name);

/* rights.c: whether the sender may. False after the answer 403. */
bool dag_may_change(struct http_request *r, const struct dag_node *n);
bool dag_may_add(struct http_request *r, const struct draft *draft);
bool dag_may_change_runs(struct http_request *r);
bool dag_may_be_agent(struct http_request *r);

/* Lines of the audit log, before a change is made. False after an answer. */
bool dag_audit_add(struct audit *a, struct http_request *r, const struct json *nodes,
                   uint64_t first_id);
bool dag_audit_ids(struct http_request *r, const struct str *ids, size_t count);
bool dag_audit_input(struct http_request *r, struct str key, const struct json *value);

/* For auth.h: whether a command of this attempt may be running. */
bool dag_runs(void *dag, uint64_t node, uint32_t attempt);

/* The token of the command of a node that runs, in the arena; NULL: it needs none. */
const char *dag_password(const struct dag *d, const struct dag_node *n, struct arena *a);

/*
 * Checks `start` and `pid` of a page. False after an answer: 400, or 410 when the pid is neither of
 * these two. Without `start` the page is the first, and *ret_start is not set.
 */
bool http_read_start(struct http_request *r, const char *pid, const char *other_pid,
                     uint64_t *ret_start);
void http_put_pagination(struct buf *b, uint64_t next, const char *pid);

/* Reads words into a set of bits. False after an answer. */
bool http_read_words(struct http_request *r, const char *name, const struct str *words,
                     size_t count, int (*find)(struct str), unsigned *ret_set);

/* Checks that the sender may add a draft. NULL after an answer, and the draft is released. */
struct dag_call *http_add_draft(struct http_request *r, struct draft *draft);
void http_put_ids(struct buf *b, uint64_t first_id, uint32_t count); /* [{"id":"7"}, ...] */

void http_put_id(struct buf *b, uint64_t id);
void http_member_id(struct buf *b, const char *name, uint64_t id);

/* Metadata as JSON, of the fields in the set; ~0u: all. */
void node_put_metadata(struct buf *b, struct dag *d, const struct dag_node *n, unsigned fields);

/* The output of a run in this process, or NULL. */
const struct run_output *node_live(const struct dag_node *n, struct str key);

/* Handlers, by file. */
route_fn http_get_runs, http_post_runs, http_get_run, http_delete_run, http_post_prune;
route_fn http_get_nodes, http_post_nodes, http_get_node, http_patch_node, http_delete_node;
route_fn http_get_keys, http_get_value, http_put_value;
route_fn http_get_scheduler, http_put_kill, http_put_retry, http_get_wait;
route_fn http_post_start, http_get_kills, http_post_done;
route_fn http_get_agents, http_put_agent, http_put_drain;

extern const struct module dag_module;

#endif
