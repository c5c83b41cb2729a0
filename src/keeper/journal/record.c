/* Encoding and decoding of records, making and reading segments; the format is in the header. */
#include "keeper/journal/record.h"

#include <errno.h>
#include <fcntl.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "keeper/journal/format.h"

/* Of a segment that is made, synced piece by piece: the one in use must not wait for 16 MiB. */
enum { FILL_LEN = 512 * 1024 };

uint32_t record_salt(uint64_t store)
{
    char bytes[8];
    le_store64(bytes, store);
    return crc32c(0, bytes, sizeof bytes);
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
    le_store32(record + 4, format_checksum(salt, record, RECORD_HEADER_LEN + payload_len));
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

static bool is_zero(const char *p, size_t len)
{
    return len == 0 || (p[0] == 0 && memcmp(p, p + 1, len - 1) == 0);
}

/* The padding is not part of the sum, but it was written as zeros: anything else is damage. */
bool record_read(const char *p, size_t left, uint32_t salt, struct record *ret_record)
{
    if (left < RECORD_HEADER_LEN)
        return false;
    size_t payload_len = le_load32(p), padding_len = -payload_len % RECORD_ALIGN;
    size_t whole_len = RECORD_HEADER_LEN + payload_len + padding_len;
    if (payload_len > RECORD_MAX || whole_len > left || le_load32(p + 20) > RECORD_MARK ||
        le_load32(p + 4) != format_checksum(salt, p, RECORD_HEADER_LEN + payload_len) ||
        !is_zero(p + whole_len - padding_len, padding_len))
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

static int fill(const struct fs *fs, int fd, const struct format_header *h)
{
    CLEANUP(mem_free) char *block = mem_zalloc(FILL_LEN);
    format_header_put(block, h);
    for (size_t at = 0; at < h->made_len; at += FILL_LEN) {
        size_t part = h->made_len - at < FILL_LEN ? h->made_len - at : FILL_LEN;
        TRY(fs_write_all(fs, fd, block, part, (off_t)at, false));
        TRY(fs->fsync(fs, fd));
        if (at == 0)
            memset(block, 0, FORMAT_HEADER_LEN);
    }
    return 0;
}

int segment_make_file(const struct fs *fs, const char *dir, const char *path,
                      const struct format_header *h, int *ret_fd, struct err_info *ret_error)
{
    CLEANUP(mem_free) char *tmp = format_path_of(dir, "journal.tmp");
    int fd = fs->open(fs, tmp, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd >= 0 && fill(fs, fd, h) == 0 && fs->fsync(fs, fd) == 0 &&
        fs->rename(fs, tmp, path) == 0 && fs_sync_dir(fs, dir) == 0) {
        *ret_fd = fd;
        return 0;
    }
    int err = err_set_errno(ret_error, errno, "cannot make %s", path);
    if (fd >= 0) {
        fs->close(fs, fd);
        fs->unlink(fs, tmp);
    }
    return err;
}

int segment_make(const struct fs *fs, const char *dir, uint64_t store, uint64_t number, size_t len,
                 int *ret_fd, struct err_info *ret_error)
{
    struct format_header h = {
        .kind = FORMAT_SEGMENT, .store = store, .number = number, .made_len = len};
    CLEANUP(mem_free) char *path = format_path(dir, FORMAT_SEGMENT, number);
    return segment_make_file(fs, dir, path, &h, ret_fd, ret_error);
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
    struct record record;
    while (record_read(r->bytes.p + r->at, r->bytes.len - r->at, r->salt, &record)) {
        bool is_mark = record.type == RECORD_MARK;
        if (r->lsn >= 0 && record.lsn != (is_mark ? r->lsn : r->lsn + 1))
            return SEGMENT_DAMAGED; /* valid, but not the next one: a record is missing */
        r->at += record.whole_len;
        r->lsn = record.lsn;
        if (!is_mark) {
            *ret_record = record;
            return SEGMENT_RECORD;
        }
    }
    if (is_zero(r->bytes.p + r->at, r->bytes.len - r->at))
        return SEGMENT_END;
    return was_durable(r) ? SEGMENT_DAMAGED : SEGMENT_TORN;
}
