/*
 * graph_draw - pictures of a graph of nodes, with their states: as text for a terminal, for
 * Graphviz and Mermaid, and as SVG. Pure: the nodes come from a reply of GET /v1/nodes, or from a
 * file.
 *
 *     CLEANUP(draw_release) struct draw d = {.title = STR("build-7")};
 *     draw_read(&d, list, limit, now_ms); // or draw_add() for each node, then draw_order()
 *     draw_put_text(&d, &(struct draw_text){.columns = 80, .utf8 = true}, &out);
 *
 * Names and titles are text from outside: every picture escapes them. A parent that is not among
 * the nodes, or that would close a cycle, has no edge. The strings are borrowed.
 */
#ifndef CLI_GRAPH_DRAW_H
#define CLI_GRAPH_DRAW_H

#include "base/arena.h"
#include "base/json.h"
#include "cli/term.h"

struct draw_node {
    struct str id, name, type, state; /* state: empty if there are none */
    struct str branch;                /* of an "if"; empty: none */
    int64_t took_ms;                  /* -1: it has not started */
    int64_t started_ms;               /* 0: it has not */
    uint32_t *parents, *children;     /* indices */
    uint32_t parent_count, child_count;
    uint32_t at; /* its place in the order */
};

struct draw {
    struct arena arena;
    struct str title;
    struct draw_node *nodes;
    uint32_t count, cap;
    uint32_t left_out; /* nodes beyond the limit */
    uint32_t *order;   /* indices, parents first, chains together */
};

void draw_release(struct draw *d);

/*
 * Reads a list of nodes, at most limit. Names lose the prefix "RUN/" of their run, a node without a
 * name is called by its id. now_ms: for the times of those that run.
 */
void draw_read(struct draw *d, const struct json *list, uint32_t limit, int64_t now_ms);

/* Or node by node; the parents are set by the caller, in the arena, before draw_order(). */
struct draw_node *draw_add(struct draw *d);
void draw_order(struct draw *d);

/* Keeps the nodes of these ids, what is above and what is below them. False: one is not there. */
bool draw_select(struct draw *d, const struct str *ids, size_t count);

/* Leaves out all but the first nodes of the list. */
void draw_cut(struct draw *d, uint32_t limit);

struct draw_text {
    size_t columns; /* of a line; 0: any */
    bool utf8, coloured;
};

void draw_put_text(const struct draw *d, const struct draw_text *how, struct buf *b);
void draw_put_dot(const struct draw *d, struct buf *b);
void draw_put_mermaid(const struct draw *d, struct buf *b);
void draw_put_svg(const struct draw *d, struct buf *b);

/* The colour of a state, "#rrggbb". */
const char *draw_fill(struct str state);

#endif
