/*
 * run_follow - shows a run of the server until it has ended: its progress, the nodes that fail, a
 * summary. `drover run` and `drover attach` use it.
 *
 * A server that does not answer is waited for, as long as it takes. Ctrl-C asks on a terminal what
 * to do: detach, kill, go on; elsewhere the second one kills. TERM kills the run, or detaches.
 */
#ifndef CLI_RUN_FOLLOW_H
#define CLI_RUN_FOLLOW_H

#include <stdio.h>

#include "cli/http_client.h"

struct follow_options {
    bool quiet;  /* print failures and the summary only */
    int on_term; /* FOLLOW_KILL, FOLLOW_DETACH */
};

enum { FOLLOW_KILL, FOLLOW_DETACH };

#define FOLLOW_ON_TERM(target)                                                                     \
    {                                                                                              \
        "on-term", "kill|detach",                                                                  \
            "When it receives TERM, kill the run, or leave it running. Default: kill.",            \
            option_choice, &(target)                                                               \
    }

/* Signals are for the run from now on: before it is submitted, so that none of them is lost. */
void run_follow_signals(void);

/* The id of a run, or its name. Exit status: 0 if no node failed or was killed, or on detaching. */
int run_follow(struct client *c, const char *run, const struct follow_options *o);

/* Prints the last lines of an output of a node on stderr. False: there are none. */
bool run_print_output(struct client *c, const char *id, const char *key);

/* Prints the command in the data of a node as people write it: a shell text, or the words. */
void run_print_command(const struct json *data);

/*
 * Writes the trace of a run to a file that is open, and prints its critical path (run_profile.c).
 * The parts: the trace as JSON; the path, in an array with room for all nodes.
 */
struct draw;
int run_profile(struct client *c, const char *run, const char *path, FILE *to);
void run_put_trace(const struct draw *d, const char *title, struct buf *b);
uint32_t run_critical_path(const struct draw *d, uint32_t *path);

#endif
