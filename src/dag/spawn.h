/*
 * spawn - starts a process: its descriptors, its directory, its session, its cgroup.
 *
 * In order: spawner_open() -> spawner_start() any number of times, by one thread -> spawner_close().
 *
 * What always holds: the process is the leader of a session and a group of its own, has the three
 * descriptors that it was given and no other, blocks no signal and ignores none. It is in the cgroup
 * that it was given before its first instruction, so nothing that it starts can be outside of it.
 */
#ifndef DAG_SPAWN_H
#define DAG_SPAWN_H

#include <sys/types.h>

struct spawn {
    const char *path; /* of the file */
    const char *const *argv, *const *envp;
    const char *cwd;  /* NULL: ours */
    int in, out, err; /* descriptors above 2 */
    int cgroup;       /* its directory; -1: ours */
};

struct spawner;

struct spawner *spawner_open(void);
void spawner_close(struct spawner *s);

/*
 * 0, or errno: of execve, chdir, or of the system that has no room for another process. With a cgroup
 * it may also be that this system cannot start processes in one: ENOTSUP, and it never will.
 */
int spawner_start(struct spawner *s, const struct spawn *what, pid_t *ret_pid, int *ret_pidfd);

#endif
