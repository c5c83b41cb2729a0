/*
 * cgroup - one cgroup for each run, where cgroups (version 2) can be created.
 *
 * In order: cgroups_open() -> cgroups_take() before a command is started, cgroups_give() when its
 * run is over -> cgroups_close(). An empty cgroup is reused by the next run: creating and removing
 * one costs more than starting a process. A cgroup in which processes are left is not reused; it is
 * removed when it has become empty.
 *
 * They are children of the server's own cgroup, "drover-<pid>-<number>", without any controller.
 */
#ifndef DAG_CGROUP_H
#define DAG_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cgroups;
struct cgroup;

/* NULL: cgroups cannot be used here. */
struct cgroups *cgroups_open(void);

/* Removes the empty cgroups. */
void cgroups_close(struct cgroups *all);

/* Returns an empty cgroup, or NULL. */
struct cgroup *cgroups_take(struct cgroups *all);
void cgroups_give(struct cgroups *all, struct cgroup *c);

/* To be called periodically: removes returned cgroups that have become empty. */
void cgroups_sweep(struct cgroups *all);

int cgroup_dir(const struct cgroup *c); /* a descriptor */

/* Calls fn for each process in the cgroup. */
void cgroup_each(const struct cgroup *c, void (*fn)(void *arg, pid_t pid), void *arg);

/* Kills all processes in the cgroup at once, also those that are being forked. */
void cgroup_kill(struct cgroup *c);

#endif
