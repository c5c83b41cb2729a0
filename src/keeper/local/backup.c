/*
 * Taking a backup. The archive is produced piece by piece: a header, then for each file its part,
 * its content and the sum, then the end. A snapshot is read a piece at a time; a segment is read
 * whole, because the place where it ends is found by reading its records.
 *
 * Segments are written around the page cache while they are read here. What is passed on was on
 * disk before it is read, and those bytes do not change again: a round that shares a block with
 * them writes them as they are.
 */
#include "keeper/local/backup.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/thread.h"
#include "keeper/journal/record.h"
#include "keeper/journal/snapshot.h"
#include "keeper/local/engine.h"

enum {
    OPEN_TRIES = 3,   /* a snapshot may be replaced while it is being opened */
    FILES_MAX = 1024, /* segments of 16 MiB */
};

struct backup_file {
    enum format_kind kind;
    uint64_t number;
    char *path;
    int fd;
};

struct local_backup {
    struct archive_info info;
    struct backup_file *files;
    size_t count, cap;
    size_t at; /* the file being passed on */
    bool has_header, in_file, ended;
    uint64_t parts, passed; /* passed: bytes of the archive */
    uint64_t left;          /* bytes of the file */
    uint32_t sum;
    struct snapshot_checker check;
    int64_t lsn;        /* of the last record that was read, or of the snapshot */
    struct buf segment; /* the rest of it, from segment_at */
    size_t segment_at;
};

/* Which files make the state, read together under the lock. */
struct backup_span {
    uint64_t snapshot; /* 0: none */
    uint64_t first, last;
};

static struct backup_span look(struct local *l)
{
    LOCKED(&l->lock);
    return (struct backup_span){
        .snapshot = (uint64_t)l->stats.snapshot_zxid,
        .first = l->stats.snapshot_zxid ? l->snapshot_segment : 1,
        .last = journal_segment(&l->journal),
    };
}

static void close_files(struct local_backup *b)
{
    for (size_t i = 0; i < b->count; i++) {
        close(b->files[i].fd);
        free(b->files[i].path);
    }
    b->count = 0;
}

static int open_file(struct local_backup *b, const char *dir, enum format_kind kind,
                     uint64_t number, struct err_info *ret_error)
{
    char *path = format_path(dir, kind, number);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        bool is_gone = errno == ENOENT;
        int err = err_set_errno(ret_error, errno, "cannot read %s", path);
        free(path);
        return is_gone ? DROVER_NO_NODE : err;
    }
    mem_grow(b->files, b->count, b->cap);
    b->files[b->count++] = (struct backup_file){kind, number, path, fd};
    return 0;
}

static int open_span(struct local_backup *b, const char *dir, const struct backup_span *s,
                     struct err_info *ret_error)
{
    if (s->last - s->first >= FILES_MAX)
        return err_set(ret_error, DROVER_DISK_FULL,
                       "a backup needs a new snapshot, for which the disk has no room");
    if (s->snapshot)
        TRY(open_file(b, dir, FORMAT_SNAPSHOT, s->snapshot, ret_error));
    for (uint64_t n = s->first; n <= s->last; n++)
        TRY(open_file(b, dir, FORMAT_SEGMENT, n, ret_error));
    return 0;
}

/* Waits until all that was answered is on disk. */
static int settle(struct local *l, int64_t *ret_zxid, struct err_info *ret_error)
{
    pthread_mutex_lock(&l->lock);
    int64_t zxid = l->tree.zxid;
    pthread_mutex_unlock(&l->lock);
    if (gate_wait_synced(&l->gate, zxid))
        return err_set(ret_error, DROVER_IO, "the journal has failed");
    *ret_zxid = zxid;
    return 0;
}

static int open_all(struct local_backup *b, struct local *l, struct err_info *ret_error)
{
    int err = local_snapshot(l);
    if (err && err != DROVER_DISK_FULL)
        return err_set(ret_error, err, "cannot take a snapshot: %s", drover_err_message(err));
    TRY(settle(l, &b->info.last_zxid, ret_error));
    err = DROVER_NO_NODE;
    for (int i = 0; i < OPEN_TRIES && err == DROVER_NO_NODE; i++) {
        struct backup_span span = look(l);
        close_files(b);
        b->lsn = (int64_t)span.snapshot;
        err = open_span(b, l->dir, &span, ret_error);
    }
    return err == DROVER_NO_NODE ? DROVER_IO : err;
}

int backup_open(struct local *l, struct local_backup **ret_backup, struct err_info *ret_error)
{
    if (!engine_has_journal(l))
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "this server has no data directory (--journal none)");
    struct local_backup *b = mem_zalloc(sizeof *b);
    int err = open_all(b, l, ret_error);
    if (err) {
        backup_close(b);
        return err;
    }
    b->info.store = l->journal.o.mark.store;
    b->info.time_ms = clock_wall_ms();
    *ret_backup = b;
    return 0;
}

void backup_close(struct local_backup *b)
{
    close_files(b);
    buf_release(&b->segment);
    free(b->files);
    free(b);
}

/* Reading. */

static int damaged(const struct backup_file *f, struct err_info *ret_error, const char *why)
{
    return err_set(ret_error, DROVER_DAMAGED, "%s is damaged: %s (see drover fsck)", f->path, why);
}

static int read_some(const struct backup_file *f, char *to, size_t len, off_t at, size_t *ret_len,
                     struct err_info *ret_error)
{
    ssize_t n;
    do
        n = pread(f->fd, to, len, at);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_set_errno(ret_error, errno, "cannot read %s", f->path);
    *ret_len = (size_t)n;
    return 0;
}

static int file_len(const struct backup_file *f, uint64_t *ret_len, struct err_info *ret_error)
{
    struct stat st;
    if (fstat(f->fd, &st) < 0)
        return err_set_errno(ret_error, errno, "cannot read %s", f->path);
    *ret_len = (uint64_t)st.st_size;
    return 0;
}

static int load_segment(struct local_backup *b, const struct backup_file *f,
                        struct err_info *ret_error)
{
    uint64_t len = 0;
    size_t more = 1;
    TRY(file_len(f, &len, ret_error));
    b->segment.len = 0;
    buf_reserve(&b->segment, (size_t)len);
    while (more && b->segment.len < len) {
        TRY(read_some(f, b->segment.p + b->segment.len, (size_t)len - b->segment.len,
                      (off_t)b->segment.len, &more, ret_error));
        b->segment.len += more;
    }
    return 0;
}

/* Reads the records of a segment up to the last transaction, and cuts it there. */
static int trim_segment(struct local_backup *b, const struct backup_file *f,
                        struct err_info *ret_error)
{
    struct format_header h;
    struct segment_reader in = {buf_str(&b->segment), FORMAT_HEADER_LEN, b->lsn,
                                record_salt(b->info.store)};
    enum segment_state state = SEGMENT_RECORD;
    struct record record;
    if (in.bytes.len < FORMAT_HEADER_LEN || format_header_read(in.bytes.p, FORMAT_SEGMENT, &h) ||
        h.store != b->info.store || h.number != f->number)
        return damaged(f, ret_error, "the header does not match its sum");
    while (in.lsn != b->info.last_zxid && state == SEGMENT_RECORD)
        state = segment_next(&in, &record);
    if (state == SEGMENT_DAMAGED || state == SEGMENT_TORN)
        return damaged(f, ret_error, "a record is missing or does not match its sum");
    b->lsn = in.lsn;
    b->segment.len = in.at;
    return 0;
}

/* The part of the next file. A snapshot is whole; what is behind the last transaction is not. */
static int begin_file(struct local_backup *b, struct buf *to, struct err_info *ret_error)
{
    const struct backup_file *f = &b->files[b->at];
    if (f->kind == FORMAT_SNAPSHOT) {
        TRY(file_len(f, &b->left, ret_error));
    } else {
        TRY(load_segment(b, f, ret_error));
        TRY(trim_segment(b, f, ret_error));
        b->left = b->segment.len;
    }
    b->segment_at = 0;
    b->sum = 0;
    b->in_file = true;
    archive_put_part(to, f->kind, f->number, b->left);
    return 0;
}

static int put_snapshot(struct local_backup *b, size_t max, struct buf *to,
                        struct err_info *ret_error)
{
    const struct backup_file *f = &b->files[b->at];
    size_t got = 0;
    buf_reserve(to, max);
    TRY(read_some(f, to->p + to->len, max, (off_t)b->segment_at, &got, ret_error));
    struct str bytes = {to->p + to->len, got};
    if (!got || !snapshot_check(&b->check, bytes))
        return damaged(f, ret_error, "a block does not match its sum");
    b->sum = crc32c(b->sum, bytes.p, bytes.len);
    b->segment_at += got;
    b->left -= got;
    to->len += got;
    return b->left || b->check.ended ? 0 : damaged(f, ret_error, "it is cut off");
}

static void put_segment(struct local_backup *b, size_t max, struct buf *to)
{
    b->sum = crc32c(b->sum, b->segment.p + b->segment_at, max);
    buf_put(to, b->segment.p + b->segment_at, max);
    b->segment_at += max;
    b->left -= max;
}

static void end_file(struct local_backup *b, struct buf *to)
{
    bool is_last = b->files[b->at].kind == FORMAT_SEGMENT && b->lsn == b->info.last_zxid;
    archive_put_sum(to, b->sum);
    b->in_file = false;
    b->at = is_last ? b->count : b->at + 1;
    b->parts++;
}

static int put_content(struct local_backup *b, size_t max, struct buf *to,
                       struct err_info *ret_error)
{
    size_t len = b->left < max ? (size_t)b->left : max;
    if (b->files[b->at].kind == FORMAT_SNAPSHOT)
        TRY(put_snapshot(b, len, to, ret_error));
    else
        put_segment(b, len, to);
    if (!b->left)
        end_file(b, to);
    return 0;
}

static int put_end(struct local_backup *b, struct buf *to, uint64_t passed,
                   struct err_info *ret_error)
{
    if (b->lsn != b->info.last_zxid)
        return err_set(ret_error, DROVER_DAMAGED,
                       "the journal ends at transaction %" PRId64 " instead of %" PRId64, b->lsn,
                       b->info.last_zxid);
    archive_put_end(to, b->parts, passed);
    b->ended = true;
    return 0;
}

/* One step; room: how many bytes of content may follow. */
static int put_next(struct local_backup *b, size_t room, struct buf *to, uint64_t passed,
                    struct err_info *ret_error)
{
    if (!b->has_header) {
        archive_put_header(to, &b->info);
        b->has_header = true;
        return 0;
    }
    if (b->in_file)
        return put_content(b, room, to, ret_error);
    if (b->at < b->count)
        return begin_file(b, to, ret_error);
    return put_end(b, to, passed, ret_error);
}

int backup_read(struct local_backup *b, size_t max, struct buf *to, bool *ret_more,
                struct err_info *ret_error)
{
    size_t begin = to->len;
    /* Headers and sums are never split: there is room for one of each after any content. */
    assert(max > 2 * ARCHIVE_HEADER_LEN);
    max -= ARCHIVE_HEADER_LEN;
    while (!b->ended && to->len - begin < max)
        TRY(put_next(b, max - (to->len - begin), to, b->passed + (to->len - begin), ret_error));
    b->passed += to->len - begin;
    *ret_more = !b->ended;
    return 0;
}
