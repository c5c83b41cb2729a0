/*
 * child - runs the command of a worker: data on its standard input, a tick while it runs, and signals
 * handed on.
 *
 *     child_catch_signals();
 *     while (!child_signal()) {
 *         ... claim, with client_set_stop(c, child_stop_fd()) ...
 *         child_run(&o, &status, &e);
 *     }
 *
 * The command is the head of a process group of its own: a signal that ends it reaches all that it
 * started. When it is to end (TERM or INT came to us, or tick said so), the group gets TERM (or INT),
 * and KILL when it has not ended after the grace time. Safe from many threads at once.
 */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { CHILD_GRACE_MS = 10 * 1000 };

struct child_options {
    char *const *argv;            /* found in PATH; NULL at its end */
    struct str input;             /* its standard input */
    const char *const *variables; /* "NAME=value", in place of ours of the same name; NULL: none */
    int64_t tick_ms;              /* 0: never */
    bool (*tick)(void *arg);      /* false: the command is to end */
    void *arg;
    int64_t grace_ms; /* 0: CHILD_GRACE_MS */
};

/*
 * Runs the command to its end. *ret_status is as shells say it: the exit status, or 128 and the number
 * of the signal that ended it; 127 when there is no such command, 126 when it cannot be run, and then
 * ret_error says why and the result is still 0. An error is one of ours: no process, no memory.
 */
int child_run(const struct child_options *o, int *ret_status, struct err_info *ret_error);

/*
 * From now on TERM and INT are noted: the first ends commands, another one ends us, unless it comes so soon
 * that it is the same.
 */
void child_catch_signals(void);

/* The signal that came, or 0. */
int child_signal(void);

/* Becomes readable with the first signal and stays so. -1 before child_catch_signals(). */
int child_stop_fd(void);

/* Waits that long, or until a signal comes. */
void child_pause(int64_t ms);

#endif
