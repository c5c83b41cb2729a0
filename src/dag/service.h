/*
 * service - the DAG bound to a keeper and to the task store: what the routes and the agents use.
 *
 * In order: dag_open() -> dag_read() somewhere that may block, dag_begin() with what it found, on the
 * loop -> requests and agents -> dag_end() when another leads or something failed, and again from
 * dag_read() -> dag_close(). Everything but dag_read() is on the thread of the loop.
 *
 * What is saved, below /drover/dag:
 *
 *   head                   {"client":N,"last":N}: our name in the task store, the last id given
 *   specs/<bucket>/<id>    a chunk of specs, named by its first id (node.h)
 *   nodes/<bucket>/<id>    a node's record (node.h); {"state":"deleted"} in a chunk that has others
 *   slots/<bucket>/<id>-n  a piece of a large value
 *
 * and in the task store, in the group that the node names, a task for each node that runs, and for
 * some of those that may start:
 *
 *   {"node":7,"agent":"serve","attempt":1,"started":...}    agent "" : nobody has it yet
 *
 * Its timespec lies far ahead and its owner is the DAG, so that no other client of the store takes it:
 * agents claim through us, in the order of priority. The task id is the fence: whoever ends a run has
 * to name the id that the node's task has now.
 *
 * What always holds, at every point where the process may end:
 *  - A chunk counts when the head's `last` has reached its ids, so a graph is there whole or not.
 *  - A command is started only after the task that says so is kept. So a node whose task has an agent
 *    may have run; one without certainly has not.
 *    On the embedded keeper a file says which have really been started (started.h).
 *  - How a node ended, the end of its task and the tasks of those that start in its place are one
 *    transaction.
 *  - What follows from records (who is skipped, which group has finished, who may start) is not kept
 *    but worked out again.
 *
 * Changes gather during a turn of the loop and are committed together (struct dag_commit). States are shown
 * (to readers, waiters, events) when they are durable.
 */
#ifndef DAG_SERVICE_H
#define DAG_SERVICE_H

#include <uv.h>

#include "dag/graph.h"
#include "dag/runner.h"
#include "http/events.h"
#include "http/server.h"
#include "keeper/keeper.h"
#include "task/service.h"

enum {
    DAG_OFFERED_MAX = 64,     /* tasks of a group that nobody has */
    DAG_LEASE_MS = 10 * 1000, /* of an agent that did not say */
    DAG_LEASE_MAX_MS = 3600 * 1000,
    DAG_COMMIT_NODES_MAX = 400,
    DAG_COMMIT_LEN_MAX = 400 * 1024,
};

/* The agent in this process. Others have positive numbers. */
enum { AGENT_NONE = 0, AGENT_SERVE = -1 };

struct dag_options {
    uv_loop_t *loop;
    struct service *tasks;
    struct events *events; /* NULL: nobody is told */
    const char *url;       /* for DROVER_URL; NULL: none */
    const char *password;  /* for DROVER_TOKEN; NULL: none */
    uint32_t jobs;         /* of the agent built in */
    const char *log_dir;   /* NULL: none */
    const char *data_dir;  /* of the embedded keeper; NULL: none */
    bool embedded;         /* no other server can have started a run: the keeper is ours alone */
    void (*printed)(void *arg);         /* a command of the agent built in has; NULL: not told */
    void (*failed)(void *arg, int err); /* a commit failed: dag_end() has been done, read again */
    void *arg;
};

struct dag;

struct dag *dag_open(const struct dag_options *o);
void dag_close(struct dag *d);

/* What a keeper holds. Blocks; any thread. */
struct dag_saved;
int dag_read(struct keeper *k, struct dag_saved **ret_saved, struct err_info *ret_error);
void dag_saved_free(struct dag_saved *saved);

/* Takes kept over. 0 or DAMAGED. */
int dag_begin(struct dag *d, struct dag_saved *saved, struct err_info *ret_error);
void dag_end(struct dag *d, int err);
bool dag_is_ready(const struct dag *d);

struct graph *dag_graph(struct dag *d);

/*
 * Requests. Each tells `done` once, with 0 or an error, when its change is durable or has failed; what
 * a request says of the graph it finds at once, with an error as its result, and then `done` is not
 * called. arg is the request's.
 */
typedef void dag_done_fn(void *arg, int err);

/* Takes the draft over. */
void dag_add(struct dag *d, struct draft *draft, dag_done_fn *done, void *arg);
int dag_kill(struct dag *d, struct dag_node *n, dag_done_fn *done, void *arg);
int dag_retry(struct dag *d, struct dag_node *n, dag_done_fn *done, void *arg, struct err_info *e);
int dag_remove(struct dag *d, struct dag_node *n, bool chain, dag_done_fn *done, void *arg,
               struct err_info *e);

/* The node's record and, with text that is large, new slots of it, to be kept. */
void dag_keep_value(struct dag *d, struct dag_node *n, struct node_datum *v, dag_done_fn *done,
                    void *arg);

/* The same of a text that grows at its end, there with a piece that can be told from the one before it,
 * or of which one piece, by where it begins, is replaced (false: none begins there).
 * dag_keep_value() is still to be called. */
void dag_append_text(struct dag *d, struct dag_node *n, struct node_datum *v, struct str text);
void dag_append_piece(struct dag *d, struct dag_node *n, struct node_datum *v, struct str text);
bool dag_replace_piece(struct dag *d, struct dag_node *n, struct node_datum *v, uint64_t start,
                       struct str text);
void dag_drop_slots(struct dag *d, struct dag_node *n, struct node_datum *v);
void dag_slot_path(char *to, size_t len, uint64_t id, uint32_t slot);

/* Agents. A node that is claimed is told when its claim is durable. */
typedef void dag_claimed_fn(void *arg, int err, struct dag_node *n);

/*
 * The best node of these groups for an agent, or NULL: there is none, or, with *ret_busy, its task is
 * being made, and topic_ready will be signalled when it is.
 */
struct dag_node *dag_claim(struct dag *d, int64_t agent, const struct str *groups, size_t count,
                           int64_t lease_ms, bool *ret_busy, dag_claimed_fn *done, void *arg);

/* How a run ended. */
struct run_outcome {
    enum run_how how;
    int status;         /* exit status or signal */
    const char *reason; /* it did not start or was lost; NULL: by how and status */
    bool lost;          /* nobody knows how it ended */
};

/* The run of a node is over. FENCED when the task is no longer the one that this agent has. */
int dag_ended(struct dag *d, struct dag_node *n, int64_t agent, int64_t task,
              const struct run_outcome *o, dag_done_fn *done, void *arg);

/* True: still yours, for so long from now. */
bool dag_renew(struct dag *d, struct dag_node *n, int64_t agent, int64_t task, int64_t lease_ms);

/* Signalled when nodes were added; when something may start; when an agent should look at its nodes. */
struct http_topic *dag_topic_ready(struct dag *d);
struct http_topic *dag_topic_kill(struct dag *d);

/*
 * Calls fn when the node's state has been shown to change, when it is about to be removed (it is then
 * shown as SHOWN_NONE), or when nodes were added (n NULL).
 */
typedef void dag_shown_fn(void *arg, struct dag_node *n);
void dag_listen(struct dag *d, dag_shown_fn *fn, void *arg);

int64_t dag_now_ms(const struct dag *d);
const char *dag_url(const struct dag *d);
const struct dag_options *dag_options(const struct dag *d);

/* For the agent built in (serve_agent.c). */
struct serve_agent;

#endif
