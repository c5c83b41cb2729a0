/*
 * Each operation has the same steps: the hook, the lock, the check whether the fault hits, the
 * system's operation, the event. The name of an open file is updated when it is renamed.
 */
#include "fs_faulty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

static const char *const OP_NAMES[FS_OPS] = {"open",   "pwrite", "fdatasync", "fsync", "ftruncate",
                                             "rename", "unlink", "close",     "note"};

const char *fs_op_name(enum fs_op op)
{
    return OP_NAMES[op];
}

static struct fs_faulty *faulty_of(const struct fs *fs)
{
    return (struct fs_faulty *)fs;
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static char *name_dup(const char *name)
{
    return name ? mem_dup(name, strlen(name)) : NULL;
}

/* A copy of the name of an open file: another thread may rename it. */
static void handle_name(struct fs_faulty *f, int fd, char *ret_name, size_t len)
{
    pthread_mutex_lock(&f->lock);
    snprintf(ret_name, len, "%s", f->handles[fd].name);
    pthread_mutex_unlock(&f->lock);
}

/* Returns with the lock held. True: the fault hits. */
static bool begin(struct fs_faulty *f, enum fs_op op, const char *name)
{
    const struct fs_fault *fault = &f->fault;

    if (f->before)
        f->before(f->before_arg, op, name);
    pthread_mutex_lock(&f->lock);
    f->calls[op]++;
    if (!fault->nth || fault->op != op ||
        (fault->name && strncmp(name, fault->name, strlen(fault->name)) != 0))
        return false;
    f->seen++;
    if (f->seen < fault->nth || (f->seen > fault->nth && !fault->stays))
        return false;
    if (!f->hit.count++) {
        f->hit.op = op;
        f->hit.event = f->event_count;
        snprintf(f->hit.name, sizeof f->hit.name, "%s", name);
    }
    return true;
}

static struct fs_event *record(struct fs_faulty *f, enum fs_op op, int fd, const char *name)
{
    static struct fs_event nowhere;
    struct fs_event *e;

    if (!f->recording)
        return &nowhere;
    if (f->event_count == f->event_cap) {
        f->event_cap = f->event_cap ? f->event_cap * 2 : 256;
        f->events = mem_realloc(f->events, f->event_cap * sizeof *f->events);
    }
    e = &f->events[f->event_count++];
    *e = (struct fs_event){
        .op = op, .handle = fd >= 0 ? f->handles[fd].handle : 0, .name = name_dup(name)};
    return e;
}

/* Unlocks and returns the result, with errno unchanged. */
static int64_t end(struct fs_faulty *f, int64_t result, int errnum)
{
    pthread_mutex_unlock(&f->lock);
    errno = errnum;
    return result;
}

static int faulty_open(const struct fs *fs, const char *path, int flags, int mode)
{
    struct fs_faulty *f = faulty_of(fs);
    const char *name = flags & O_DIRECTORY ? "." : last_name(path);
    int fd;

    if (begin(f, FS_OPEN, name))
        return (int)end(f, -1, f->fault.errnum);
    fd = fs_system.open(&fs_system, path, flags, mode);
    if (fd < 0 || fd >= FS_HANDLES_MAX)
        return (int)end(f, -1, fd < 0 ? errno : EMFILE);
    f->handles[fd] = (struct fs_handle){++f->last_handle, name_dup(name)};
    f->open_count++;
    record(f, FS_OPEN, fd, name)->flags = flags;
    return (int)end(f, fd, errno);
}

static ssize_t faulty_pwrite(const struct fs *fs, int fd, const void *data, size_t len, off_t at)
{
    struct fs_faulty *f = faulty_of(fs);
    struct fs_event *e;
    char name[64];
    ssize_t n;
    bool struck;

    handle_name(f, fd, name, sizeof name);
    struck = begin(f, FS_PWRITE, name);
    if (struck && f->fault.kind == FAULT_FAIL)
        return end(f, -1, f->fault.errnum);
    if (struck)
        len -= len / 2;
    n = fs_system.pwrite(&fs_system, fd, data, len, at);
    if (n > 0 && f->recording) {
        e = record(f, FS_PWRITE, fd, name);
        e->at = at;
        buf_put(&e->data, data, (size_t)n);
    }
    if (struck && f->fault.kind == FAULT_TORN)
        return end(f, -1, f->fault.errnum);
    return end(f, n, errno);
}

/* Of len bytes, 0: of all. */
static int sync_with(const struct fs *fs, int fd, enum fs_op op,
                     int (*carry_out)(const struct fs *, int), off_t at, size_t len)
{
    struct fs_faulty *f = faulty_of(fs);
    struct fs_event *e;
    bool struck;
    char name[64];
    int result;

    handle_name(f, fd, name, sizeof name);
    struck = begin(f, op, name);
    result = struck ? -1 : f->syncs ? carry_out(&fs_system, fd) : 0;
    e = record(f, op, fd, name);
    e->failed = result < 0;
    e->at = at;
    e->len = len;
    return (int)end(f, result, struck ? f->fault.errnum : errno);
}

static int faulty_fdatasync(const struct fs *fs, int fd)
{
    return sync_with(fs, fd, FS_FDATASYNC, fs_system.fdatasync, 0, 0);
}

/*
 * Each of the two can fail, and the power between them. It makes nothing else in the file durable.
 */
static ssize_t faulty_pwrite_sync(const struct fs *fs, int fd, const void *data, size_t len,
                                  off_t at)
{
    ssize_t n = faulty_pwrite(fs, fd, data, len, at);

    if (n > 0 && sync_with(fs, fd, FS_FDATASYNC, fs_system.fdatasync, at, (size_t)n) < 0)
        return -1;
    return n;
}

static int faulty_fsync(const struct fs *fs, int fd)
{
    return sync_with(fs, fd, FS_FSYNC, fs_system.fsync, 0, 0);
}

static int faulty_ftruncate(const struct fs *fs, int fd, off_t len)
{
    struct fs_faulty *f = faulty_of(fs);
    char name[64];
    int result;

    handle_name(f, fd, name, sizeof name);
    if (begin(f, FS_FTRUNCATE, name))
        return (int)end(f, -1, f->fault.errnum);
    result = fs_system.ftruncate(&fs_system, fd, len);
    if (result == 0)
        record(f, FS_FTRUNCATE, fd, name)->at = len;
    return (int)end(f, result, errno);
}

static int faulty_rename(const struct fs *fs, const char *from, const char *to)
{
    struct fs_faulty *f = faulty_of(fs);
    int result;

    if (begin(f, FS_RENAME, last_name(from)))
        return (int)end(f, -1, f->fault.errnum);
    result = fs_system.rename(&fs_system, from, to);
    if (result < 0)
        return (int)end(f, result, errno);
    for (int fd = 0; fd < FS_HANDLES_MAX; fd++) {
        struct fs_handle *h = &f->handles[fd];

        if (!h->handle || strcmp(h->name, last_name(from)) != 0)
            continue;
        free(h->name);
        h->name = name_dup(last_name(to));
    }
    if (f->recording)
        record(f, FS_RENAME, -1, last_name(from))->to = name_dup(last_name(to));
    return (int)end(f, result, errno);
}

static int faulty_unlink(const struct fs *fs, const char *path)
{
    struct fs_faulty *f = faulty_of(fs);
    int result;

    if (begin(f, FS_UNLINK, last_name(path)))
        return (int)end(f, -1, f->fault.errnum);
    result = fs_system.unlink(&fs_system, path);
    if (result == 0)
        record(f, FS_UNLINK, -1, last_name(path));
    return (int)end(f, result, errno);
}

static int faulty_close(const struct fs *fs, int fd)
{
    struct fs_faulty *f = faulty_of(fs);
    char name[64];

    handle_name(f, fd, name, sizeof name);
    begin(f, FS_CLOSE, name);
    record(f, FS_CLOSE, fd, name);
    free(f->handles[fd].name);
    f->handles[fd] = (struct fs_handle){0};
    f->open_count--;
    return (int)end(f, fs_system.close(&fs_system, fd), errno);
}

/* The writes become whole blocks; the file stays as it is, so that half a write can happen. */
static int faulty_direct(const struct fs *fs, int fd)
{
    (void)fs, (void)fd;
    return 0;
}

struct fs_faulty *fs_faulty_new(void)
{
    struct fs_faulty *f = mem_zalloc(sizeof *f);

    f->fs = (struct fs){
        .open = faulty_open,
        .pwrite = faulty_pwrite,
        .fdatasync = faulty_fdatasync,
        .fsync = faulty_fsync,
        .ftruncate = faulty_ftruncate,
        .rename = faulty_rename,
        .unlink = faulty_unlink,
        .close = faulty_close,
        .direct = faulty_direct,
        .pwrite_sync = faulty_pwrite_sync,
    };
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

void fs_faulty_free(struct fs_faulty *f)
{
    for (int fd = 0; fd < FS_HANDLES_MAX; fd++)
        free(f->handles[fd].name);
    for (size_t i = 0; i < f->event_count; i++) {
        free(f->events[i].name);
        free(f->events[i].to);
        buf_release(&f->events[i].data);
    }
    free(f->events);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

void fs_faulty_arm(struct fs_faulty *f, const struct fs_fault *fault)
{
    pthread_mutex_lock(&f->lock);
    f->fault = fault ? *fault : (struct fs_fault){0};
    f->seen = 0;
    f->hit = (struct fs_hit){0};
    pthread_mutex_unlock(&f->lock);
}

struct fs_hit fs_faulty_hit(struct fs_faulty *f)
{
    struct fs_hit hit;

    pthread_mutex_lock(&f->lock);
    hit = f->hit;
    pthread_mutex_unlock(&f->lock);
    return hit;
}

int fs_faulty_open_count(struct fs_faulty *f)
{
    int count;

    pthread_mutex_lock(&f->lock);
    count = f->open_count;
    pthread_mutex_unlock(&f->lock);
    return count;
}

size_t fs_faulty_note(struct fs_faulty *f, int64_t number)
{
    size_t count;

    pthread_mutex_lock(&f->lock);
    record(f, FS_NOTE, -1, "")->at = number;
    count = f->event_count;
    pthread_mutex_unlock(&f->lock);
    return count;
}

void fs_event_text(const struct fs_event *e, struct buf *ret_text)
{
    buf_printf(ret_text, "%s %s", fs_op_name(e->op), e->name);
    if (e->op == FS_PWRITE)
        buf_printf(ret_text, " at %lld, %zu bytes", (long long)e->at, e->data.len);
    if (e->op == FS_FTRUNCATE || e->op == FS_NOTE)
        buf_printf(ret_text, " %lld", (long long)e->at);
    if (e->op == FS_RENAME)
        buf_printf(ret_text, " to %s", e->to);
    if (e->failed)
        buf_printf(ret_text, ", which failed");
}
