/*
 * A snapshot, as a disk might give it back.
 *
 * As in fuzz_journal the input is a list of entries, each of which appends something: blocks of
 * sessions or nodes that make sense one by one, blocks of any kind and payload under a right sum,
 * bytes, a flipped bit, an end. What snapshot_read takes and tree_seal accepts must be a tree; it
 * is written again and read back, which must give the same; and it must bear being worked with.
 *
 * Input: u64 transaction, u64 segment, then the entries: a byte that chooses from ENTRIES and its
 * arguments.
 */
#include "base/crc32c.h"
#include "check.h"
#include "fuzz.h"
#include "memory.h"

enum { ENTRIES_MAX = 200, LATER = 100, BLOCK_SESSIONS = 1, BLOCK_NODES = 2, BLOCK_END = 3 };

struct builder {
    struct reader in;
    struct buf out;
    struct format_header header;
    uint32_t block;
    uint64_t nodes, sessions;
    bool ended;
};

/* A block whose sum is right: written from snapshot.h, not with it. */
static void put_block(struct builder *b, uint32_t kind, uint32_t number, struct str payload)
{
    size_t at = b->out.len;
    char *block;

    buf_put_u32(&b->out, (uint32_t)payload.len);
    buf_put_u32(&b->out, 0);
    buf_put_u32(&b->out, kind);
    buf_put_u32(&b->out, number);
    buf_put_str(&b->out, payload);
    block = b->out.p + at;
    le_store32(block + 4, crc32c(crc32c(0, block + 8, b->out.len - at - 8), block, 4));
}

static void entry_sessions(struct builder *b)
{
    struct buf payload = {0};
    int count = reader_u8(&b->in) % 4;

    while (count--) {
        buf_put_u64(&payload, reader_u8(&b->in) % 8);
        buf_put_u32(&payload, 1000u * (reader_u8(&b->in) & 7));
        buf_put(&payload, "0123456789abcdef", KEEPER_PASSWORD_LEN);
        b->sessions++;
    }
    put_block(b, BLOCK_SESSIONS, b->block++, (struct str){payload.p, payload.len});
    buf_release(&payload);
}

static void put_node(struct buf *out, struct reader *in)
{
    static const char *const paths[] = {"/",    "/zookeeper", "/a",       "/b",    "/a/b",  "/a/c",
                                        "/b/a", "/a/b/c",     "/a/b/c/d", "/b/ab", "/a//b", ""};
    static const int32_t numbers[] = {0, 1, 2, 5, INT32_MAX, INT32_MIN, -1, -2};
    static const char data[] = "0123456789abcdef";
    struct str path = str_of(paths[reader_u8(in) % (sizeof paths / sizeof *paths)]);
    uint8_t more = reader_u8(in), zxid = reader_u8(in);
    struct str acl = fuzz_acl(reader_u8(in), true);

    buf_put_u32(out, (uint32_t)path.len);
    buf_put_u32(out, more & 0xf);
    buf_put_u32(out, (uint32_t)acl.len);
    buf_put_u64(out, zxid & 0xf);
    buf_put_u64(out, zxid >> 4);
    buf_put_u64(out, zxid & 0x3c);
    buf_put_u64(out, 1000);
    buf_put_u64(out, 2000);
    buf_put_u64(out, more & 0x80 ? more >> 4 & 7 : 0);
    for (int i = 0; i < 3; i++)
        buf_put_u32(out, (uint32_t)numbers[reader_u8(in) % 8]);
    buf_put_str(out, path);
    buf_put(out, data, more & 0xf);
    buf_put_str(out, acl);
}

static void entry_nodes(struct builder *b)
{
    struct buf payload = {0};
    int count = reader_u8(&b->in) % 8;

    while (count--) {
        put_node(&payload, &b->in);
        b->nodes++;
    }
    put_block(b, BLOCK_NODES, b->block++, (struct str){payload.p, payload.len});
    buf_release(&payload);
}

static void entry_payload(struct builder *b)
{
    uint32_t kind = reader_u8(&b->in) % 5;
    size_t len = reader_u8(&b->in);

    put_block(b, kind, b->block++, fuzz_bytes(&b->in, len));
}

static void entry_bytes(struct builder *b)
{
    buf_put_str(&b->out, fuzz_bytes(&b->in, reader_u8(&b->in)));
}

static void entry_skip(struct builder *b)
{
    b->block += reader_u8(&b->in);
}

static void entry_flip(struct builder *b)
{
    size_t back = 1 + reader_u8(&b->in);
    char *bit = b->out.p + (back < b->out.len ? b->out.len - back : 0);

    *bit = (char)(*bit ^ 1 << reader_u8(&b->in) % 8);
}

static void put_end(struct builder *b, uint64_t nodes, uint64_t sessions, uint64_t last_zxid)
{
    struct buf payload = {0};

    buf_put_u64(&payload, nodes);
    buf_put_u64(&payload, sessions);
    buf_put_u64(&payload, last_zxid);
    put_block(b, BLOCK_END, b->block++, (struct str){payload.p, payload.len});
    buf_release(&payload);
}

static void entry_end(struct builder *b)
{
    uint64_t nodes = reader_u8(&b->in), sessions = reader_u8(&b->in);

    put_end(b, nodes, sessions, reader_u64(&b->in));
    b->ended = true;
}

static void (*const ENTRIES[])(struct builder *) = {
    entry_sessions, entry_nodes, entry_nodes, entry_payload,
    entry_bytes,    entry_skip,  entry_flip,  entry_end,
};

/* Without an end of its own an input gets one that fits, so that it need not count. */
static void build(struct builder *b)
{
    b->header = (struct format_header){.kind = FORMAT_SNAPSHOT, .store = 7};
    b->header.number = reader_u64(&b->in);
    b->header.replay_from = reader_u64(&b->in);
    buf_reserve(&b->out, FORMAT_HEADER_LEN);
    format_header_put(b->out.p, &b->header);
    b->out.len = FORMAT_HEADER_LEN;
    for (int i = 0; i < ENTRIES_MAX && b->in.left; i++)
        ENTRIES[reader_u8(&b->in) % (sizeof ENTRIES / sizeof *ENTRIES)](b);
    if (!b->ended)
        put_end(b, b->nodes, b->sessions, b->header.number + LATER);
}

static void check_again(const struct tree *t, const struct format_header *header, int64_t last_zxid)
{
    struct buf bytes = {0};
    struct snapshot_info info;
    struct tree again;
    struct err_info why;

    tree_init(&again);
    memory_snapshot_write(t, header, last_zxid, 64, &bytes);
    if (memory_snapshot_read((struct str){bytes.p, bytes.len}, &again, &info, &why) ||
        tree_seal(&again, &why))
        fuzz_expect(why.text);
    FUZZ_CHECK(info.nodes == t->nodes.count && info.sessions == t->sessions.count);
    FUZZ_CHECK(info.bytes == bytes.len);
    fuzz_expect(check_tree(&again));
    fuzz_expect(check_same(t, &again));
    tree_release(&again);
    buf_release(&bytes);
}

/* Sets each node twice, gives it a child and takes that away again. */
static void work(struct tree *t)
{
    static const struct tree_user user;
    uint32_t top = t->nodes.top;
    struct tree_changes c = {0};

    for (uint32_t ref = NODE_ROOT; ref < top; ref++) {
        struct buf path = {0}, child = {0};
        struct keeper_result results[4] = {0};
        struct keeper_op ops[4];

        nodes_put_path(&t->nodes, ref, &path);
        buf_printf(&child, "%s/x", ref == NODE_ROOT ? "" : buf_text(&path));
        ops[0] = keeper_op_set(buf_text(&path), STR("new"), KEEPER_ANY_VERSION);
        ops[1] = keeper_op_create(buf_text(&child), STR("data"), 0);
        ops[2] = keeper_op_delete(buf_text(&child), 0);
        ops[3] = keeper_op_check("/nowhere", 0);
        for (size_t count = 1; count <= 4; count++) {
            tree_apply(t, &user, 1, ops, count, results, &c);
            keeper_results_release(results, count);
            memset(results, 0, sizeof results);
        }
        buf_release(&path);
        buf_release(&child);
    }
    changes_release(&c);
    fuzz_expect(check_tree(t));
}

static void close_sessions(struct tree *t)
{
    struct tree_changes c = {0};

    for (uint32_t i = 0; i < t->sessions.len; i++)
        while (t->sessions.list[i] && tree_session_close(t, t->sessions.list[i], 1, 1, &c))
            ;
    changes_release(&c);
    FUZZ_CHECK(!t->sessions.count && !t->ephemerals);
    fuzz_expect(check_tree(t));
}

/* The blocks are numbered without a gap. */
static void check_blocks(struct str bytes)
{
    uint32_t number = 0;

    for (size_t at = FORMAT_HEADER_LEN; at < bytes.len; at += 16 + le_load32(bytes.p + at))
        FUZZ_CHECK(le_load32(bytes.p + at + 12) == number++);
}

/* Nobody may wait for a transaction that will never be there. */
static void check_shown(const struct tree *t, int64_t last_zxid)
{
    struct buf scratch = {0};
    struct tree_node_state s;
    uint32_t cursor = 0;

    while (tree_walk(t, &cursor, &scratch, &s))
        FUZZ_CHECK(s.czxid <= last_zxid && s.mzxid <= last_zxid && s.pzxid <= last_zxid);
    buf_release(&scratch);
}

static void check(const struct builder *b, struct str bytes)
{
    struct snapshot_info info;
    struct tree t;
    struct err_info why = {""};
    int err;

    tree_init(&t);
    err = memory_snapshot_read(bytes, &t, &info, &why);
    if (!err) {
        FUZZ_CHECK(info.header.number == b->header.number && info.bytes == bytes.len);
        FUZZ_CHECK(t.zxid >= 0 && (uint64_t)t.zxid == b->header.number);
        FUZZ_CHECK(info.last_zxid >= t.zxid);
        FUZZ_CHECK(info.nodes == le_load64(bytes.p + bytes.len - 24)); /* as the end says */
        FUZZ_CHECK(info.sessions == le_load64(bytes.p + bytes.len - 16));
        check_blocks(bytes);
        check_shown(&t, info.last_zxid);
        err = tree_seal(&t, &why);
    }
    FUZZ_CHECK(!err || why.text[0]);
    FUZZ_CHECK(!err || err == DROVER_DAMAGED || err == DROVER_NEWER_VERSION);
    if (!err) {
        fuzz_expect(check_tree(&t));
        check_again(&t, &b->header, info.last_zxid);
        work(&t);
        close_sessions(&t);
    }
    tree_release(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct builder b = {.in = {(const char *)data, len, false}};
    char *exact;

    build(&b);
    exact = fuzz_exact((struct str){b.out.p, b.out.len});
    check(&b, (struct str){exact, b.out.len});
    free(exact);
    buf_release(&b.out);
    return 0;
}
