/* Snapshots: the tree is restored, and a truncated or corrupted file is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "check.h"
#include "memory.h"

static const struct format_header HEADER = {
    .kind = FORMAT_SNAPSHOT, .store = 77, .number = 12, .replay_from = 3};

enum { LAST_ZXID = 15, BLOCK_HEADER_LEN = 16 };

/* A tree with everything: sessions, ephemerals, access lists, empty and set nodes. */
static void grow(struct tree *t)
{
    static const struct str acl = STR("\0\0\0\1\0\0\0\1\0\0\0\5world\0\0\0\6anyone");
    struct keeper_op ops[] = {
        keeper_op_create("/a", STR("data"), 0),
        keeper_op_create("/a/b", STR(""), 0),
        keeper_op_create("/a/\xc3\xa9", STR("\0\1\2"), KEEPER_EPHEMERAL),
        keeper_op_create("/a/n", STR("x"), KEEPER_SEQUENTIAL),
        keeper_op_set("/a", STR("other"), 0),
        keeper_op_create("/guarded", STR(""), 0),
        {.kind = KEEPER_SET_ACL, .version = -1, .path = STR("/guarded"), .acl = acl},
        keeper_op_delete("/a/b", -1),
    };
    enum { COUNT = sizeof ops / sizeof *ops };
    struct tree_changes c = {0};

    tree_init(t);
    for (int i = 0; i < 3; i++)
        tree_session_open(t, i, 1000 + i, "0123456789abcdef", &c);
    for (size_t i = 0; i < COUNT; i++) {
        struct tree_user user = {.session = t->sessions.list[1]};
        struct keeper_result result = {0};

        assert_int_equal(tree_apply(t, &user, 1000, &ops[i], 1, &result, &c), 0);
        keeper_results_release(&result, 1);
    }
    assert_int_equal(tree_session_close(t, t->sessions.list[0], 1, 1000, &c), 0);
    assert_int_equal(t->zxid, HEADER.number);
    changes_release(&c);
}

struct fixture {
    struct tree t;
    struct buf bytes;
};

static int set_up(void **state)
{
    static struct fixture f;

    f = (struct fixture){0};
    grow(&f.t);
    memory_snapshot_write(&f.t, &HEADER, LAST_ZXID, 100, &f.bytes);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    tree_release(&f->t);
    buf_release(&f->bytes);
    return 0;
}

static int read_bytes(const char *p, size_t len, struct err_info *ret_error)
{
    struct snapshot_info info;
    struct tree t;
    int err;

    tree_init(&t);
    err = memory_snapshot_read((struct str){p, len}, &t, &info, ret_error);
    tree_release(&t);
    return err;
}

static void expect_same(const struct fixture *f, const struct tree *t)
{
    const char *wrong = check_tree(t);

    if (!wrong)
        wrong = check_same(&f->t, t);
    if (wrong)
        fail_msg("%s", wrong);
}

/* With blocks of any size, reading gives the same tree and the same header. */
static void the_tree_comes_back(void **state)
{
    static const size_t slices[] = {17, 64, 200, 1000, 1 << 20};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
        struct buf bytes = {0};
        struct snapshot_info info;
        struct err_info why = {""};
        struct tree t;

        memory_snapshot_write(&f->t, &HEADER, LAST_ZXID, slices[i], &bytes);
        tree_init(&t);
        assert_int_equal(memory_snapshot_read((struct str){bytes.p, bytes.len}, &t, &info, &why),
                         0);
        assert_int_equal(tree_seal(&t, &why), 0);
        expect_same(f, &t);
        assert_memory_equal(&info.header, &HEADER, sizeof info.header);
        assert_true(info.last_zxid == LAST_ZXID && info.bytes == bytes.len);
        assert_true(info.nodes == f->t.nodes.count && info.sessions == 2);
        assert_int_equal(t.ephemerals, 1);
        tree_release(&t);
        buf_release(&bytes);
    }
}

static void every_cut_is_refused(void **state)
{
    struct fixture *f = *state;

    for (size_t len = 0; len < f->bytes.len; len++) {
        char *exact = malloc(len ? len : 1);
        struct err_info why = {""};

        memcpy(exact, f->bytes.p, len);
        if (read_bytes(exact, len, &why) != DROVER_DAMAGED)
            fail_msg("cut at %zu of %zu", len, f->bytes.len);
        assert_non_null(strstr(why.text, "snapshot is damaged at offset"));
        free(exact);
    }
}

static void every_flipped_bit_is_refused(void **state)
{
    struct fixture *f = *state;
    size_t stride =
        getenv("DROVER_CHECK") ? 5 : 1; /* make check: each place in a byte still comes */

    for (size_t bit = 0; bit < f->bytes.len * 8; bit += stride) {
        char *at = &f->bytes.p[bit / 8];
        struct err_info why = {""};

        *at = (char)(*at ^ 1 << bit % 8);
        if (read_bytes(f->bytes.p, f->bytes.len, &why) != DROVER_DAMAGED)
            fail_msg("bit %zu of byte %zu", bit % 8, bit / 8);
        *at = (char)(*at ^ 1 << bit % 8);
    }
}

static bool is_whole(struct str bytes, size_t piece)
{
    struct snapshot_checker c = {0};

    for (size_t at = 0; at < bytes.len; at += piece) {
        size_t len = bytes.len - at < piece ? bytes.len - at : piece;

        if (!snapshot_check(&c, (struct str){bytes.p + at, len}))
            return false;
    }
    return c.ended;
}

static void it_is_checked_in_pieces(void **state)
{
    struct fixture *f = *state;
    size_t len = f->bytes.len;

    for (size_t piece = 1; piece <= len; piece++)
        assert_true(is_whole((struct str){f->bytes.p, len}, piece));
    for (size_t cut = 0; cut < len; cut++)
        assert_false(is_whole((struct str){f->bytes.p, cut}, 100));
    for (size_t bit = 0; bit < len * 8; bit++) {
        char *at = &f->bytes.p[bit / 8];

        *at = (char)(*at ^ 1 << bit % 8);
        if (is_whole((struct str){f->bytes.p, len}, 100))
            fail_msg("bit %zu of byte %zu", bit % 8, bit / 8);
        *at = (char)(*at ^ 1 << bit % 8);
    }
    buf_put_u8(&f->bytes, 0);
    assert_false(is_whole((struct str){f->bytes.p, len + 1}, 100));
}

static void nothing_may_stand_behind_the_end(void **state)
{
    struct fixture *f = *state;
    struct err_info why;

    buf_put_u8(&f->bytes, 0);
    assert_int_equal(read_bytes(f->bytes.p, f->bytes.len, &why), DROVER_DAMAGED);
}

/* The error says where: at the block that is wrong. */
static void damage_has_a_place(void **state)
{
    struct fixture *f = *state;
    size_t second =
        FORMAT_HEADER_LEN + BLOCK_HEADER_LEN + le_load32(f->bytes.p + FORMAT_HEADER_LEN);
    struct err_info why = {""};
    char expected[40];

    f->bytes.p[second + 20] ^= 1;
    assert_int_equal(read_bytes(f->bytes.p, f->bytes.len, &why), DROVER_DAMAGED);
    snprintf(expected, sizeof expected, "at offset %zu:", second);
    assert_non_null(strstr(why.text, expected));
}

static void a_newer_version(void **state)
{
    struct fixture *f = *state;
    struct err_info why = {""};

    le_store32(f->bytes.p + 8, FORMAT_VERSION + 1);
    le_store32(f->bytes.p + 12, 0);
    le_store32(f->bytes.p + 12, crc32c(0, f->bytes.p, FORMAT_HEADER_LEN));
    assert_int_equal(read_bytes(f->bytes.p, f->bytes.len, &why), DROVER_NEWER_VERSION);
    assert_non_null(strstr(why.text, "newer"));
}

/* A block by hand, under a right sum. */
static void put_block(struct buf *b, uint32_t kind, uint32_t number, struct str payload)
{
    size_t at = b->len;

    buf_put_u32(b, (uint32_t)payload.len);
    buf_put_u32(b, 0);
    buf_put_u32(b, kind);
    buf_put_u32(b, number);
    buf_put_str(b, payload);
    le_store32(b->p + at + 4, crc32c(crc32c(0, b->p + at + 8, b->len - at - 8), b->p + at, 4));
}

/* Correct sums with invalid contents. */
static void blocks_that_make_no_sense(void **state)
{
    const struct str end = STR("\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\17\0\0\0\0\0\0\0");
    const struct str session = STR("\5\0\0\0\0\0\0\0\1\0\0\0"
                                   "0123456789abcdef");
    const struct {
        const char *what;
        uint32_t kind, number;
        struct str payload, end;
        int err;
    } rows[] = {
        {"a good one", 1, 0, session, end, 0},
        {"kind 0", 0, 0, session, end, DROVER_DAMAGED},
        {"kind 4", 4, 0, session, end, DROVER_DAMAGED},
        {"number 1 first", 1, 1, session, end, DROVER_DAMAGED},
        {"a session too short", 1, 0,
         STR("\5\0\0\0\0\0\0\0\1\0\0\0"
             "012"),
         end, DROVER_DAMAGED},
        {"session 0", 1, 0,
         STR("\0\0\0\0\0\0\0\0\1\0\0\0"
             "0123456789abcdef"),
         end, DROVER_DAMAGED},
        {"no timeout", 1, 0,
         STR("\5\0\0\0\0\0\0\0\0\0\0\0"
             "0123456789abcdef"),
         end, DROVER_DAMAGED},
        {"half a node", 2, 0, STR("\2\0\0\0"), end, DROVER_DAMAGED},
        {"no session where the end says one", 1, 0, STR(""), end, DROVER_DAMAGED},
        {"one session too many", 1, 0, session,
         STR("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\17\0\0\0\0\0\0\0"), DROVER_DAMAGED},
        {"a node too few", 1, 0, session, STR("\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\17\0\0\0\0\0\0\0"),
         DROVER_DAMAGED},
        {"an end before the header's transaction", 1, 0, session,
         STR("\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\13\0\0\0\0\0\0\0"), DROVER_DAMAGED},
        {"a short end", 1, 0, session, STR("\0\0\0\0\0\0\0\0"), DROVER_DAMAGED},
        {"a long end", 1, 0, session, STR("\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\17\0\0\0\0\0\0\0\0"),
         DROVER_DAMAGED},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf b = {0};
        struct err_info why = {""};

        buf_reserve(&b, FORMAT_HEADER_LEN);
        format_header_put(b.p, &HEADER);
        b.len = FORMAT_HEADER_LEN;
        put_block(&b, rows[i].kind, rows[i].number, rows[i].payload);
        put_block(&b, 3, 1, rows[i].end);
        if (read_bytes(b.p, b.len, &why) != rows[i].err)
            fail_msg("%s: %s", rows[i].what, why.text);
        buf_release(&b);
    }
}

/* A zxid that leaves no room for later transactions. */
static void impossible_transactions(void **state)
{
    struct fixture *f = *state;
    struct format_header far = HEADER;
    struct err_info why;

    f->bytes.len = 0;
    memory_snapshot_write(&f->t, &HEADER, LAST_ZXID, 100, &f->bytes);
    assert_int_equal(read_bytes(f->bytes.p, f->bytes.len, &why), 0);
    node_at(&f->t.nodes, nodes_find(&f->t.nodes, STR("/a")))->mzxid = LAST_ZXID + 1;
    f->bytes.len = 0;
    memory_snapshot_write(&f->t, &HEADER, LAST_ZXID, 100, &f->bytes);
    assert_int_equal(read_bytes(f->bytes.p, f->bytes.len, &why), DROVER_DAMAGED);
    far.number = UINT64_MAX - 5;
    f->bytes.len = 0;
    memory_snapshot_write(&f->t, &far, INT64_MAX, 100, &f->bytes);
    assert_int_equal(read_bytes(f->bytes.p, f->bytes.len, &why), DROVER_DAMAGED);
}

/* On a real disk: under its own name only when it is complete. */
static void a_file_gets_its_name_at_the_end(void **state)
{
    struct fixture *f = *state;
    char dir[] = "/tmp/drover-snapshot-XXXXXX", *path, *tmp;
    struct snapshot_writer w;
    struct snapshot_info info;
    struct err_info why;
    struct tree t;

    assert_non_null(mkdtemp(dir));
    path = format_path(dir, FORMAT_SNAPSHOT, HEADER.number);
    tmp = format_path_of(dir, "snapshot.tmp");
    assert_int_equal(snapshot_begin(&w, &fs_system, dir, &HEADER, &why), 0);
    assert_true(access(tmp, F_OK) == 0 && access(path, F_OK) != 0);
    snapshot_abandon(&w);
    assert_int_not_equal(access(tmp, F_OK), 0);

    assert_int_equal(snapshot_begin(&w, &fs_system, dir, &HEADER, &why), 0);
    assert_true(snapshot_put(&w, &f->t, 1 << 20)); /* sessions */
    assert_int_equal(snapshot_flush(&w, &why), 0);
    assert_false(snapshot_put(&w, &f->t, 1 << 20)); /* nodes */
    assert_int_equal(snapshot_flush(&w, &why), 0);
    assert_int_equal(snapshot_end(&w, LAST_ZXID, &why), 0);
    assert_true(access(tmp, F_OK) != 0 && access(path, F_OK) == 0);

    tree_init(&t);
    assert_int_equal(snapshot_load(path, &t, &info, &why), 0);
    assert_int_equal(tree_seal(&t, &why), 0);
    expect_same(f, &t);
    unlink(path);
    assert_int_equal(snapshot_load(path, &t, &info, &why), DROVER_IO);
    assert_int_equal(rmdir(dir), 0);
    tree_release(&t);
    free(path);
    free(tmp);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_tree_comes_back),
        CASE(every_cut_is_refused),
        CASE(every_flipped_bit_is_refused),
        CASE(it_is_checked_in_pieces),
        CASE(nothing_may_stand_behind_the_end),
        CASE(damage_has_a_place),
        CASE(a_newer_version),
        CASE(blocks_that_make_no_sense),
        CASE(impossible_transactions),
        CASE(a_file_gets_its_name_at_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
