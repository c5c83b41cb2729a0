/*
 * plan - which node may start, and what becomes of those after it. Pure: no I/O, no clock, no data.
 *
 * In order: plan_add() puts in nodes with their parents, all or nothing; plan_best() names the one
 * that should start first; plan_start() says that it does; plan_end() says how it ended, and the plan
 * says what followed from that. Every verb that changes states appends what became of other nodes to
 * a struct plan_changes.
 *
 * The rules:
 *  - A node may start when all its parents have ended and its `when` agrees: SUCCESS, all of them
 *    finished; FAILURE, at least one failed; ALWAYS.
 *  - An `if` takes a branch when it finishes. What hangs on the other branch cannot start.
 *  - A node that can no longer start is skipped as soon as that is known, and so on down.
 *  - A group has nothing to run: when it may start, it has finished.
 *
 * What always holds: there is no cycle; a node with all parents ended is not incipient unless it is
 * ready; `ready` and `offered` hold exactly the incipient nodes that may start. Each verb costs in
 * proportion to the edges of the nodes whose state it changes (and the logarithm of what is ready).
 *
 * A node is a ref, which is given again after plan_remove(). Ref 0 is none.
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

/* Of an `if`: what it took. Of a node: on which branch of its parents that are `if`s it hangs. */
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

/* What may start, for one group of agents: without a task in the store yet, and with one. */
struct plan_queue {
    struct plan_heap ready, offered;
};

struct plan_node {
    uint64_t id; /* of two with the same priority the lower id starts first */
    int32_t priority;
    uint32_t group;
    uint32_t children, parents; /* edges, 0: none */
    uint32_t waiting;           /* parents that have not ended */
    uint32_t failed;            /* parents that failed */
    uint32_t place;             /* in its heap, from 1; 0: in none */
    uint8_t type, when, branch, state;
    uint8_t taken;
    bool used, offered;
};

struct plan_edge {
    uint32_t parent, child;
    uint32_t next_child, prev_child;   /* among the children of the parent */
    uint32_t next_parent, prev_parent; /* among the parents of the child */
};

struct plan {
    struct plan_node *nodes; /* by ref */
    uint32_t node_count, node_cap, free_node;
    struct plan_edge *edges;
    uint32_t edge_count, edge_cap, free_edge;
    struct plan_queue *queues; /* by group */
    uint32_t queue_count;
    uint32_t used; /* nodes */
    uint32_t states[NODE_SKIPPED + 1];
};

struct plan_changes {
    uint32_t *refs; /* each has a new state, or may start now */
    size_t count, cap;
};

/* What a request to add says of one node. */
enum { PLAN_IN_BATCH = INT32_MIN }; /* high bit of a parent: an index into the same request */

struct plan_spec {
    uint64_t id;
    int32_t priority;
    uint32_t group;
    uint8_t type, when, branch;
    uint8_t state, taken; /* not incipient: what a store remembers of it */
    const uint32_t *parents;
    uint32_t parent_count;
};

static inline uint32_t plan_in_batch(uint32_t index)
{
    return index | (uint32_t)PLAN_IN_BATCH;
}

void plan_release(struct plan *p);
void plan_changes_put(struct plan_changes *c, uint32_t ref);
void plan_changes_release(struct plan_changes *c);

/* Makes room at once for so many more. */
void plan_reserve(struct plan *p, uint32_t nodes, uint32_t edges);

/* Whether these wait for each other in a circle; *ret_cycle is then the index of one on it. */
bool plan_has_cycle(const struct plan_spec *specs, uint32_t count, uint32_t *ret_cycle);

/*
 * Adds all or none. True, and ret_refs holds the ref of each; false when the new ones wait for each
 * other in a circle, and *ret_cycle is the index of one on it. Parents are distinct.
 */
bool plan_add(struct plan *p, const struct plan_spec *specs, uint32_t count, uint32_t *ret_refs,
              uint32_t *ret_cycle, struct plan_changes *changes);

/* Of a group, what should start first, or 0; and what should have a task next, or 0. */
uint32_t plan_best(const struct plan *p, uint32_t group);
uint32_t plan_best_unoffered(const struct plan *p, uint32_t group);

/* A node that runs is to be tried again later: it waits, though nothing keeps it; and it may start. */
void plan_park(struct plan *p, uint32_t ref);
void plan_unpark(struct plan *p, uint32_t ref);

/* It has a task now; it starts; it has ended. For an `if` that finished: which branch it took. */
void plan_offer(struct plan *p, uint32_t ref);
void plan_start(struct plan *p, uint32_t ref);
void plan_end(struct plan *p, uint32_t ref, enum node_state state, enum node_branch taken,
              struct plan_changes *changes);

/* A node that has ended is to run again, and all those after it that were skipped wait again. */
void plan_retry(struct plan *p, uint32_t ref, struct plan_changes *changes);

/* The node and everything below it, each once, the node first. */
void plan_descendants(const struct plan *p, uint32_t ref, struct plan_changes *ret_refs);

/* Takes out a node that is not running. Whoever waits for it does not wait for it any more, so it
 * must have no incipient children that stay. */
void plan_remove(struct plan *p, uint32_t ref);

/* Whether nothing that has not ended waits for it. */
bool plan_is_removable(const struct plan *p, uint32_t ref);

#define plan_each_parent(e, p, ref)                                                                \
    for (uint32_t e = (p)->nodes[ref].parents; e; e = (p)->edges[e].next_parent)
#define plan_each_child(e, p, ref)                                                                 \
    for (uint32_t e = (p)->nodes[ref].children; e; e = (p)->edges[e].next_child)

#endif
