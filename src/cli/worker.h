/*
 * worker - runs a command for each item of a source: `work`, `world work`, `queue work`, `job
 * work`.
 *
 * The four commands share their options, their report and their exit status. Each one brings a
 * table of functions, struct worker_source: take an item, renew the claim while the command runs,
 * settle what came of it. The command gets the item on its standard input. Exit status 0 completes
 * the item. Any other is a failed attempt: the item is retried after a back-off that doubles with
 * each attempt, and after --attempts it is dead; what that means is up to the source, which may
 * also leave both to the server. TERM and INT are passed on to the command, and an item that is not
 * complete is released.
 *
 * On a terminal a line shows how many items are done, have failed and are running, and the rate.
 *
 * The last line counts the items that are done, retried, dead and lost; the exit status is 1 if an
 * item is dead or the worker could not go on. An item is lost when another worker may have it: the
 * claim could not be renewed, or the result could not be stored.
 */
#ifndef CLI_WORKER_H
#define CLI_WORKER_H

#include "base/buf.h"
#include "base/child.h"
#include "cli/http_client.h"

enum {
    WORKER_JOBS_MAX = 256,
    WORKER_ATTEMPTS_MAX = 1000,
    WORKER_ERROR_MAX = 4096,
    WORKER_OUTPUT_MAX = 256 * 1024,
};

/* The values of the common options. attempts and back_off_ms are 0 if the server decides. */
struct worker_options {
    int64_t jobs, attempts, back_off_ms;
    bool until_empty, verbose, quiet;
};

extern struct worker_options worker_options;

/* attempts_help says what happens after the last attempt, and the default. */
#define WORKER_OPTIONS(attempts_help) WORKER_OPTIONS_WITH(attempts_help, "1s")
#define WORKER_OPTIONS_WITH(attempts_help, back_off_default)                                       \
    OPTION("jobs", "N", "Run up to N commands at a time. Default: 1.", option_number,              \
           &worker_options.jobs, 1, WORKER_JOBS_MAX),                                              \
        OPTION("attempts", "N", attempts_help, option_number, &worker_options.attempts, 1,         \
               WORKER_ATTEMPTS_MAX),                                                               \
        OPTION("backoff", "TIME",                                                                  \
               "How long to wait after the first failed attempt; doubles with each further one.\n" \
               "Default: " back_off_default ".",                                                   \
               option_span, &worker_options.back_off_ms, 1, 3600 * 1000),                          \
        OPTION("until-empty", NULL, "Exit when nothing is left to do.", option_flag,               \
               &worker_options.until_empty),                                                       \
        OPTION("verbose", NULL, "Also report items that are done.", option_flag,                   \
               &worker_options.verbose),                                                           \
        OPTION("quiet", NULL, "Report only errors and dead items.", option_flag,                   \
               &worker_options.quiet)

struct worker_item {
    char name[96]; /* for messages: "task 7" */
    struct str input;
    const char *variables[8]; /* "NAME=value", up to NULL */
    int64_t attempt;          /* this one, from 1 */
    int64_t attempts;         /* of this item; 0: as the option says */
    int64_t grace_ms;         /* between TERM and KILL; 0: the default */
    bool keeps_error;         /* the end of its standard error */
    bool keeps_output;        /* its standard output, which is not printed then */

    /* After the attempt. */
    struct buf error, output; /* if they are kept; of the output at most WORKER_OUTPUT_MAX + 1 */
    struct err_info why;      /* of a failure */
    int64_t back_off_ms;      /* after which it may be retried */
    const char *where;        /* where a dead item is now; NULL: "dead" */
};

enum worker_taken {
    WORKER_TAKEN,
    WORKER_NOTHING, /* there was none */
    WORKER_AGAIN,   /* ask again at once */
    WORKER_AWAY,    /* the server cannot be reached, see error: ask again later */
    WORKER_BROKEN,  /* asking again would not help, see error */
};

enum worker_outcome { WORKER_DONE, WORKER_RETRY, WORKER_DEAD, WORKER_RELEASED, WORKER_LOST };

struct worker_thread {
    const struct worker_source *source;
    const struct cmd_call *call;
    void *own;             /* own_size bytes of the source, zeroed */
    struct err_info error; /* for a message */
    bool lost, ended;
    pthread_t id;
};

struct worker_source {
    int64_t attempts; /* the default; 0: the server decides */
    size_t own_size;
    int64_t tick_ms;            /* between two renewals */
    bool local_retries;         /* the command is run again under the same claim */
    int64_t retry_pause_max_ms; /* the thread waits for the back-off, at most so long; 0: no */
    int (*open)(struct worker_thread *t);   /* before the thread starts; exit status */
    void (*close)(struct worker_thread *t); /* at its end; both may be NULL */
    enum worker_taken (*take)(struct worker_thread *t, struct worker_item *ret_item);
    bool (*renew)(struct worker_thread *t); /* false: the claim is lost */

    /*
     * Stores the outcome, which may become another one. Returns 0, or an error in t->error: the
     * item is lost.
     */
    int (*settle)(struct worker_thread *t, struct worker_item *item, enum worker_outcome *outcome);
    bool (*is_empty)(struct worker_thread *t); /* after WORKER_NOTHING; NULL: unknown */
};

/* Runs the jobs until a signal, until nothing is left, or until it cannot go on. Exit status. */
int worker_run(const struct worker_source *s, const struct cmd_call *call);

/*
 * The parts of it, for `queue work`, whose threads belong to the library. worker_try() runs the
 * command once, of which o has argv and the tick, and returns its outcome; worker_report() counts
 * it and prints a line.
 */
enum worker_outcome worker_try(struct child_options o, struct worker_item *item);
void worker_report(const struct worker_item *item, enum worker_outcome outcome);
void worker_begin(int64_t attempts_default); /* 0: the server decides; safe to repeat */
int worker_end(void);                        /* prints the last line; the exit status */
bool worker_is_ending(void);

#endif
