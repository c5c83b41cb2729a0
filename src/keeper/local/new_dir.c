#include "keeper/local/new_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "keeper/journal/format.h"

/* Removes what one that died has left: files of drover only. */
static int empty_tmp(const struct new_dir *n, struct err_info *ret_error)
{
    struct dirent *entry;
    DIR *stream = opendir(n->tmp);
    int err = stream ? format_remove_tmp(n->fs, n->tmp, ret_error) : 0;
    while (stream && !err && (entry = readdir(stream))) {
        enum format_kind kind;
        uint64_t number;
        if (format_parse_name(entry->d_name, &kind, &number)) {
            CLEANUP(mem_free) char *path = format_path_of(n->tmp, entry->d_name);
            err = n->fs->unlink(n->fs, path);
        }
    }
    if (!stream || err)
        err = err_set_errno(ret_error, errno, "cannot empty %s", n->tmp);
    if (stream)
        closedir(stream);
    return err;
}

static int lock_tmp(struct new_dir *n, struct err_info *ret_error)
{
    struct stat st;
    int err = 0;
    if (mkdir(n->tmp, 0700) < 0 && errno != EEXIST)
        return err_set_errno(ret_error, errno, "cannot make %s", n->tmp);
    n->tmp_fd = open(n->tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (n->tmp_fd < 0)
        return err_set_errno(ret_error, errno, "cannot open %s", n->tmp);
    if (fstat(n->tmp_fd, &st) < 0 || st.st_uid != geteuid())
        err = err_set(ret_error, DROVER_BAD_ARGUMENT, "%s belongs to another user", n->tmp);
    else if (flock(n->tmp_fd, LOCK_EX | LOCK_NB) < 0)
        err = err_set(ret_error, DROVER_IN_USE, "another process is making %s", n->dir);
    if (err) { /* and leave it alone */
        close(n->tmp_fd);
        n->tmp_fd = -1;
    }
    return err;
}

static bool is_empty(const char *dir)
{
    struct dirent *entry;
    DIR *stream = opendir(dir);
    bool found = false;
    while (stream && !found && (entry = readdir(stream)))
        found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (stream)
        closedir(stream);
    return stream && !found;
}

/* The target is missing, or an empty directory, whose owner and mode are kept. */
static int check_target(struct new_dir *n, mode_t *ret_mode, struct err_info *ret_error)
{
    struct stat st, above;
    CLEANUP(mem_free) char *parent = format_path_of(n->dir, "..");
    if (lstat(n->dir, &st) < 0 && errno == ENOENT)
        return 0;
    if (lstat(n->dir, &st) < 0 || !S_ISDIR(st.st_mode))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s is not a directory", n->dir);
    if (!is_empty(n->dir))
        return err_set(ret_error, DROVER_EXISTS, "%s is not empty: name a new directory", n->dir);
    if (stat(parent, &above) == 0 && above.st_dev != st.st_dev)
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "%s is a mount point: name a new directory below it", n->dir);
    n->has_owner = st.st_uid != geteuid() || st.st_gid != getegid();
    n->uid = st.st_uid;
    n->gid = st.st_gid;
    *ret_mode = st.st_mode & 07777;
    return 0;
}

/* The path without slashes at its end. */
static char *trimmed(const char *dir)
{
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    return mem_dup(dir, len);
}

int new_dir_begin(struct new_dir *n, const char *dir, const struct fs *fs,
                  struct err_info *ret_error)
{
    CLEANUP(buf_release) struct buf tmp = {0};
    mode_t mode = 0700;
    *n = (struct new_dir){.fs = fs ? fs : &fs_system, .dir = trimmed(dir), .tmp_fd = -1};
    buf_printf(&tmp, "%s.restoring", n->dir);
    n->tmp = mem_dup(tmp.p, tmp.len);
    TRY(check_target(n, &mode, ret_error));
    TRY(lock_tmp(n, ret_error));
    TRY(empty_tmp(n, ret_error));
    if (fchmod(n->tmp_fd, mode) < 0 || new_dir_own(n, n->tmp_fd) < 0)
        return err_set_errno(ret_error, errno, "cannot give %s the owner of %s", n->tmp, n->dir);
    return 0;
}

int new_dir_own(const struct new_dir *n, int fd)
{
    return n->has_owner ? fchown(fd, n->uid, n->gid) : 0;
}

/* An empty directory of that name is replaced at once. */
int new_dir_finish(struct new_dir *n, struct err_info *ret_error)
{
    CLEANUP(mem_free) char *above = format_path_of(n->dir, "..");
    if (n->fs->fsync(n->fs, n->tmp_fd) < 0)
        return err_set_errno(ret_error, errno, "cannot sync %s", n->tmp);
    if (n->fs->rename(n->fs, n->tmp, n->dir) < 0)
        return err_set_errno(ret_error, errno, "cannot rename %s to %s", n->tmp, n->dir);
    n->finished = true;
    if (fs_sync_dir(n->fs, above) < 0)
        return err_set_errno(ret_error, errno, "cannot sync the directory above %s", n->dir);
    return 0;
}

void new_dir_end(struct new_dir *n)
{
    struct err_info unused;
    if (n->tmp_fd >= 0 && !n->finished && !empty_tmp(n, &unused))
        rmdir(n->tmp);
    if (n->tmp_fd >= 0)
        close(n->tmp_fd);
    free(n->dir);
    free(n->tmp);
}
