/* Writing and reading archives; the format is in the header. */
#include "keeper/journal/archive.h"

#include <inttypes.h>

#include "base/crc32c.h"

enum part_kind { PART_SNAPSHOT = 1, PART_SEGMENT = 2, PART_END = 3 };

static const char MAGIC[] = "DROVERBK";
static const uint64_t SEGMENT_MAX = 9999999999; /* its name has ten digits */

/* Fills in the sum of a header, whose place is `at`. */
static void seal(char *header, size_t len, size_t at)
{
    le_store32(header + at, crc32c(0, header, len));
}

static bool is_sealed(const char *header, size_t len, size_t at)
{
    char copy[ARCHIVE_HEADER_LEN];
    memcpy(copy, header, len);
    memset(copy + at, 0, 4);
    return le_load32(header + at) == crc32c(0, copy, len);
}

void archive_put_header(struct buf *b, const struct archive_info *info)
{
    char header[ARCHIVE_HEADER_LEN] = {0};
    memcpy(header, MAGIC, 8);
    le_store32(header + 8, ARCHIVE_VERSION);
    le_store64(header + 16, info->store);
    le_store64(header + 24, (uint64_t)info->last_zxid);
    le_store64(header + 32, (uint64_t)info->time_ms);
    seal(header, sizeof header, 12);
    buf_put(b, header, sizeof header);
}

static void put_part(struct buf *b, enum part_kind kind, uint64_t number, uint64_t len,
                     uint64_t whole)
{
    char header[ARCHIVE_PART_LEN] = {0};
    le_store32(header, kind);
    le_store64(header + 8, number);
    le_store64(header + 16, len);
    le_store64(header + 24, whole);
    seal(header, sizeof header, 4);
    buf_put(b, header, sizeof header);
}

void archive_put_part(struct buf *b, enum format_kind kind, uint64_t number, uint64_t len)
{
    put_part(b, kind == FORMAT_SNAPSHOT ? PART_SNAPSHOT : PART_SEGMENT, number, len, 0);
}

void archive_put_sum(struct buf *b, uint32_t sum)
{
    buf_put_u32(b, sum);
}

void archive_put_end(struct buf *b, uint64_t parts, uint64_t len)
{
    put_part(b, PART_END, parts, 0, len + ARCHIVE_PART_LEN);
}

/* Reading. */

static int damaged(const struct archive_reader *r, struct err_info *ret_error, const char *why)
{
    return err_set(ret_error, DROVER_DAMAGED, "the backup is damaged at offset %" PRIu64 ": %s",
                   r->len - r->piece_len, why);
}

static int read_header(struct archive_reader *r, struct err_info *ret_error)
{
    const char *p = r->piece;
    if (memcmp(p, MAGIC, 8) != 0)
        return err_set(ret_error, DROVER_DAMAGED, "this is not a backup of drover");
    if (!is_sealed(p, ARCHIVE_HEADER_LEN, 12))
        return damaged(r, ret_error, "the header does not match its sum");
    if (le_load32(p + 8) > ARCHIVE_VERSION)
        return err_set(ret_error, DROVER_NEWER_VERSION,
                       "the backup was written by a newer version of drover");
    r->info.store = le_load64(p + 16);
    r->info.last_zxid = (int64_t)le_load64(p + 24);
    r->info.time_ms = (int64_t)le_load64(p + 32);
    if (!r->info.store || r->info.last_zxid < 0 || r->info.time_ms < 0)
        return damaged(r, ret_error, "the header makes no sense");
    r->state = ARCHIVE_PART;
    return 0;
}

static int read_end(struct archive_reader *r, struct err_info *ret_error)
{
    const char *p = r->piece;
    if (le_load64(p + 8) != r->parts || le_load64(p + 16) || le_load64(p + 24) != r->len)
        return damaged(r, ret_error, "the end does not fit what came before");
    if (!r->has_segment)
        return damaged(r, ret_error, "there is no journal in it");
    r->state = ARCHIVE_ENDED;
    return 0;
}

/* A snapshot comes first; segments follow one another. */
static bool is_in_order(const struct archive_reader *r, uint32_t kind, uint64_t number)
{
    if (kind == PART_SNAPSHOT)
        return r->parts == 0;
    return number && number <= SEGMENT_MAX && (!r->has_segment || number == r->segment + 1);
}

static int read_part(struct archive_reader *r, struct err_info *ret_error)
{
    const char *p = r->piece;
    uint32_t kind = le_load32(p);
    uint64_t number = le_load64(p + 8);
    if (!is_sealed(p, ARCHIVE_PART_LEN, 4))
        return damaged(r, ret_error, "the header of a part does not match its sum");
    if (kind == PART_END)
        return read_end(r, ret_error);
    if (kind != PART_SNAPSHOT && kind != PART_SEGMENT)
        return damaged(r, ret_error, "a part of unknown kind");
    if (!is_in_order(r, kind, number))
        return damaged(r, ret_error, "a part that does not follow the one before it");
    bool is_segment = kind == PART_SEGMENT;
    r->has_snapshot |= !is_segment;
    r->has_segment |= is_segment;
    if (is_segment)
        r->segment = number;
    r->parts++;
    r->left = le_load64(p + 16);
    r->sum = 0;
    r->state = r->left ? ARCHIVE_DATA : ARCHIVE_SUM;
    if (!r->sink.part)
        return 0;
    return r->sink.part(r->sink.arg, is_segment ? FORMAT_SEGMENT : FORMAT_SNAPSHOT, number, r->left,
                        ret_error);
}

static int read_sum(struct archive_reader *r, struct err_info *ret_error)
{
    if (le_load32(r->piece) != r->sum)
        return damaged(r, ret_error, "the part before it does not match its sum");
    r->state = ARCHIVE_PART;
    return r->sink.part_end ? r->sink.part_end(r->sink.arg, ret_error) : 0;
}

/* Takes bytes of fixed length: a header or a sum. Returns how many. */
static size_t take_piece(struct archive_reader *r, struct str bytes, size_t whole)
{
    size_t len = whole - r->piece_len < bytes.len ? whole - r->piece_len : bytes.len;
    memcpy(r->piece + r->piece_len, bytes.p, len);
    r->piece_len += len;
    r->len += len;
    return len;
}

static int take_data(struct archive_reader *r, struct str bytes, struct err_info *ret_error)
{
    r->sum = crc32c(r->sum, bytes.p, bytes.len);
    r->len += bytes.len;
    r->left -= bytes.len;
    if (!r->left)
        r->state = ARCHIVE_SUM;
    return r->sink.data ? r->sink.data(r->sink.arg, bytes, ret_error) : 0;
}

int archive_feed(struct archive_reader *r, struct str bytes, struct err_info *ret_error)
{
    static const struct {
        size_t len;
        int (*read)(struct archive_reader *r, struct err_info *ret_error);
    } PIECES[] = {
        [ARCHIVE_HEADER] = {ARCHIVE_HEADER_LEN, read_header},
        [ARCHIVE_PART] = {ARCHIVE_PART_LEN, read_part},
        [ARCHIVE_SUM] = {ARCHIVE_SUM_LEN, read_sum},
    };
    while (bytes.len) {
        enum archive_state state = r->state;
        size_t len = bytes.len;
        if (state == ARCHIVE_ENDED)
            return damaged(r, ret_error, "something stands behind the end");
        if (state == ARCHIVE_DATA) {
            len = len < r->left ? len : (size_t)r->left;
            TRY(take_data(r, (struct str){bytes.p, len}, ret_error));
        } else {
            len = take_piece(r, bytes, PIECES[state].len);
            if (r->piece_len == PIECES[state].len) {
                TRY(PIECES[state].read(r, ret_error));
                r->piece_len = 0;
            }
        }
        bytes = (struct str){bytes.p + len, bytes.len - len};
    }
    return 0;
}

int archive_finish(struct archive_reader *r, struct err_info *ret_error)
{
    if (r->state == ARCHIVE_ENDED)
        return 0;
    return err_set(ret_error, DROVER_DAMAGED, "the backup is cut off after %" PRIu64 " bytes",
                   r->len);
}
