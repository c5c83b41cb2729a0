/* The directory first: whoever has it may still meet an older version, which has only the file. */
#include "keeper/journal/dirlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/mem.h"
#include "keeper/journal/format.h"

void dirlock_init(struct dirlock *lock)
{
    *lock = (struct dirlock){-1, -1};
}

void dirlock_release(struct dirlock *lock)
{
    if (lock->file_fd >= 0)
        close(lock->file_fd);
    if (lock->dir_fd >= 0)
        close(lock->dir_fd);
    dirlock_init(lock);
}

/* fd: the file with the pid of the owner; -1: there is none. */
static int refused(const char *dir, int fd, struct err_info *ret_error)
{
    char pid[32] = "";
    if (errno != EWOULDBLOCK)
        return err_set_errno(ret_error, errno, "cannot lock the data directory %s", dir);
    if (fd < 0 || pread(fd, pid, sizeof pid - 1, 0) < 0)
        pid[0] = '\0';
    pid[strcspn(pid, "\n")] = '\0';
    return err_set(ret_error, DROVER_IN_USE, "the data directory %s is in use by %s%s", dir,
                   pid[0] ? "process " : "another process", pid);
}

static int lock_dir(struct dirlock *lock, const char *dir, const char *path,
                    struct err_info *ret_error)
{
    lock->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock->dir_fd < 0)
        return err_set_errno(ret_error, errno, "cannot open the data directory %s", dir);
    if (flock(lock->dir_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EBADF || errno == EINVAL || errno == EOPNOTSUPP) /* cannot lock directories */
        return 0;
    int errnum = errno;
    lock->file_fd = open(path, O_RDONLY | O_CLOEXEC);
    errno = errnum;
    return refused(dir, lock->file_fd, ret_error);
}

/*
 * Written over the old one, because a full disk has no block for a new one. If the file is new too,
 * there is no pid for error messages; that must not keep a full server from starting.
 */
static int write_pid(int fd, const char *path, struct err_info *ret_error)
{
    char pid[32];
    int len = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if ((pwrite(fd, pid, (size_t)len, 0) < 0 || ftruncate(fd, len) < 0) && errno != ENOSPC)
        return err_set_errno(ret_error, errno, "cannot write %s", path);
    return 0;
}

static int lock_file(struct dirlock *lock, const char *dir, const char *path, bool create,
                     struct err_info *ret_error)
{
    lock->file_fd = open(path, (create ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC, 0600);
    if (lock->file_fd < 0 && !create && errno == ENOENT)
        return 0;
    if (lock->file_fd < 0)
        return err_set_errno(ret_error, errno, "cannot open %s", path);
    if (flock(lock->file_fd, LOCK_EX | LOCK_NB) < 0)
        return refused(dir, lock->file_fd, ret_error);
    return create ? write_pid(lock->file_fd, path, ret_error) : 0;
}

int dirlock_take(struct dirlock *lock, const char *dir, bool create, struct err_info *ret_error)
{
    CLEANUP(mem_free) char *path = format_path_of(dir, "lock");
    int err = lock_dir(lock, dir, path, ret_error);
    if (!err)
        err = lock_file(lock, dir, path, create, ret_error);
    if (err)
        dirlock_release(lock);
    return err;
}
