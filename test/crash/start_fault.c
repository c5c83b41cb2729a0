/*
 * One row per call: its kind, its type, what a failed one returns, its name, parameters and
 * arguments. The names are those that the compiler uses with 64 bit offsets of files.
 *
 * Calls of keepers that have no symbol are reached through the table of operations, which is
 * replaced when a session is opened.
 */
#include "start_fault.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <uv.h>

#include "keeper/local/local.h"

static struct fault *_Atomic armed;

void fault_arm(struct fault *shared)
{
    armed = shared;
}

void fault_disarm(void)
{
    armed = NULL;
}

static bool is_due(enum fault_kind kind, const char *name)
{
    struct fault *f = armed;

    if (!f || f->kind != kind || ++f->calls != f->nth)
        return false;
    snprintf(f->name, sizeof f->name, "%s", name);
    f->hit = true;
    return true;
}

#define FAILS(errnum, result) (errno = (errnum), result)

#define FAULTY(kind, type, failure, name, parameters, arguments)                                   \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return is_due(kind, #name) ? failure : __real_##name arguments;                            \
    }

#define MEMORY(name, parameters, arguments)                                                        \
    FAULTY(FAULT_MEMORY, void *, FAILS(ENOMEM, NULL), name, parameters, arguments)
#define HANDLE(name, parameters, arguments)                                                        \
    FAULTY(FAULT_HANDLE, int, UV_EMFILE, name, parameters, arguments)
#define DESCRIPTOR(name, parameters, arguments)                                                    \
    FAULTY(FAULT_FILE, int, FAILS(EMFILE, -1), name, parameters, arguments)
#define ON_DISK(name, parameters, arguments)                                                       \
    FAULTY(FAULT_FILE, int, FAILS(EIO, -1), name, parameters, arguments)
#define KEEPER(name, parameters, arguments)                                                        \
    FAULTY(FAULT_KEEPER, int, DROVER_IO, name, parameters, arguments)

/* clang-format off */
MEMORY(malloc, (size_t size), (size))
MEMORY(calloc, (size_t count, size_t size), (count, size))
MEMORY(realloc, (void *p, size_t size), (p, size))
MEMORY(aligned_alloc, (size_t alignment, size_t size), (alignment, size))

FAULTY(FAULT_THREAD, int, EAGAIN, pthread_create,
       (pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg), (t, a, fn, arg))

HANDLE(uv_loop_init, (uv_loop_t *l), (l))
HANDLE(uv_async_init, (uv_loop_t *l, uv_async_t *h, uv_async_cb fn), (l, h, fn))
HANDLE(uv_check_init, (uv_loop_t *l, uv_check_t *h), (l, h))
HANDLE(uv_check_start, (uv_check_t *h, uv_check_cb fn), (h, fn))
HANDLE(uv_idle_init, (uv_loop_t *l, uv_idle_t *h), (l, h))
HANDLE(uv_pipe_init, (uv_loop_t *l, uv_pipe_t *h, int ipc), (l, h, ipc))
HANDLE(uv_pipe_open, (uv_pipe_t *h, uv_file fd), (h, fd))
HANDLE(uv_poll_init, (uv_loop_t *l, uv_poll_t *h, int fd), (l, h, fd))
HANDLE(uv_poll_start, (uv_poll_t *h, int events, uv_poll_cb fn), (h, events, fn))
HANDLE(uv_prepare_init, (uv_loop_t *l, uv_prepare_t *h), (l, h))
HANDLE(uv_prepare_start, (uv_prepare_t *h, uv_prepare_cb fn), (h, fn))
HANDLE(uv_signal_init, (uv_loop_t *l, uv_signal_t *h), (l, h))
HANDLE(uv_signal_start, (uv_signal_t *h, uv_signal_cb fn, int number), (h, fn, number))
HANDLE(uv_tcp_init, (uv_loop_t *l, uv_tcp_t *h), (l, h))
HANDLE(uv_tcp_bind, (uv_tcp_t *h, const struct sockaddr *a, unsigned flags), (h, a, flags))
HANDLE(uv_tcp_getsockname, (const uv_tcp_t *h, struct sockaddr *a, int *len), (h, a, len))
HANDLE(uv_listen, (uv_stream_t *h, int backlog, uv_connection_cb fn), (h, backlog, fn))
HANDLE(uv_timer_init, (uv_loop_t *l, uv_timer_t *h), (l, h))
HANDLE(uv_timer_start, (uv_timer_t *h, uv_timer_cb fn, uint64_t in, uint64_t every),
       (h, fn, in, every))

DESCRIPTOR(open64, (const char *path, int flags, mode_t mode), (path, flags, mode))
DESCRIPTOR(openat64, (int at, const char *path, int flags, mode_t mode), (at, path, flags, mode))
DESCRIPTOR(epoll_create1, (int flags), (flags))
DESCRIPTOR(eventfd, (unsigned value, int flags), (value, flags))
DESCRIPTOR(pipe2, (int *fds, int flags), (fds, flags))
DESCRIPTOR(memfd_create, (const char *name, unsigned flags), (name, flags))
DESCRIPTOR(socket, (int domain, int type, int protocol), (domain, type, protocol))
FAULTY(FAULT_FILE, FILE *, FAILS(EMFILE, NULL), fopen64, (const char *path, const char *mode),
       (path, mode))
FAULTY(FAULT_FILE, DIR *, FAILS(EMFILE, NULL), opendir, (const char *path), (path))
FAULTY(FAULT_FILE, DIR *, FAILS(ENOMEM, NULL), fdopendir, (int fd), (fd))

ON_DISK(bind, (int fd, const struct sockaddr *a, socklen_t len), (fd, a, len))
ON_DISK(getsockname, (int fd, struct sockaddr *a, socklen_t *len), (fd, a, len))
ON_DISK(epoll_ctl, (int epoll, int op, int fd, struct epoll_event *e), (epoll, op, fd, e))
ON_DISK(chmod, (const char *path, mode_t mode), (path, mode))
ON_DISK(flock, (int fd, int operation), (fd, operation))
ON_DISK(mkdir, (const char *path, mode_t mode), (path, mode))
ON_DISK(stat64, (const char *path, struct stat *st), (path, st))
ON_DISK(lstat64, (const char *path, struct stat *st), (path, st))
ON_DISK(fstat64, (int fd, struct stat *st), (fd, st))
ON_DISK(fsync, (int fd), (fd))
ON_DISK(fdatasync, (int fd), (fd))
ON_DISK(ftruncate64, (int fd, off_t len), (fd, len))
ON_DISK(rename, (const char *from, const char *to), (from, to))
ON_DISK(unlink, (const char *path), (path))
FAULTY(FAULT_FILE, int, EIO, posix_fallocate64, (int fd, off_t at, off_t len), (fd, at, len))
FAULTY(FAULT_FILE, ssize_t, FAILS(EIO, -1), pread64,
       (int fd, void *p, size_t len, off_t at), (fd, p, len, at))
FAULTY(FAULT_FILE, ssize_t, FAILS(EIO, -1), pwrite64,
       (int fd, const void *p, size_t len, off_t at), (fd, p, len, at))
FAULTY(FAULT_FILE, void *, FAILS(ENOMEM, MAP_FAILED), mmap64,
       (void *p, size_t len, int protection, int flags, int fd, off_t at),
       (p, len, protection, flags, fd, at))

KEEPER(keeper_apply,
       (struct keeper *k, const struct keeper_op *ops, size_t count, int64_t *ret_zxid),
       (k, ops, count, ret_zxid))
KEEPER(keeper_peek, (struct keeper *k, struct str path, struct buf *ret_data), (k, path, ret_data))
KEEPER(keeper_flush, (struct keeper *k), (k))
/* clang-format on */

/* The operations of a session. */

static const struct keeper_ops *real_ops;

static int get(struct keeper *k, struct str path, struct buf *ret_data,
               struct keeper_stat *ret_stat)
{
    return is_due(FAULT_KEEPER, "get") ? DROVER_IO : real_ops->get(k, path, ret_data, ret_stat);
}

static int children(struct keeper *k, struct str path, struct buf *ret_text, size_t *ret_count,
                    struct keeper_stat *ret_stat)
{
    return is_due(FAULT_KEEPER, "children")
               ? DROVER_IO
               : real_ops->children(k, path, ret_text, ret_count, ret_stat);
}

static int multi(struct keeper *k, const struct keeper_op *ops, size_t count,
                 struct keeper_result *results)
{
    if (!is_due(FAULT_KEEPER, "multi"))
        return real_ops->multi(k, ops, count, results);
    for (size_t i = 0; i < count; i++)
        results[i] = (struct keeper_result){.err = DROVER_IO};
    return DROVER_IO;
}

static int watch(struct keeper *k, struct str path, enum keeper_watch_kind kind,
                 keeper_watch_fn *fn, void *arg, struct keeper_watch **ret_watch)
{
    return is_due(FAULT_KEEPER, "watch") ? DROVER_IO
                                         : real_ops->watch(k, path, kind, fn, arg, ret_watch);
}

int __real_local_connect(struct local *l, const struct keeper_options *o,
                         struct keeper **ret_keeper);
int __wrap_local_connect(struct local *l, const struct keeper_options *o,
                         struct keeper **ret_keeper);

int __wrap_local_connect(struct local *l, const struct keeper_options *o,
                         struct keeper **ret_keeper)
{
    static struct keeper_ops faulty;

    if (is_due(FAULT_KEEPER, "local_connect"))
        return DROVER_IO;
    int err = __real_local_connect(l, o, ret_keeper);
    if (err)
        return err;
    if (!real_ops) {
        real_ops = (*ret_keeper)->ops;
        faulty = *real_ops;
        faulty.get = get;
        faulty.children = children;
        faulty.multi = multi;
        faulty.watch = watch;
    }
    (*ret_keeper)->ops = &faulty;
    return 0;
}
