/* Checking an archive, and making a data directory from one. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "keeper/journal/recover.h"
#include "keeper/local/backup.h"
#include "keeper/local/new_dir.h"

enum { PIECE_LEN = 256 * 1024, SYNC_EVERY = 8 * 1024 * 1024 };

struct restore {
    struct new_dir made;
    char *path; /* of the file being written; NULL: none yet */
    int fd;     /* -1: none */
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

/* The files: the sink of the archive. */

static int on_part(void *arg, enum format_kind kind, uint64_t number, uint64_t len,
                   struct err_info *ret_error)
{
    struct restore *r = arg;
    (void)len;
    free(r->path);
    r->path = format_path(r->made.tmp, kind, number);
    r->at = 0;
    r->fd = r->made.fs->open(r->made.fs, r->path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (r->fd < 0 || new_dir_own(&r->made, r->fd) < 0)
        return err_set_errno(ret_error, errno, "cannot make %s", r->path);
    return 0;
}

/* Synced now and then, so that the last sync is short. */
static int on_data(void *arg, struct str bytes, struct err_info *ret_error)
{
    struct restore *r = arg;
    const struct fs *fs = r->made.fs;
    off_t before = r->at;
    if (fs_write_all(fs, r->fd, bytes.p, bytes.len, r->at, false) < 0)
        return err_set_errno(ret_error, errno, "cannot write %s", r->path);
    r->at += (off_t)bytes.len;
    if (r->at / SYNC_EVERY != before / SYNC_EVERY && fs->fdatasync(fs, r->fd) < 0)
        return err_set_errno(ret_error, errno, "cannot sync %s", r->path);
    return 0;
}

static int on_part_end(void *arg, struct err_info *ret_error)
{
    struct restore *r = arg;
    const struct fs *fs = r->made.fs;
    int fd = r->fd;
    r->fd = -1;
    if (fs->fsync(fs, fd) < 0) {
        int errnum = errno;
        fs->close(fs, fd);
        return err_set_errno(ret_error, errnum, "cannot sync %s", r->path);
    }
    if (fs->close(fs, fd) < 0)
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
    TRY(recover_read(r->made.tmp, &hooks, &found, ret_error));
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

static int fill(struct restore *r, const struct backup_restore_options *o,
                struct backup_restored *ret_restored, struct err_info *ret_error)
{
    struct archive_reader in = {.sink = {on_part, on_data, on_part_end, r}};
    TRY(feed_all(&in, o->source, o->source_arg, ret_error));
    ret_restored->info = in.info;
    ret_restored->bytes = in.len;
    TRY(read_back(r, o, ret_restored, ret_error));
    return new_dir_finish(&r->made, ret_error);
}

int backup_restore(const struct backup_restore_options *o, struct backup_restored *ret_restored,
                   struct err_info *ret_error)
{
    struct restore r = {.fd = -1};
    struct backup_restored restored = {0};
    int err = new_dir_begin(&r.made, o->dir, o->fs, ret_error);
    if (!err)
        err = fill(&r, o, &restored, ret_error);
    if (r.fd >= 0)
        r.made.fs->close(r.made.fs, r.fd);
    new_dir_end(&r.made);
    free(r.path);
    if (!err)
        *ret_restored = restored;
    return err;
}
