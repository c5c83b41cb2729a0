/* dag - what the commands of the DAG have in common: the output of a node, and interrupts. */
#ifndef CLI_DAG_H
#define CLI_DAG_H

#include <signal.h>
#include <stdio.h>

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

/* From now on this signal is counted instead of ending the process. */
void interrupts_catch(int number);
extern volatile sig_atomic_t interrupts;

#endif
