/*
 * service - the DAG bound to a keeper and to the task store. The routes and the agents use it.
 *
 * In order: dag_open() -> dag_read(), which blocks, on any thread; dag_begin() with the result, on
 * the loop -> requests and agents -> dag_end() when another server leads or a commit failed, and
 * again from dag_read() -> dag_close(). Everything but dag_read() runs on the loop's thread.
 *
 * Stored below /drover/dag:
 *
 *   head                   {"client":N,"last":N}: a random number of this DAG, the last node id
 *   specs/<bucket>/<id>    a chunk of specs, named by its first id (node.h)
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
 *  - States that follow from records (skipped nodes, finished groups, ready nodes) are not stored
 *    but computed.
 *
 * All changes of one loop iteration form a commit batch (struct dag_commit). States are published
 * (to readers, waiting requests, events) when they are durable. doc/design.md has the protocol of
 * agents.
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
    DAG_OFFERED_MAX = 64,     /* offered nodes of a group */
    DAG_GRACE_MS = 10 * 1000, /* for agents to renew, after a start of the server */
    DAG_COMMIT_NODES_MAX = 400,
    DAG_COMMIT_LEN_MAX = 400 * 1024,
};

/* The built-in agent. Other agents have positive client ids. */
enum { AGENT_NONE = 0, AGENT_SERVE = -1 };

struct dag_options {
    uv_loop_t *loop;
    struct service *tasks;
    const char *url;                    /* for DROVER_URL; NULL: none */
    const char *password;               /* for DROVER_TOKEN; NULL: none */
    uint32_t jobs;                      /* of the built-in agent */
    const char *log_dir;                /* NULL: none */
    const char *data_dir;               /* of the embedded keeper; NULL: none */
    bool embedded;                      /* the keeper is used by this server alone */
    void (*printed)(void *arg);         /* a run of the built-in agent has new output */
    void (*failed)(void *arg, int err); /* a commit failed and the DAG was stopped: read again */

    /*
     * The published state of a node has changed, or a node is about to be removed (its state is
     * then SHOWN_NONE), or nodes were added or the DAG was stopped (n NULL).
     */
    void (*shown)(void *arg, struct dag_node *n);
    void *arg;
};

struct dag;

struct dag *dag_open(const struct dag_options *o);
void dag_close(struct dag *d);

/* Reads the stored state. Blocks; any thread. */
struct dag_saved;
int dag_read(struct keeper *k, struct dag_saved **ret_saved, struct err_info *ret_error);
void dag_saved_free(struct dag_saved *saved);

/* Takes saved. Returns 0 or DAMAGED. */
int dag_begin(struct dag *d, struct dag_saved *saved, struct err_info *ret_error);
void dag_end(struct dag *d, int err);

/*
 * Requests. Each calls `done` once, with 0 or an error, when its change is durable or has failed. A
 * request that is refused returns an error at once and does not call `done`.
 */
typedef void dag_done_fn(void *arg, int err);

/* Takes the draft. */
void dag_add(struct dag *d, struct draft *draft, dag_done_fn *done, void *arg);
void dag_kill(struct dag *d, struct dag_node *n, dag_done_fn *done, void *arg);
int dag_retry(struct dag *d, struct dag_node *n, dag_done_fn *done, void *arg, struct err_info *e);
int dag_check_retry(const struct dag *d, const struct dag_node *n, struct err_info *e);
int dag_remove(struct dag *d, struct dag_node *n, bool chain, dag_done_fn *done, void *arg,
               struct err_info *e);

/* Stores a value: writes the node's record, and slots for large text. */
void dag_save_value(struct dag *d, struct dag_node *n, struct node_datum *v, dag_done_fn *done,
                    void *arg);

/*
 * Change a text before dag_save_value(): append to it; append a piece that keeps a slot of its own;
 * replace the piece that begins at start (false: no piece begins there).
 */
void dag_append_text(struct dag *d, struct dag_node *n, struct node_datum *v, struct str text);
void dag_append_piece(struct dag *d, struct dag_node *n, struct node_datum *v, struct str text);
bool dag_replace_piece(struct dag *d, struct dag_node *n, struct node_datum *v, uint64_t start,
                       struct str text);
void dag_drop_slots(struct dag *d, struct dag_node *n, struct node_datum *v);
void dag_slot_path(char *to, size_t len, uint64_t id, uint32_t slot);

extern const char *const DAG_OUTPUTS[RUN_STREAMS]; /* the data keys of the outputs */

/* The value of an output of the current run; that of an earlier run is emptied. */
struct node_datum *dag_output_value(struct dag *d, struct dag_node *n, enum run_stream s);

/*
 * Claims the best ready node for the built-in agent, or returns NULL. done: the claim is durable.
 */
typedef void dag_claimed_fn(void *arg, int err, struct dag_node *n);

struct dag_node *dag_claim(struct dag *d, dag_claimed_fn *done, void *arg);

/* How a run ended. */
struct run_outcome {
    enum run_how how;
    int status;         /* exit status or signal */
    const char *reason; /* why it did not start or was lost; NULL: by how and status */
    bool lost;          /* the exit status is unknown */
};

/* Ends the run of a node. */
void dag_ended(struct dag *d, struct dag_node *n, const struct run_outcome *o, dag_done_fn *done,
               void *arg);

/* An agent that has claimed the task asks to start the node. False: it may not. */
bool dag_start(struct dag_node *n, int64_t agent, int64_t task);

/* Whether this agent runs this attempt of the node. */
bool dag_is_run_by(const struct dag_node *n, int64_t agent, int64_t attempt);

int64_t dag_now_ms(const struct dag *d);

#endif
