/*
 * strays - the processes that belong to a run, wherever they have gone.
 *
 * A process belongs to a run when it is in the group or the session of the run's leader, or when its
 * environment holds the run's token, which children inherit, or when it is in the run's cgroup, which
 * it cannot leave by itself. Found by reading /proc, so it is for killing, not for every run.
 */
#ifndef DAG_ORPHANS_H
#define DAG_ORPHANS_H

#include <stdint.h>
#include <sys/types.h>

#include "dag/cgroup.h"

/* What tells that a process belongs to the run. */
struct orphan_signs {
    pid_t leader;          /* 0: unknown */
    const char *token;     /* "NAME=VALUE" */
    struct cgroup *cgroup; /* NULL: it has none */
};

/*
 * Sends a signal to all that belong to the run (0: to none). Returns whether any is alive.
 */
bool orphans_signal(const struct orphan_signs *by, int signal_number);

/* Who was asked to end. Zero-initialise; release when done. */
struct orphans {
    pid_t *asked;
    size_t count;
};

/*
 * Asks all that belong to the run to end (TERM), each of them once however often this is called: one
 * that was born while others were being asked is found the next time. Returns whether any is alive.
 */
bool orphans_ask(struct orphans *s, const struct orphan_signs *by);
void orphans_release(struct orphans *s);

#endif
