#include "held_fs.h"

#include <errno.h>

static int held_fdatasync(const struct fs *fs, int fd)
{
    struct held_fs *h = (struct held_fs *)fs;

    pthread_mutex_lock(&h->lock);
    h->waiting++;
    while (h->held)
        pthread_cond_wait(&h->changed, &h->lock);
    h->waiting--;
    errno = h->fail_errno;
    pthread_mutex_unlock(&h->lock);
    return errno ? -1 : fs_system.fdatasync(&fs_system, fd);
}

static ssize_t held_pwrite_sync(const struct fs *fs, int fd, const void *data, size_t len, off_t at)
{
    ssize_t n = fs_system.pwrite(&fs_system, fd, data, len, at);

    return n < 0 || held_fdatasync(fs, fd) < 0 ? -1 : n;
}

void held_fs_init(struct held_fs *h)
{
    *h = (struct held_fs){
        .fs = fs_system, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    h->fs.fdatasync = held_fdatasync;
    h->fs.pwrite_sync = held_pwrite_sync;
}

void held_fs_hold(struct held_fs *h, bool held)
{
    pthread_mutex_lock(&h->lock);
    h->held = held;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

void held_fs_fail(struct held_fs *h, int errnum)
{
    pthread_mutex_lock(&h->lock);
    h->fail_errno = errnum;
    pthread_mutex_unlock(&h->lock);
    held_fs_hold(h, false);
}

bool held_fs_waits(struct held_fs *h)
{
    bool waits;

    pthread_mutex_lock(&h->lock);
    waits = h->held && h->waiting;
    pthread_mutex_unlock(&h->lock);
    return waits;
}
