/*
 * Checking an archive, and making a data directory from one.
 *
 * The directory is locked while it is filled (flock on the directory itself, which ends with the
 * process), so that two restores do not mix their files and what a dead one left is known to be
 * nobody's.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "keeper/journal/recover.h"
#include "keeper/local/backup.h"

enum { PIECE_LEN = 256 * 1024, SYNC_EVERY = 8 * 1024 * 1024 };

struct restore {
    const struct fs *fs;
    char *dir, *tmp;
    int tmp_fd; /* -1: none; holds the lock */
    uid_t uid;  /* of what is made */
    gid_t gid;
    bool has_owner; /* these two are set */
    char *path;     /* of the file being written; NULL: none */
    int fd;
    off_t at;
};

static int feed_all(struct archive_reader *r, backup_source_fn *source, void *arg,
                    struct err_info *ret_error)
{
    CLEANUP(mem_free) char *piece = mem_alloc(PIECE_LEN);
    ssize_t len;
    while ((len = source(arg, piece, PIECE_LEN, ret_error)) > 0)
        TRY(archive_feed(r, (struct str){piece, (size_t)len}, ret_error));
    return len < 0 ? (int)len : archive_finish(r, ret_error);
}

int backup_check(backup_source_fn *source, void *arg, struct archive_reader *ret_reader,
                 struct err_info *ret_error)
{
    *ret_reader = (struct archive_reader){0};
    return feed_all(ret_reader, source, arg, ret_error);
}

/* The directory that is filled. */

/* Removes what a restore that died has left: files of drover only. */
static int empty_tmp(const struct restore *r, struct err_info *ret_error)
{
    struct dirent *entry;
    DIR *stream = opendir(r->tmp);
    int err = 0;
    while (stream && !err && (entry = readdir(stream))) {
        enum format_kind kind;
        uint64_t number;
        if (format_parse_name(entry->d_name, &kind, &number)) {
            CLEANUP(mem_free) char *path = format_path_of(r->tmp, entry->d_name);
            err = r->fs->unlink(r->fs, path);
        }
    }
    if (!stream || err)
        err = err_set_errno(ret_error, errno, "cannot empty %s", r->tmp);
    if (stream)
        closedir(stream);
    return err;
}

static int lock_tmp(struct restore *r, struct err_info *ret_error)
{
    if (mkdir(r->tmp, 0700) < 0 && errno != EEXIST)
        return err_set_errno(ret_error, errno, "cannot make %s", r->tmp);
    r->tmp_fd = open(r->tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (r->tmp_fd < 0)
        return err_set_errno(ret_error, errno, "cannot open %s", r->tmp);
    struct stat st;
    int err = 0;
    if (fstat(r->tmp_fd, &st) < 0 || st.st_uid != geteuid())
        err = err_set(ret_error, DROVER_BAD_ARGUMENT, "%s belongs to another user", r->tmp);
    else if (flock(r->tmp_fd, LOCK_EX | LOCK_NB) < 0)
        err = err_set(ret_error, DROVER_IN_USE, "another restore into %s is under way", r->dir);
    if (err) { /* and leave it alone */
        close(r->tmp_fd);
        r->tmp_fd = -1;
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
static int check_target(struct restore *r, mode_t *ret_mode, struct err_info *ret_error)
{
    struct stat st, above;
    CLEANUP(mem_free) char *parent = format_path_of(r->dir, "..");
    if (lstat(r->dir, &st) < 0 && errno == ENOENT)
        return 0;
    if (lstat(r->dir, &st) < 0 || !S_ISDIR(st.st_mode))
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s is not a directory", r->dir);
    if (!is_empty(r->dir))
        return err_set(ret_error, DROVER_EXISTS,
                       "%s is not empty: a backup is restored into a new directory", r->dir);
    if (stat(parent, &above) == 0 && above.st_dev != st.st_dev)
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "%s is a mount point: restore into a new directory below it", r->dir);
    r->has_owner = st.st_uid != geteuid() || st.st_gid != getegid();
    r->uid = st.st_uid;
    r->gid = st.st_gid;
    *ret_mode = st.st_mode & 07777;
    return 0;
}

static int begin(struct restore *r, struct err_info *ret_error)
{
    mode_t mode = 0700;
    TRY(check_target(r, &mode, ret_error));
    TRY(lock_tmp(r, ret_error));
    TRY(empty_tmp(r, ret_error));
    if (fchmod(r->tmp_fd, mode) < 0 || (r->has_owner && fchown(r->tmp_fd, r->uid, r->gid) < 0))
        return err_set_errno(ret_error, errno, "cannot give %s the owner of %s", r->tmp, r->dir);
    return 0;
}

static void end(struct restore *r, bool keep)
{
    struct err_info unused;
    if (r->fd >= 0)
        r->fs->close(r->fs, r->fd);
    if (r->tmp_fd >= 0 && !keep && !empty_tmp(r, &unused))
        rmdir(r->tmp);
    if (r->tmp_fd >= 0)
        close(r->tmp_fd);
    free(r->path);
    free(r->dir);
    free(r->tmp);
}

/* The files: the sink of the archive. */

static int on_part(void *arg, enum format_kind kind, uint64_t number, uint64_t len,
                   struct err_info *ret_error)
{
    struct restore *r = arg;
    (void)len;
    free(r->path);
    r->path = format_path(r->tmp, kind, number);
    r->at = 0;
    r->fd = r->fs->open(r->fs, r->path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (r->fd < 0 || (r->has_owner && fchown(r->fd, r->uid, r->gid) < 0))
        return err_set_errno(ret_error, errno, "cannot make %s", r->path);
    return 0;
}

/* Synced now and then, so that the last sync is short. */
static int on_data(void *arg, struct str bytes, struct err_info *ret_error)
{
    struct restore *r = arg;
    off_t before = r->at;
    if (fs_write_all(r->fs, r->fd, bytes.p, bytes.len, r->at, false) < 0)
        return err_set_errno(ret_error, errno, "cannot write %s", r->path);
    r->at += (off_t)bytes.len;
    if (r->at / SYNC_EVERY != before / SYNC_EVERY && r->fs->fdatasync(r->fs, r->fd) < 0)
        return err_set_errno(ret_error, errno, "cannot sync %s", r->path);
    return 0;
}

static int on_part_end(void *arg, struct err_info *ret_error)
{
    struct restore *r = arg;
    int fd = r->fd;
    r->fd = -1;
    if (r->fs->fsync(r->fs, fd) < 0) {
        int errnum = errno;
        r->fs->close(r->fs, fd);
        return err_set_errno(ret_error, errnum, "cannot sync %s", r->path);
    }
    if (r->fs->close(r->fs, fd) < 0)
        return err_set_errno(ret_error, errno, "cannot write %s", r->path);
    return 0;
}

/* Reads it back as a start would: the sums fit, but does the content? */
static int read_back(const struct restore *r, const struct backup_restore_options *o,
                     struct backup_restored *ret_restored, struct err_info *ret_error)
{
    CLEANUP(recovery_release) struct recovery found = {0};
    CLEANUP(buf_release) struct buf path = {0};
    struct recover_hooks hooks = {0};
    struct tree_node_state state;
    uint32_t cursor = 0;
    TRY(recover_read(r->tmp, &hooks, &found, ret_error));
    if (found.store != ret_restored->info.store || found.tree.zxid != ret_restored->info.last_zxid)
        return err_set(ret_error, DROVER_DAMAGED,
                       "the backup is damaged: it holds transactions up to %" PRId64
                       ", and its header says %" PRId64,
                       found.tree.zxid, ret_restored->info.last_zxid);
    ret_restored->nodes = found.tree.nodes.count;
    ret_restored->sessions = found.tree.sessions.count;
    while (o->node && tree_walk(&found.tree, &cursor, &path, &state))
        o->node(o->node_arg, state.path);
    return 0;
}

static int sync_above(const struct restore *r)
{
    CLEANUP(mem_free) char *above = format_path_of(r->dir, "..");
    return fs_sync_dir(r->fs, above);
}

/* Renames it into place: an empty directory there is replaced at once. */
static int put_in_place(struct restore *r, struct err_info *ret_error)
{
    if (r->fs->fsync(r->fs, r->tmp_fd) < 0)
        return err_set_errno(ret_error, errno, "cannot sync %s", r->tmp);
    if (r->fs->rename(r->fs, r->tmp, r->dir) < 0)
        return err_set_errno(ret_error, errno, "cannot rename %s to %s", r->tmp, r->dir);
    if (sync_above(r) < 0)
        return err_set_errno(ret_error, errno, "cannot sync the directory above %s", r->dir);
    return 0;
}

static int fill(struct restore *r, const struct backup_restore_options *o,
                struct backup_restored *ret_restored, struct err_info *ret_error)
{
    struct archive_reader in = {.sink = {on_part, on_data, on_part_end, r}};
    TRY(feed_all(&in, o->source, o->source_arg, ret_error));
    ret_restored->info = in.info;
    ret_restored->bytes = in.len;
    TRY(read_back(r, o, ret_restored, ret_error));
    return put_in_place(r, ret_error);
}

/* The path without slashes at its end. */
static char *trimmed(const char *dir)
{
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    return mem_dup(dir, len);
}

int backup_restore(const struct backup_restore_options *o, struct backup_restored *ret_restored,
                   struct err_info *ret_error)
{
    struct restore r = {.fs = o->fs ? o->fs : &fs_system, .tmp_fd = -1, .fd = -1};
    struct backup_restored restored = {0};
    CLEANUP(buf_release) struct buf tmp = {0};
    r.dir = trimmed(o->dir);
    buf_printf(&tmp, "%s.restoring", r.dir);
    r.tmp = mem_dup(tmp.p, tmp.len);
    int err = begin(&r, ret_error);
    if (!err)
        err = fill(&r, o, &restored, ret_error);
    end(&r, !err);
    if (!err)
        *ret_restored = restored;
    return err;
}
