/* Bodies in chunks: whole, torn at every byte, malformed, too long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/head.h"

static void chunks_become_a_body(void **state)
{
    static const struct str text = STR("3\r\nabc\r\n0A\r\n0123456789\r\n0\r\n\r\nGET");
    struct chunk c = {0};
    struct buf body = {0};

    (void)state;
    assert_int_equal(chunk_feed(&c, text.p, text.len, &body, 100), text.len - 3);
    assert_true(c.done);
    assert_string_equal(buf_text(&body), "abc0123456789");
    buf_release(&body);
}

static void an_empty_body(void **state)
{
    struct chunk c = {0};
    struct buf body = {0};

    (void)state;
    assert_int_equal(chunk_feed(&c, "0\r\n\r\n", 5, &body, 100), 5);
    assert_true(c.done);
    assert_int_equal(body.len, 0);
}

static void torn_at_every_byte(void **state)
{
    static const struct str text = STR("1\r\na\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n");

    (void)state;
    for (size_t cut = 0; cut <= text.len; cut++) {
        struct chunk c = {0};
        struct buf body = {0};

        assert_int_equal(chunk_feed(&c, text.p, cut, &body, 100), cut);
        assert_int_equal(c.done, cut == text.len);
        assert_int_equal(chunk_feed(&c, text.p + cut, text.len - cut, &body, 100), text.len - cut);
        assert_true(c.done);
        assert_string_equal(buf_text(&body), "a0123456789abcdef");
        buf_release(&body);
    }
}

static void malformed_chunks_are_refused(void **state)
{
    static const struct str rows[] = {
        STR("\r\n"),
        STR("g\r\n"),
        STR("-1\r\n"),
        STR("+1\r\n"),
        STR(" 1\r\n"),
        STR("1 \r\n"),
        STR("0x1\r\n"),
        STR("1;ext=1\r\n"),
        STR("1\n"),
        STR("1\r\r\n"),
        STR("1\rx"),
        STR("000000001\r\n"),
        STR("1\r\nab"),
        STR("1\r\na\n"),
        STR("1\r\na\rb"),
        STR("1\r\na\r\n\r\n"),
        STR("0\r\nTrailer: x"),
        STR("0\r\n\n"),
        STR("0\r\n\rx"),
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct chunk c = {0};
        struct buf body = {0};

        if (chunk_feed(&c, rows[i].p, rows[i].len, &body, 100) != -400)
            fail_msg("row %zu: %s", i, rows[i].p);
        buf_release(&body);
    }
}

/* A chunk is refused by its size, before its bytes are kept. */
static void a_body_has_a_greatest_length(void **state)
{
    struct chunk c = {0};
    struct buf body = {0};

    (void)state;
    assert_int_equal(chunk_feed(&c, "5\r\n01234\r\n0\r\n\r\n", 15, &body, 5), 15);
    assert_true(c.done);
    c = (struct chunk){0};
    body.len = 0;
    assert_int_equal(chunk_feed(&c, "4\r\n0123\r\n2\r\nx", 13, &body, 5), -413);
    c = (struct chunk){0};
    body.len = 0;
    assert_int_equal(chunk_feed(&c, "ffffffff\r\nx", 11, &body, 5), -413);
    assert_int_equal(body.len, 0);
    buf_release(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_become_a_body),
        cmocka_unit_test(an_empty_body),
        cmocka_unit_test(torn_at_every_byte),
        cmocka_unit_test(malformed_chunks_are_refused),
        cmocka_unit_test(a_body_has_a_greatest_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
