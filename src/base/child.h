/*
 * child - runs the command of a worker: data on its standard input, a tick while it runs, and
 * signals forwarded to it.
 *
 *     child_catch_signals();
 *     while (!child_signal()) {
 *         ... claim, with client_set_stop(c, child_stop_fd()) ...
 *         child_run(&o, &status, &e);
 *     }
 *
 * The command leads a process group of its own, so a signal reaches everything that it started. To
 * stop it (we received TERM or INT, or tick returned false), the group gets TERM (or INT), and KILL
 * if it has not ended after the grace time. Safe from many threads at once.
 */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/account.h"
#include "base/err.h"
#include "base/str.h"

enum { CHILD_GRACE_MS = 10 * 1000 };

struct child_options {
    char *const *argv;            /* looked up in PATH; NULL-terminated */
    struct str input;             /* its standard input */
    const char *const *variables; /* "NAME=value", replacing ours; NULL: none */
    int64_t tick_ms;              /* 0: never */
    bool (*tick)(void *arg);      /* false: stop the command */
    void *arg;
    int64_t grace_ms;              /* 0: CHILD_GRACE_MS */
    const struct account *account; /* it runs as this user; NULL: ours */
    bool no_new_privs;             /* it cannot gain rights by setuid programs */
    const char *const *hidden;     /* names of our variables that it is not given; NULL: none */

    /*
     * Gets what it writes to descriptor 1 or 2, for each of which `outputs` has the bit 1 << fd;
     * the others are ours. When it has ended, what it has left running has no such output any more.
     */
    unsigned outputs;
    void (*output)(void *arg, int fd, struct str bytes);
    void *output_arg;
};

/*
 * Runs the command to its end. *ret_status is that of a shell: the exit status, or 128 plus the
 * signal that ended it; 127 if there is no such command, 126 if it cannot be executed, and then
 * ret_error says why and the result is still 0. An error means that the system has no process for
 * it.
 */
int child_run(const struct child_options *o, int *ret_status, struct err_info *ret_error);

/*
 * From now on the first TERM or INT stops the commands. The next one ends this process, unless it
 * comes within 500 ms: then it counts as the same.
 */
void child_catch_signals(void);

/* The signal received, or 0. */
int child_signal(void);

/* Becomes readable with the first signal and stays so. -1 before child_catch_signals(). */
int child_stop_fd(void);

/* Waits that long, or until a signal arrives. */
void child_pause(int64_t ms);

#endif
