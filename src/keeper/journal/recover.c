/* Reading a data directory; the rules are in the header. */
#include "keeper/journal/recover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "keeper/journal/segment.h"

static void note(const struct recover_hooks *hooks, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void note(const struct recover_hooks *hooks, const char *fmt, ...)
{
    char line[600];
    va_list ap;

    if (!hooks->note)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    hooks->note(hooks->arg, line);
}

void recovery_release(struct recovery *r)
{
    tree_release(&r->tree);
    free(r->segments);
    *r = (struct recovery){0};
}

int recover_read_file(const char *path, struct buf *ret_bytes, struct err_info *ret_error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
    struct stat st;
    ssize_t n = 0;

    if (fd < 0 || fstat(fd, &st) < 0) {
        err = err_set_errno(ret_error, errno, "cannot read %s", path);
        if (fd >= 0)
            close(fd);
        return err;
    }
    ret_bytes->len = 0;
    buf_reserve(ret_bytes, (size_t)st.st_size + 1);
    while (ret_bytes->len < (size_t)st.st_size) {
        n = read(fd, ret_bytes->p + ret_bytes->len, (size_t)st.st_size - ret_bytes->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        ret_bytes->len += (size_t)n;
    }
    if (n < 0)
        err = err_set_errno(ret_error, errno, "cannot read %s", path);
    close(fd);
    return err;
}

static int damaged(struct recovery *r, const char *name, uint64_t number, size_t at,
                   struct err_info *ret_error, const char *why)
{
    r->damaged_segment = number;
    r->damaged_at = at;
    return err_set(ret_error, DROVER_DAMAGED, "%s is damaged at offset %zu: %s", name, at, why);
}

static struct recover_segment *add_segment(struct recovery *r, uint64_t number, size_t file_len)
{
    size_t size = (r->segment_count + 1) * sizeof *r->segments;

    r->segments = mem_realloc(r->segments, size);
    r->segments[r->segment_count] = (struct recover_segment){
        .number = number, .file_len = file_len, .valid_len = FORMAT_HEADER_LEN};
    return &r->segments[r->segment_count++];
}

static int check_segment_header(struct recovery *r, const char *name, uint64_t number,
                                struct str bytes, struct err_info *ret_error)
{
    struct format_header h = {0};
    int err = DROVER_DAMAGED;

    if (bytes.len >= FORMAT_HEADER_LEN)
        err = format_header_read(bytes.p, FORMAT_SEGMENT, &h);
    if (err == DROVER_NEWER_VERSION)
        return err_set(ret_error, err, "%s was written by a newer version of drover", name);
    if (err)
        return damaged(r, name, number, 0, ret_error, "the header does not match its sum");
    if (!r->store)
        r->store = h.store;
    if (h.number != number || h.store != r->store)
        return damaged(r, name, number, 0, ret_error, "it belongs to another place or store");
    return 0;
}

static int replay_record(struct recovery *r, const struct record *record, struct tree_changes *c,
                         struct err_info *why)
{
    if (record_changes(record, c))
        return err_set(why, DROVER_DAMAGED, "a record that makes no sense");
    return tree_restore_changes(&r->tree, c, why);
}

int recover_segment_bytes(struct recovery *r, const char *name, uint64_t number, struct str bytes,
                          const struct recover_hooks *hooks, struct err_info *ret_error)
{
    struct segment_reader in = {bytes, FORMAT_HEADER_LEN, r->tree.zxid, 0};
    struct tree_changes c = {0};
    struct record record;
    struct err_info why;
    enum segment_state state;
    int err = check_segment_header(r, name, number, bytes, ret_error);

    if (err)
        return err;
    in.salt = record_salt(r->store);
    struct recover_segment *s = add_segment(r, number, bytes.len);
    struct recover_segment *before = r->segment_count > 1 ? s - 1 : NULL;
    while (!err && (state = segment_next(&in, &record)) == SEGMENT_RECORD) {
        size_t at = in.at - record.whole_len;

        if (before && before->torn) /* the segment before was synced before this was written */
            err = damaged(r, name, number, at, ret_error,
                          "it goes on although the segment before it breaks off");
        else if (replay_record(r, &record, &c, &why))
            err = damaged(r, name, number, at, ret_error, why.text);
        if (err)
            break;
        if (hooks->record)
            hooks->record(hooks->arg, number, at, &c);
        s->first_lsn = s->first_lsn ? s->first_lsn : record.lsn;
        s->last_lsn = record.lsn;
        s->records++;
        r->records++;
    }
    changes_release(&c);
    s->valid_len = in.at;
    if (err)
        return err;
    if (state == SEGMENT_DAMAGED)
        return damaged(r, name, number, in.at, ret_error,
                       "a record is missing or does not match its sum, but later ones are there");
    if (state == SEGMENT_TORN && before &&
        before->torn) /* no byte of it is written before the previous one is synced */
        return damaged(r, name, number, in.at, ret_error,
                       "it goes on although the segment before it breaks off");
    s->torn = state == SEGMENT_TORN || (before && before->torn);
    if (state == SEGMENT_TORN)
        note(hooks, "%s: cut off %zu bytes at offset %zu that were never acknowledged", name,
             bytes.len - in.at, in.at);
    return 0;
}

static int replay_segment(struct recovery *r, const char *dir, uint64_t number, struct buf *bytes,
                          const struct recover_hooks *hooks, struct err_info *ret_error)
{
    char *path = format_path(dir, FORMAT_SEGMENT, number);
    int err = recover_read_file(path, bytes, ret_error);

    if (!err)
        err = recover_segment_bytes(r, path, number, buf_str(bytes), hooks, ret_error);
    free(path);
    return err;
}

/* The newest complete snapshot. Damaged ones are reported and skipped. */
static int load_snapshot(struct recovery *r, const char *dir, const struct format_list *snapshots,
                         const struct recover_hooks *hooks, struct err_info *ret_error)
{
    for (size_t i = snapshots->count; i-- > 0;) {
        char *path = format_path(dir, FORMAT_SNAPSHOT, snapshots->numbers[i]);
        struct err_info why;
        int err = snapshot_load(path, &r->tree, &r->snapshot, &why);

        free(path);
        if (!err) {
            r->has_snapshot = true;
            r->store = r->snapshot.header.store;
            return 0;
        }
        if (err == DROVER_NEWER_VERSION)
            return err_set(ret_error, err, "%s", why.text);
        note(hooks, "%s; trying the one before", why.text);
        tree_release(&r->tree);
        tree_init(&r->tree);
    }
    return 0;
}

static int replay(struct recovery *r, const char *dir, const struct format_list *segments,
                  const struct recover_hooks *hooks, struct err_info *ret_error)
{
    uint64_t next = r->has_snapshot ? r->snapshot.header.replay_from : 1;
    struct buf bytes = {0};
    int err = 0;

    for (size_t i = 0; i < segments->count && !err; i++) {
        if (segments->numbers[i] < next)
            continue;
        if (segments->numbers[i] > next)
            break;
        err = replay_segment(r, dir, next, &bytes, hooks, ret_error);
        next++;
    }
    buf_release(&bytes);
    if (err)
        return err;
    if (!r->segment_count || segments->numbers[segments->count - 1] >= next) {
        r->damaged_segment = r->segment_count ? next : 0;
        return err_set(ret_error, DROVER_DAMAGED, "%s/journal-%010llu is missing%s", dir,
                       (unsigned long long)next,
                       r->has_snapshot ? ""
                                       : ", and there is no snapshot that can be used instead");
    }
    if (r->has_snapshot && r->tree.zxid < r->snapshot.last_zxid)
        return err_set(ret_error, DROVER_DAMAGED,
                       "%s/journal-%010llu ends at transaction %lld, but the snapshot shows %lld",
                       dir, (unsigned long long)next - 1, (long long)r->tree.zxid,
                       (long long)r->snapshot.last_zxid);
    r->next_segment = next;
    return 0;
}

int recover_read(const char *dir, const struct recover_hooks *hooks, struct recovery *ret_recovery,
                 struct err_info *ret_error)
{
    struct recovery *r = ret_recovery;
    struct format_dir files;
    struct err_info why;

    *r = (struct recovery){.next_segment = 1, .oldest_segment = 1};
    tree_init(&r->tree);
    int err = format_dir_read(dir, &files, ret_error);
    if (err)
        return err;
    const struct format_list *snapshots = &files.files[FORMAT_SNAPSHOT];
    const struct format_list *segments = &files.files[FORMAT_SEGMENT];
    if (!snapshots->count && !segments->count) {
        r->empty = true;
        if (files.foreign)
            err =
                err_set(ret_error, DROVER_BAD_ARGUMENT,
                        "%s holds other files (%s) and no data of drover", dir, files.foreign_name);
    } else {
        err = load_snapshot(r, dir, snapshots, hooks, ret_error);
        if (!err)
            err = replay(r, dir, segments, hooks, ret_error);
        if (!err && tree_seal(&r->tree, &why))
            err = err_set(ret_error, DROVER_DAMAGED, "%s is damaged: %.400s", dir, why.text);
        if (segments->count)
            r->oldest_segment = segments->numbers[0];
    }
    format_dir_release(&files);
    return err;
}

/*
 * Cuts the torn tail, and syncs in any case: the previous process may have been killed between
 * writing and syncing, and what this start has read must not be lost later.
 */
static int settle(const struct fs *fs, const char *path, const struct recover_segment *s,
                  struct err_info *ret_error)
{
    int fd = fs->open(fs, path, O_RDWR, 0);
    int err = 0;

    if (fd < 0 || (s->file_len > s->valid_len && fs->ftruncate(fs, fd, (off_t)s->valid_len) < 0) ||
        fs->fsync(fs, fd) < 0)
        err = err_set_errno(ret_error, errno, "cannot cut %s", path);
    if (fd >= 0)
        fs->close(fs, fd);
    return err;
}

static int remove_tmp(const struct fs *fs, const char *dir, struct err_info *ret_error)
{
    struct format_dir files;
    int err = format_dir_read(dir, &files, ret_error);

    if (err)
        return err;
    for (size_t i = 0; i < files.tmp_count && !err; i++) {
        char *path = format_path_of(dir, files.tmp[i]);

        if (fs->unlink(fs, path) < 0)
            err = err_set_errno(ret_error, errno, "cannot remove %s", path);
        free(path);
    }
    format_dir_release(&files);
    return err;
}

int recover_trim(const struct fs *fs, const char *dir, const struct recovery *r,
                 struct err_info *ret_error)
{
    int err = remove_tmp(fs, dir, ret_error);

    for (size_t i = 0; i < r->segment_count && !err; i++) {
        const struct recover_segment *s = &r->segments[i];
        char *path = format_path(dir, FORMAT_SEGMENT, s->number);

        err = settle(fs, path, s, ret_error);
        free(path);
    }
    if (!err && fs_sync_dir(fs, dir) < 0)
        err = err_set_errno(ret_error, errno, "cannot sync the data directory %s", dir);
    return err;
}
