#include "dag/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/mem.h"

enum {
    BLOCK_LEN = 2 * (OUTPUT_DATA_MAX + OUTPUT_HEAD_LEN), /* has one whole record at least */
    SCAN_LEN = 16 * 1024,
    MARK_EVERY = 1024 * 1024,
};

/* What is wanted of records. */

void output_skip(struct output_want *w, const struct output_at *from, const struct output_at *to,
                 int64_t time_ms, struct buf *out)
{
    uint64_t offset = output_offset(to, w->stream);
    if (offset <= w->next)
        return;
    bool whole = w->form == OUTPUT_TEXT || offset < w->end; /* a text tells of all of it */
    uint64_t count = (whole ? offset : w->end) - w->next;
    uint64_t numbers[3] = {w->stream == RUN_STDERR ? 0 : count, w->stream == RUN_STDERR ? count : 0,
                           0};
    if (w->stream == RUN_MIXED && count == offset - output_offset(from, RUN_MIXED)) {
        numbers[0] = to->of[0] - from->of[0]; /* all of it: what is of which stream is known */
        numbers[1] = to->of[1] - from->of[1];
    }
    if (w->form == OUTPUT_CHUNKS && count)
        output_put_numbers(out, OUTPUT_GAP, time_ms, numbers);
    else if (w->form == OUTPUT_TEXT && count)
        buf_printf(out, "\n[drover: %" PRIu64 " bytes were not kept here]\n", count);
    w->next += count;
    w->missing += count;
}

static void take_data(struct output_want *w, const struct output_record *r, uint64_t offset,
                      struct buf *out)
{
    uint64_t end = offset + r->data.len;
    struct str data = r->data;
    if (end <= w->next || offset >= w->end)
        return;
    if (end > w->end)
        data.len -= (size_t)(end - w->end);
    if (offset < w->next) {
        data.p += w->next - offset;
        data.len -= (size_t)(w->next - offset);
    }
    if (w->form == OUTPUT_CHUNKS && data.len == r->data.len)
        buf_put(out, data.p - OUTPUT_HEAD_LEN, OUTPUT_HEAD_LEN + data.len);
    else if (w->form == OUTPUT_CHUNKS)
        output_put_record(out, r->kind, r->time_ms, data);
    else
        buf_put_str(out, data);
    w->next = end < w->end ? end : w->end;
}

static bool is_wanted(const struct output_want *w, enum output_kind kind)
{
    return w->stream == RUN_MIXED || (int)w->stream == (int)kind;
}

int output_take(struct output_want *w, struct str records, struct output_at *at, size_t max,
                size_t *ret_used, struct buf *out)
{
    *ret_used = 0;
    while (*ret_used < records.len && out->len < max && w->next < w->end) {
        struct output_record r;
        bool heads_only = w->form == OUTPUT_CHUNKS; /* whoever gets them compares the sums */
        ssize_t len =
            output_read_record(records.p + *ret_used, records.len - *ret_used, heads_only, &r);
        if (len <= 0 || !r.data.p || r.kind == OUTPUT_AT)
            return DROVER_DAMAGED;
        *ret_used += (size_t)len;
        if (r.kind == OUTPUT_GAP) {
            struct output_at from = *at;
            at->of[0] += r.numbers[0];
            at->of[1] += r.numbers[1];
            output_skip(w, &from, at, r.time_ms, out);
            continue;
        }
        if (is_wanted(w, r.kind))
            take_data(w, &r, output_offset(at, w->stream), out);
        at->of[r.kind] += r.data.len;
    }
    return 0;
}

/* The file. */

/* Reads up to len bytes at a place into b. Fewer: the file ends. */
static int read_at(const struct output_file *f, uint64_t at, size_t len, struct buf *b)
{
    b->len = 0;
    buf_reserve(b, len + 1);
    while (b->len < len) {
        ssize_t n = pread(f->fd, b->p + b->len, len - b->len, (off_t)(at + b->len));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return DROVER_IO;
        if (!n)
            break;
        b->len += (size_t)n;
    }
    return 0;
}

/* Whether a GAP that says so may go on there. */
static bool may_resume(const struct output_file *f, uint64_t from, uint64_t to)
{
    return to >= from && to <= f->len;
}

/*
 * Cuts the block behind a GAP whose next record is elsewhere, and behind the last whole record.
 * Sets where to read on.
 */
static int cut_block(struct output_file *f, uint64_t base)
{
    size_t at = 0;
    while (at < f->block.len) {
        struct output_record r;
        ssize_t len = output_read_record(f->block.p + at, f->block.len - at, true, &r);
        if (len < 0)
            return DROVER_DAMAGED;
        if (!len || at + (size_t)len > f->block.len)
            break;
        at += (size_t)len;
        if (r.kind != OUTPUT_GAP || !r.numbers[2])
            continue;
        if (!may_resume(f, base + at, r.numbers[2]))
            return DROVER_DAMAGED;
        f->next = r.numbers[2];
        f->block.len = at;
        return 0;
    }
    if (!at)
        return DROVER_DAMAGED; /* a record that goes beyond the end */
    f->next = base + at;
    f->block.len = at;
    return 0;
}

static int next_records(struct output_file *f)
{
    uint64_t base = f->next, left = base < f->len ? f->len - base : 0;
    if (!left)
        return 0;
    TRY(read_at(f, base, left < BLOCK_LEN ? (size_t)left : BLOCK_LEN, &f->block));
    if (left < BLOCK_LEN && f->block.len < left)
        return DROVER_DAMAGED;
    return cut_block(f, base);
}

static int next_frame(struct output_file *f)
{
    if (f->next >= f->marks.count)
        return 0;
    const struct output_mark *m = &f->marks.all[f->next];
    uint64_t end = f->next + 1 < f->marks.count ? m[1].file_at : f->len;
    if (end < m->file_at || end - m->file_at > 2 * (uint64_t)OUTPUT_FRAME_LEN_MAX)
        return DROVER_DAMAGED;
    TRY(read_at(f, m->file_at, (size_t)(end - m->file_at), &f->frame));
    TRY(output_read_frame(buf_str(&f->frame), &f->block));
    f->at = m->at;
    f->next++;
    return 0;
}

int output_file_next(struct output_file *f)
{
    f->block.len = f->block_at = 0;
    return f->sealed ? next_frame(f) : next_records(f);
}

int output_file_read(struct output_file *f, struct output_want *w, size_t max, struct buf *out)
{
    max += out->len;
    while (out->len < max && w->next < w->end) {
        if (f->block_at == f->block.len) {
            int err = output_file_next(f);
            if (err) {
                f->block.len = 0;
                return err;
            }
            if (!f->block.len)
                return 0;
        }
        struct str rest = {f->block.p + f->block_at, f->block.len - f->block_at};
        size_t used;
        TRY(output_take(w, rest, &f->at, max, &used, out));
        f->block_at += used;
    }
    return 0;
}

void output_file_go(struct output_file *f, const struct output_mark *m, uint64_t number)
{
    f->block.len = f->block_at = 0;
    f->next = f->sealed ? number : m->file_at;
    f->at = m->at;
}

void output_file_seek(struct output_file *f, enum run_stream s, uint64_t offset)
{
    static const struct output_mark begin = {.file_at = OUTPUT_FILE_HEAD_LEN};
    size_t i = f->marks.count ? output_marks_find(&f->marks, s, offset) : 0;
    output_file_go(f, f->marks.count ? &f->marks.all[i] : &begin, i);
}

/* Opening. */

static int load_index(struct output_file *f, uint64_t size)
{
    uint64_t count;
    uint32_t crc;
    if (size < OUTPUT_FILE_HEAD_LEN + OUTPUT_FOOT_LEN)
        return DROVER_DAMAGED;
    TRY(read_at(f, size - OUTPUT_FOOT_LEN, OUTPUT_FOOT_LEN, &f->block));
    if (f->block.len < OUTPUT_FOOT_LEN)
        return DROVER_DAMAGED;
    TRY(output_read_foot(f->block.p, &count, &f->total, &crc));
    uint64_t len = count * OUTPUT_INDEX_LEN;
    if (len > size - OUTPUT_FILE_HEAD_LEN - OUTPUT_FOOT_LEN)
        return DROVER_DAMAGED;
    f->len = size - OUTPUT_FOOT_LEN - len;
    TRY(read_at(f, f->len, (size_t)len, &f->block));
    if (f->block.len < len)
        return DROVER_DAMAGED;
    return output_read_index(buf_str(&f->block), crc, &f->marks);
}

/* One step of the scan: the record at f->next, whose head is in the block. False: it ends there. */
static bool scan_record(struct output_file *f, uint64_t size, uint64_t *base, uint64_t *marked)
{
    struct output_record r;
    size_t in = (size_t)(f->next - *base);
    ssize_t len =
        in < f->block.len ? output_read_record(f->block.p + in, f->block.len - in, true, &r) : 0;
    if (!len) { /* reads on from here */
        if (read_at(f, *base = f->next, SCAN_LEN, &f->block))
            return false;
        len = output_read_record(f->block.p, f->block.len, true, &r);
    }
    if (len <= 0 || r.kind == OUTPUT_AT || f->next + (uint64_t)len > size)
        return false;
    uint64_t after = f->next + (uint64_t)len;
    if (r.kind == OUTPUT_GAP && r.numbers[2]) {
        if (r.numbers[2] < after || r.numbers[2] > size)
            return false;
        after = r.numbers[2];
    }
    if (f->next >= *marked || r.kind == OUTPUT_GAP) {
        output_marks_add(&f->marks, f->next, &f->total);
        *marked = f->next + MARK_EVERY;
    }
    for (int i = 0; i < 2; i++)
        f->total.of[i] += r.kind == OUTPUT_GAP ? r.numbers[i] : (int)r.kind == i ? r.data.len : 0;
    f->at = (struct output_at){{f->next, (uint64_t)len}}; /* of the last one: see check_last() */
    f->next = after;
    return true;
}

/* The data of the last record may be torn, though its head is whole. */
static void check_last(struct output_file *f, const struct output_at *before)
{
    struct output_record r;
    uint64_t at = f->at.of[0];
    if (f->at.of[1] && (read_at(f, at, (size_t)f->at.of[1], &f->block) ||
                        output_read_record(f->block.p, f->block.len, false, &r) <= 0)) {
        f->len = at;
        f->total = *before;
        if (f->marks.count && f->marks.all[f->marks.count - 1].file_at == at)
            f->marks.count--;
    }
}

static int scan(struct output_file *f, uint64_t size)
{
    struct output_at before = {{0, 0}};
    uint64_t base = 0, marked = 0;
    f->at = (struct output_at){{0, 0}};
    f->next = OUTPUT_FILE_HEAD_LEN;
    f->block.len = 0;
    for (struct output_at at = f->total; scan_record(f, size, &base, &marked); at = f->total)
        before = at;
    f->len = f->next;
    f->damaged = size - f->len > OUTPUT_DATA_MAX + OUTPUT_HEAD_LEN;
    check_last(f, &before);
    return 0;
}

static int open_either(const char *path, struct buf *name)
{
    static const char *const suffixes[] = {OUTPUT_SUFFIX_SEALED, OUTPUT_SUFFIX_RAW,
                                           OUTPUT_SUFFIX_SEALED}; /* sealed meanwhile */
    int fd = -1;
    for (size_t i = 0; i < 3 && fd < 0; i++) {
        name->len = 0;
        buf_printf(name, "%s%s", path, suffixes[i]);
        fd = open(buf_text(name), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 && errno != ENOENT)
            break;
    }
    return fd;
}

int output_file_open(struct output_file *f, const char *path, uint64_t node, uint64_t run,
                     struct err_info *ret_error)
{
    CLEANUP(buf_release) struct buf name = {0};
    struct stat st;
    *f = (struct output_file){.fd = open_either(path, &name)};
    if (f->fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return err_set(ret_error, DROVER_NO_NODE, "the output was removed");
    if (f->fd < 0 || fstat(f->fd, &st))
        return err_set_errno(ret_error, errno, "cannot read %s", buf_text(&name));
    int err = read_at(f, 0, OUTPUT_FILE_HEAD_LEN, &f->block);
    if (!err)
        err = f->block.len < OUTPUT_FILE_HEAD_LEN
                  ? DROVER_DAMAGED
                  : output_read_file_head(f->block.p, node, run, &f->sealed);
    if (!err)
        err = f->sealed ? load_index(f, (uint64_t)st.st_size) : scan(f, (uint64_t)st.st_size);
    if (err)
        return err_set(ret_error, err, "%s: %s", buf_text(&name), drover_err_message(err));
    output_file_seek(f, RUN_MIXED, 0);
    return 0;
}

void output_file_live(struct output_file *f, int fd)
{
    *f = (struct output_file){.fd = fd, .next = OUTPUT_FILE_HEAD_LEN};
}

void output_file_close(struct output_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    free(f->marks.all);
    buf_release(&f->block);
    buf_release(&f->frame);
    *f = (struct output_file){.fd = -1};
}
