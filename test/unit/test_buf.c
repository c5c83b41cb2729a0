/* Buffers: a reader returns what was written, and never reads beyond the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static void bytes_are_appended(void **state)
{
    struct buf b = {0};
    const char *text;

    (void)state;
    buf_put(&b, "abc", 3);
    buf_put_str(&b, STR("def"));
    buf_printf(&b, "%d-%s", 12, "x");
    buf_put(&b, NULL, 0);
    text = buf_text(&b);
    assert_string_equal(text, "abcdef12-x");
    assert_int_equal(b.len, 10);
    buf_release(&b);
    assert_null(b.p);
    assert_int_equal(b.len + b.cap, 0);
}

static void an_empty_buf_is_empty_text(void **state)
{
    struct buf b = {0};

    (void)state;
    assert_string_equal(buf_text(&b), "");
    assert_int_equal(b.len, 0);
    buf_release(&b);
}

static void it_grows_by_single_bytes(void **state)
{
    struct buf b = {0};

    (void)state;
    for (unsigned i = 0; i < 100000; i++)
        buf_put_u8(&b, (uint8_t)i);
    assert_int_equal(b.len, 100000);
    for (unsigned i = 0; i < 100000; i++)
        assert_int_equal((uint8_t)b.p[i], (uint8_t)i);
    assert_true(b.cap <= 2 * b.len);
    buf_release(&b);
}

static void reserve_makes_room_without_content(void **state)
{
    struct buf b = {0};

    (void)state;
    buf_put(&b, "x", 1);
    buf_reserve(&b, 5000);
    assert_true(b.cap >= 5001);
    assert_int_equal(b.len, 1);
    memset(b.p + 1, 'y', 5000); /* the sanitizer would object */
    buf_release(&b);
}

/* Text that just fits, with and without the NUL, at every size around a doubling. */
static void printf_at_the_edge_of_the_room(void **state)
{
    (void)state;
    for (int len = 0; len < 200; len++) {
        struct buf b = {0};

        buf_printf(&b, "%*s", len, "");
        assert_int_equal(b.len, len);
        buf_printf(&b, "!");
        assert_int_equal(b.len, len + 1);
        assert_int_equal(b.p[len], '!');
        buf_release(&b);
    }
}

static void numbers_are_little_endian(void **state)
{
    struct buf b = {0};

    (void)state;
    buf_put_u8(&b, 0x01);
    buf_put_u32(&b, 0x05040302);
    buf_put_u64(&b, UINT64_C(0x0d0c0b0a09080706));
    assert_int_equal(b.len, 13);
    for (int i = 0; i < 13; i++)
        assert_int_equal(b.p[i], i + 1);
    buf_release(&b);
}

static void numbers_come_back(void **state)
{
    static const uint64_t numbers[] = {
        0, 1, 0x7f, 0x80, 0xff, 0xffffffff, INT64_MAX, UINT64_C(1) << 63, UINT64_MAX};
    char at[8];

    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        le_store64(at, numbers[i]);
        assert_true(le_load64(at) == numbers[i]);
        le_store32(at, (uint32_t)numbers[i]);
        assert_true(le_load32(at) == (uint32_t)numbers[i]);
    }
}

static void a_reader_reads_in_order(void **state)
{
    struct buf b = {0};
    struct reader r;

    (void)state;
    buf_put_u8(&b, 7);
    buf_put_u32(&b, 70000);
    buf_put_u64(&b, UINT64_MAX - 1);
    buf_put_str(&b, STR("tail"));
    r = (struct reader){b.p, b.len, false};
    assert_int_equal(reader_u8(&r), 7);
    assert_int_equal(reader_u32(&r), 70000);
    assert_true(reader_u64(&r) == UINT64_MAX - 1);
    assert_true(str_eq(reader_bytes(&r, 4), STR("tail")));
    assert_int_equal(r.left, 0);
    assert_false(r.bad);
    assert_int_equal(reader_bytes(&r, 0).len, 0);
    assert_false(r.bad);
    buf_release(&b);
}

/* The run is a malloc of its exact size, so that one byte too far is seen. */
static void a_reader_stays_within(void **state)
{
    (void)state;
    for (size_t len = 0; len < 9; len++) {
        char *run = calloc(len, 1);
        struct reader r = {run, len, false};

        reader_u64(&r);
        assert_int_equal(r.bad, len < 8);
        r = (struct reader){run, len, false};
        reader_u32(&r);
        assert_int_equal(r.bad, len < 4);
        r = (struct reader){run, len, false};
        reader_u8(&r);
        assert_int_equal(r.bad, len < 1);
        r = (struct reader){run, len, false};
        assert_int_equal(reader_bytes(&r, SIZE_MAX).len, 0);
        assert_true(r.bad);
        free(run);
    }
}

static void a_bad_reader_stays_bad(void **state)
{
    char run[4] = {1, 2, 3, 4};
    struct reader r = {run, 4, false};

    (void)state;
    assert_true(reader_u64(&r) == 0);
    assert_true(r.bad);
    assert_int_equal(reader_u8(&r), 0);
    assert_int_equal(reader_u32(&r), 0);
    assert_int_equal(reader_bytes(&r, 1).len, 0);
    assert_true(r.bad);
}

static void text_compares_by_length_and_bytes(void **state)
{
    (void)state;
    assert_true(str_eq(STR(""), (struct str){NULL, 0}));
    assert_true(str_eq(STR("a\0b"), STR("a\0b")));
    assert_false(str_eq(STR("a\0b"), STR("a\0c")));
    assert_false(str_eq(STR("a"), STR("ab")));
    assert_true(str_starts(STR("abc"), STR("ab")));
    assert_true(str_starts(STR("abc"), STR("")));
    assert_false(str_starts(STR("a"), STR("ab")));
    assert_int_equal(str_of("four").len, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_appended),
        cmocka_unit_test(an_empty_buf_is_empty_text),
        cmocka_unit_test(it_grows_by_single_bytes),
        cmocka_unit_test(reserve_makes_room_without_content),
        cmocka_unit_test(printf_at_the_edge_of_the_room),
        cmocka_unit_test(numbers_are_little_endian),
        cmocka_unit_test(numbers_come_back),
        cmocka_unit_test(a_reader_reads_in_order),
        cmocka_unit_test(a_reader_stays_within),
        cmocka_unit_test(a_bad_reader_stays_bad),
        cmocka_unit_test(text_compares_by_length_and_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
