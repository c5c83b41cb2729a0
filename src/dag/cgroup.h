/*
 * cgroup - one cgroup for each run, where this system lets us have them (version 2, writable).
 *
 * In order: cgroups_open() -> cgroups_take() before a command is started, cgroups_give() when its run
 * is over -> cgroups_close(). A cgroup that is empty is given to the next run: making and removing one
 * costs more than starting a process. One in which a run left something is that run's alone; it is
 * removed when it has become empty.
 *
 * They lie side by side below our own, "drover-<our pid>-<number>", without any controller.
 */
#ifndef DAG_CGROUP_H
#define DAG_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cgroups;
struct cgroup;

/* NULL: there are none here, which is no error. */
struct cgroups *cgroups_open(void);

/* Removes those that are empty. */
void cgroups_close(struct cgroups *all);

/* An empty one, or NULL. */
struct cgroup *cgroups_take(struct cgroups *all);
void cgroups_give(struct cgroups *all, struct cgroup *c);

/* Now and then: removes those in which something was left, when that has ended. */
void cgroups_sweep(struct cgroups *all);

int cgroup_dir(const struct cgroup *c); /* a descriptor */

/* Calls fn for each process in it that is alive. */
void cgroup_each(const struct cgroup *c, void (*fn)(void *arg, pid_t pid), void *arg);

/* Ends all of them at once, also those that are being born. */
void cgroup_kill(struct cgroup *c);

#endif
