/*
 * Without a cgroup, a process that clears its environment and leaves the session is not found. With
 * a cgroup the other criteria still apply: a privileged command may have moved its children to
 * another cgroup, as a service manager does.
 */
#include "dag/orphans.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

enum { ENVIRONMENT_LEN_MAX = 256 * 1024 };

/* Processes. */

static ssize_t read_file(pid_t pid, const char *name, char *to, size_t len)
{
    char path[64];
    ssize_t n, got = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    while ((size_t)got < len && (n = read(fd, to + got, len - (size_t)got)) > 0)
        got += n;
    close(fd);
    return got;
}

/* False for a zombie, and for a process that no longer exists. */
static bool read_stat(pid_t pid, int *ret_group, int *ret_session)
{
    char text[1024], state;
    ssize_t n = read_file(pid, "stat", text, sizeof text - 1);
    if (n <= 0)
        return false;
    text[n] = '\0';
    char *after = strrchr(text, ')'); /* the process name before it may contain anything */
    return after && sscanf(after, ") %c %*d %d %d", &state, ret_group, ret_session) == 3 &&
           state != 'Z' && state != 'X';
}

static bool has_token(pid_t pid, const char *token)
{
    static char text[ENVIRONMENT_LEN_MAX + 1];
    ssize_t n = read_file(pid, "environ", text, ENVIRONMENT_LEN_MAX);
    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(text + at) + 1) {
        text[n] = '\0';
        if (!strcmp(text + at, token))
            return true;
    }
    return false;
}

struct orphan_search {
    struct orphans *once; /* signals only those that were not yet signalled; NULL: all */
    int signal_number;
    bool found;
};

static void signal_one(struct orphan_search *s, pid_t pid)
{
    struct orphans *o = s->once;
    s->found = true;
    for (size_t i = 0; o && i < o->count; i++)
        if (o->signalled[i] == pid)
            return;
    if (o) {
        mem_grow(o->signalled, o->count, o->cap);
        o->signalled[o->count++] = pid;
    }
    if (s->signal_number)
        kill(pid, s->signal_number);
}

static void signal_cgroup(struct orphan_search *s, const struct cgroup *c)
{
    FILE *f = NULL;
    int fd = openat(c->dir, "cgroup.procs", O_RDONLY | O_CLOEXEC), pid;
    if (fd >= 0 && !(f = fdopen(fd, "r")))
        close(fd);
    while (f && fscanf(f, "%d", &pid) == 1)
        if (pid > 1)
            signal_one(s, pid);
    if (f)
        fclose(f);
}

/* Signals each process, some of them twice, and returns whether there are any. */
static bool signal_all(const struct orphans *o, struct orphan_search s)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        int group, session;
        if (pid <= 1 || pid == getpid() || !read_stat(pid, &group, &session))
            continue;
        if ((o->leader && (group == o->leader || session == o->leader)) || has_token(pid, o->token))
            signal_one(&s, pid);
    }
    if (dir)
        closedir(dir);
    if (o->cgroup)
        signal_cgroup(&s, o->cgroup);
    return s.found;
}

bool orphans_signal(const struct orphans *o, int signal_number)
{
    if (o->cgroup && signal_number == SIGKILL)
        cgroup_kill(o->cgroup);
    return signal_all(o, (struct orphan_search){.signal_number = signal_number});
}

bool orphans_terminate(struct orphans *o)
{
    return signal_all(o, (struct orphan_search){.once = o, .signal_number = SIGTERM});
}

void orphans_release(struct orphans *o)
{
    free(o->signalled);
    *o = (struct orphans){0};
}
