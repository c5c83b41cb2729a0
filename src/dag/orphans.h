/*
 * orphans - finds and signals the processes of a run, also those that left its process group.
 *
 * A process belongs to a run when it is in the process group or session of the run's leader, when
 * its environment contains the run's token, which children inherit, or when it is in the run's
 * cgroup, which it cannot leave without privileges. They are found by reading /proc, so this is
 * used to kill runs, not for every run.
 *
 * Cgroups: one for each run, where cgroups (version 2) can be created. In order: cgroups_open() ->
 * cgroups_take() before a command is started, cgroups_give() when its run is over ->
 * cgroups_close(). An empty cgroup is reused by the next run: creating and removing one costs more
 * than starting a process. A cgroup in which processes are left is not reused; it is removed when
 * it has become empty. They are children of the server's own cgroup, "drover-<pid>-<number>",
 * without any controller.
 */
#ifndef DAG_ORPHANS_H
#define DAG_ORPHANS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct cgroup {
    struct cgroup *next;
    char name[48];
    int dir, events; /* events: cgroup.events, which says whether the cgroup is empty */
    bool killed;     /* not reusable: some kernels also kill processes created in it later */
};

struct cgroups;

/* NULL: cgroups cannot be used here. Closing removes the empty cgroups. */
struct cgroups *cgroups_open(void);
void cgroups_close(struct cgroups *all);

/* Returns an empty cgroup, or NULL. */
struct cgroup *cgroups_take(struct cgroups *all);
void cgroups_give(struct cgroups *all, struct cgroup *c);

/* To be called periodically: removes returned cgroups that have become empty. */
void cgroups_sweep(struct cgroups *all);

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
