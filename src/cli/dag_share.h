/* cmd_share - what the commands of the DAG have in common. */
#ifndef CLI_DAG_SHARE_H
#define CLI_DAG_SHARE_H

#include "base/json.h"
#include "cli/http_client.h"
#include "cli/term.h"

enum term_colour state_colour(struct str state);
bool state_is_terminal(struct str state);

/* Operands as a list with commas, checked to be ids. NULL: it has been said. */
const char *join_ids(struct client *c, int argc, char **argv);

/*
 * What a node prints, from where it was left. Prints what is new; *ret_more says whether there will be
 * more. Exit status.
 */
struct following {
    const char *id, *key;
    char start[24], pid[24];
    FILE *to;
};

int follow_output(struct client *c, struct following *f, int64_t wait_ms, bool *ret_more);

/* From now on INT does not end this process but is counted. */
void interrupts_catch(void);
int interrupts_count(void);
void interrupts_forget(int count); /* all but so many */

/* A node of the API, {"metadata", "data", "why"}. Exit status. */
int get_node(struct client *c, const char *id, struct client_reply *reply);

#endif
