/* flock() with a pid in the file. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "keeper/journal/format.h"

static int refused(const char *dir, int fd, struct err_info *ret_error)
{
    char pid[32] = "";

    if (errno != EWOULDBLOCK)
        return err_set_errno(ret_error, errno, "cannot lock the data directory %s", dir);
    if (pread(fd, pid, sizeof pid - 1, 0) < 0)
        pid[0] = '\0';
    pid[strcspn(pid, "\n")] = '\0';
    return err_set(ret_error, DROVER_IN_USE, "the data directory %s is in use by process %s", dir,
                   pid[0] ? pid : "unknown");
}

static int write_pid(const char *dir, int fd, struct err_info *ret_error)
{
    char pid[32];
    int len = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());

    if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t)len, 0) < 0)
        return err_set_errno(ret_error, errno, "cannot write %s/lock", dir);
    return 0;
}

static int take(const char *dir, int flags, int *ret_fd, struct err_info *ret_error)
{
    char *path = format_path_of(dir, "lock");
    int fd = open(path, flags | O_CLOEXEC, 0600), err = 0;

    if (fd < 0)
        err = err_set_errno(ret_error, errno, "cannot open %s", path);
    else if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        err = refused(dir, fd, ret_error);
    else if (flags & O_CREAT)
        err = write_pid(dir, fd, ret_error);
    free(path);
    if (!err)
        *ret_fd = fd;
    else if (fd >= 0)
        close(fd);
    return err;
}

int dirlock_take(const char *dir, int *ret_fd, struct err_info *ret_error)
{
    return take(dir, O_RDWR | O_CREAT, ret_fd, ret_error);
}

int dirlock_take_existing(const char *dir, int *ret_fd, struct err_info *ret_error)
{
    char *path = format_path_of(dir, "lock");
    int missing = access(path, F_OK) < 0 && errno == ENOENT;

    free(path);
    if (!missing)
        return take(dir, O_RDONLY, ret_fd, ret_error);
    *ret_fd = -1;
    return 0;
}
