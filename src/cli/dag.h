/* dag - what the commands of the DAG have in common: the output of a node, and interrupts. */
#ifndef CLI_DAG_H
#define CLI_DAG_H

#include <signal.h>
#include <stdio.h>

#include "cli/graph_file.h"
#include "cli/http_client.h"

/*
 * The output of a node. Each call of follow_output() prints what is new since the last one;
 * *ret_more says whether there may be more. Exit status.
 */
struct dag_output {
    const char *id, *key;
    char start[24], pid[24];
    FILE *to;
};

int follow_output(struct client *c, struct dag_output *f, int64_t wait_ms, bool *ret_more);

/* Prints a node as `drover show` does; a table of nodes. */
int dag_print_node(const struct json *node);
void dag_print_nodes(const struct json *list);

/* Whether an operand names a run, and not a node: an id, or RUN/NAME. */
bool dag_names_run(const char *operand);

/*
 * Reads a graph; "-" is standard input. f->cwd and f->env may be set before; without cwd, commands
 * run in the directory of the file. Prints the errors. Exit status.
 */
int dag_read_graph(struct graph_file *f, const char *path);

/* Whether an agent serves a group; waits for one so long. Prints the error. Exit status. */
int agents_wait(struct client *c, const char *group, int64_t wait_ms);

/* From now on this signal is counted instead of ending the process. */
void interrupts_catch(int number);
extern volatile sig_atomic_t interrupts;

#endif
