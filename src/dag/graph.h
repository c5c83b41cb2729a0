/*
 * graph - all nodes in the order of their ids, and their plan. Pure.
 *
 * Adding has two steps, with a keeper transaction between them: graph_draft() checks a request and
 * encodes it as chunks (node.h), with ids that are never reused; graph_load() adds chunks to the
 * graph, once they are durable or when a server reads them back.
 *
 * A *run* is the nodes of one request that has a name, and those of later requests whose parents,
 * if they existed before, are all in the run. Each of its chunks describes it, so it exists exactly
 * as long as one of its nodes does. Its number rises and is never reused; its id is NAME-NUMBER.
 * Its state follows from the published states of its nodes, which are counted. runs.c has the
 * functions.
 *
 * A node is found by its id, or by its index in `order`, where deleted nodes leave holes that
 * graph_compact() closes. The parallel array `shown` has the published states, so a query for all
 * nodes in a state reads one byte per node.
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

enum { RUN_NAME_LEN_MAX = 128, RUN_ID_LEN_MAX = RUN_NAME_LEN_MAX + 20 };

struct dag_run {
    uint64_t number;
    char *id;
    uint32_t name_len; /* the beginning of the id */
    uint32_t chunks;
    uint64_t first_id, last_id;        /* its nodes, and maybe others between them */
    int64_t added_ms, ended_ms;        /* ended: when the latest node did */
    uint32_t counts[NODE_SKIPPED + 1]; /* nodes by published state */
    bool keep_going;                   /* a failure does not stop it */
    bool stopping;                     /* it is about to be stopped */
};

struct graph {
    struct dag_plan plan;
    struct dag_node **by_ref; /* by ref of the plan */
    struct dag_node **order;  /* NULL: deleted */
    uint8_t *shown;           /* enum node_state or SHOWN_NONE */
    uint32_t count, cap, holes;
    uint64_t last_id;
    struct dag_run **runs; /* in the order of their numbers */
    uint32_t run_count, run_cap;
    uint64_t last_run;
    uint64_t deletions; /* since the start: a deletion invalidates listings */
    char **groups;      /* names of the agent groups, by number */
    uint32_t group_count;
};

struct keeper_op;

/* A checked request to add nodes. The caller releases it, but graph_load() takes the chunks. */
struct draft {
    uint64_t first_id;
    uint32_t count;
    struct chunk_text **chunks;
    uint32_t chunk_count;
    struct dag_node **parents; /* existing nodes that are parents */
    uint32_t parent_count;
    uint32_t root_count;          /* new nodes without any parent */
    char run[RUN_ID_LEN_MAX + 1]; /* the id of the run; empty: none */
    const struct keeper_op *with; /* committed with the nodes, and copied; NULL: nothing */
};

void graph_release(struct graph *g);

/* Decides whether a command may be added: 0, or BAD_ARGUMENT and the reason. */
struct draft_gate {
    int (*check)(void *arg, const struct policy_request *q, struct err_info *ret_error);
    void *arg;
    bool all; /* asked for every command, not only for those with a user or limits */
};

/*
 * 0, or BAD_ARGUMENT or TOO_BIG with the reason and the node in ret_error. gate NULL: every command
 * may be added.
 */
int graph_draft(struct graph *g, const struct json *list, int64_t now_ms,
                const struct draft_gate *gate, struct arena *a, struct draft *ret_draft,
                struct err_info *ret_error);
void draft_release(struct draft *d);

/*
 * Makes a run of a draft. 0, or BAD_ARGUMENT: the name does not do. Without a new run, nodes whose
 * existing parents are all in one run join it.
 */
int draft_new_run(struct graph *g, struct draft *d, struct str name, bool keep_going,
                  int64_t now_ms, struct err_info *e);
void draft_join_run(struct draft *d);

/* Runs, by number, and by id or by name: the newest of that name. NULL: there is none. */
struct dag_run *graph_run(const struct graph *g, uint64_t number);
struct dag_run *graph_find_run(const struct graph *g, struct str text);

/* A node by its name in a run, with or without the name of the run before it ("build/test"). */
struct dag_node *graph_find_in_run(const struct graph *g, const struct dag_run *r, struct str name);

/*
 * The index of the first node of a run at or after an index in `order`; g->count: there is none.
 */
uint32_t graph_next_in_run(const struct graph *g, const struct dag_run *r, uint32_t at);
#define graph_each_in_run(i, g, r)                                                                 \
    for (uint32_t i = graph_next_in_run(g, r, graph_seek(g, (r)->first_id)); i < (g)->count;       \
         i = graph_next_in_run(g, r, i + 1))

/* While loading: reads the description of a run, false if it is damaged; the end of a chunk. */
bool graph_load_run(struct graph *g, struct chunk_text *c, const struct json *v);
void graph_leave_run(struct graph *g, const struct chunk_text *c);

/* Whether a node of it has not ended; then the state is running, else failed, killed, finished. */
bool dag_run_lives(const struct dag_run *r);
enum node_state dag_run_state(const struct dag_run *r);

/* Changes the published state of a node, and the counts of its run. */
void graph_show(struct graph *g, struct dag_node *n, uint8_t state);

/*
 * Adds the nodes of the chunks and, if that succeeds, takes the chunks. recall, which may be NULL,
 * sets the stored state and branch of a node whose spec was read, or returns false when the node
 * was deleted. Returns 0 or DAMAGED: then *ret_damaged is the first id of the chunk that cannot be
 * read, or 0 if the nodes form a cycle.
 */
typedef bool graph_recall_fn(void *arg, struct dag_node *n, struct plan_node *p);

int graph_load(struct graph *g, struct chunk_text **chunks, uint32_t count, graph_recall_fn *recall,
               void *arg, struct plan_changes *changes, uint64_t *ret_damaged);

/* Type, when, branch, priority, group and name, as a request or a chunk has them. */
int graph_read_words(const struct json *v, struct plan_node *ret_node, struct str *ret_group,
                     struct str *ret_name, struct err_info *e);

struct dag_node *graph_find(const struct graph *g, uint64_t id);

/* The index in `order` of the first node whose id is at least this. */
uint32_t graph_seek(const struct graph *g, uint64_t id);

/* Finds a node by the text of its id. NULL: no such node, or not an id. */
struct dag_node *graph_find_text(const struct graph *g, struct str id);
bool graph_parse_id(struct str text, uint64_t *ret_id);

/* The number of an agent group, which is created if missing. UINT32_MAX: too many groups. */
uint32_t graph_group(struct graph *g, struct str name);

void graph_rename(struct dag_node *n, struct str name);

/* Removes a removable node and frees it. */
void graph_remove(struct graph *g, struct dag_node *n);

/* Closes the holes in `order` when there are many. Indexes change. */
void graph_compact(struct graph *g);

static inline struct plan_node *graph_plan(const struct graph *g, const struct dag_node *n)
{
    return &g->plan.nodes[n->ref];
}

/* NULL for ref 0. */
static inline struct dag_node *graph_at(const struct graph *g, uint32_t ref)
{
    return ref ? g->by_ref[ref] : NULL;
}

static inline enum node_state graph_state(const struct graph *g, const struct dag_node *n)
{
    return (enum node_state)g->plan.nodes[n->ref].state;
}

#endif
