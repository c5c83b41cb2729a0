/*
 * A segment of the journal, as a disk might give it back.
 *
 * Bytes at random would never get past a checksum. So the input is a list of entries, each of which
 * appends something to the segment: records whose changes make sense one by one, records with any
 * payload or header under a right sum, marks, bytes, zeros, a flipped bit. What comes out is
 * replayed as recovery does, and
 *
 *  - what is accepted, encoded again, is what stands in the file, to the byte;
 *  - a segment that is cut where the valid part ends is a whole one and gives the same tree;
 *  - a tree that can be sealed is a tree;
 *  - what is refused is refused as damage, with a place.
 *
 * Input: one byte of flags, where flag 1 says that an LSN follows at which the journal begins (as
 * after a snapshot), then the entries: a byte that chooses from ENTRIES and its arguments.
 */
#include "base/crc32c.h"
#include "check.h"
#include "fuzz.h"
#include "keeper/journal/format.h"
#include "keeper/journal/recover.h"

enum { STORE = 7, NUMBER = 3, BEGIN_GIVEN = 1, ENTRIES_MAX = 300 };

struct builder {
    struct reader in;
    struct buf out;
    int64_t begin_lsn, lsn;
};

/*
 * Any payload and any numbers in a record whose sum is right: written from record.h, not with it.
 */
static void put_record(struct buf *out, struct str payload, int64_t lsn, uint32_t behind,
                       uint32_t type)
{
    size_t at = out->len;

    buf_put_u32(out, (uint32_t)payload.len);
    buf_put_u32(out, 0);
    buf_put_u64(out, (uint64_t)lsn);
    buf_put_u32(out, behind);
    buf_put_u32(out, type);
    buf_put_str(out, payload);
    le_store32(
        out->p + at + 4,
        crc32c(crc32c(record_salt(STORE), out->p + at + 8, out->len - at - 8), out->p + at, 4));
    while (out->len % RECORD_ALIGN)
        buf_put_u8(out, 0);
}

static struct tree_change read_change(struct reader *in)
{
    static const char *const paths[] = {
        "/a", "/b",  "/a/b", "/a/c", "/a/b/c", "/b/a", "/b/ab", "/a/b/c/d", "/zookeeper/quota",
        "/",  "/a/", "x",
    };
    static const char data[] = "0123456789abcdef";
    struct tree_change c = {.kind = 1 + reader_u8(in) % 6};
    uint8_t path = reader_u8(in), more = reader_u8(in);

    c.number = (more & 0xf) == 0xf ? INT32_MAX : more & 0xf;
    if (c.kind <= CHANGE_DELETE || c.kind == CHANGE_SET_ACL)
        c.path = str_of(paths[path % (sizeof paths / sizeof *paths)]);
    if (c.kind == CHANGE_CREATE || c.kind == CHANGE_SESSION_OPEN || c.kind == CHANGE_SESSION_CLOSE)
        c.session = path >> 4 & 3;
    if (c.kind == CHANGE_CREATE || c.kind == CHANGE_SET)
        c.data = (struct str){data, more >> 4};
    if (c.kind == CHANGE_SESSION_OPEN)
        c.data = (struct str){data, KEEPER_PASSWORD_LEN};
    if (c.kind == CHANGE_CREATE || c.kind == CHANGE_SET_ACL)
        c.acl = fuzz_acl(path >> 4, true);
    return c;
}

static void entry_changes(struct builder *b)
{
    struct tree_changes c = {0};
    int count = 1 + reader_u8(&b->in) % 6;

    changes_begin(&c, ++b->lsn, reader_u8(&b->in));
    while (count--)
        changes_add(&c, read_change(&b->in));
    record_put_changes(&b->out, record_salt(STORE), &c, 1);
    changes_release(&c);
}

static void entry_payload(struct builder *b)
{
    size_t len = reader_u8(&b->in);

    put_record(&b->out, fuzz_bytes(&b->in, len), ++b->lsn, 1, RECORD_TRANSACTION);
}

/* A record that is out of line: the sum is right, the numbers need not be. */
static void entry_odd(struct builder *b)
{
    int64_t lsn = (int64_t)((uint64_t)b->lsn + (uint64_t)(int8_t)reader_u8(&b->in));
    uint32_t behind = reader_u8(&b->in), type = reader_u8(&b->in) % 3;
    size_t len = reader_u8(&b->in) % 64;

    put_record(&b->out, fuzz_bytes(&b->in, len), lsn, behind, type);
}

static void entry_mark(struct builder *b)
{
    record_put_mark(&b->out, record_salt(STORE), b->lsn);
}

static void entry_bytes(struct builder *b)
{
    buf_put_str(&b->out, fuzz_bytes(&b->in, reader_u8(&b->in)));
}

static void entry_zeros(struct builder *b)
{
    static const char zeros[256];

    buf_put(&b->out, zeros, reader_u8(&b->in));
}

static void entry_flip(struct builder *b)
{
    size_t back = 1 + reader_u8(&b->in);
    char *bit = b->out.p + (back < b->out.len ? b->out.len - back : 0);

    *bit = (char)(*bit ^ 1 << reader_u8(&b->in) % 8);
}

static void (*const ENTRIES[])(struct builder *) = {
    entry_changes, entry_changes, entry_payload, entry_odd,
    entry_mark,    entry_bytes,   entry_zeros,   entry_flip,
};

static void build(struct builder *b)
{
    static const struct format_header header = {
        .kind = FORMAT_SEGMENT, .store = STORE, .number = NUMBER};
    int flags = reader_u8(&b->in);

    if (flags & BEGIN_GIVEN)
        b->begin_lsn = b->lsn = (int64_t)(reader_u64(&b->in) >> 2);
    buf_reserve(&b->out, FORMAT_HEADER_LEN);
    format_header_put(b->out.p, &header);
    b->out.len = FORMAT_HEADER_LEN;
    for (int i = 0; i < ENTRIES_MAX && b->in.left; i++)
        ENTRIES[reader_u8(&b->in) % (sizeof ENTRIES / sizeof *ENTRIES)](b);
}

/* Called for each replayed record: encoding it again gives the bytes of the file. */
static void check_record(void *arg, uint64_t segment, size_t at, const struct tree_changes *c)
{
    const struct str *bytes = arg;
    struct buf again = {0};

    FUZZ_CHECK(segment == NUMBER);
    record_put_changes(&again, record_salt(STORE), c, le_load32(bytes->p + at + 16));
    FUZZ_CHECK(again.len <= bytes->len - at);
    FUZZ_CHECK(memcmp(again.p, bytes->p + at, again.len) == 0);
    buf_release(&again);
}

static int replay(struct recovery *r, struct str bytes, int64_t begin_lsn, struct err_info *why)
{
    const struct recover_hooks hooks = {.record = check_record, .arg = &bytes};

    *r = (struct recovery){.store = STORE};
    tree_init(&r->tree);
    r->tree.zxid = begin_lsn;
    why->text[0] = '\0';
    return recover_segment_bytes(r, "segment", NUMBER, bytes, &hooks, why);
}

/*
 * Whether anything behind the valid part proves that something in front of it was on disk. A number
 * that so few bytes could not reach proves nothing.
 */
static bool something_is_lost(struct str bytes, size_t valid_len, int64_t lsn)
{
    int64_t most = (int64_t)(bytes.len / RECORD_HEADER_LEN);
    struct record record;

    for (size_t at = valid_len; at < bytes.len; at += RECORD_ALIGN)
        if (record_read(bytes.p + at, bytes.len - at, record_salt(STORE), &record) &&
            record.lsn - lsn <= most && record.lsn - lsn > record.behind)
            return true;
    return false;
}

static void check_tail(const struct recover_segment *s, struct str bytes, int64_t lsn)
{
    bool zeros = true;

    for (size_t at = s->valid_len; at < bytes.len; at++)
        zeros = zeros && !bytes.p[at];
    FUZZ_CHECK(s->torn == !zeros);
    FUZZ_CHECK(!something_is_lost(bytes, s->valid_len, lsn));
}

/* Cutting the tail off makes the segment whole and loses nothing that was replayed. */
static void check_cut(const struct recovery *whole, struct str bytes, int64_t begin_lsn)
{
    struct recovery cut;
    struct err_info why;

    bytes.len = whole->segments[0].valid_len;
    FUZZ_CHECK(replay(&cut, bytes, begin_lsn, &why) == 0);
    FUZZ_CHECK(!cut.segments[0].torn && cut.segments[0].valid_len == bytes.len);
    FUZZ_CHECK(cut.records == whole->records);
    fuzz_expect(check_same(&whole->tree, &cut.tree));
    recovery_release(&cut);
}

/*
 * Damage is a record that is not the one expected, one without sense, or one that is proved lost.
 */
static void check_damage(const struct recovery *r, struct str bytes, const struct err_info *why)
{
    struct record record;

    if (r->damaged_at == 0) /* the header */
        return;
    if (!record_read(bytes.p + r->damaged_at, bytes.len - r->damaged_at, record_salt(STORE),
                     &record))
        FUZZ_CHECK(something_is_lost(bytes, r->damaged_at, r->tree.zxid));
    else if (strstr(why->text, "later ones are there"))
        FUZZ_CHECK(record.lsn != r->tree.zxid + (record.type == RECORD_TRANSACTION));
}

static void check(struct str bytes, int64_t begin_lsn)
{
    struct recovery r;
    struct err_info why;
    int err = replay(&r, bytes, begin_lsn, &why);

    if (err) {
        FUZZ_CHECK(err == DROVER_DAMAGED && why.text[0]);
        FUZZ_CHECK(r.damaged_segment == NUMBER && r.damaged_at <= bytes.len);
        check_damage(&r, bytes, &why);
    } else {
        FUZZ_CHECK(r.segment_count == 1 && r.segments[0].records == r.records);
        FUZZ_CHECK(r.tree.zxid == begin_lsn + (int64_t)r.records);
        FUZZ_CHECK(r.segments[0].valid_len <= bytes.len);
        check_tail(&r.segments[0], bytes, r.tree.zxid);
        check_cut(&r, bytes, begin_lsn);
        err = tree_seal(&r.tree, &why);
        FUZZ_CHECK(!err || (err == DROVER_DAMAGED && why.text[0]));
        if (!err)
            fuzz_expect(check_tree(&r.tree));
    }
    recovery_release(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct builder b = {.in = {(const char *)data, len, false}};
    char *exact;

    build(&b);
    exact = fuzz_exact((struct str){b.out.p, b.out.len});
    check((struct str){exact, b.out.len}, b.begin_lsn);
    free(exact);
    buf_release(&b.out);
    return 0;
}
