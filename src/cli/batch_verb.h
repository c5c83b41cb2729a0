/*
 * verb - a command that is one request: what it takes, what it sends, how the answer is shown. The
 * commands of batch, job, lock, access and legacy are tables of these.
 */
#ifndef CLI_BATCH_VERB_H
#define CLI_BATCH_VERB_H

#include <stdio.h>

#include "cli/http_client.h"

/* The options that a verb takes. They go into the body, or into the query of GET and DELETE. */
enum verb_option {
    VERB_STATE = 1 << 0,
    VERB_MESSAGE = 1 << 1,
    VERB_TOKEN = 1 << 2,
    VERB_SESSION = 1 << 3,
    VERB_KEEP = 1 << 4,
    VERB_PRIORITY = 1 << 5,
    VERB_BATCH = 1 << 6,
    VERB_PROFILE = 1 << 7,
    VERB_LIMIT = 1 << 8,
    VERB_START = 1 << 9,
    VERB_WHO = 1 << 10,
    VERB_REPAIR = 1 << 11,
    VERB_FOR = 1 << 12,
    VERB_WAIT = 1 << 13,
    VERB_TIMEOUT = 1 << 14, /* of the session that is opened when none is named */
    VERB_ALL = 1 << 15,
    VERB_DELETE = 1 << 16,
    VERB_AFTER = 1 << 17,
    VERB_OPTIONS = 18,
};

/* Prints an answer for people; returns the exit status. */
typedef int verb_print_fn(struct client *c, const struct json *reply);

struct verb {
    const char *name, *operands; /* "batch hold", "BID" */
    size_t min, max;
    const char *about;
    const char *method;
    const char *path;     /* "{1}" is the first operand, quoted */
    const char *text[3];  /* members of the body that are operands: "state" 2 is {"state", "2"} */
    const char *json[3];  /* the same for operands that are JSON; "-" reads standard input */
    const char *fixed;    /* a query that is always there: "force=1" */
    unsigned takes;       /* enum verb_option */
    bool needs_state;     /* --state must be given */
    verb_print_fn *print; /* NULL: nothing is printed */
};

int verb_run(const struct verb *v, int argc, char **argv);

/* Ways to print. */
verb_print_fn print_word;    /* the one id of the answer, or each of a list */
verb_print_fn print_state;   /* the state that it has now */
verb_print_fn print_members; /* an object, a line for each member */
verb_print_fn print_batches, print_jobs, print_locks, print_access, print_legacy, print_findings;

/* The commands that are more than that. */
int cmd_batch_show(int argc, char **argv);
int cmd_job_work(int argc, char **argv);

#endif
