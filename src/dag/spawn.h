/*
 * spawn - starts a process with given descriptors, directory and cgroup, in a new session.
 *
 * In order: spawner_open() -> spawner_start() any number of times, by one thread ->
 * spawner_close().
 *
 * Invariants: the process leads its own session and process group, has only the three given
 * descriptors, and neither blocks nor ignores any signal. It is in the given cgroup from its first
 * instruction on, so all its descendants are in it too.
 */
#ifndef DAG_SPAWN_H
#define DAG_SPAWN_H

#include <sys/types.h>

struct spawn {
    const char *path; /* of the executable */
    const char *const *argv, *const *envp;
    const char *cwd;  /* NULL: the parent's */
    int in, out, err; /* descriptors above 2 */
    int cgroup;       /* a descriptor of its directory; -1: the parent's cgroup */
};

struct spawner;

struct spawner *spawner_open(void);
void spawner_close(struct spawner *s);

/*
 * Returns 0 or the errno of clone3, chdir or execve. ENOTSUP: this system cannot start processes in
 * a cgroup; that will not change.
 */
int spawner_start(struct spawner *s, const struct spawn *what, pid_t *ret_pid, int *ret_pidfd);

#endif
