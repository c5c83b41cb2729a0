/*
 * cgroup - cgroups (version 2) for runs, where they can be created: they say which processes belong
 * to a run, and limit what these use together.
 *
 * In order: cgroups_open() -> cgroups_take() before a command is started, cgroup_limit() if it has
 * limits, cgroups_give() when its run is over -> cgroups_close(). They are children of the server's
 * own cgroup, "drover-<pid>-<number>".
 *
 * An empty cgroup is reused by the next run: creating and removing one costs more than starting a
 * process. One in which processes are left is not reused; it is removed when it has become empty.
 * Nor is one that had limits: memory that its run left behind in files would count for the next.
 */
#ifndef DAG_CGROUP_H
#define DAG_CGROUP_H

#include "base/policy.h"

struct cgroup {
    struct cgroup *next;
    char name[48];
    int dir, events; /* events: cgroup.events, which says whether the cgroup is empty */
    bool spent;      /* not reusable; some kernels also kill processes created in a killed one */
};

struct cgroups;

/* NULL: cgroups cannot be used here. Closing removes the empty cgroups. */
struct cgroups *cgroups_open(void);
void cgroups_close(struct cgroups *all);

/* Returns an empty cgroup, or NULL. Limits need a fresh one, which has counted nothing yet. */
struct cgroup *cgroups_take(struct cgroups *all, bool fresh);
void cgroups_give(struct cgroups *all, struct cgroup *c);

/* To be called periodically: removes returned cgroups that have become empty. */
void cgroups_sweep(struct cgroups *all);

/*
 * Sets limits, before a process is in it. Returns those that hold, as a set of 1u << limit_kind.
 * That of CPU time holds if the caller compares cgroup_cpu_ms() with it and kills the run.
 */
unsigned cgroup_limit(struct cgroups *all, struct cgroup *c, const struct limits *l);

/* The CPU time that its processes have used; -1: unknown. */
int64_t cgroup_cpu_ms(const struct cgroup *c);

/* Whether a process was killed because of the limit on memory. */
bool cgroup_ran_out_of_memory(const struct cgroup *c);

void cgroup_kill(struct cgroup *c);

#endif
