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

/* Reads a graph; "-" is standard input. Prints the error. Exit status. */
int dag_read_graph(struct graph_file *f, const char *path);

/* From now on this signal is counted instead of ending the process. */
void interrupts_catch(int number);
extern volatile sig_atomic_t interrupts;

#endif
