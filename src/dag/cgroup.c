/*
 * The line "0::<path>" of /proc/self/cgroup names the process's own cgroup; the cgroup2 line of
 * /proc/self/mountinfo says where the tree is mounted. In a tree without write permission the first
 * mkdir fails, and cgroups are not used.
 *
 * A controller (memory, pids) limits the children of a cgroup if the cgroup passes it on to them,
 * which needs a cgroup without processes: there the server moves into a child of its own, as
 * systemd's documentation of delegation has it. If others are beside it, it stays where it is, and
 * the controller is not used.
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

#include "base/mem.h"

enum { NAME_TRIES = 16, SPARE_MAX = 256 };

/* The controllers that limit runs. */
static const struct {
    const char *name;
    enum limit_kind kind;
} CONTROLLERS[] = {{"memory", LIMIT_MEMORY}, {"pids", LIMIT_PROCESSES}};

enum { CONTROLLER_COUNT = sizeof CONTROLLERS / sizeof *CONTROLLERS };

struct cgroups {
    int parent;
    uint64_t made;
    struct cgroup *spare; /* empty */
    uint32_t spare_count;
    struct cgroup *left; /* their runs are over, but processes are left in them */
    bool asked;          /* for the controllers */
    bool moved;          /* this process into own_name() */
    unsigned enabled;    /* a set of limit_kind */
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

/* Writes a file of a cgroup. */
static bool put(int dir, const char *name, const char *text)
{
    int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) >= 0;
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return done;
}

static bool get(int dir, const char *name, char *ret_text, size_t size)
{
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, ret_text, size - 1) : -1;
    if (fd >= 0)
        close(fd);
    ret_text[n > 0 ? n : 0] = '\0';
    return n >= 0;
}

/* The number after a name, in lines of "NAME NUMBER"; 0: none. */
static int64_t number_of(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, name, len) && line[len] == ' ')
            return strtoll(line + len, NULL, 10);
    }
    return 0;
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

/* Controllers. */

static void own_name(char name[48])
{
    snprintf(name, 48, "drover-%d-0", (int)getpid());
}

static bool enable(struct cgroups *all, const char *controller)
{
    char text[32];
    snprintf(text, sizeof text, "+%s", controller);
    return put(all->parent, "cgroup.subtree_control", text);
}

static bool move_away(struct cgroups *all)
{
    char name[48], procs[64];
    own_name(name);
    snprintf(procs, sizeof procs, "%s/cgroup.procs", name);
    if (mkdirat(all->parent, name, 0755) && errno != EEXIST)
        return false;
    all->moved = put(all->parent, procs, "0");
    if (!all->moved)
        unlinkat(all->parent, name, AT_REMOVEDIR);
    return all->moved;
}

static void move_back(struct cgroups *all)
{
    char name[48];
    own_name(name);
    for (int i = 0; i < CONTROLLER_COUNT; i++)
        if (all->enabled & 1u << CONTROLLERS[i].kind) {
            char text[32];
            snprintf(text, sizeof text, "-%s", CONTROLLERS[i].name);
            put(all->parent, "cgroup.subtree_control", text);
        }
    put(all->parent, "cgroup.procs", "0");
    unlinkat(all->parent, name, AT_REMOVEDIR);
    all->moved = false;
    all->enabled = 0;
}

/* Once, when the first run has a limit: accounting memory is not free. */
static void enable_controllers(struct cgroups *all)
{
    char available[256], padded[264];
    if (all->asked)
        return;
    all->asked = true;
    get(all->parent, "cgroup.controllers", available, sizeof available);
    available[strcspn(available, "\n")] = '\0';
    snprintf(padded, sizeof padded, " %s ", available);
    for (int i = 0; i < CONTROLLER_COUNT; i++) {
        char word[32];
        snprintf(word, sizeof word, " %s ", CONTROLLERS[i].name);
        if (!strstr(padded, word))
            continue;
        bool done = enable(all, CONTROLLERS[i].name);
        if (!done && errno == EBUSY && !all->moved && move_away(all))
            done = enable(all, CONTROLLERS[i].name);
        if (done)
            all->enabled |= 1u << CONTROLLERS[i].kind;
    }
    if (all->moved && !all->enabled)
        move_back(all);
}

/* All of the run's processes end when one of them cannot have more memory. */
static bool limit_memory(struct cgroup *c, const char *bytes)
{
    put(c->dir, "memory.swap.max", "0"); /* absent without swap */
    put(c->dir, "memory.oom.group", "1");
    return put(c->dir, "memory.max", bytes);
}

unsigned cgroup_limit(struct cgroups *all, struct cgroup *c, const struct limits *l)
{
    char text[24];
    unsigned set = 0;
    if (l->of[LIMIT_MEMORY] || l->of[LIMIT_PROCESSES])
        enable_controllers(all);
    if (l->of[LIMIT_CPU] && cgroup_cpu_ms(c) >= 0)
        set |= 1u << LIMIT_CPU;
    snprintf(text, sizeof text, "%" PRId64, l->of[LIMIT_MEMORY]);
    if (l->of[LIMIT_MEMORY] && all->enabled & 1u << LIMIT_MEMORY && limit_memory(c, text))
        set |= 1u << LIMIT_MEMORY;
    snprintf(text, sizeof text, "%" PRId64, l->of[LIMIT_PROCESSES]);
    if (l->of[LIMIT_PROCESSES] && all->enabled & 1u << LIMIT_PROCESSES &&
        put(c->dir, "pids.max", text))
        set |= 1u << LIMIT_PROCESSES;
    c->spent |= set != 0;
    return set;
}

int64_t cgroup_cpu_ms(const struct cgroup *c)
{
    char text[512];
    if (!get(c->dir, "cpu.stat", text, sizeof text) || !strstr(text, "usage_usec"))
        return -1;
    return number_of(text, "usage_usec") / 1000;
}

bool cgroup_ran_out_of_memory(const struct cgroup *c)
{
    char text[512];
    return get(c->dir, "memory.events", text, sizeof text) && number_of(text, "oom_kill") > 0;
}

/* Kills all processes in the cgroup at once, also those that are being forked. */
void cgroup_kill(struct cgroup *c)
{
    c->spent = true;
    put(c->dir, "cgroup.kill", "1"); /* the caller checks again, and also sends signals */
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

struct cgroup *cgroups_take(struct cgroups *all, bool fresh)
{
    struct cgroup *c = all->spare;
    if (!c || fresh)
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
    } else if (c->spent || all->spare_count == SPARE_MAX) {
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
    if (all->moved)
        move_back(all);
    close(all->parent);
    free(all);
}
