/*
 * Expressions: what matches, what is refused, and the exact limit of a match: PCRE2 itself tells
 * how many steps a pattern needs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "world/expression.h"

static int match(const char *pattern, const char *name, struct err_info *e)
{
    struct expression *x;
    int err = expression_new(str_of(pattern), "name", &x, e);

    if (err)
        return err;
    err = expression_match(x, str_of(name), e);
    expression_free(x);
    return err;
}

static bool runs_out(pcre2_code *code, const char *name, uint32_t limit)
{
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    int found;

    pcre2_set_match_limit(context, limit);
    found = pcre2_match(code, (PCRE2_SPTR)name, strlen(name), 0, 0, data, context);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
    return found == PCRE2_ERROR_MATCHLIMIT;
}

/* The smallest limit with which the match ends. */
static uint32_t steps_of(const char *pattern, const char *name)
{
    uint32_t low = 0, high = 1000000, options = PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF;
    int number;
    PCRE2_SIZE at;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)pattern, strlen(pattern), options, &number, &at, NULL);

    assert_non_null(code);
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (runs_out(code, name, middle))
            low = middle + 1;
        else
            high = middle;
    }
    pcre2_code_free(code);
    return low;
}

/* The steps are about half the square of the length, twice the length, and one less for each k. */
static void the_limit_is_exact(void **state)
{
    enum { LEN = 196 };
    char name[LEN + 1], pattern[64];
    bool at_the_limit = false, beyond_it = false;
    struct err_info e;

    (void)state;
    memset(name, 'a', LEN);
    name[LEN] = '\0';
    for (int k = 1; k < LEN && !(at_the_limit && beyond_it); k++) {
        uint32_t steps;

        snprintf(pattern, sizeof pattern, ".*.*[bc]|.*[bc]|a{%d}.*[bc]", k);
        steps = steps_of(pattern, name);
        if (steps == EXPRESSION_MATCH_LIMIT) {
            assert_int_equal(match(pattern, name, &e), 0);
            at_the_limit = true;
        } else if (steps == EXPRESSION_MATCH_LIMIT + 1) {
            assert_int_equal(match(pattern, name, &e), DROVER_BAD_ARGUMENT);
            assert_non_null(strstr(e.text, "too expensive"));
            beyond_it = true;
        }
    }
    assert_true(at_the_limit);
    assert_true(beyond_it);
}

static void they_match_the_whole_name(void **state)
{
    struct err_info e;

    (void)state;
    assert_int_equal(match("a", "a", &e), 1);
    assert_int_equal(match("a", "ab", &e), 0);
    assert_int_equal(match("a|ab", "ab", &e), 1);
    assert_int_equal(match("a.", "ab", &e), 1);
    assert_int_equal(match("a.", "xab", &e), 0);
    assert_int_equal(match("a$", "a\n", &e), 0);
    assert_int_equal(match("(?i)A", "a", &e), 1);
    assert_int_equal(match(".", "\xe2\x82\xac", &e), 1); /* one character */
    assert_int_equal(match(".*", "\xff", &e), 0);        /* not UTF-8: no match */
}

static void what_is_no_expression(void **state)
{
    static const char *const bad[] = {"",     "(", "[a", "a{2,1}", "*", "\\C", "(?<n>a)(?<n>b)",
                                      "\xff("};
    struct err_info e;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e.text[0] = '\0';
        assert_int_equal(match(bad[i], "a", &e), DROVER_BAD_ARGUMENT);
        assert_true(e.text[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limit_is_exact),
        cmocka_unit_test(they_match_the_whole_name),
        cmocka_unit_test(what_is_no_expression),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
