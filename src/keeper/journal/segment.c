/* Making and reading segments. */
#include "keeper/journal/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/mem.h"
#include "keeper/journal/format.h"

/*
 * Synced piece by piece: the segment in use shares the disk, and its syncs must not queue behind 16
 * MiB.
 */
enum { FILL_LEN = 512 * 1024 };

static int fill(const struct fs *fs, int fd, const struct format_header *h, size_t len)
{
    char *block = mem_zalloc(FILL_LEN);
    int err = 0;

    format_header_put(block, h);
    for (size_t at = 0; at < len && !err; at += FILL_LEN) {
        size_t part = len - at < FILL_LEN ? len - at : FILL_LEN;

        err = fs_write_all(fs, fd, block, part, (off_t)at);
        if (!err)
            err = fs->fsync(fs, fd);
        if (at == 0)
            memset(block, 0, FORMAT_HEADER_LEN);
    }
    free(block);
    return err;
}

int segment_make(const struct fs *fs, const char *dir, uint64_t store, uint64_t number, size_t len,
                 int *ret_fd, struct err_info *ret_error)
{
    struct format_header h = {.kind = FORMAT_SEGMENT, .store = store, .number = number};
    char *tmp = format_path_of(dir, "journal.tmp");
    char *path = format_path(dir, FORMAT_SEGMENT, number);
    int fd = fs->open(fs, tmp, O_RDWR | O_CREAT | O_TRUNC, 0600);
    int err = 0;

    if (fd < 0 || fill(fs, fd, &h, len) < 0 || fs->fsync(fs, fd) < 0 ||
        fs->rename(fs, tmp, path) < 0 || fs_sync_dir(fs, dir) < 0) {
        err = err_set_errno(ret_error, errno, "cannot make the journal segment %s", path);
        if (fd >= 0) {
            fs->close(fs, fd);
            fs->unlink(fs, tmp);
        }
    } else {
        *ret_fd = fd;
    }
    free(tmp);
    free(path);
    return err;
}

static bool is_zero(struct str rest)
{
    return rest.len == 0 || (rest.p[0] == 0 && memcmp(rest.p, rest.p + 1, rest.len - 1) == 0);
}

/*
 * Whether a valid record after the damage says that the damaged part was on disk. The LSN of such a
 * record is only slightly higher; checking that first avoids computing sums over data that happens
 * to look like a header.
 */
static bool was_durable(const struct segment_reader *r)
{
    int64_t highest = r->lsn + (int64_t)(r->bytes.len / RECORD_HEADER_LEN);
    struct record record;

    for (size_t at = r->at; at + RECORD_HEADER_LEN <= r->bytes.len; at += RECORD_ALIGN) {
        int64_t lsn = (int64_t)le_load64(r->bytes.p + at + 8);

        if (lsn <= r->lsn || (lsn > highest && r->lsn >= 0))
            continue;
        if (record_read(r->bytes.p + at, r->bytes.len - at, r->salt, &record) &&
            record.lsn - record.behind > r->lsn)
            return true;
    }
    return false;
}

enum segment_state segment_next(struct segment_reader *r, struct record *ret_record)
{
    for (;;) {
        size_t left = r->bytes.len - r->at;
        struct record record;

        if (record_read(r->bytes.p + r->at, left, r->salt, &record)) {
            if (record.type == RECORD_MARK && (record.lsn == r->lsn || r->lsn < 0)) {
                r->at += record.whole_len;
                r->lsn = record.lsn;
                continue;
            }
            if (record.type == RECORD_TRANSACTION && (record.lsn == r->lsn + 1 || r->lsn < 0)) {
                r->at += record.whole_len;
                r->lsn = record.lsn;
                *ret_record = record;
                return SEGMENT_RECORD;
            }
            return SEGMENT_DAMAGED; /* valid, but not the next one: a record is missing */
        }
        if (is_zero((struct str){r->bytes.p + r->at, left}))
            return SEGMENT_END;
        return was_durable(r) ? SEGMENT_DAMAGED : SEGMENT_TORN;
    }
}
