/* Reading a data directory; the rules are in the header. */
#include "keeper/journal/recover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/mem.h"

static void note(const struct recover_hooks *hooks, struct buf *line)
{
    if (hooks->note)
        hooks->note(hooks->arg, buf_text(line));
}

void recovery_release(struct recovery *r)
{
    tree_release(&r->tree);
    free(r->segments);
    *r = (struct recovery){0};
}

int recover_read_file(const char *path, struct buf *ret_bytes, struct err_info *ret_error)
{
    FILE *in = fopen(path, "rbe");
    struct stat st;
    bool ok = in && fstat(fileno(in), &st) == 0;
    if (ok) {
        ret_bytes->len = 0;
        buf_reserve(ret_bytes, (size_t)st.st_size + 1);
        ret_bytes->len = fread(ret_bytes->p, 1, (size_t)st.st_size, in);
        ok = !ferror(in);
    }
    int err = ok ? 0 : err_set_errno(ret_error, errno, "cannot read %s", path);
    if (in)
        fclose(in);
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

int recover_segment_bytes(struct recovery *r, const char *name, uint64_t number, struct str bytes,
                          const struct recover_hooks *hooks, struct err_info *ret_error)
{
    /* A segment is synced before the first byte of the next one is written. */
    static const char *const AFTER_TORN = "it goes on although the segment before it breaks off";

    TRY(check_segment_header(r, name, number, bytes, ret_error));
    struct segment_reader in = {bytes, FORMAT_HEADER_LEN, r->tree.zxid, record_salt(r->store)};
    struct recover_segment *s = add_segment(r, number, bytes.len);
    bool after_torn = r->segment_count > 1 && s[-1].torn;
    CLEANUP(changes_release) struct tree_changes c = {0};
    struct record record;
    struct err_info why;
    enum segment_state state;
    while ((state = segment_next(&in, &record)) == SEGMENT_RECORD) {
        size_t at = in.at - record.whole_len;

        s->valid_len = in.at;
        if (after_torn)
            return damaged(r, name, number, at, ret_error, AFTER_TORN);
        if (record_changes(&record, &c))
            return damaged(r, name, number, at, ret_error, "a record that makes no sense");
        if (tree_restore_changes(&r->tree, &c, &why))
            return damaged(r, name, number, at, ret_error, why.text);
        if (hooks->record)
            hooks->record(hooks->arg, number, at, &c);
        s->first_lsn = s->first_lsn ? s->first_lsn : record.lsn;
        s->last_lsn = record.lsn;
        s->records++;
        r->records++;
    }
    s->valid_len = in.at;
    if (state == SEGMENT_DAMAGED)
        return damaged(r, name, number, in.at, ret_error,
                       "a record is missing or does not match its sum, but later ones are there");
    if (state == SEGMENT_TORN && after_torn)
        return damaged(r, name, number, in.at, ret_error, AFTER_TORN);
    s->torn = state == SEGMENT_TORN || after_torn;
    if (state == SEGMENT_TORN) {
        CLEANUP(buf_release) struct buf line = {0};
        buf_printf(&line, "%s: cut off %zu bytes at offset %zu that were never acknowledged", name,
                   bytes.len - in.at, in.at);
        note(hooks, &line);
    }
    return 0;
}

/* The newest complete snapshot. Damaged ones are reported and skipped. */
static int load_snapshot(struct recovery *r, const char *dir, const struct format_list *snapshots,
                         const struct recover_hooks *hooks, struct err_info *ret_error)
{
    for (size_t i = snapshots->count; i-- > 0;) {
        CLEANUP(mem_free) char *path = format_path(dir, FORMAT_SNAPSHOT, snapshots->numbers[i]);
        struct err_info why;
        int err = snapshot_load(path, &r->tree, &r->snapshot, &why);

        if (!err) {
            r->has_snapshot = true;
            r->store = r->snapshot.header.store;
            return 0;
        }
        if (err == DROVER_NEWER_VERSION)
            return err_set(ret_error, err, "%s", why.text);
        CLEANUP(buf_release) struct buf line = {0};
        buf_printf(&line, "%s; trying the one before", why.text);
        note(hooks, &line);
        tree_release(&r->tree);
        tree_init(&r->tree);
    }
    return 0;
}

static int replay(struct recovery *r, const char *dir, const struct format_list *segments,
                  const struct recover_hooks *hooks, struct err_info *ret_error)
{
    uint64_t next = r->has_snapshot ? r->snapshot.header.replay_from : 1;
    CLEANUP(buf_release) struct buf bytes = {0};

    for (size_t i = 0; i < segments->count && segments->numbers[i] <= next; i++) {
        if (segments->numbers[i] < next)
            continue;
        CLEANUP(mem_free) char *path = format_path(dir, FORMAT_SEGMENT, next);
        TRY(recover_read_file(path, &bytes, ret_error));
        TRY(recover_segment_bytes(r, path, next, buf_str(&bytes), hooks, ret_error));
        next++;
    }
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
    CLEANUP(format_dir_release) struct format_dir files = {0};
    struct err_info why;
    *r = (struct recovery){.next_segment = 1};
    tree_init(&r->tree);
    TRY(format_dir_read(dir, &files, ret_error));
    const struct format_list *snapshots = &files.files[FORMAT_SNAPSHOT];
    const struct format_list *segments = &files.files[FORMAT_SEGMENT];
    r->empty = !snapshots->count && !segments->count;
    if (r->empty && files.foreign)
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "%s holds other files (%s) and no data of drover", dir, files.foreign_name);
    if (r->empty)
        return 0;
    TRY(load_snapshot(r, dir, snapshots, hooks, ret_error));
    TRY(replay(r, dir, segments, hooks, ret_error));
    if (tree_seal(&r->tree, &why))
        return err_set(ret_error, DROVER_DAMAGED, "%s is damaged: %.400s", dir, why.text);
    return 0;
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

int recover_trim(const struct fs *fs, const char *dir, const struct recovery *r,
                 struct err_info *ret_error)
{
    TRY(format_remove_tmp(fs, dir, ret_error));
    for (size_t i = 0; i < r->segment_count; i++) {
        CLEANUP(mem_free) char *path = format_path(dir, FORMAT_SEGMENT, r->segments[i].number);
        TRY(settle(fs, path, &r->segments[i], ret_error));
    }
    if (fs_sync_dir(fs, dir) < 0)
        return err_set_errno(ret_error, errno, "cannot sync the data directory %s", dir);
    return 0;
}
