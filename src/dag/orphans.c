/*
 * Without a cgroup, a process that clears its environment and leaves the session is not found. With
 * a cgroup the other criteria still apply: a privileged command may have moved its children to
 * another cgroup, as a service manager does.
 */
#include "dag/orphans.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

enum { ENVIRONMENT_LEN_MAX = 256 * 1024 };

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
    void (*fn)(void *arg, pid_t pid);
    void *arg;
    bool found;
};

static void find(void *arg, pid_t pid)
{
    struct orphan_search *s = arg;

    s->found = true;
    s->fn(s->arg, pid);
}

/* Calls fn for each process, for some of them twice, and returns whether there are any. */
static bool each_orphan(const struct orphan_key *key, void (*fn)(void *arg, pid_t pid), void *arg)
{
    struct orphan_search s = {fn, arg, false};
    DIR *dir = opendir("/proc");
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        int group, session;

        if (pid <= 1 || pid == getpid() || !read_stat(pid, &group, &session))
            continue;
        if ((key->leader && (group == key->leader || session == key->leader)) ||
            has_token(pid, key->token))
            find(&s, pid);
    }
    if (dir)
        closedir(dir);
    if (key->cgroup)
        cgroup_each(key->cgroup, find, &s);
    return s.found;
}

static void send(void *arg, pid_t pid)
{
    const int *signal_number = arg;

    if (*signal_number)
        kill(pid, *signal_number);
}

bool orphans_signal(const struct orphan_key *key, int signal_number)
{
    if (key->cgroup && signal_number == SIGKILL)
        cgroup_kill(key->cgroup);
    return each_orphan(key, send, &signal_number);
}

static void terminate(void *arg, pid_t pid)
{
    struct orphans *s = arg;

    for (size_t i = 0; i < s->count; i++)
        if (s->signalled[i] == pid)
            return;
    mem_grow(s->signalled, s->count, s->cap);
    s->signalled[s->count++] = pid;
    kill(pid, SIGTERM);
}

bool orphans_terminate(struct orphans *s, const struct orphan_key *key)
{
    return each_orphan(key, terminate, s);
}

void orphans_release(struct orphans *s)
{
    free(s->signalled);
    *s = (struct orphans){0};
}
