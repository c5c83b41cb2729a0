/*
 * dag - what the commands of the DAG have in common, and `drover run`, which submits the graph of a
 * file (dag_run.c) and follows it to its end (dag_follow.c).
 *
 * The nodes are named GRAPH/NODE on the server. Earlier runs of the same graph are found by these
 * names: --resume leaves out what has finished in one, and their times estimate how long is left.
 * One more node, a group named GRAPH that waits for all others, tells when the graph has ended.
 */
#ifndef CLI_DAG_H
#define CLI_DAG_H

#include <stdio.h>

#include "cli/graph_file.h"
#include "cli/http_client.h"
#include "cli/progress.h"

bool state_is_terminal(struct str state);

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

/* From now on INT is counted instead of ending the process. */
void interrupts_catch(void);
int interrupts_count(void);
void interrupts_forget(int count); /* sets the count */

/* A node of the API, {"metadata", "data", "why"}. Exit status. */
int get_node(struct client *c, const char *id, struct client_reply *reply);

struct graph_run {
    struct client_options client;
    bool dry_run, keep_going, resume, dot, mermaid, quiet;
    struct graph_file file;
    struct client *c;
    struct progress progress;

    /* For each node of the file. */
    const char **ids;     /* its id on the server, or NULL */
    const char **done;    /* its id if it finished in an earlier run, or NULL */
    int64_t *times;       /* how long the last run took, or 0 */
    char (*states)[12];   /* at the last poll */
    const char **reasons; /* of nodes that ended since */
    uint32_t *ended, ended_count;
    uint64_t first_id, end_id;
    bool stopped, interrupted, failed;
    struct arena arena, scratch; /* for the command, for one poll */
};

/* Polls the nodes and prints progress and failures until all have ended. Exit status. */
int graph_run_follow(struct graph_run *r);

#endif
