/*
 * plan - the scheduler: which node may start, and which states follow from the end of a node. Pure:
 * no I/O, no clock, no data.
 *
 * In order: plan_add() adds nodes with their parents, all or nothing; plan_best() returns the node
 * to start first; plan_start() marks it as running; plan_end() records how it ended and updates the
 * nodes below. Every function that changes states appends the affected nodes to a struct
 * plan_changes.
 *
 * The rules:
 *  - A node may start when all its parents have ended and its `when` is satisfied: SUCCESS, all of
 *    them finished; FAILURE, at least one failed; ALWAYS.
 *  - An `if` selects a branch when it finishes. Nodes on the other branch cannot start.
 *  - A node that can no longer start is skipped at once, and so are the nodes below it.
 *  - A group runs nothing: it is finished as soon as it may start.
 *
 * Invariants: there is no cycle; an incipient node whose parents have all ended is ready; `ready`
 * and `offered` hold exactly the incipient nodes that may start. Each call costs time proportional
 * to the edges of the nodes whose state it changes (plus the logarithm of the number of ready
 * nodes).
 *
 * A node is named by a ref. plan_remove() frees the ref for reuse. Ref 0 means none.
 */
#ifndef DAG_PLAN_H
#define DAG_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum node_type { NODE_COMMAND, NODE_SHELL, NODE_CONDITION, NODE_IF, NODE_GROUP };

enum node_state {
    NODE_INCIPIENT,
    NODE_RUNNING,
    NODE_FINISHED, /* from here on: terminal */
    NODE_FAILED,
    NODE_KILLED,
    NODE_SKIPPED,
};

enum node_when { WHEN_SUCCESS, WHEN_FAILURE, WHEN_ALWAYS };

/* Of an `if`: the branch it selected. Of another node: its branch below parents of type `if`. */
enum node_branch { BRANCH_NONE, BRANCH_THEN, BRANCH_ELSE };

static inline bool node_state_is_terminal(enum node_state s)
{
    return s >= NODE_FINISHED;
}

/* A heap of refs. */
struct plan_heap {
    uint32_t *refs;
    uint32_t count, cap;
};

/* The nodes of one agent group that may start: without a task in the store, and with one. */
struct plan_queue {
    struct plan_heap ready, offered;
};

struct plan_node {
    uint64_t id;      /* with equal priority, the lower id starts first */
    int32_t priority; /* the smaller one starts first, as of tasks and jobs */
    uint32_t group;
    uint32_t children, parents; /* edges, 0: none */
    uint32_t waiting;           /* parents that have not ended */
    uint32_t failed;            /* parents that failed */
    uint32_t place;             /* index in its heap, from 1; 0: in none */
    uint8_t type, when, branch, state;
    uint8_t taken;
    bool used, offered;
};

struct plan_edge {
    uint32_t parent, child;
    uint32_t next_child, prev_child;   /* among the children of the parent */
    uint32_t next_parent, prev_parent; /* among the parents of the child */
};

struct dag_plan {
    struct plan_node *nodes; /* by ref */
    uint32_t node_count, node_cap, free_node;
    struct plan_edge *edges;
    uint32_t edge_count, edge_cap, free_edge;
    struct plan_queue *queues; /* by group */
    uint32_t queue_count;
    uint32_t used; /* nodes */
};

struct plan_changes {
    uint32_t *refs; /* nodes that have a new state, or may start now */
    size_t count, cap;
};

/* One node of a request to add. */
#define PLAN_IN_BATCH UINT32_C(0x80000000) /* flags a parent: an index into the same request */

struct plan_spec {
    struct plan_node node; /* its first fields, type to branch; state and taken as stored */
    const uint32_t *parents;
    uint32_t parent_count;
};

static inline uint32_t plan_in_batch(uint32_t index)
{
    return index | PLAN_IN_BATCH;
}

void plan_release(struct dag_plan *p);
void plan_changes_put(struct plan_changes *c, uint32_t ref);
void plan_changes_release(struct plan_changes *c);

/*
 * Whether the parents within one request form a cycle. Then ret_cycle, which may be NULL, receives
 * the indexes of one cycle: each node waits for the next, and the last one for the first.
 */
bool plan_has_cycle(const struct plan_spec *specs, uint32_t count, struct plan_changes *ret_cycle);

/*
 * Adds all nodes or none. Returns true and the ref of each in ret_refs, or false when the new nodes
 * form a cycle. The parents of a node are distinct.
 */
bool plan_add(struct dag_plan *p, const struct plan_spec *specs, uint32_t count, uint32_t *ret_refs,
              struct plan_changes *changes);

/* The node of a group to start first, or 0; the node to offer next, or 0. */
uint32_t plan_best(const struct dag_plan *p, uint32_t group);
uint32_t plan_best_unoffered(const struct dag_plan *p, uint32_t group);

/* Makes a running node wait for its next attempt; makes it ready again. */
void plan_park(struct dag_plan *p, uint32_t ref);
void plan_unpark(struct dag_plan *p, uint32_t ref);

/* The node has a task now; it starts; it has ended. taken: the branch of an `if` that finished. */
void plan_offer(struct dag_plan *p, uint32_t ref);
void plan_start(struct dag_plan *p, uint32_t ref);
void plan_end(struct dag_plan *p, uint32_t ref, enum node_state state, enum node_branch taken,
              struct plan_changes *changes);

/* Makes an ended node incipient again, and with it the nodes below that were skipped. */
void plan_retry(struct dag_plan *p, uint32_t ref, struct plan_changes *changes);

/*
 * Changes when, branch, priority and group of an incipient node, and with parents not NULL its
 * parents, of which none is the node or a descendant; then decides it again.
 */
void plan_change(struct dag_plan *p, uint32_t ref, const struct plan_spec *to,
                 struct plan_changes *changes);

/* The node and all its descendants, each once, the node first. */
void plan_descendants(const struct dag_plan *p, uint32_t ref, struct plan_changes *ret_refs);

/* Removes a node that is not running. It must have no incipient children that stay. */
void plan_remove(struct dag_plan *p, uint32_t ref);

/* Whether the node is not running and all its children have ended. */
bool plan_is_removable(const struct dag_plan *p, uint32_t ref);

#define plan_each_parent(e, p, ref)                                                                \
    for (uint32_t e = (p)->nodes[ref].parents; e; e = (p)->edges[e].next_parent)
#define plan_each_child(e, p, ref)                                                                 \
    for (uint32_t e = (p)->nodes[ref].children; e; e = (p)->edges[e].next_child)

#endif
