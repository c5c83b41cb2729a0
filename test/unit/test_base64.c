/* Base64: the examples of RFC 4648, every length and byte back again, and what is no base64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/base64.h"

static void the_examples_of_the_rfc(void **state)
{
    static const char *const rows[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf text = {0}, bytes = {0};
        base64_put(&text, (const unsigned char *)rows[i][0], strlen(rows[i][0]));
        assert_string_equal(buf_text(&text), rows[i][1]);
        assert_true(base64_read(buf_str(&text), &bytes));
        assert_string_equal(buf_text(&bytes), rows[i][0]);
        buf_release(&text);
        buf_release(&bytes);
    }
}

static void every_byte_comes_back(void **state)
{
    unsigned char all[256];
    (void)state;
    for (int i = 0; i < 256; i++)
        all[i] = (unsigned char)i;
    for (size_t len = 0; len <= sizeof all; len++) {
        struct buf text = {0}, bytes = {0};
        base64_put(&text, all + sizeof all - len, len);
        assert_true(base64_read(buf_str(&text), &bytes));
        assert_int_equal(bytes.len, len);
        assert_true(!len || !memcmp(bytes.p, all + sizeof all - len, len));
        buf_release(&text);
        buf_release(&bytes);
    }
}

static void other_texts_are_refused(void **state)
{
    static const struct str rows[] = {STR("Z"),      STR("Zg"),   STR("Zg="),     STR("Zg==="),
                                      STR("===="),   STR("Z==="), STR("Zg=g"),    STR("Zg==Zg=="),
                                      STR("Zm9v\n"), STR("Zm9 "), STR("Zm9-"),    STR("Zm9_"),
                                      STR("Zm\0v"),  STR("Zh=="), /* bits of no byte */
                                      STR("Zm9="),   STR("=m9v"), STR("Zm9v====")};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf bytes = {0};
        if (base64_read(rows[i], &bytes))
            fail_msg("%.*s", STR_ARGS(rows[i]));
        buf_release(&bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_rfc),
        cmocka_unit_test(every_byte_comes_back),
        cmocka_unit_test(other_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
