#include "dag/run_log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

/* NULL: nobody else can remove or replace what is in it. */
static const char *why_not_dir(const struct stat *st)
{
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return "it belongs to another user";
    if (st->st_mode & S_IWOTH && !(st->st_mode & S_ISVTX))
        return "every user can write to it and it has no sticky bit";
    return NULL;
}

int run_log_make_dir(const char *dir, struct err_info *ret_error)
{
    struct stat st;
    if (mkdir(dir, 0700) && errno != EEXIST)
        return err_set_errno(ret_error, errno, "cannot create the log directory %s", dir);
    int error = stat(dir, &st) ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    if (!error && faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS))
        error = errno;
    if (error)
        return err_set_errno(ret_error, error, "cannot use the log directory %s", dir);
    const char *why = why_not_dir(&st);
    return why ? err_set(ret_error, DROVER_NO_AUTH, "refused the log directory %s: %s", dir, why)
               : 0;
}

/* NULL: it is ours alone. */
static const char *why_not_file(const struct stat *st)
{
    if (!S_ISREG(st->st_mode))
        return "it is not a regular file";
    if (st->st_uid != geteuid())
        return "it belongs to another user";
    return st->st_nlink != 1 ? "it has another name, too" : NULL;
}

/* A FIFO would block without O_NONBLOCK, which makes no difference to a file. */
int run_log_open(const char *path)
{
    int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int fd = open(path, flags, 0600);
    const char *why = NULL;
    struct stat st;
    if (fd < 0)
        why = errno == ELOOP ? "it is a symbolic link" : strerror(errno);
    else if (fstat(fd, &st))
        why = strerror(errno);
    else
        why = why_not_file(&st);
    if (!why && ftruncate(fd, 0))
        why = strerror(errno);
    if (!why)
        return fd;
    if (fd >= 0)
        close(fd);
    log_warning("refused the log file %s: %s; its run has no log", path, why);
    return -1;
}

void run_log_put(int *fd, const char *p, size_t len)
{
    while (*fd >= 0 && len) {
        ssize_t n = write(*fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            log_warning("the log of a run ends early: %s", strerror(errno));
            close(*fd);
            *fd = -1;
            return;
        }
        p += n;
        len -= (size_t)n;
    }
}
