/*
 * Queries and escapes: what is decoded, and what is refused because it could be read in two ways.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/buf.h"
#include "http/head.h"

static void escapes_are_decoded(void **state)
{
    static const struct {
        struct str text, path, form; /* p NULL: refused */
    } rows[] = {
        {STR(""), STR(""), STR("")},
        {STR("plain"), STR("plain"), STR("plain")},
        {STR("a+b"), STR("a+b"), STR("a b")},
        {STR("%41%2f%2F"), STR("A//"), STR("A//")},
        {STR("%00"), STR("\0"), STR("\0")},
        {STR("%fF+"), STR("\xff+"), STR("\xff ")},
        {STR("100%25"), STR("100%"), STR("100%")},
        {STR("%"), {0}, {0}},
        {STR("%4"), {0}, {0}},
        {STR("%4g"), {0}, {0}},
        {STR("%g4"), {0}, {0}},
        {STR("%%41"), {0}, {0}},
        {STR("%+1"), {0}, {0}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int form = 0; form < 2; form++) {
            struct str wanted = form ? rows[i].form : rows[i].path, got;
            struct arena a = {0};

            if (query_unescape(&a, rows[i].text, form, &got) != (wanted.p != NULL) ||
                (wanted.p && !str_eq(got, wanted)))
                fail_msg("row %zu, %d", i, form);
            arena_release(&a);
        }
}

static void pairs_are_told_apart(void **state)
{
    static const struct query_param wanted[] = {
        {STR("a"), STR("1")}, {STR("b"), STR("")},   {STR("c"), STR("")},
        {STR("d"), STR("=")}, {STR("e&"), STR("&")}, {STR(""), STR("x")},
    };
    struct arena a = {0};
    struct query q;

    (void)state;
    assert_null(query_parse(&a, STR("a=1&b=&&c&d==&e%26=%26&=x&"), &q));
    assert_int_equal(q.count, sizeof wanted / sizeof *wanted);
    for (size_t i = 0; i < q.count; i++) {
        assert_true(str_eq(q.params[i].name, wanted[i].name));
        assert_true(str_eq(q.params[i].value, wanted[i].value));
    }
    assert_null(query_parse(&a, STR(""), &q));
    assert_int_equal(q.count, 0);
    arena_release(&a);
}

static void what_is_ambiguous_is_refused(void **state)
{
    static const struct str rows[] = {STR("a=1&a=2"), STR("a&a"),  STR("a=1&%61=1"),
                                      STR("a=%"),     STR("%x=1"), STR("=&=")};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct arena a = {0};
        struct query q;

        if (!query_parse(&a, rows[i], &q))
            fail_msg("row %zu", i);
        arena_release(&a);
    }
}

static void there_is_a_limit(void **state)
{
    struct arena a = {0};
    struct buf b = {0};
    struct query q;

    (void)state;
    for (int i = 0; i < QUERY_MAX; i++)
        buf_printf(&b, "p%d&", i);
    assert_null(query_parse(&a, (struct str){b.p, b.len}, &q));
    assert_int_equal(q.count, QUERY_MAX);
    buf_printf(&b, "more");
    assert_non_null(query_parse(&a, (struct str){b.p, b.len}, &q));
    buf_release(&b);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_are_decoded),
        cmocka_unit_test(pairs_are_told_apart),
        cmocka_unit_test(what_is_ambiguous_is_refused),
        cmocka_unit_test(there_is_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
