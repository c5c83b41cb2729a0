/*
 * The line "0::<path>" of /proc/self/cgroup names the process's own cgroup; the cgroup2 line of
 * /proc/self/mountinfo says where the tree is mounted. In a tree without write permission the first
 * mkdir fails, and cgroups are not used.
 */
#include "dag/cgroup.h"

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

#include "base/buf.h"
#include "base/mem.h"

enum { NAME_LEN = 48, NAME_TRIES = 16, SPARE_MAX = 256 };

struct cgroup {
    struct cgroup *next;
    char name[NAME_LEN];
    int dir, events; /* events: cgroup.events, which says whether the cgroup is empty */
    bool killed;     /* not reusable: some kernels also kill processes created in it later */
};

struct cgroups {
    int parent;
    uint64_t made;
    struct cgroup *spare; /* empty */
    uint32_t spare_count;
    struct cgroup *left; /* their runs are over, but processes are left in them */
};

/* Finding the process's own cgroup. */

static bool read_own_path(char *path, size_t len)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[PATH_MAX + 8];
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f))
        if (!strncmp(line, "0::/", 4)) {
            line[strcspn(line, "\n")] = '\0';
            found = snprintf(path, len, "%s", line + 3) < (int)len;
        }
    if (f)
        fclose(f);
    return found;
}

/* A line is "36 35 98:0 <root> <mount point> <options> <optional fields> - <type> ...". */
static bool read_mount(char *root, char *mount)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char line[3 * PATH_MAX];
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f))
        found = strstr(line, " - cgroup2 ") &&
                sscanf(line, "%*s %*s %*s %4095s %4095s", root, mount) == 2;
    if (f)
        fclose(f);
    return found;
}

/* Opens the directory of the process's own cgroup. -1: not visible. */
static int open_own(void)
{
    char path[PATH_MAX], root[PATH_MAX], mount[PATH_MAX], full[2 * PATH_MAX];

    if (!read_own_path(path, sizeof path) || !read_mount(root, mount))
        return -1;
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
static bool make_dir(struct cgroups *all, char name[NAME_LEN])
{
    int tries = NAME_TRIES, failed;

    do {
        snprintf(name, NAME_LEN, "drover-%d-%" PRIu64, (int)getpid(), ++all->made);
        failed = mkdirat(all->parent, name, 0755);
    } while (failed && errno == EEXIST && --tries);
    return !failed;
}

static struct cgroup *make(struct cgroups *all)
{
    struct cgroup *c = mem_zalloc(sizeof *c);

    c->dir = c->events = -1;
    if (make_dir(all, c->name))
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

int cgroup_dir(const struct cgroup *c)
{
    return c->dir;
}

void cgroup_each(const struct cgroup *c, void (*fn)(void *arg, pid_t pid), void *arg)
{
    int fd = openat(c->dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    CLEANUP(buf_release) struct buf text = {0};
    char piece[4096];
    ssize_t n;

    while (fd >= 0 && (n = read(fd, piece, sizeof piece)) > 0)
        buf_put(&text, piece, (size_t)n);
    if (fd >= 0)
        close(fd);
    for (char *at = text.len ? (char *)buf_text(&text) : NULL, *end; at && *at; at = end) {
        long pid = strtol(at, &end, 10);

        if (end == at)
            break;
        while (*end == '\n')
            end++;
        if (pid > 1)
            fn(arg, (pid_t)pid);
    }
}

void cgroup_kill(struct cgroup *c)
{
    int fd = openat(c->dir, "cgroup.kill", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    c->killed = true;
    if (write(fd, "1", 1) < 0)
        errno = 0; /* the caller checks again, and also sends signals */
    close(fd);
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
    struct cgroups *all;
    int parent = open_own();

    if (parent < 0)
        return NULL;
    all = mem_zalloc(sizeof *all);
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

void cgroups_sweep(struct cgroups *all)
{
    for (struct cgroup **at = &all->left, *c; (c = *at);) {
        if (!is_empty(c)) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        drop(all, c);
    }
}

void cgroups_close(struct cgroups *all)
{
    for (struct cgroup *c = all->spare, *next; c; c = next) {
        next = c->next;
        drop(all, c);
    }
    for (struct cgroup *c = all->left, *next; c; c = next) {
        next = c->next;
        drop(all, c);
    }
    close(all->parent);
    free(all);
}
