#include "dag/output_format.h"

#include <string.h>
#include <sys/types.h>
#include <zstd.h>

#include "base/crc32c.h"
#include "base/mem.h"

enum { LEVEL = 1 }; /* of the compression: the disk, not its size, is what a run waits for */

/* Records. */

void output_make_head(char head[OUTPUT_HEAD_LEN], enum output_kind kind, int64_t time_ms,
                      struct str data)
{
    le_store32(head + 4, crc32c(0, data.p, data.len));
    le_store32(head + 8, (uint32_t)data.len);
    le_store32(head + 12, (uint32_t)kind);
    le_store64(head + 16, (uint64_t)time_ms);
    le_store32(head, crc32c(0, head + 4, OUTPUT_HEAD_LEN - 4));
}

void output_put_record(struct buf *b, enum output_kind kind, int64_t time_ms, struct str data)
{
    char head[OUTPUT_HEAD_LEN];
    output_make_head(head, kind, time_ms, data);
    buf_reserve(b, sizeof head + data.len);
    buf_put(b, head, sizeof head);
    buf_put_str(b, data);
}

void output_put_numbers(struct buf *b, enum output_kind kind, int64_t time_ms,
                        const uint64_t numbers[3])
{
    char data[OUTPUT_NUMBERS_LEN];
    for (int i = 0; i < 3; i++)
        le_store64(data + 8 * i, numbers[i]);
    output_put_record(b, kind, time_ms, (struct str){data, sizeof data});
}

/* A position is below 2^62, so sums of two do not overflow. */
static bool read_numbers(struct str data, uint64_t numbers[3])
{
    for (int i = 0; i < 3; i++) {
        numbers[i] = le_load64(data.p + 8 * i);
        if (numbers[i] >> 62)
            return false;
    }
    return true;
}

ssize_t output_read_record(const char *p, size_t len, bool heads_only,
                           struct output_record *ret_record)
{
    if (len < OUTPUT_HEAD_LEN)
        return 0;
    uint32_t data_len = le_load32(p + 8), kind = le_load32(p + 12);
    bool numbers = kind == OUTPUT_GAP || kind == OUTPUT_AT;
    if (le_load32(p) != crc32c(0, p + 4, OUTPUT_HEAD_LEN - 4) || data_len > OUTPUT_DATA_MAX ||
        kind >= OUTPUT_KINDS || (numbers && data_len != OUTPUT_NUMBERS_LEN))
        return DROVER_DAMAGED;
    size_t whole = OUTPUT_HEAD_LEN + data_len;
    bool has_data = len >= whole;
    if (!has_data && (!heads_only || numbers))
        return 0;
    struct output_record r = {
        .kind = (enum output_kind)kind,
        .time_ms = (int64_t)le_load64(p + 16),
        .data = {has_data ? p + OUTPUT_HEAD_LEN : NULL, data_len},
    };
    if ((!heads_only || numbers) && le_load32(p + 4) != crc32c(0, r.data.p, data_len))
        return DROVER_DAMAGED;
    if (numbers && !read_numbers(r.data, r.numbers))
        return DROVER_DAMAGED;
    *ret_record = r;
    return (ssize_t)whole;
}

/* The head of a file. */

static const char MAGIC[2][8] = {"DROVOUT1", "DROVOUTZ"};

void output_put_file_head(struct buf *b, uint64_t node, uint64_t run, bool sealed)
{
    size_t from = b->len;
    buf_put(b, MAGIC[sealed], 8);
    buf_put_u64(b, node);
    buf_put_u64(b, run);
    buf_put_u32(b, 0);
    buf_put_u32(b, crc32c(0, b->p + from, OUTPUT_FILE_HEAD_LEN - 4));
}

int output_read_file_head(const char *p, uint64_t node, uint64_t run, bool *ret_sealed)
{
    bool sealed = !memcmp(p, MAGIC[1], 8);
    if ((!sealed && memcmp(p, MAGIC[0], 8) != 0) ||
        le_load32(p + OUTPUT_FILE_HEAD_LEN - 4) != crc32c(0, p, OUTPUT_FILE_HEAD_LEN - 4) ||
        le_load64(p + 8) != node || le_load64(p + 16) != run)
        return DROVER_DAMAGED;
    *ret_sealed = sealed;
    return 0;
}

/* Marks. */

void output_marks_add(struct output_marks *m, uint64_t file_at, const struct output_at *at)
{
    mem_grow(m->all, m->count, m->cap);
    m->all[m->count++] = (struct output_mark){file_at, *at};
}

size_t output_marks_find(const struct output_marks *m, enum run_stream s, uint64_t offset)
{
    size_t low = 0, high = m->count; /* the answer is in [low, high) */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (output_offset(&m->all[middle].at, s) <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Frames. */

void output_put_frame(struct buf *b, struct str records)
{
    size_t bound = ZSTD_compressBound(records.len), from = b->len;
    buf_reserve(b, OUTPUT_FRAME_HEAD_LEN + bound);
    char *head = b->p + from;
    size_t len = ZSTD_compress(head + OUTPUT_FRAME_HEAD_LEN, bound, records.p, records.len, LEVEL);
    if (ZSTD_isError(len))
        err_fatal("zstd: %s", ZSTD_getErrorName(len)); /* the room suffices: out of memory */
    le_store32(head + 4, (uint32_t)len);
    le_store32(head + 8, (uint32_t)records.len);
    le_store32(head + 12, 0);
    le_store32(head, crc32c(0, head + 4, OUTPUT_FRAME_HEAD_LEN - 4 + len));
    b->len += OUTPUT_FRAME_HEAD_LEN + len;
}

int output_read_frame(struct str frame, struct buf *ret_records)
{
    if (frame.len < OUTPUT_FRAME_HEAD_LEN ||
        le_load32(frame.p + 4) != frame.len - OUTPUT_FRAME_HEAD_LEN ||
        le_load32(frame.p + 8) > OUTPUT_FRAME_LEN_MAX ||
        le_load32(frame.p) != crc32c(0, frame.p + 4, frame.len - 4))
        return DROVER_DAMAGED;
    uint32_t raw_len = le_load32(frame.p + 8);
    ret_records->len = 0;
    buf_reserve(ret_records, raw_len + 1u);
    size_t len = ZSTD_decompress(ret_records->p, raw_len, frame.p + OUTPUT_FRAME_HEAD_LEN,
                                 frame.len - OUTPUT_FRAME_HEAD_LEN);
    if (ZSTD_isError(len) || len != raw_len)
        return DROVER_DAMAGED;
    ret_records->len = raw_len;
    return 0;
}

/* The end of a sealed file. */

void output_put_index(struct buf *b, const struct output_marks *frames,
                      const struct output_at *total)
{
    size_t from = b->len;
    for (size_t i = 0; i < frames->count; i++) {
        buf_put_u64(b, frames->all[i].file_at);
        buf_put_u64(b, frames->all[i].at.of[0]);
        buf_put_u64(b, frames->all[i].at.of[1]);
    }
    uint32_t crc = crc32c(0, b->p + from, b->len - from);
    from = b->len;
    buf_put_u64(b, frames->count);
    buf_put_u64(b, total->of[0]);
    buf_put_u64(b, total->of[1]);
    buf_put_u32(b, crc);
    buf_put_u32(b, crc32c(0, b->p + from, OUTPUT_FOOT_LEN - 4));
}

int output_read_foot(const char *p, uint64_t *ret_count, struct output_at *ret_total,
                     uint32_t *ret_index_crc)
{
    uint64_t count = le_load64(p), out = le_load64(p + 8), err = le_load64(p + 16);
    if (le_load32(p + OUTPUT_FOOT_LEN - 4) != crc32c(0, p, OUTPUT_FOOT_LEN - 4) ||
        count > OUTPUT_FRAMES_MAX || out >> 62 || err >> 62)
        return DROVER_DAMAGED;
    *ret_count = count;
    *ret_total = (struct output_at){{out, err}};
    *ret_index_crc = le_load32(p + 24);
    return 0;
}

/* Frames follow each other, and offsets do not fall. */
int output_read_index(struct str index, uint32_t crc, struct output_marks *frames)
{
    struct output_mark before = {.file_at = OUTPUT_FILE_HEAD_LEN};
    if (crc32c(0, index.p, index.len) != crc)
        return DROVER_DAMAGED;
    for (size_t i = 0; i + OUTPUT_INDEX_LEN <= index.len; i += OUTPUT_INDEX_LEN) {
        const char *p = index.p + i;
        struct output_mark m = {le_load64(p), {{le_load64(p + 8), le_load64(p + 16)}}};
        if (m.file_at < before.file_at || m.at.of[0] < before.at.of[0] ||
            m.at.of[1] < before.at.of[1] || m.file_at >> 62 || m.at.of[0] >> 62 || m.at.of[1] >> 62)
            return DROVER_DAMAGED;
        output_marks_add(frames, m.file_at, &m.at);
        before = m;
    }
    return 0;
}
