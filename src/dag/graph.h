/*
 * graph - all nodes, in the order of their ids, and the plan of them. Pure.
 *
 * Adding has two steps, with the keeper between them: graph_draft() checks a request and writes it as
 * chunks (node.h), with ids that are never given again; graph_load() puts chunks into the graph, at
 * once after they were kept or when a server starts and reads them back.
 *
 * A node is found by its id, or by its place in `order`, in which deleted ones leave holes that are
 * closed now and then. `shown` beside it has the states that may be told, so that a question for all
 * nodes in a state looks at a byte a node.
 */
#ifndef DAG_GRAPH_H
#define DAG_GRAPH_H

#include "base/map.h"
#include "dag/node.h"

enum {
    GRAPH_NODES_MAX = 1000000,
    GRAPH_CHUNK_LEN = 512 * 1024, /* a chunk is closed when it is longer than this */
    GRAPH_CHUNK_NODES = 2000,
    GRAPH_NODE_LEN_MAX = 400 * 1024,
    GRAPH_GROUPS_MAX = 1000,
};

enum { SHOWN_NONE = 0xff };

struct graph {
    struct plan plan;
    struct node **by_ref; /* by ref of the plan */
    uint32_t by_ref_cap;
    struct node **order; /* NULL: deleted */
    uint8_t *shown;      /* enum node_state or SHOWN_NONE */
    uint32_t count, cap, holes;
    uint64_t last_id;
    uint64_t deletions; /* since the start: what listings hang on */
    char **groups;      /* the names of the agents' groups, by number */
    uint32_t group_count;
};

/* What a request wants added. The chunks are the caller's. */
struct draft {
    uint64_t first_id;
    uint32_t count;
    struct chunk_text **chunks;
    uint32_t chunk_count;
    struct node **parents; /* existing ones that are named; in the arena */
    uint32_t parent_count;
};

void graph_release(struct graph *g);

/* 0, or BAD_ARGUMENT or TOO_BIG, and ret_error says what is wrong and where; then nothing was made. */
int graph_draft(struct graph *g, const struct json *list, int64_t now_ms, struct arena *a,
                struct draft *ret_draft, struct err_info *ret_error);
void draft_release(struct draft *d);

/*
 * Puts chunks in, which are the graph's from now on. remembered may be NULL: says what a store knows
 * of a node whose spec was read (a state and the branch taken); false leaves the node out: it was
 * deleted. Returns 0 or DAMAGED.
 */
typedef bool graph_remembered_fn(void *arg, struct node *n, int *ret_state, int *ret_taken);

int graph_load(struct graph *g, struct chunk_text **chunks, uint32_t count,
               graph_remembered_fn *remembered, void *arg, struct plan_changes *changes);

struct node *graph_find(const struct graph *g, uint64_t id);

/* The place in `order` of the first node with an id of at least so much. */
uint32_t graph_seek(const struct graph *g, uint64_t id);

/* A node by an id as people write it. NULL: there is none, or it is no id at all. */
struct node *graph_find_text(const struct graph *g, struct str id);
bool graph_parse_id(struct str text, uint64_t *ret_id);

/* The number of a group of agents; it is made if there is none. UINT32_MAX: too many. */
uint32_t graph_group(struct graph *g, struct str name);
uint32_t graph_find_group(const struct graph *g, struct str name); /* UINT32_MAX: there is none */

/* Takes out of the graph a node that the plan lets go, and frees it. */
void graph_remove(struct graph *g, struct node *n);

/* Closes the holes when there are many. Places change. */
void graph_compact(struct graph *g);

static inline struct plan_node *graph_plan(const struct graph *g, const struct node *n)
{
    return &g->plan.nodes[n->ref];
}

static inline struct node *graph_at(const struct graph *g, uint32_t ref)
{
    return g->by_ref[ref];
}

static inline enum node_state graph_state(const struct graph *g, const struct node *n)
{
    return (enum node_state)g->plan.nodes[n->ref].state;
}

#endif
