/*
 * orphans - finds and signals the processes of a run, also those that left its process group.
 *
 * A process belongs to a run when it is in the process group or session of the run's leader, when
 * its environment contains the run's token, which children inherit, or when it is in the run's
 * cgroup, which it cannot leave without privileges. They are found by reading /proc, so this is
 * used to kill runs, not for every run.
 */
#ifndef DAG_ORPHANS_H
#define DAG_ORPHANS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "dag/cgroup.h"

/* What identifies the processes of a run, and those that got SIGTERM. Release when done. */
struct orphans {
    pid_t leader;          /* 0: unknown */
    const char *token;     /* "NAME=VALUE" */
    struct cgroup *cgroup; /* NULL: none */
    pid_t *signalled;
    size_t count, cap;
};

/* Sends a signal to all processes of the run (0: no signal). Returns whether any is alive. */
bool orphans_signal(const struct orphans *o, int signal_number);

/*
 * Sends SIGTERM to all processes of the run, to each of them once, however often this is called:
 * the next call finds processes that were forked during this one. Returns whether any is alive.
 */
bool orphans_terminate(struct orphans *o);
void orphans_release(struct orphans *o);

#endif
