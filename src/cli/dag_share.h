/* dag_share - what the commands of the DAG have in common. */
#ifndef CLI_DAG_SHARE_H
#define CLI_DAG_SHARE_H

#include <stdio.h>

#include "base/json.h"
#include "cli/http_client.h"

bool state_is_terminal(struct str state);

/*
 * The output of a node. Each call of follow_output() prints what is new since the last one; *ret_more
 * says whether there may be more. Exit status.
 */
struct following {
    const char *id, *key;
    char start[24], pid[24];
    FILE *to;
};

int follow_output(struct client *c, struct following *f, int64_t wait_ms, bool *ret_more);

/* From now on INT is counted instead of ending the process. */
void interrupts_catch(void);
int interrupts_count(void);
void interrupts_forget(int count); /* sets the count */

/* A node of the API, {"metadata", "data", "why"}. Exit status. */
int get_node(struct client *c, const char *id, struct client_reply *reply);

#endif
