/*
 * process - starts a process: which file, as which user, with which limits and descriptors.
 *
 * The process has only the three given descriptors, blocks no signal, and leads its own session or
 * its own process group. If it is to be in a cgroup, it is from its first instruction on, and so
 * are all its descendants. If it leads a session, it is killed when the thread that started it
 * ends.
 *
 * As another user it has this user's ids, all its groups and no capability, and no_new_privs unless
 * new_privileges is set: then no setuid program and no file capability gives it more than it has.
 *
 * Safe from many threads at once.
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/account.h"

enum { PROCESS_RLIMITS_MAX = 5 };

struct process_rlimit {
    int resource; /* RLIMIT_... */
    struct rlimit limit;
};

struct process_options {
    const char *const *paths; /* of the executable: the first that its user can execute */
    const char *const *argv, *const *envp;
    const char *cwd; /* NULL: the home of the account, or / if that cannot be entered; else ours */
    int fds[3];      /* its standard input, output and error: ours, or descriptors above 2 */
    int cgroup;      /* a descriptor of its directory; -1: ours */
    bool leads_session;
    bool new_privileges;
    const struct account *account; /* NULL: our user */
    const unsigned char *signals;  /* that we ignore or handle, and that have their default in it */
    int signal_count;
    struct process_rlimit rlimits[PROCESS_RLIMITS_MAX];
    int rlimit_count;
};

/* What failed. */
enum process_step { PROCESS_SETUP, PROCESS_LIMITS, PROCESS_USER, PROCESS_CWD, PROCESS_EXEC };

/* It cannot be started in this cgroup; perhaps without. */
enum { PROCESS_NO_CGROUP = -1 };

/*
 * Returns 0, errno, or PROCESS_NO_CGROUP. The caller closes the pidfd and waits for the process.
 * ETIME: something held it up before it could start (process_guard_start()).
 */
int process_start(const struct process_options *o, pid_t *ret_pid, int *ret_pidfd,
                  enum process_step *ret_step);

/*
 * The files that a command can be, in the order of its PATH, up to NULL, in the arena; none: there
 * is no such command. Another user may not be able to execute the first one: then all are needed.
 * A name with a slash is its own file.
 */
const char **process_find(struct arena *a, const char *name, const char *dirs, bool all);

/* The PATH of this process, or a usual one. */
const char *process_path(void);

/*
 * While a process is being started, the thread that starts it waits. From the moment at which it
 * has the ids of another user until it executes its file, processes of that user can stop it
 * (SIGSTOP), or the file can be on a slow file system. The guard, one thread for this process,
 * kills it after PROCESS_HELD_MS. Needed if accounts are used; start and stop are counted.
 */
enum { PROCESS_HELD_MS = 2000 };

void process_guard_start(void);
void process_guard_stop(void);

#endif
