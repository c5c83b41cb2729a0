/* Encoding and decoding of records; the format is in the header. */
#include "keeper/journal/record.h"

#include "base/crc32c.h"

uint32_t record_salt(uint64_t store)
{
    char bytes[8];

    le_store64(bytes, store);
    return crc32c(0, bytes, sizeof bytes);
}

/*
 * The length is summed last: it may be wrong, so the sum must not depend on it before the rest is
 * checked.
 */
static uint32_t checksum(uint32_t salt, const char *record, size_t payload_len)
{
    return crc32c(crc32c(salt, record + 8, RECORD_HEADER_LEN - 8 + payload_len), record, 4);
}

static size_t begin(struct buf *b)
{
    static const char empty[RECORD_HEADER_LEN];
    size_t at = b->len;

    buf_put(b, empty, sizeof empty);
    return at;
}

static void end(struct buf *b, uint32_t salt, size_t at, int64_t lsn, int64_t behind,
                enum record_type type)
{
    static const char zeros[RECORD_ALIGN];
    size_t payload_len = b->len - at - RECORD_HEADER_LEN;
    char *record = b->p + at;

    le_store32(record, (uint32_t)payload_len);
    le_store64(record + 8, (uint64_t)lsn);
    le_store32(record + 16, behind > UINT32_MAX ? UINT32_MAX : (uint32_t)behind);
    le_store32(record + 20, type);
    le_store32(record + 4, checksum(salt, record, payload_len));
    buf_put(b, zeros, -payload_len % RECORD_ALIGN);
}

/* The fields of each kind of change, in the order in which they are written. */
enum {
    HAS_PATH = 1,
    HAS_DATA = 2,
    HAS_ACL = 4,
    HAS_SESSION = 8,
    HAS_NUMBER = 16,
    HAS_PASSWORD = 32,
};

static const int FIELDS[] = {
    [CHANGE_CREATE] = HAS_PATH | HAS_DATA | HAS_ACL | HAS_SESSION | HAS_NUMBER,
    [CHANGE_SET] = HAS_PATH | HAS_DATA | HAS_NUMBER,
    [CHANGE_DELETE] = HAS_PATH,
    [CHANGE_SESSION_OPEN] = HAS_SESSION | HAS_NUMBER | HAS_PASSWORD,
    [CHANGE_SESSION_CLOSE] = HAS_SESSION,
    [CHANGE_SET_ACL] = HAS_PATH | HAS_ACL | HAS_NUMBER,
};

enum { KIND_COUNT = sizeof FIELDS / sizeof *FIELDS };

static void put_change(struct buf *b, const struct tree_change *c)
{
    int has = FIELDS[c->kind];

    buf_put_u8(b, (uint8_t)c->kind);
    if (has & HAS_PATH)
        buf_put_u32(b, (uint32_t)c->path.len);
    if (has & HAS_DATA)
        buf_put_u32(b, buf_len_or_none(c->data));
    if (has & HAS_ACL)
        buf_put_u32(b, (uint32_t)c->acl.len);
    if (has & HAS_SESSION)
        buf_put_u64(b, (uint64_t)c->session);
    if (has & HAS_NUMBER)
        buf_put_u32(b, (uint32_t)c->number);
    buf_put_str(b, c->path);
    buf_put_str(b, c->data);
    if (has & HAS_ACL)
        buf_put_str(b, c->acl);
}

void record_put_changes(struct buf *b, uint32_t salt, const struct tree_changes *c, int64_t behind)
{
    size_t at = begin(b);

    buf_put_u64(b, (uint64_t)c->time_ms);
    for (size_t i = 0; i < c->count; i++)
        put_change(b, &c->list[i]);
    end(b, salt, at, c->zxid, behind, RECORD_TRANSACTION);
}

void record_put_mark(struct buf *b, uint32_t salt, int64_t lsn)
{
    end(b, salt, begin(b), lsn, 0, RECORD_MARK);
}

/* The padding is not part of the sum, but it was written as zeros: anything else is damage. */
static bool padding_is_zero(const char *p, const char *end)
{
    while (p < end && !*p)
        p++;
    return p == end;
}

bool record_read(const char *p, size_t left, uint32_t salt, struct record *ret_record)
{
    if (left < RECORD_HEADER_LEN)
        return false;
    size_t payload_len = le_load32(p);
    size_t whole_len = RECORD_HEADER_LEN + payload_len + -payload_len % RECORD_ALIGN;
    if (payload_len > RECORD_MAX || whole_len > left)
        return false;
    if (le_load32(p + 20) > RECORD_MARK || le_load32(p + 4) != checksum(salt, p, payload_len) ||
        !padding_is_zero(p + RECORD_HEADER_LEN + payload_len, p + whole_len))
        return false;
    *ret_record = (struct record){
        .type = (enum record_type)le_load32(p + 20),
        .lsn = (int64_t)le_load64(p + 8),
        .behind = le_load32(p + 16),
        .payload = {p + RECORD_HEADER_LEN, payload_len},
        .whole_len = whole_len,
    };
    return true;
}

static bool read_change(struct reader *r, struct tree_change *ret_change)
{
    struct tree_change c = {.kind = (enum tree_change_kind)reader_u8(r)};
    int has = (int)c.kind < KIND_COUNT ? FIELDS[c.kind] : 0;

    if (!has)
        return false;
    uint32_t path_len = has & HAS_PATH ? reader_u32(r) : 0;
    uint32_t data_len = has & HAS_DATA       ? reader_u32(r)
                        : has & HAS_PASSWORD ? KEEPER_PASSWORD_LEN
                                             : 0;
    uint32_t acl_len = has & HAS_ACL ? reader_u32(r) : 0;
    if (has & HAS_SESSION)
        c.session = (int64_t)reader_u64(r);
    if (has & HAS_NUMBER)
        c.number = (int32_t)reader_u32(r);
    c.path = reader_bytes(r, path_len);
    c.data = reader_bytes_or_none(r, data_len);
    c.acl = reader_bytes(r, acl_len);
    *ret_change = c;
    return !r->bad;
}

int record_changes(const struct record *r, struct tree_changes *c)
{
    struct reader in = {r->payload.p, r->payload.len, false};
    struct tree_change change;

    changes_begin(c, r->lsn, (int64_t)reader_u64(&in));
    while (in.left) {
        if (!read_change(&in, &change))
            return DROVER_DAMAGED;
        changes_add(c, change);
    }
    return in.bad || !c->count ? DROVER_DAMAGED : 0;
}
