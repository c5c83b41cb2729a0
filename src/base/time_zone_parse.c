/*
 * Zone files, RFC 9636. All numbers are big-endian:
 *
 *   header     "TZif", version (0, '2', '3', '4'), 15 bytes, then six counts of 4 bytes: UT marks,
 *              standard marks, leap seconds, times, types, bytes of names
 *   body       the times (4 bytes each), the type that begins at each (1), the types (offset 4,
 *              daylight saving 1, name 1), the names, leap seconds (8), standard marks (1), UT
 *              marks (1)
 *
 * From version 2 on the same follows once more with times of 8 bytes and leap seconds of 12, and
 * then a rule between two newlines, which holds after the last time; only these are read. Before
 * the first time the first type holds. Names of offsets ("CEST") and marks are skipped.
 *
 * Zones that count leap seconds (Debian's right/...) are refused: the system's clock does not.
 */
#include <string.h>

#include "base/buf.h"
#include "base/time_zone_impl.h"

enum { TYPES_MAX = 256 };

struct header {
    char version;
    uint32_t ut_marks, standard_marks, leaps, times, types, name_bytes;
};

static uint64_t read_be(struct reader *r, size_t len)
{
    uint64_t v = 0;
    for (size_t i = 0; i < len; i++)
        v = v << 8 | reader_u8(r);
    return v;
}

static uint32_t read_be32(struct reader *r)
{
    return (uint32_t)read_be(r, 4);
}

static bool read_header(struct reader *r, struct header *h)
{
    if (!str_eq(reader_bytes(r, 4), STR("TZif")))
        return false;
    h->version = (char)reader_u8(r);
    reader_bytes(r, 15);
    h->ut_marks = read_be32(r);
    h->standard_marks = read_be32(r);
    h->leaps = read_be32(r);
    h->times = read_be32(r);
    h->types = read_be32(r);
    h->name_bytes = read_be32(r);
    return !r->bad;
}

/* Each count is below 2^32, so the sum of some of them does not overflow. */
static uint64_t tail_len(const struct header *h, size_t time_len)
{
    return (uint64_t)h->name_bytes + (uint64_t)h->leaps * (time_len + 4) + h->standard_marks +
           h->ut_marks;
}

static uint64_t body_len(const struct header *h, size_t time_len)
{
    return (uint64_t)h->times * (time_len + 1) + (uint64_t)h->types * 6 + tail_len(h, time_len);
}

static bool read_types(struct reader *r, uint32_t count, int32_t offsets[])
{
    for (uint32_t i = 0; i < count; i++) {
        offsets[i] = (int32_t)read_be32(r);
        reader_bytes(r, 2);
        if (offsets[i] < TIME_ZONE_OFFSET_MIN_S || offsets[i] > TIME_ZONE_OFFSET_MAX_S)
            return false;
    }
    return true;
}

static int64_t read_time(struct reader *r, size_t len)
{
    return len == 4 ? (int32_t)read_be32(r) : (int64_t)read_be(r, 8);
}

/* NULL, or what is wrong with it. */
static const char *read_body(struct reader *r, const struct header *h, size_t time_len,
                             struct time_zone *z, int64_t *ret_last)
{
    int32_t offsets[TYPES_MAX];
    if (body_len(h, time_len) > r->left)
        return "it is cut off";
    if (h->leaps)
        return "it counts leap seconds; use the zone without 'right/'";
    if (!h->types || h->types > TYPES_MAX)
        return "it has no types of time, or too many";
    struct reader times = {r->p, (size_t)h->times * time_len, false};
    reader_bytes(r, times.left);
    struct str types = reader_bytes(r, h->times);
    if (!read_types(r, h->types, offsets))
        return "an offset is out of range";
    reader_bytes(r, (size_t)tail_len(h, time_len));

    time_zone_add(z, INT64_MIN, offsets[0]);
    int64_t last = INT64_MIN;
    for (uint32_t i = 0; i < h->times; i++) {
        int64_t at = read_time(&times, time_len);
        unsigned char type = (unsigned char)types.p[i];
        if (at <= last || at < -TIME_ZONE_RANGE_S || at > TIME_ZONE_RANGE_S)
            return "its times are out of order or out of range";
        if (type >= h->types)
            return "a type of time is missing";
        time_zone_add(z, at, offsets[type]);
        last = at;
    }
    *ret_last = last;
    return NULL;
}

static const char *read_rule(struct reader *r, struct time_zone *z, int64_t last)
{
    struct str rest = {r->p, r->left};
    if (!rest.len || *rest.p != '\n')
        return "the rule at its end is missing";
    str_cut(&rest, '\n');
    struct str rule = str_cut(&rest, '\n');
    if (!rest.p)
        return "the rule at its end is cut off";
    if (rule.len && !time_zone_continue(z, last, rule))
        return "the rule at its end is not valid";
    return NULL;
}

static const char *read_file(struct reader *r, struct time_zone *z)
{
    static const char not_one[] = "it is not a zone file (TZif)";
    struct header h;
    int64_t last;
    if (!read_header(r, &h))
        return not_one;
    if (h.version < '2')
        return read_body(r, &h, 4, z, &last);
    if (body_len(&h, 4) > r->left)
        return "it is cut off";
    reader_bytes(r, (size_t)body_len(&h, 4));
    if (!read_header(r, &h))
        return not_one;
    const char *wrong = read_body(r, &h, 8, z, &last);
    return wrong ? wrong : read_rule(r, z, last);
}

int time_zone_parse(struct str bytes, struct time_zone **ret_zone, struct err_info *ret_error)
{
    struct reader r = {bytes.p, bytes.len, false};
    struct time_zone *z = mem_zalloc(sizeof *z);
    const char *wrong =
        bytes.len > TIME_ZONE_FILE_MAX ? "it is too large for a zone file" : read_file(&r, z);
    if (wrong) {
        time_zone_free(z);
        return err_set(ret_error, DROVER_DAMAGED, "%s", wrong);
    }
    z->changes = mem_realloc(z->changes, z->count * sizeof *z->changes);
    z->cap = z->count;
    *ret_zone = z;
    return 0;
}
