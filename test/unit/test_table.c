/* Tables, and what may be shown on a terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/term.h"

static void widths_are_columns(void **state)
{
    static const struct {
        const char *text;
        size_t width;
    } rows[] = {
        {"", 0},     {"abc", 3},       {"größe", 5},
        {"日本", 4}, {"e\xcc\x81", 1}, /* an accent on its own takes no column */
        {"a\nb", 4}, {"\033[31m", 8},  /* \x1b[31m */
        {"\xff", 4},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (term_width(str_of(rows[i].text)) != rows[i].width)
            fail_msg("%s: %zu", rows[i].text, term_width(str_of(rows[i].text)));
}

static void what_could_harm_is_escaped(void **state)
{
    static const struct {
        struct str text;
        size_t max;
        const char *shown;
    } rows[] = {
        {STR("plain ü"), 80, "plain ü"},
        {STR("\033[2J\n\t\r\177"), 80, "\\x1b[2J\\n\\t\\r\\x7f"},
        {STR("a\0b"), 80, "a\\x00b"},
        {STR("\xc2\x9b"), 80, "\\xc2\\x9b"}, /* CSI, in UTF-8 */
        {STR("\xff\xc3"), 80, "\\xff\\xc3"},
        {STR("C:\\dir"), 80, "C:\\dir"},
        {STR("C:\\new"), 80, "C:\\\\new"}, /* is no newline */
        {STR("abcdef"), 6, "abcdef"},
        {STR("abcdefg"), 6, "abcde…"},
        {STR("日本語"), 4, "日…"},
        {STR("abc\n"), 4, "abc…"},
        {STR("abc"), 0, ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf b = {0};

        term_put_safe(&b, rows[i].text, rows[i].max);
        assert_string_equal(buf_text(&b), rows[i].shown);
        buf_release(&b);
    }
}

static const struct table_column COLUMNS[] = {{"ID", true}, {"GROUP"}, {"DATA"}};

static char *print(struct table *t)
{
    char *text = NULL;
    size_t len;
    FILE *to = tmpfile();

    table_print(t, to);
    len = (size_t)ftell(to);
    rewind(to);
    text = calloc(1, len + 1);
    assert_int_equal(fread(text, 1, len, to), len);
    fclose(to);
    return text;
}

static void columns_are_aligned(void **state)
{
    struct table t = {.columns = COLUMNS, .column_count = 3};
    char *text;

    (void)state;
    table_cell(&t, TERM_PLAIN, "%d", 7);
    table_text(&t, TERM_RED, STR("größer"));
    table_text(&t, TERM_PLAIN, STR("x"));
    table_cell(&t, TERM_PLAIN, "%d", 1234);
    table_text(&t, TERM_PLAIN, STR("a"));
    table_text(&t, TERM_PLAIN,
               STR("two\nlines, and longer than any terminal is wide, which does not "
                   "matter in a file, because programs read it"));
    text = print(&t);
    assert_string_equal(text,
                        "  ID  GROUP   DATA\n"
                        "   7  größer  x\n"
                        "1234  a       two\\nlines, and longer than any terminal is wide, which "
                        "does not matter in a file, because programs read it\n");
    free(text);
    table_release(&t);
}

static void no_rows_no_heads(void **state)
{
    struct table t = {.columns = COLUMNS, .column_count = 3};
    char *text;

    (void)state;
    text = print(&t);
    assert_string_equal(text, "");
    free(text);
    table_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widths_are_columns),
        cmocka_unit_test(what_could_harm_is_escaped),
        cmocka_unit_test(columns_are_aligned),
        cmocka_unit_test(no_rows_no_heads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
