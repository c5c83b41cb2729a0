#include "dag/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/mem.h"
#include "dag/output_store.h"

enum {
    SMALL_LEN = 8 * 1024, /* NODE_TEXT_INLINE_MAX, for all streams together */
    PAGE_LEN = 4096,      /* holes are made of whole ones */
    MARK_LEN_MIN = 4096,
    MARK_LEN_MAX = 1024 * 1024,
};

struct output *output_new(struct output_store *store, uint64_t node, uint64_t run, uint64_t limit)
{
    struct output *o = mem_alloc(sizeof *o);
    *o = (struct output){.store = store, .node = node, .run = run, .limit = limit, .fd = -1};
    o->mark_every = limit / 32;
    if (o->mark_every < MARK_LEN_MIN)
        o->mark_every = MARK_LEN_MIN;
    if (o->mark_every > MARK_LEN_MAX)
        o->mark_every = MARK_LEN_MAX;
    o->ring_max = store ? OUTPUT_RING_MAX : (size_t)limit / 2;
    return o;
}

void output_free(struct output *o)
{
    if (o->fd >= 0)
        close(o->fd);
    buf_release(&o->small);
    buf_release(&o->memory);
    buf_release(&o->ring);
    free(o->marks.all);
    free(o);
}

static bool is_before(const struct output_at *a, const struct output_at *b)
{
    return output_offset(a, RUN_MIXED) < output_offset(b, RUN_MIXED);
}

/* The ring: the end of what was printed, behind a gap. */

static void ring_put(struct output *o, enum run_stream s, struct str data, int64_t now_ms)
{
    output_put_record(&o->ring, (enum output_kind)s, now_ms, data);
    if (o->ring.len < o->ring_max + o->ring_max / 4)
        return;
    size_t at = 0;
    while (o->ring.len - at > o->ring_max) {
        struct output_record r;
        size_t len = (size_t)output_read_record(o->ring.p + at, o->ring.len - at, true, &r);
        if (o->ring.len - at - len < o->ring_max / 2)
            break; /* one large record */
        at += len;
        if (r.kind == OUTPUT_GAP)
            continue;
        o->ring_at.of[r.kind] += r.data.len;
        o->missing += r.data.len;
    }
    memmove(o->ring.p, o->ring.p + at, o->ring.len -= at);
}

static void ring_begin(struct output *o, int64_t now_ms)
{
    o->ringing = true;
    o->ring_from = o->ring_at = o->total;
    o->retry_at_ms = now_ms + OUTPUT_RETRY_MS;
}

/* The file. */

/* At the end of the file, which does not count before all of it is written. */
static bool append(struct output *o, const struct iovec *parts, int count)
{
    size_t len = 0;
    for (int i = 0; i < count; i++)
        len += parts[i].iov_len;
    ssize_t n;
    do
        n = pwritev(o->fd, parts, count, (off_t)o->file_len);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)len) {
        output_store_failed(o->store, n < 0 ? errno : ENOSPC);
        return false;
    }
    o->file_len += len;
    output_store_grew(o->store, len);
    return true;
}

static bool append_buf(struct output *o, const struct buf *b)
{
    return append(o, &(struct iovec){b->p, b->len}, 1);
}

static bool write_gap(struct output *o, uint64_t file_at, const struct output_at *from,
                      const struct output_at *to, uint64_t resume, int64_t now_ms)
{
    CLEANUP(buf_release) struct buf b = {0};
    uint64_t numbers[3] = {to->of[0] - from->of[0], to->of[1] - from->of[1], resume};
    output_put_numbers(&b, OUTPUT_GAP, now_ms, numbers);
    if (file_at == o->file_len)
        return append_buf(o, &b);
    return pwrite(o->fd, b.p, b.len, (off_t)file_at) == (ssize_t)b.len;
}

/* Makes a hole of the pages that are between two places in the file. */
static bool punch(struct output *o, uint64_t from, uint64_t to)
{
    from = (from + PAGE_LEN - 1) / PAGE_LEN * PAGE_LEN;
    to = to / PAGE_LEN * PAGE_LEN;
    if (from >= to)
        return true;
    if (fallocate(o->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
                  (off_t)(to - from)))
        return false;
    output_store_shrank(o->store, to - from);
    return true;
}

/* The first mark behind the tail's beginning; NULL: there is none. */
static const struct output_mark *next_tail(const struct output *o)
{
    for (size_t i = 0; i < o->marks.count; i++)
        if (o->marks.all[i].file_at > o->tail_file_at)
            return &o->marks.all[i];
    return NULL;
}

/* The tail has become longer than half of the limit: it begins later. False: no hole was made. */
static bool shorten_tail(struct output *o, int64_t now_ms)
{
    const struct output_mark *m = next_tail(o);
    if (!m)
        return true;
    struct output_mark to = *m;
    if (!write_gap(o, o->gap_file_at, &o->gap_at, &to.at, to.file_at, now_ms) ||
        !punch(o, o->tail_file_at, to.file_at))
        return false;
    size_t first = 0, last;
    while (o->marks.all[first].file_at < o->tail_file_at)
        first++;
    for (last = first; o->marks.all[last].file_at < to.file_at;)
        last++;
    o->marks.count -= last - first;
    memmove(o->marks.all + first, o->marks.all + last,
            (o->marks.count - first) * sizeof *o->marks.all);
    o->missing += output_offset(&to.at, RUN_MIXED) - output_offset(&o->tail_at, RUN_MIXED);
    o->tail_file_at = to.file_at;
    o->tail_at = to.at;
    return true;
}

/* After a write: begins the tail, or shortens it. False: from now on the end stays in memory. */
static bool keep_limit(struct output *o, int64_t now_ms)
{
    if (!o->gap_file_at && o->file_len > o->limit / 2) {
        uint64_t file_at = o->file_len;
        if (!write_gap(o, file_at, &o->total, &o->total, 0, now_ms))
            return false;
        o->gap_file_at = file_at;
        o->gap_at = o->tail_at = o->total;
        o->tail_file_at = o->file_len;
        output_marks_add(&o->marks, o->file_len, &o->total);
    }
    while (o->gap_file_at && o->file_len - o->tail_file_at > o->limit / 2) {
        uint64_t before = o->tail_file_at;
        if (!shorten_tail(o, now_ms))
            return false;
        if (o->tail_file_at == before)
            break;
    }
    return true;
}

static void mark(struct output *o)
{
    uint64_t last = o->marks.count ? o->marks.all[o->marks.count - 1].file_at : 0;
    if (!last || o->file_len - last >= o->mark_every)
        output_marks_add(&o->marks, o->file_len, &o->total);
}

/* Opens the file and moves there what is in memory. */
static bool spill(struct output *o)
{
    CLEANUP(buf_release) struct buf b = {0};
    static const struct output_at begin;
    if (o->fd < 0) {
        o->fd = output_store_create(o->store, o->node, o->run);
        if (o->fd < 0)
            return false;
        o->file_len = 0;
    }
    if (!o->file_len) {
        output_put_file_head(&b, o->node, o->run, false);
        buf_put(&b, o->memory.p, o->memory.len);
        if (!append_buf(o, &b))
            return false;
        output_marks_add(&o->marks, OUTPUT_FILE_HEAD_LEN, &begin);
    }
    if (!o->is_large)
        o->small = o->memory;
    else
        buf_release(&o->memory);
    o->memory = (struct buf){0};
    o->memory_at = o->ringing ? o->ring_from : o->total;
    o->spill_at_ms = 0;
    return true;
}

/* The disk may have room again: puts the ring behind the file. */
static bool unring(struct output *o, int64_t now_ms)
{
    CLEANUP(buf_release) struct buf b = {0};
    struct output_at before = o->ring_from;
    if (!o->store || (!o->file_len && !spill(o)))
        return false;
    uint64_t numbers[3] = {o->ring_at.of[0] - before.of[0], o->ring_at.of[1] - before.of[1], 0};
    if (numbers[0] + numbers[1])
        output_put_numbers(&b, OUTPUT_GAP, now_ms, numbers);
    buf_put(&b, o->ring.p, o->ring.len);
    if (b.len && !append_buf(o, &b))
        return false;
    o->ringing = false;
    o->memory_at = o->total;
    buf_release(&o->ring);
    mark(o);
    return true;
}

/* Printing. */

static void put_file(struct output *o, enum run_stream s, struct str data, int64_t now_ms)
{
    struct iovec parts[] = {{o->last_head, OUTPUT_HEAD_LEN}, {(char *)data.p, data.len}};
    output_make_head(o->last_head, (enum output_kind)s, now_ms, data);
    mark(o);
    if (!append(o, parts, 2)) {
        if (o->marks.all[o->marks.count - 1].file_at == o->file_len)
            o->marks.count--;
        ring_begin(o, now_ms);
        ring_put(o, s, data, now_ms);
        o->total.of[s] += data.len;
        return;
    }
    o->total.of[s] += data.len;
    o->memory_at = o->total;
    o->last = data;
    if (!keep_limit(o, now_ms)) {
        o->ring_is_last = true;
        ring_begin(o, now_ms);
    }
}

static void put_memory(struct output *o, enum run_stream s, struct str data, int64_t now_ms)
{
    struct str rest = {0};
    size_t room = o->limit / 2 > o->memory.len ? (size_t)(o->limit / 2) - o->memory.len : 0;
    if (!o->store && data.len > room) {
        rest = (struct str){data.p + room, data.len - room};
        data.len = room;
    }
    if (data.len)
        output_put_record(&o->memory, (enum output_kind)s, now_ms, data);
    o->total.of[s] += data.len;
    if (rest.len) {
        ring_begin(o, now_ms);
        ring_put(o, s, rest, now_ms);
        o->total.of[s] += rest.len;
        return;
    }
    if (o->store && !o->spill_at_ms)
        o->spill_at_ms = now_ms + OUTPUT_SPILL_MS;
    if (o->store && o->memory.len > OUTPUT_MEMORY_MAX && !spill(o)) {
        o->spill_at_ms = 0;
        ring_begin(o, now_ms);
    }
}

/* A small output is also in memory. */
static void count_piece(struct output *o, enum run_stream s, struct str data, int64_t now_ms)
{
    o->pieces++;
    if (o->is_large)
        return;
    o->is_large = o->ringing || o->pieces > OUTPUT_PIECES_SMALL ||
                  output_offset(&o->total, RUN_MIXED) + data.len > SMALL_LEN;
    if (o->is_large)
        buf_release(&o->small);
    else if (o->file_len)
        output_put_record(&o->small, (enum output_kind)s, now_ms, data);
}

static void put_piece(struct output *o, enum run_stream s, struct str data, int64_t now_ms)
{
    count_piece(o, s, data, now_ms);
    if (o->ringing && !o->ring_is_last && o->store && now_ms >= o->retry_at_ms &&
        !unring(o, now_ms))
        o->retry_at_ms = now_ms + OUTPUT_RETRY_MS;
    if (o->ringing) {
        ring_put(o, s, data, now_ms);
        o->total.of[s] += data.len;
    } else if (o->file_len) {
        put_file(o, s, data, now_ms);
    } else {
        put_memory(o, s, data, now_ms);
    }
}

void output_put(struct output *o, enum run_stream s, struct str data, int64_t now_ms)
{
    o->last = (struct str){0};
    while (data.len) {
        struct str piece = {data.p, data.len < OUTPUT_DATA_MAX ? data.len : OUTPUT_DATA_MAX};
        put_piece(o, s, piece, now_ms);
        data.p += piece.len;
        data.len -= piece.len;
        if (data.len)
            o->last = (struct str){0}; /* the last piece is not all */
    }
}

/* A ring that has lost all it had: the gap is written with what comes next. */
void output_put_missing(struct output *o, const struct output_at *to, int64_t now_ms)
{
    if (!is_before(&o->total, to))
        return;
    if (o->ringing && o->ring.len && !unring(o, now_ms)) {
        o->missing += output_offset(&o->total, RUN_MIXED) - output_offset(&o->ring_at, RUN_MIXED);
        o->ring.len = 0;
    }
    if (!o->ringing)
        ring_begin(o, now_ms);
    o->missing += output_offset(to, RUN_MIXED) - output_offset(&o->total, RUN_MIXED);
    o->retry_at_ms = now_ms;
    o->total = o->ring_at = *to;
    o->is_large = true;
}

int64_t output_tick(struct output *o, int64_t now_ms)
{
    if (o->spill_at_ms && now_ms >= o->spill_at_ms && !spill(o)) {
        o->spill_at_ms = 0;
        ring_begin(o, now_ms);
    }
    return o->spill_at_ms ? o->spill_at_ms : INT64_MAX;
}

void output_end(struct output *o, int64_t now_ms)
{
    o->is_held = false;
    if (o->ringing && !unring(o, now_ms) && o->store) {
        o->missing += output_offset(&o->total, RUN_MIXED) - output_offset(&o->ring_at, RUN_MIXED);
        o->ring.len = 0;
    }
}

struct output *output_reopen(struct output_store *store, uint64_t node, uint64_t run,
                             uint64_t limit)
{
    CLEANUP(buf_release) struct buf path = {0};
    struct output_file f;
    struct err_info why;
    output_store_path(store, node, run, &path);
    int err = output_file_open(&f, buf_text(&path), node, run, &why);
    buf_printf(&path, OUTPUT_SUFFIX_RAW);
    int fd = !err && !f.sealed && !f.damaged ? open(buf_text(&path), O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0 || ftruncate(fd, (off_t)f.len)) {
        if (fd >= 0)
            close(fd);
        output_file_close(&f);
        return NULL;
    }
    struct output *o = output_new(store, node, run, limit);
    o->fd = fd;
    o->file_len = f.len;
    o->total = o->memory_at = f.total;
    o->marks = f.marks;
    o->is_large = true;
    f.marks = (struct output_marks){0};
    if (!o->marks.count)
        output_marks_add(&o->marks, OUTPUT_FILE_HEAD_LEN, &(struct output_at){{0, 0}});
    output_file_close(&f);
    return o;
}

/* Holding. */

void output_hold(struct output *o, const struct output_at *at)
{
    o->is_held = at != NULL;
    if (at)
        o->held_at = *at;
}

enum { PIECE_MAX = OUTPUT_HEAD_LEN + OUTPUT_DATA_MAX }; /* what the next piece may need */

/* The ring loses what it has too much, and a part of a record more. */
static uint64_t ring_needs(const struct output *o)
{
    uint64_t after = o->ring.len + PIECE_MAX, total = output_offset(&o->total, RUN_MIXED);
    if (after < o->ring_max + o->ring_max / 4)
        return 0;
    uint64_t end = output_offset(&o->ring_at, RUN_MIXED) + after - o->ring_max + PIECE_MAX;
    return end < total ? end : total;
}

/* The tail loses whole marks. */
static uint64_t tail_needs(const struct output *o)
{
    uint64_t after = o->file_len + PIECE_MAX;
    if (!o->gap_file_at || after - o->tail_file_at <= o->limit / 2)
        return 0;
    for (size_t i = 0; i < o->marks.count; i++) {
        const struct output_mark *m = &o->marks.all[i];
        if (m->file_at > o->tail_file_at && after - m->file_at <= o->limit / 2)
            return output_offset(&m->at, RUN_MIXED);
    }
    return output_offset(&o->total, RUN_MIXED); /* the next piece begins with a mark */
}

/* Whether the next piece would take away what is still needed. */
bool output_is_full(const struct output *o)
{
    return o->is_held &&
           output_offset(&o->held_at, RUN_MIXED) < (o->ringing ? ring_needs(o) : tail_needs(o));
}
