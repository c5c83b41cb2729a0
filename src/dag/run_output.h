/* run_output - what runs print, in the DAG: from start to end, and for who follows it. */
#ifndef DAG_RUN_OUTPUT_H
#define DAG_RUN_OUTPUT_H

#include "base/err.h"
#include "dag/node.h"

struct dag;

/*
 * run_output.c: the output of a run, from its start to its end. `tick` returns when it is to be
 * called again; `end` takes the output.
 */
int dag_output_open(struct dag *d, const char *given, int64_t total, struct err_info *ret_error);
void dag_output_stop(struct dag *d); /* the DAG is stopped */
struct output *dag_output_new(struct dag *d, struct dag_node *n);
struct output *dag_output_continue(struct dag *d, struct dag_node *n);
void dag_output_printed(struct dag *d, struct dag_node *n);
int64_t dag_output_tick(struct dag *d, struct dag_node *n, int64_t now_ms);
void dag_output_end(struct dag *d, struct dag_node *n, struct output *o);
void dag_output_drop(struct dag *d, struct dag_node *n);    /* with its file */
void dag_output_recover(struct dag *d, struct dag_node *n); /* the run was lost in a crash */
void dag_output_know(struct dag *d);                        /* all nodes are loaded */

/* A run has new output. */
void dag_printed(struct dag *d, struct dag_node *n);
void dag_soon_printed(struct dag *d); /* who waits for output looks again, soon */

/* http_output.c: requests that follow an output go on: all, or those for which there is much. */
void dag_wake_followers(struct dag *d, struct dag_node *n, bool all);
void dag_pass_on(struct dag *d, struct dag_node *n); /* what was printed just now */
void dag_beat_followers(struct dag *d);
void dag_end_followers(struct dag *d); /* the DAG is stopped */

/* http_input.c: a run begins; when to call it again; the command may take more input. */
void dag_attach(struct dag *d, struct dag_node *n);
int64_t dag_attach_tick(struct dag *d, struct dag_node *n, int64_t now_ms);
void dag_feed(struct dag *d, struct dag_node *n);

#endif
