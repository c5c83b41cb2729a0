/* Reading a data directory; the rules are in the header. */
#include "keeper/journal/recover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/mem.h"

#define WHAT_TO_DO "restore a backup, or give up the rest with drover fsck --salvage"

static void note(const struct recover_hooks *hooks, struct buf *line)
{
    if (hooks->note)
        hooks->note(hooks->arg, buf_text(line));
}

static void begin_file(const struct recover_hooks *hooks, const char *path)
{
    CLEANUP(buf_release) struct buf what = {0};
    if (!hooks->progress)
        return;
    buf_printf(&what, "reading %s", path);
    hooks->progress(hooks->arg, buf_text(&what));
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
    return err_set(ret_error, DROVER_DAMAGED, "%s is damaged at offset %zu: %s; " WHAT_TO_DO, name,
                   at, why);
}

static struct recover_segment *add_segment(struct recovery *r, uint64_t number, size_t file_len,
                                           uint64_t made_len)
{
    size_t size = (r->segment_count + 1) * sizeof *r->segments;
    r->segments = mem_realloc(r->segments, size);
    r->segments[r->segment_count] = (struct recover_segment){.number = number,
                                                             .file_len = file_len,
                                                             .valid_len = FORMAT_HEADER_LEN,
                                                             .made_len = made_len};
    return &r->segments[r->segment_count++];
}

static int check_segment_header(struct recovery *r, const char *name, uint64_t number,
                                struct str bytes, uint64_t *ret_made_len,
                                struct err_info *ret_error)
{
    struct format_header h = {0};
    int err = DROVER_DAMAGED;
    if (bytes.len >= FORMAT_HEADER_LEN)
        err = format_header_read(bytes.p, FORMAT_SEGMENT, &h);
    if (err == DROVER_NEWER_VERSION)
        return err_set(ret_error, err, "%s was written by a newer version of drover", name);
    if (err)
        return damaged(r, name, number, 0, ret_error,
                       bytes.len < FORMAT_HEADER_LEN ? "it has no header"
                                                     : "the header does not match its sum");
    if (!r->store)
        r->store = h.store;
    if (h.number != number || h.store != r->store)
        return damaged(r, name, number, 0, ret_error, "it belongs to another place or store");
    *ret_made_len = h.made_len;
    return 0;
}

int recover_segment_bytes(struct recovery *r, const char *name, uint64_t number, struct str bytes,
                          const struct recover_hooks *hooks, struct err_info *ret_error)
{
    /* A segment is synced before the first byte of the next one is written. */
    static const char *const AFTER_TORN = "it goes on although the segment before it breaks off";

    uint64_t made_len = 0;
    TRY(check_segment_header(r, name, number, bytes, &made_len, ret_error));
    struct segment_reader in = {bytes, FORMAT_HEADER_LEN, r->tree.zxid, record_salt(r->store)};
    struct recover_segment *s = add_segment(r, number, bytes.len, made_len);
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
    s->has_rest = state == SEGMENT_TORN;
    s->torn = s->has_rest || after_torn;
    return 0;
}

/* The newest complete snapshot. Damaged ones are reported and skipped. */
static int load_snapshot(struct recovery *r, const char *dir, const struct format_list *snapshots,
                         const struct recover_hooks *hooks, struct err_info *ret_error)
{
    for (size_t i = snapshots->count; i-- > 0;) {
        CLEANUP(mem_free) char *path = format_path(dir, FORMAT_SNAPSHOT, snapshots->numbers[i]);
        struct err_info why;
        begin_file(hooks, path);
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
        begin_file(hooks, path);
        TRY(recover_read_file(path, &bytes, ret_error));
        TRY(recover_segment_bytes(r, path, next, buf_str(&bytes), hooks, ret_error));
        next++;
    }
    if (!r->segment_count || segments->numbers[segments->count - 1] >= next) {
        r->damaged_segment = r->segment_count ? next : 0;
        return err_set(ret_error, DROVER_DAMAGED, "%s/journal-%010llu is missing%s; " WHAT_TO_DO,
                       dir, (unsigned long long)next,
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

/* Where a salvage cuts: nowhere, if what is wrong is not in a segment that is there. */
static void set_damaged(struct recovery *r, const struct recover_segment *s)
{
    r->damaged_segment = s ? s->number : r->next_segment;
    r->damaged_at = s ? s->valid_len : 0;
}

/* The segment of this number, NULL: it was not read. */
static const struct recover_segment *find_segment(const struct recovery *r, uint64_t number)
{
    for (size_t i = 0; i < r->segment_count; i++)
        if (r->segments[i].number == number)
            return &r->segments[i];
    return NULL;
}

/* Transactions are missing that the mark claims. */
static int too_short(struct recovery *r, const char *dir, struct err_info *ret_error)
{
    const struct mark_claims *m = &r->mark;
    const struct recover_segment *s = find_segment(r, m->segment);
    set_damaged(r, s);
    if (s)
        return err_set(ret_error, DROVER_DAMAGED,
                       "%s/journal-%010llu ends at offset %zu (transaction %lld), but it was on "
                       "disk up to offset %llu (transaction %lld); " WHAT_TO_DO,
                       dir, (unsigned long long)s->number, s->valid_len, (long long)r->tree.zxid,
                       (unsigned long long)m->at, (long long)m->lsn);
    return err_set(
        ret_error, DROVER_DAMAGED,
        "%s/journal-%010llu is missing: the journal ends at transaction %lld, but it was "
        "on disk up to transaction %lld; " WHAT_TO_DO,
        dir, (unsigned long long)(m->segment ? m->segment : r->next_segment),
        (long long)r->tree.zxid, (long long)m->lsn);
}

/* Segments before the last one that an older version made may have been cut by it. */
static int check_lengths(struct recovery *r, const char *dir, struct err_info *ret_error)
{
    for (size_t i = r->segment_count; i-- > 0 && r->segments[i].made_len;) {
        const struct recover_segment *s = &r->segments[i];
        if (s->number <= r->mark.sealed || s->file_len >= s->made_len)
            continue;
        set_damaged(r, s);
        return err_set(ret_error, DROVER_DAMAGED,
                       "%s/journal-%010llu has %zu bytes, but it was made with %llu; " WHAT_TO_DO,
                       dir, (unsigned long long)s->number, s->file_len,
                       (unsigned long long)s->made_len);
    }
    return 0;
}

static int check_mark(struct recovery *r, const char *dir, struct err_info *ret_error)
{
    const struct mark_claims *m = &r->mark;
    int found = mark_read(dir, &r->mark, ret_error);
    if (found < 0)
        return found;
    r->has_mark = found;
    if (found && !r->store)
        r->store = m->store;
    if (found && m->store != r->store)
        return err_set(ret_error, DROVER_DAMAGED,
                       "%s/mark belongs to another store; drover fsck --salvage makes it anew",
                       dir);
    if (found && r->tree.zxid < m->lsn)
        return too_short(r, dir, ret_error);
    if (found && m->begun >= r->next_segment)
        return err_set(ret_error, DROVER_DAMAGED, "%s/journal-%010llu is missing; " WHAT_TO_DO, dir,
                       (unsigned long long)m->begun);
    return found ? check_lengths(r, dir, ret_error) : 0;
}

/* Once it is certain that nothing was lost. */
static void note_torn(const struct recovery *r, const char *dir, const struct recover_hooks *hooks)
{
    for (size_t i = 0; i < r->segment_count; i++) {
        const struct recover_segment *s = &r->segments[i];
        if (!s->has_rest)
            continue;
        CLEANUP(mem_free) char *path = format_path(dir, FORMAT_SEGMENT, s->number);
        CLEANUP(buf_release) struct buf line = {0};
        buf_printf(&line, "%s: cut off %zu bytes at offset %zu: a write that was interrupted", path,
                   s->file_len - s->valid_len, s->valid_len);
        note(hooks, &line);
    }
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
    if (!r->empty) {
        TRY(load_snapshot(r, dir, snapshots, hooks, ret_error));
        TRY(replay(r, dir, segments, hooks, ret_error));
        if (tree_seal(&r->tree, &why))
            return err_set(ret_error, DROVER_DAMAGED, "%s is damaged: %.400s", dir, why.text);
    }
    int err = check_mark(r, dir, ret_error);
    if (err && !r->damaged_segment)
        set_damaged(r, NULL);
    TRY(err);
    note_torn(r, dir, hooks);
    return 0;
}

struct mark_claims recovery_claims(const struct recovery *r, uint64_t last_segment)
{
    struct mark_claims claims = {
        .store = r->store, .lsn = r->tree.zxid, .begun = last_segment, .sealed = last_segment};
    for (size_t i = 0; i < r->segment_count; i++)
        if (r->segments[i].records) {
            claims.segment = r->segments[i].number;
            claims.at = r->segments[i].valid_len;
        }
    return claims;
}

/*
 * Segments may be cut from now on: before that, the mark no longer insists on their lengths. Also
 * if it says so already: a process that was killed may have left that in the page cache only.
 */
static int seal_segments(const struct fs *fs, const char *dir, const struct recovery *r,
                         struct err_info *ret_error)
{
    struct mark_claims claims = r->mark;
    claims.sealed = r->next_segment - 1;
    return r->has_mark ? mark_replace(fs, dir, &claims, ret_error) : 0;
}

static int failed(const char *what, const char *path, struct err_info *ret_error)
{
    return err_set_errno(ret_error, errno, "cannot %s %s", what, path);
}

/*
 * Cuts the torn tail, and syncs in any case: the previous process may have been killed between
 * writing and syncing, and what this start has read must not be lost later.
 */
static int settle(const struct fs *fs, const char *dir, const struct recover_segment *s, bool cuts,
                  struct err_info *ret_error)
{
    CLEANUP(mem_free) char *path = format_path(dir, FORMAT_SEGMENT, s->number);
    int fd = fs->open(fs, path, O_RDWR, 0);
    int err = 0;
    cuts = cuts && s->file_len > s->valid_len;
    if (fd < 0 || (cuts && fs->ftruncate(fs, fd, (off_t)s->valid_len) < 0) || fs->fsync(fs, fd) < 0)
        err = failed("cut", path, ret_error);
    if (fd >= 0)
        fs->close(fs, fd);
    return err;
}

int recover_cut(const struct fs *fs, const char *dir, const struct recover_segment *s,
                struct err_info *ret_error)
{
    return s->file_len > s->valid_len ? settle(fs, dir, s, true, ret_error) : 0;
}

static int put_zeros(const struct fs *fs, int fd, size_t from, size_t to)
{
    CLEANUP(mem_free) char *zeros = mem_zalloc(to - from);
    TRY(fs_write_all(fs, fd, zeros, to - from, (off_t)from, false));
    return fs->fsync(fs, fd);
}

int recover_reuse(const struct fs *fs, const char *dir, const struct recover_segment *s,
                  int *ret_fd, struct err_info *ret_error)
{
    CLEANUP(mem_free) char *path = format_path(dir, FORMAT_SEGMENT, s->number);
    int fd = fs->open(fs, path, O_RDWR, 0);
    if (fd < 0)
        return failed("open", path, ret_error);
    if (s->has_rest && put_zeros(fs, fd, s->valid_len, s->file_len) < 0) {
        int err = failed("write", path, ret_error);
        fs->close(fs, fd);
        return err;
    }
    *ret_fd = fd;
    return 0;
}

const struct recover_segment *recovery_last(const struct recovery *r)
{
    return r->segment_count ? &r->segments[r->segment_count - 1] : NULL;
}

int recover_trim(const struct fs *fs, const char *dir, const struct recovery *r,
                 struct err_info *ret_error)
{
    TRY(format_remove_tmp(fs, dir, ret_error));
    TRY(seal_segments(fs, dir, r, ret_error));
    for (size_t i = 0; i < r->segment_count; i++)
        TRY(settle(fs, dir, &r->segments[i], i + 1 < r->segment_count, ret_error));
    if (fs_sync_dir(fs, dir) < 0)
        return err_set_errno(ret_error, errno, "cannot sync the data directory %s", dir);
    return 0;
}
