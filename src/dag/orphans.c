/*
 * Without a cgroup, a process that clears its environment and leaves the session is not found. With
 * a cgroup the other criteria still apply: a privileged command may have moved its children to
 * another cgroup, as a service manager does.
 *
 * The line "0::<path>" of /proc/self/cgroup names the process's own cgroup; the cgroup2 line of
 * /proc/self/mountinfo says where the tree is mounted. In a tree without write permission the first
 * mkdir fails, and cgroups are not used.
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

enum { NAME_TRIES = 16, SPARE_MAX = 256, ENVIRONMENT_LEN_MAX = 256 * 1024 };

struct cgroups {
    int parent;
    uint64_t made;
    struct cgroup *spare; /* empty */
    uint32_t spare_count;
    struct cgroup *left; /* their runs are over, but processes are left in them */
};

/* Finding the process's own cgroup. */

/* Reads the first line that has this mark: anywhere, or at its start. */
static bool find_line(const char *path, const char *mark, bool at_start, char *line, int len)
{
    FILE *f = fopen(path, "re");
    bool found = false;
    while (f && !found && fgets(line, len, f)) {
        const char *at = strstr(line, mark);
        found = at && (at == line || !at_start);
    }
    if (f)
        fclose(f);
    return found;
}

/* Opens the directory of the process's own cgroup. -1: not visible. */
static int open_own(void)
{
    char own[PATH_MAX + 8], info[3 * PATH_MAX], root[PATH_MAX], mount[PATH_MAX], full[3 * PATH_MAX];
    /* A line of mountinfo is "36 35 98:0 <root> <mount point> <options> ... - <type> ...". */
    if (!find_line("/proc/self/cgroup", "0::/", true, own, sizeof own) ||
        !find_line("/proc/self/mountinfo", " - cgroup2 ", false, info, sizeof info) ||
        sscanf(info, "%*s %*s %*s %4095s %4095s", root, mount) != 2)
        return -1;
    own[strcspn(own, "\n")] = '\0';
    const char *path = own + 3;
    size_t len = strcmp(root, "/") ? strlen(root) : 0; /* the mount may show a part of the tree */
    if (strncmp(path, root, len) != 0)
        return -1;
    snprintf(full, sizeof full, "%s%s", mount, path + len);
    return open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* One. */

static void cgroup_free(struct cgroup *c)
{
    if (c->events >= 0)
        close(c->events);
    if (c->dir >= 0)
        close(c->dir);
    free(c);
}

static bool is_empty(const struct cgroup *c)
{
    char text[128];
    ssize_t n = pread(c->events, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return strstr(text, "populated 0") != NULL;
}

/* The name may exist: left behind by an earlier process with the same pid. */
static bool make_dir(struct cgroups *all, struct cgroup *c)
{
    int tries = NAME_TRIES, failed;
    do {
        snprintf(c->name, sizeof c->name, "drover-%d-%" PRIu64, (int)getpid(), ++all->made);
        failed = mkdirat(all->parent, c->name, 0755);
    } while (failed && errno == EEXIST && --tries);
    return !failed;
}

static struct cgroup *make(struct cgroups *all)
{
    struct cgroup *c = mem_zalloc(sizeof *c);
    c->dir = c->events = -1;
    if (make_dir(all, c))
        c->dir = openat(all->parent, c->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->dir >= 0)
        c->events = openat(c->dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
    if (c->events >= 0 && !faccessat(c->dir, "cgroup.kill", W_OK, 0))
        return c;
    if (c->dir >= 0)
        unlinkat(all->parent, c->name, AT_REMOVEDIR);
    cgroup_free(c);
    return NULL;
}

/* All. */

/* Removes the cgroups that dead processes left behind, if they are empty. */
static void remove_stale(int parent)
{
    int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), pid;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (sscanf(entry->d_name, "drover-%d-%*u", &pid) == 1 && pid > 0 &&
            (pid == getpid() || (kill(pid, 0) && errno == ESRCH)))
            unlinkat(parent, entry->d_name, AT_REMOVEDIR);
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

struct cgroups *cgroups_open(void)
{
    int parent = open_own();
    if (parent < 0)
        return NULL;
    struct cgroups *all = mem_zalloc(sizeof *all);
    all->parent = parent;
    struct cgroup *first = make(all);
    if (!first) {
        cgroups_close(all);
        return NULL;
    }
    remove_stale(parent);
    cgroups_give(all, first);
    return all;
}

struct cgroup *cgroups_take(struct cgroups *all)
{
    struct cgroup *c = all->spare;
    if (!c)
        return make(all);
    all->spare = c->next;
    all->spare_count--;
    c->next = NULL;
    return c;
}

static void drop(struct cgroups *all, struct cgroup *c)
{
    unlinkat(all->parent, c->name, AT_REMOVEDIR);
    cgroup_free(c);
}

void cgroups_give(struct cgroups *all, struct cgroup *c)
{
    if (!is_empty(c)) {
        c->next = all->left;
        all->left = c;
    } else if (c->killed || all->spare_count == SPARE_MAX) {
        drop(all, c);
    } else {
        c->next = all->spare;
        all->spare = c;
        all->spare_count++;
    }
}

/* Removes the empty cgroups of a list, or all. */
static void drop_list(struct cgroups *all, struct cgroup **at, bool only_empty)
{
    for (struct cgroup *c; (c = *at);) {
        if (only_empty && !is_empty(c)) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        drop(all, c);
    }
}

void cgroups_sweep(struct cgroups *all)
{
    drop_list(all, &all->left, true);
}

void cgroups_close(struct cgroups *all)
{
    drop_list(all, &all->spare, false);
    drop_list(all, &all->left, false);
    close(all->parent);
    free(all);
}

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

/* Kills all processes in the cgroup at once, also those that are being forked. */
static void cgroup_kill(struct cgroup *c)
{
    int fd = openat(c->dir, "cgroup.kill", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    c->killed = true;
    if (write(fd, "1", 1) < 0)
        errno = 0; /* the caller checks again, and also sends signals */
    close(fd);
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
