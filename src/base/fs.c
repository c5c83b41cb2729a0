/* The system calls, and the operations composed of them. */
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Passes its arguments on to a system call. */
#define SYSTEM_CALL(type, function, parameters, call)                                              \
    static type function parameters                                                                \
    {                                                                                              \
        (void)fs;                                                                                  \
        return call;                                                                               \
    }

SYSTEM_CALL(int, sys_open, (const struct fs *fs, const char *path, int flags, int mode),
            open(path, flags | O_CLOEXEC, mode))
SYSTEM_CALL(ssize_t, sys_pwrite,
            (const struct fs *fs, int fd, const void *data, size_t len, off_t at),
            pwrite(fd, data, len, at))
SYSTEM_CALL(int, sys_fdatasync, (const struct fs *fs, int fd), fdatasync(fd))
SYSTEM_CALL(int, sys_fsync, (const struct fs *fs, int fd), fsync(fd))
SYSTEM_CALL(int, sys_ftruncate, (const struct fs *fs, int fd, off_t len), ftruncate(fd, len))
SYSTEM_CALL(int, sys_rename, (const struct fs *fs, const char *from, const char *to),
            rename(from, to))
SYSTEM_CALL(int, sys_unlink, (const struct fs *fs, const char *path), unlink(path))
SYSTEM_CALL(int, sys_close, (const struct fs *fs, int fd), close(fd))

static ssize_t sys_pwrite_sync(const struct fs *fs, int fd, const void *data, size_t len, off_t at)
{
    struct iovec part = {(void *)(uintptr_t)data, len};
    ssize_t n = pwritev2(fd, &part, 1, at, RWF_DSYNC);
    (void)fs;
    if (n >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
        return n;
    n = pwrite(fd, data, len, at); /* an old kernel, or a file system without it */
    return n < 0 || fdatasync(fd) < 0 ? -1 : n;
}

/* Only if the kernel reports the alignment: otherwise the first write might fail. */
static int sys_direct(const struct fs *fs, int fd)
{
    struct statx st = {0};
    int flags = fcntl(fd, F_GETFL);
    (void)fs;
    if (flags < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) < 0)
        return -1;
    if (!(st.stx_mask & STATX_DIOALIGN) || !st.stx_dio_offset_align ||
        FS_BLOCK_LEN % st.stx_dio_offset_align || FS_BLOCK_LEN % st.stx_dio_mem_align)
        return -1;
    return fcntl(fd, F_SETFL, flags | O_DIRECT);
}

const struct fs fs_system = {
    .open = sys_open,
    .pwrite = sys_pwrite,
    .fdatasync = sys_fdatasync,
    .fsync = sys_fsync,
    .ftruncate = sys_ftruncate,
    .rename = sys_rename,
    .unlink = sys_unlink,
    .close = sys_close,
    .direct = sys_direct,
    .pwrite_sync = sys_pwrite_sync,
};

int fs_write_all(const struct fs *fs, int fd, const void *data, size_t len, off_t at, bool sync)
{
    const char *p = data;
    while (len) {
        ssize_t n = (sync ? fs->pwrite_sync : fs->pwrite)(fs, fd, p, len, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO;
        if (n <= 0)
            return -1;
        p += n;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

int fs_sync_dir(const struct fs *fs, const char *dir)
{
    int fd = fs->open(fs, dir, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return -1;
    int err = fs->fsync(fs, fd);
    int saved = errno;
    fs->close(fs, fd);
    errno = saved;
    return err;
}

void fs_make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}
