#include "dag/log_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int log_dir_make(const char *dir, struct err_info *ret_error)
{
    struct stat st;

    if (mkdir(dir, 0700) && errno != EEXIST)
        return err_set_errno(ret_error, errno, "cannot create the log directory %s", dir);
    if (stat(dir, &st))
        return err_set_errno(ret_error, errno, "cannot use the log directory %s", dir);
    if (!S_ISDIR(st.st_mode))
        return err_set_errno(ret_error, ENOTDIR, "cannot use the log directory %s", dir);
    if (faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS))
        return err_set_errno(ret_error, errno, "cannot use the log directory %s", dir);
    return 0;
}
