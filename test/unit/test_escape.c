/* What is escaped, and how. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/escape.h"
#include "base/mem.h"

static void expect_len(enum escape_style style, const char *text, size_t len, const char *wanted)
{
    CLEANUP(buf_release) struct buf b = {0};
    escape_put(&b, (struct str){text, len}, style);
    assert_string_equal(buf_text(&b), wanted);
}

static void expect(enum escape_style style, const char *text, const char *wanted)
{
    expect_len(style, text, strlen(text), wanted);
}

static void text_stays(void **state)
{
    static const char *const texts[] = {"", "plain \\ text", "ä € 𝄞", "\u200d", "\u00a0\u2029"};
    (void)state;
    for (int style = ESCAPE_LINE; style <= ESCAPE_JSON; style++)
        for (int i = 0; i < 4; i++)
            expect((enum escape_style)style, texts[i], texts[i]);
    expect(ESCAPE_LINE, texts[4], "\u00a0\\xe2\\x80\\xa9");
}

static void controls(void **state)
{
    (void)state;
    expect(ESCAPE_LINE, "a\n\tb\r\x1b[2J\x7f", "a\\n\\tb\\r\\x1b[2J\\x7f");
    expect(ESCAPE_LINES, "a\n\tb\r\x1b[2J\x7f", "a\n\tb\\r\\x1b[2J\\x7f");
    expect(ESCAPE_JSON, "\"a\n\tb\r\x1b[2J\x7f\"", "\"a\n\tb\\u000d\\u001b[2J\\u007f\"");
    expect_len(ESCAPE_LINE, "a\0b", 3, "a\\x00b");
    expect(ESCAPE_LINE, "\xc2\x80\xc2\x9f", "\\xc2\\x80\\xc2\\x9f");
    expect(ESCAPE_JSON, "\xc2\x80\xc2\x9f", "\\u0080\\u009f");
}

/* Those next to them stay. */
static void marks(void **state)
{
    static const uint32_t RANGES[][2] = {
        {0x7f, 0x9f}, {0x61c, 0x61c}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};
    char text[8];
    (void)state;
    for (size_t i = 0; i < sizeof RANGES / sizeof *RANGES; i++)
        for (uint32_t c = RANGES[i][0] - 1; c <= RANGES[i][1] + 1; c++) {
            size_t len = (size_t)(utf8_put(text, c) - text);
            bool inside = c >= RANGES[i][0] && c <= RANGES[i][1];
            assert_int_equal(escape_shown_len((struct str){text, len}), inside ? 0 : len);
        }
    expect(ESCAPE_JSON, "\u202e\u2066x", "\\u202e\\u2066x");
}

static void bytes_that_are_not_utf8(void **state)
{
    (void)state;
    expect(ESCAPE_LINE, "a\xff\xc3(", "a\\xff\\xc3(");
    expect(ESCAPE_LINES, "\xe2\x80", "\\xe2\\x80");
    expect(ESCAPE_JSON, "\xff", "\\ufffd");
    expect(ESCAPE_LINE, "\x9b", "\\x9b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_stays),
        cmocka_unit_test(controls),
        cmocka_unit_test(marks),
        cmocka_unit_test(bytes_that_are_not_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
