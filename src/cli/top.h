/*
 * top - the views of `drover top`: lists of all modules, and the log of a node. top.c reads keys
 * and paints; top_view.c asks the server and fills lines.
 */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include "cli/dag.h"
#include "cli/verb.h"

enum { TOP_LIST_MAX = 500, TOP_LOG_MAX = 256 * 1024 };

struct top_view {
    const char *title;
    const char *request; /* "GET /v1/runs?limit=500"; with %s: the run that was opened */
    const char *list;    /* the member of the reply that has the rows */
    const char *id;      /* of a row; NULL: it has no actions */
    bool nodes, runs;    /* the rows are nodes: they have a log; or runs, which can be opened */
    const struct verb_column *columns;
};

extern const struct top_view TOP_VIEWS[]; /* up to one without a title */
extern const struct top_view TOP_RUN;     /* the nodes of a run */

struct top {
    struct client *c;
    size_t rows, columns; /* of the terminal */
    bool coloured;
    const struct top_view *view;
    const char *run;          /* that TOP_RUN shows */
    size_t selected, first;   /* rows: the one that is marked, and the first one that is shown */
    char id[160];             /* of the row that is marked; empty: none */
    struct dag_output output; /* of the node whose log is shown; id NULL: none */
    char output_id[24];
    struct buf log;    /* the end of it */
    size_t back;       /* lines from its end that are not shown */
    char message[200]; /* the last line: what came of a key, or a question */
    struct buf counts; /* the head */
};

/* Asks the server. What goes wrong is in the lines that it makes; it never ends. */
void top_read_counts(struct top *t);
void top_put_list(struct top *t, size_t rows, struct buf *b);
void top_read_log(struct top *t);
void top_put_log(struct top *t, size_t rows, struct buf *b);

/* "kill", "retry": on the row that is marked, or the node whose log is shown. */
void top_act(struct top *t, const char *verb);

#endif
