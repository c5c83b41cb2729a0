/* Records: encoding and decoding, and truncated or corrupted records are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "keeper/journal/record.h"

enum { SALT = 0x5a17 };

#define ACL STR("\0\0\0\1\0\0\0\1\0\0\0\5world\0\0\0\6anyone")

/* One of each kind, with numbers at their ends. */
static struct tree_changes sample(void)
{
    static struct tree_change list[] = {
        {.kind = CHANGE_CREATE,
         .path = STR("/a/b"),
         .data = STR("data"),
         .session = INT64_MAX,
         .number = 1,
         .acl = ACL},
        {.kind = CHANGE_CREATE, .path = STR("/a/c"), .number = INT32_MIN},
        {.kind = CHANGE_SET, .path = STR("/"), .data = STR("\0\1\2"), .number = INT32_MAX},
        {.kind = CHANGE_DELETE, .path = STR("/a/b")},
        {.kind = CHANGE_SESSION_OPEN,
         .session = INT64_MIN,
         .number = 1000,
         .data = STR("0123456789abcdef")},
        {.kind = CHANGE_SESSION_CLOSE, .session = -1},
        {.kind = CHANGE_SET_ACL, .path = STR("/a"), .number = 3, .acl = ACL},
    };

    return (struct tree_changes){.zxid = INT64_C(0x123456789abcdef),
                                 .time_ms = -5,
                                 .list = list,
                                 .count = sizeof list / sizeof *list};
}

static void expect_same(const struct tree_change *a, const struct tree_change *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->number, b->number);
    assert_true(a->session == b->session);
    assert_true(str_eq(a->path, b->path) && str_eq(a->data, b->data) && str_eq(a->acl, b->acl));
    if (a->kind == CHANGE_CREATE || a->kind == CHANGE_SET)
        assert_int_equal(!a->data.p, !b->data.p); /* none is not empty */
}

static void what_goes_in_comes_out(void **state)
{
    struct tree_changes in = sample(), out = {0};
    struct buf b = {0};
    struct record r;

    (void)state;
    record_put_changes(&b, SALT, &in, 17);
    assert_true(record_read(b.p, b.len, SALT, &r));
    assert_int_equal(r.type, RECORD_TRANSACTION);
    assert_true(r.lsn == in.zxid && r.behind == 17 && r.whole_len == b.len);
    assert_int_equal(r.whole_len % RECORD_ALIGN, 0);
    assert_int_equal(record_changes(&r, &out), 0);
    assert_true(out.zxid == in.zxid && out.time_ms == in.time_ms);
    assert_int_equal(out.count, in.count);
    for (size_t i = 0; i < in.count; i++)
        expect_same(&in.list[i], &out.list[i]);
    changes_release(&out);
    buf_release(&b);
}

/* To the byte: existing files must stay readable. */
static void the_bytes_of_a_record(void **state)
{
    static const char expected[] = "\x13\0\0\0"                       /* length */
                                   "\0\0\0\0"                         /* sum, compared below */
                                   "\2\1\0\0\0\0\0\0\3\0\0\0\0\0\0\0" /* LSN, behind, type */
                                   "\7\0\0\0\0\0\0\0"                 /* time */
                                   "\3\6\0\0\0/a/b/c"                 /* delete */
                                   "\0\0\0\0\0";                      /* padding */
    struct tree_change list[] = {{.kind = CHANGE_DELETE, .path = STR("/a/b/c")}};
    struct tree_changes c = {.zxid = 0x102, .time_ms = 7, .list = list, .count = 1};
    struct buf b = {0};

    (void)state;
    record_put_changes(&b, SALT, &c, 3);
    assert_int_equal(b.len, 48);
    assert_memory_equal(b.p, expected, 4);
    assert_memory_equal(b.p + 8, expected + 8, 40);
    assert_int_equal(le_load32(b.p + 4), crc32c(crc32c(SALT, b.p + 8, 16 + 19), b.p, 4));
    buf_release(&b);
}

static void marks(void **state)
{
    struct buf b = {0};
    struct record r;

    (void)state;
    record_put_mark(&b, SALT, 99);
    assert_int_equal(b.len, RECORD_HEADER_LEN);
    assert_true(record_read(b.p, b.len, SALT, &r));
    assert_true(r.type == RECORD_MARK && r.lsn == 99 && r.behind == 0 && r.payload.len == 0);
    buf_release(&b);
}

/* The field has 32 bits; more than that is as good as "all of them". */
static void far_behind(void **state)
{
    struct tree_changes c = sample();
    struct buf b = {0};
    struct record r;

    (void)state;
    record_put_changes(&b, SALT, &c, INT64_C(1) << 40);
    assert_true(record_read(b.p, b.len, SALT, &r));
    assert_true(r.behind == UINT32_MAX);
    buf_release(&b);
}

/* Each is a malloc of its exact size, so that a look beyond the end is seen. */
static void every_cut_is_refused(void **state)
{
    struct tree_changes c = sample();
    struct buf b = {0};
    struct record r;

    (void)state;
    record_put_changes(&b, SALT, &c, 1);
    for (size_t len = 0; len < b.len; len++) {
        char *cut = malloc(len ? len : 1);

        memcpy(cut, b.p, len);
        if (record_read(cut, len, SALT, &r))
            fail_msg("cut at %zu of %zu", len, b.len);
        free(cut);
    }
    assert_true(record_read(b.p, b.len, SALT, &r));
    buf_release(&b);
}

static void flip_every_bit(struct buf *b)
{
    struct record r;

    for (size_t bit = 0; bit < b->len * 8; bit++) {
        b->p[bit / 8] = (char)(b->p[bit / 8] ^ 1 << bit % 8);
        if (record_read(b->p, b->len, SALT, &r))
            fail_msg("bit %zu of byte %zu", bit % 8, bit / 8);
        b->p[bit / 8] = (char)(b->p[bit / 8] ^ 1 << bit % 8);
    }
    assert_true(record_read(b->p, b->len, SALT, &r));
}

static void every_flipped_bit_is_refused(void **state)
{
    struct tree_changes c = sample();
    struct buf b = {0};

    (void)state;
    record_put_changes(&b, SALT, &c, 1);
    assert_int_not_equal(le_load32(b.p) % RECORD_ALIGN, 0); /* there is padding to flip */
    flip_every_bit(&b);
    b.len = 0;
    record_put_mark(&b, SALT, 5);
    flip_every_bit(&b);
    buf_release(&b);
}

static void zeros_are_no_record(void **state)
{
    char zeros[64] = {0};
    struct record r;

    (void)state;
    assert_false(record_read(zeros, sizeof zeros, SALT, &r));
}

static void an_unknown_type(void **state)
{
    struct buf b = {0};
    struct record r;

    (void)state;
    record_put_mark(&b, SALT, 5);
    le_store32(b.p + 20, RECORD_MARK + 1);
    le_store32(b.p + 4, crc32c(crc32c(SALT, b.p + 8, RECORD_HEADER_LEN - 8), b.p, 4));
    assert_false(record_read(b.p, b.len, SALT, &r));
    buf_release(&b);
}

/* A length that is right by its sum but beyond what a record may have. */
static void too_long(void **state)
{
    size_t len = RECORD_HEADER_LEN + RECORD_MAX + RECORD_ALIGN;
    char *p = calloc(len, 1);
    struct record r;

    (void)state;
    for (uint32_t more = 0; more < 2; more++) {
        uint32_t payload_len = RECORD_MAX + more;

        le_store32(p, payload_len);
        le_store32(p + 4, crc32c(crc32c(SALT, p + 8, RECORD_HEADER_LEN - 8 + payload_len), p, 4));
        assert_int_equal(record_read(p, len, SALT, &r), !more);
    }
    free(p);
}

/* Payloads with a correct sum that the decoder must refuse. */
static void payloads_that_make_no_sense(void **state)
{
    static const struct str rows[] = {
        STR(""),
        STR("\0\0\0"),
        STR("\0\0\0\0\0\0\0\0"),                   /* no change */
        STR("\0\0\0\0\0\0\0\0\0"),                 /* kind 0 */
        STR("\0\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0\0"), /* kind 7 */
        STR("\0\0\0\0\0\0\0\0\xff"),
        STR("\0\0\0\0\0\0\0\0\3\3\0\0\0/a"), /* the path is longer than the rest */
        STR("\0\0\0\0\0\0\0\0\3\xff\xff\xff\xff/a"),
        STR("\0\0\0\0\0\0\0\0\3\2\0\0\0/a\5"), /* a second one that is cut off */
        STR("\0\0\0\0\0\0\0\0\4\1\0\0\0\0\0\0\0\1\0\0\0"
            "0123456789abcde"),
    };
    struct tree_changes c = {0};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct record r = {.lsn = 1, .payload = rows[i]};

        if (record_changes(&r, &c) != DROVER_DAMAGED)
            fail_msg("row %zu", i);
    }
    changes_release(&c);
}

/* A good payload, cut anywhere: damaged, or (between two changes) the changes before the cut. */
static void cut_payloads(void **state)
{
    struct tree_changes in = sample(), out = {0};
    struct buf b = {0};
    struct record r;
    size_t whole = 0;

    (void)state;
    record_put_changes(&b, SALT, &in, 1);
    assert_true(record_read(b.p, b.len, SALT, &r));
    for (size_t len = 0; len < r.payload.len; len++) {
        char *exact = malloc(len ? len : 1);
        struct record cut = {.lsn = 1, .payload = {exact, len}};

        memcpy(exact, r.payload.p, len);
        if (record_changes(&cut, &out) == 0)
            assert_int_equal(out.count, ++whole);
        free(exact);
    }
    assert_int_equal(whole, in.count - 1);
    changes_release(&out);
    buf_release(&b);
}

/* record_bound() holds for the worst transaction of a given size. */
static void the_bound_holds(void **state)
{
    struct keeper_op ops[50];
    struct keeper_result results[50] = {{0}};
    struct tree_user user = {0};
    struct tree_changes c = {0};
    struct buf b = {0};
    struct tree t;

    (void)state;
    tree_init(&t);
    for (size_t i = 0; i < 50; i++)
        ops[i] = keeper_op_create("/n", STR(""), KEEPER_SEQUENTIAL);
    assert_int_equal(tree_apply(&t, &user, 1, ops, 50, results, &c), 0);
    record_put_changes(&b, SALT, &c, 1);
    assert_true(b.len <= record_bound(keeper_request_size(ops, 50)));
    keeper_results_release(results, 50);
    changes_release(&c);
    buf_release(&b);
    tree_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_out),
        cmocka_unit_test(the_bytes_of_a_record),
        cmocka_unit_test(marks),
        cmocka_unit_test(far_behind),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(zeros_are_no_record),
        cmocka_unit_test(an_unknown_type),
        cmocka_unit_test(too_long),
        cmocka_unit_test(payloads_that_make_no_sense),
        cmocka_unit_test(cut_payloads),
        cmocka_unit_test(the_bound_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
