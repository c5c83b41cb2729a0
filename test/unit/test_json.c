/* JSON: exactly the grammar, exact numbers, text that survives a round trip. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/json.h"

/* Parses a copy of the exact size, so that one byte too far is seen. */
static struct json *parse(struct arena *a, struct str text)
{
    struct err_info why = {""};
    char *copy = malloc(text.len ? text.len : 1);
    struct json *v;

    memcpy(copy, text.p, text.len);
    v = json_parse(a, (struct str){copy, text.len}, &why);
    if (v) { /* what borrows from the input must stay: parse again from memory that does */
        struct str kept = {arena_text(a, text), text.len};

        v = json_parse(a, kept, &why);
    } else if (!strstr(why.text, "not JSON: ")) {
        fail_msg("no reason: %s", why.text);
    }
    free(copy);
    return v;
}

static void values_come_back(void **state)
{
    static const struct {
        struct str in, out; /* out.p NULL: the same */
    } rows[] = {
        {STR("null"), {0}},
        {STR("true"), {0}},
        {STR("false"), {0}},
        {STR("0"), {0}},
        {STR("-1"), {0}},
        {STR("-0"), STR("0")},
        {STR("9223372036854775807"), {0}},
        {STR("-9223372036854775808"), {0}},
        {STR("9223372036854775808"), {0}}, /* a real, written as it came */
        {STR("1.5"), {0}},
        {STR("1e3"), {0}},
        {STR("-1.25E-7"), {0}},
        {STR("0.1"), {0}},
        {STR("123456789012345678901234567890"), {0}},
        {STR("\"\""), {0}},
        {STR("\"abc\""), {0}},
        {STR("\"\\u0061\""), STR("\"a\"")},
        {STR("\"\\/\""), STR("\"/\"")},
        {STR("\"\\\"\\\\\\b\\f\\n\\r\\t\""), {0}},
        {STR("\"\\u0000\\u001f\""), {0}},
        {STR("\"\x7f\""), {0}},
        {STR("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x91\""), {0}},
        {STR("\"\\u00e9\\u20ac\""), STR("\"\xc3\xa9\xe2\x82\xac\"")},
        {STR("\"\\ud83d\\udc11\""), STR("\"\xf0\x9f\x90\x91\"")},
        {STR("\"\\uD83D\\uDC11\""), STR("\"\xf0\x9f\x90\x91\"")},
        {STR("\"\\ud800\""), {0}},
        {STR("\"\\udfff\""), {0}},
        {STR("\"\\udc00\\ud800\""), {0}},
        {STR("\"\\ud800\\ud800\\udc00\""), STR("\"\\ud800\xf0\x90\x80\x80\"")},
        {STR("\"\\ud800x\\udc00\""), {0}},
        {STR("\"\\uffff\\ufffe\""), STR("\"\xef\xbf\xbf\xef\xbf\xbe\"")},
        {STR("[]"), {0}},
        {STR("[ ]"), STR("[]")},
        {STR("[1,[2,[]],{}]"), {0}},
        {STR(" \t\r\n[ 1 , 2 ] \n"), STR("[1,2]")},
        {STR("{}"), {0}},
        {STR("{\"a\":1,\"b\":{\"a\":null}}"), {0}},
        {STR("{ \"\" : \"\" }"), STR("{\"\":\"\"}")},
        {STR("{\"a\\u0000\":1,\"a\":2}"), {0}},
        {STR("{\"\\ud800\":1,\"\\ud801\":2}"), {0}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct str wanted = rows[i].out.p ? rows[i].out : rows[i].in;
        struct arena a = {0};
        struct buf b = {0};
        struct json *v = parse(&a, rows[i].in);

        if (!v)
            fail_msg("row %zu was refused", i);
        json_put(&b, v);
        if (!str_eq((struct str){b.p, b.len}, wanted))
            fail_msg("row %zu: %s", i, buf_text(&b));
        buf_release(&b);
        arena_release(&a);
    }
}

static const struct str INVALID[] = {
    STR(""),
    STR(" "),
    STR("nul"),
    STR("nulll"),
    STR("True"),
    STR("NaN"),
    STR("Infinity"),
    STR("-"),
    STR("+1"),
    STR("01"),
    STR("-01"),
    STR("1."),
    STR(".5"),
    STR("1e"),
    STR("1e+"),
    STR("0x1"),
    STR("1 2"),
    STR("1,"),
    STR("1e999"),
    STR("-1e999"),
    STR("1\0"),
    STR("\""),
    STR("\"a"),
    STR("\"\\"),
    STR("\"\\\""),
    STR("\"\\x\""),
    STR("\"\\a\""),
    STR("\"\\u\""),
    STR("\"\\u12\""),
    STR("\"\\u123g\""),
    STR("\"\\U0041\""),
    STR("\"\n\""),
    STR("\"\0\""),
    STR("\"\x1f\""),
    STR("'a'"),
    STR("\"\\ud800\\u\""),
    STR("\"a\"b"),
    /* bytes that are not UTF-8: alone, overlong, surrogates, beyond the last, cut */
    STR("\"\x80\""),
    STR("\"\xc0\x80\""),
    STR("\"\xc1\xbf\""),
    STR("\"\xe0\x80\x80\""),
    STR("\"\xed\xa0\x80\""),
    STR("\"\xf0\x80\x80\x80\""),
    STR("\"\xf4\x90\x80\x80\""),
    STR("\"\xf5\x80\x80\x80\""),
    STR("\"\xc3\""),
    STR("\"\xe2\x82\""),
    STR("\"\xff\""),
    STR("\xef\xbb\xbf{}"),
    STR("\"\\n\xff\""),
    STR("["),
    STR("[1"),
    STR("[1,"),
    STR("[1,]"),
    STR("[,]"),
    STR("[1 2]"),
    STR("]"),
    STR("[1}"),
    STR("[\"a\",\n4\n,1,"),
    STR("{"),
    STR("{\"a\"}"),
    STR("{\"a\":}"),
    STR("{\"a\":1,}"),
    STR("{a:1}"),
    STR("{1:1}"),
    STR("{\"a\":1 \"b\":2}"),
    STR("{\"a\" 1}"),
    STR("{,}"),
    STR("{\"a\":1]"),
    STR("{}}"),
    STR("{}[]"),
    STR("[1]//"),
    STR("/**/1"),
    STR("\f1"),
    STR("\xa0"
        "1"),
    /* the same name twice, however it is written */
    STR("{\"a\":1,\"a\":2}"),
    STR("{\"a\":1,\"\\u0061\":2}"),
    STR("[{\"a\":{\"\":1,\"\":1}}]"),
};

static void what_is_no_json_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof INVALID / sizeof *INVALID; i++) {
        struct arena a = {0};

        if (parse(&a, INVALID[i]))
            fail_msg("row %zu was taken: %s", i, INVALID[i].p);
        arena_release(&a);
    }
}

static void kinds_and_numbers_are_exact(void **state)
{
    struct arena a = {0};
    struct json *v;

    (void)state;
    v = parse(&a, STR("9223372036854775807"));
    assert_int_equal(v->kind, JSON_INT);
    assert_true(v->number == INT64_MAX);
    v = parse(&a, STR("-9223372036854775808"));
    assert_true(v->kind == JSON_INT && v->number == INT64_MIN);
    v = parse(&a, STR("-9223372036854775809"));
    assert_true(v->kind == JSON_REAL && v->real == -9223372036854775808.0);
    v = parse(&a, STR("1.0"));
    assert_true(v->kind == JSON_REAL && v->real == 1.0);
    v = parse(&a, STR("1e-400"));
    assert_true(v->kind == JSON_REAL && v->real == 0);
    v = parse(&a, STR("\"a\\u0000b\""));
    assert_true(v->kind == JSON_TEXT && str_eq(v->text, STR("a\0b")));
    v = parse(&a, STR(" [1, {\"k\" : 2}] "));
    assert_true(v->kind == JSON_LIST && v->count == 2);
    assert_true(str_eq(v->raw, STR("[1, {\"k\" : 2}]")));
    assert_true(str_eq(v->first->next->raw, STR("{\"k\" : 2}")));
    arena_release(&a);
}

static void text_without_escapes_is_borrowed(void **state)
{
    static const char text[] = "[\"plain\",\"esc\\n\"]";
    struct arena a = {0};
    struct json *v = json_parse(&a, str_of(text), NULL);

    (void)state;
    assert_ptr_equal(v->first->text.p, text + 2);
    assert_true(v->first->next->text.p < text || v->first->next->text.p > text + sizeof text);
    arena_release(&a);
}

static void put_many(struct buf *b, const char *text, size_t times)
{
    while (times--)
        buf_put_str(b, str_of(text));
}

static void depth_has_a_limit(void **state)
{
    static const struct {
        size_t depth;
        bool taken;
    } rows[] = {{JSON_DEPTH_MAX, true}, {JSON_DEPTH_MAX + 1, false}, {1000000, false}};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct arena a = {0};
        struct buf b = {0};

        put_many(&b, "[", rows[i].depth);
        put_many(&b, "]", rows[i].depth);
        assert_true((json_parse(&a, (struct str){b.p, b.len}, NULL) != NULL) == rows[i].taken);
        buf_release(&b);
        arena_release(&a);
    }
}

/* Those of every depth count, and those of an object; names do not. */
static void values_have_a_limit(void **state)
{
    static const struct {
        const char *text;
        size_t values;
    } rows[] = {{"7", 1}, {"[]", 1}, {"[1,[2,3]]", 5}, {"{\"a\":{\"b\":null}}", 3}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct str text = str_of(rows[i].text);
        struct json_limit less = {rows[i].values - 1, 0, 0}, enough = {rows[i].values, 0, 0};
        struct err_info why = {{0}};
        struct arena a = {0};
        struct json *v = NULL;

        assert_int_equal(json_read(&a, text, &less, &v, &why), DROVER_TOO_BIG);
        assert_null(v);
        assert_non_null(strstr(why.text, "too many values"));
        assert_int_equal(json_read(&a, text, &enough, &v, &why), 0);
        assert_non_null(v);
        arena_release(&a);
    }
}

static bool take_some(void *arg)
{
    return (*(int *)arg)-- > 0;
}

/* Asked for before each step but the first. The limit on their number holds inside a step, too. */
static void memory_for_values_is_asked_for(void **state)
{
    static const struct {
        size_t values, values_max;
        int steps, err; /* steps after the first that there is memory for */
    } rows[] = {
        {3 * JSON_STEP, SIZE_MAX, 2, 0},
        {3 * JSON_STEP + 1, SIZE_MAX, 2, DROVER_TOO_MANY},
        {2 * JSON_STEP, 2 * JSON_STEP - 1, 1, DROVER_TOO_BIG},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int left = rows[i].steps;
        struct json_limit limit = {rows[i].values_max, take_some, &left};
        struct arena a = {0};
        struct buf b = {0};
        struct json *v;
        put_many(&b, "[", 1);
        put_many(&b, "7,", rows[i].values - 2);
        put_many(&b, "7]", 1);
        assert_int_equal(json_read(&a, buf_str(&b), &limit, &v, NULL), rows[i].err);
        arena_release(&a);
        buf_release(&b);
    }
}

/* Also where there are too many to compare each with each. */
static void names_are_distinct_in_large_objects(void **state)
{
    (void)state;
    for (int twice = 0; twice < 2; twice++) {
        struct arena a = {0};
        struct buf b = {0};
        char name[16];

        json_open(&b, '{');
        for (int i = 0; i < 1000; i++) {
            snprintf(name, sizeof name, "k%d", twice && i == 999 ? 0 : i);
            json_key(&b, name);
            json_put_int(&b, i);
        }
        json_close(&b, '}');
        assert_true((json_parse(&a, (struct str){b.p, b.len}, NULL) == NULL) == twice);
        buf_release(&b);
        arena_release(&a);
    }
}

static void the_reason_names_the_place(void **state)
{
    struct arena a = {0};
    struct err_info why;

    (void)state;
    assert_null(json_parse(&a, STR("[1, 2,\n x]"), &why));
    assert_string_equal(why.text, "not JSON: an unexpected character at byte 8");
    arena_release(&a);
}

static void members_have_their_kinds(void **state)
{
    struct arena a = {0};
    const struct json *v =
        parse(&a, STR("{\"i\":7,\"t\":\"x\",\"b\":true,\"l\":[],\"o\":{},\"n\":null,"
                      "\"r\":1.5}"));
    const struct json *found = NULL;
    struct err_info e;
    struct str text = STR("as it was");
    int64_t number = 1;
    bool truth = false;

    (void)state;
    assert_int_equal(json_get_int(v, "i", &number, &e), 1);
    assert_int_equal(number, 7);
    assert_int_equal(json_get_int(v, "n", &number, &e), 0);
    assert_int_equal(json_get_int(v, "none", &number, &e), 0);
    assert_int_equal(number, 7);
    assert_int_equal(json_get_int(v, "t", &number, &e), DROVER_BAD_ARGUMENT);
    assert_string_equal(e.text, "t must be a whole number, not a string");
    assert_int_equal(json_get_int(v, "r", &number, &e), DROVER_BAD_ARGUMENT);
    assert_int_equal(json_get_text(v, "i", &text, &e), DROVER_BAD_ARGUMENT);
    assert_true(str_eq(text, STR("as it was")));
    assert_int_equal(json_get_text(v, "t", &text, &e), 1);
    assert_true(str_eq(text, STR("x")));
    assert_int_equal(json_get_bool(v, "b", &truth, &e), 1);
    assert_true(truth);
    assert_int_equal(json_get_list(v, "l", &found, &e), 1);
    assert_int_equal(json_get_list(v, "o", &found, &e), DROVER_BAD_ARGUMENT);
    assert_int_equal(json_get_object(v, "o", &found, &e), 1);
    assert_null(json_get(NULL, "x"));
    assert_null(json_get(json_get(v, "l"), "x"));
    arena_release(&a);
}

static void unknown_members_are_named(void **state)
{
    static const char *const names[] = {"a", "b", NULL};
    struct arena a = {0};
    struct err_info e;

    (void)state;
    assert_int_equal(json_only(parse(&a, STR("{\"b\":1,\"a\":2}")), names, &e), 0);
    assert_int_equal(json_only(parse(&a, STR("{\"a\":1,\"c\":2}")), names, &e),
                     DROVER_BAD_ARGUMENT);
    assert_string_equal(e.text, "unknown member \"c\"");
    arena_release(&a);
}

static void writing_puts_commas(void **state)
{
    struct buf b = {0};

    (void)state;
    json_open(&b, '{');
    json_key(&b, "a");
    json_open(&b, '[');
    json_put_int(&b, INT64_MIN);
    json_put_bool(&b, true);
    json_put_null(&b);
    json_put_text(&b, STR(""));
    json_put_text(&b, STR("x"));
    json_open(&b, '[');
    json_close(&b, ']');
    json_open(&b, '{');
    json_close(&b, '}');
    json_close(&b, ']');
    json_key(&b, "b:");
    json_put_raw(&b, STR("{\"raw\":1}"));
    json_key(&b, ",");
    json_put_text(&b, STR("["));
    json_key(&b, "c");
    json_put_int(&b, 0);
    json_close(&b, '}');
    assert_string_equal(buf_text(&b), "{\"a\":[-9223372036854775808,true,null,\"\",\"x\",[],{}],"
                                      "\"b:\":{\"raw\":1},\",\":\"[\",\"c\":0}");
    buf_release(&b);
}

/* What we write can always be read: bytes that are no text are replaced, one by one. */
static void writing_gives_utf8(void **state)
{
    static const struct {
        struct str in, out;
    } rows[] = {
        {STR("\xff"), STR("\"\xef\xbf\xbd\"")},
        {STR("a\xc3"), STR("\"a\xef\xbf\xbd\"")},
        {STR("\xe2\x82"), STR("\"\xef\xbf\xbd\xef\xbf\xbd\"")},
        {STR("\xed\xa0\x80"), STR("\"\\ud800\"")},
        {STR("\xed\xbf\xbf"), STR("\"\\udfff\"")},
        {STR("\xed\xa0"), STR("\"\xef\xbf\xbd\xef\xbf\xbd\"")},
        {STR("\0\x1f\x7f"), STR("\"\\u0000\\u001f\x7f\"")},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf b = {0};

        json_put_text(&b, rows[i].in);
        if (!str_eq((struct str){b.p, b.len}, rows[i].out))
            fail_msg("row %zu: %s", i, buf_text(&b));
        buf_release(&b);
    }
}

/* Text is read and written by words: a special byte is found at every position of a word. */
static void every_byte_is_seen_at_every_place(void **state)
{
    enum { LEN = 19 };
    struct arena a = {0};
    struct buf b = {0};

    (void)state;
    for (int byte = 0; byte < 256; byte++)
        for (size_t at = 0; at < LEN; at++) {
            bool plain = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
            char text[LEN + 2];
            struct err_info why;

            memset(text, 'x', sizeof text);
            text[0] = text[LEN + 1] = '"';
            text[1 + at] = (char)byte;
            assert_int_equal(json_parse(&a, (struct str){text, sizeof text}, &why) != NULL, plain);
            b.len = 0;
            json_put_text(&b, (struct str){text + 1, LEN});
            assert_int_equal(b.len == sizeof text && !memcmp(b.p, text, sizeof text), plain);
            assert_non_null(json_parse(&a, (struct str){b.p, b.len}, &why));
            arena_reset(&a);
        }
    buf_release(&b);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back),
        cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(kinds_and_numbers_are_exact),
        cmocka_unit_test(text_without_escapes_is_borrowed),
        cmocka_unit_test(every_byte_is_seen_at_every_place),
        cmocka_unit_test(depth_has_a_limit),
        cmocka_unit_test(values_have_a_limit),
        cmocka_unit_test(memory_for_values_is_asked_for),
        cmocka_unit_test(names_are_distinct_in_large_objects),
        cmocka_unit_test(the_reason_names_the_place),
        cmocka_unit_test(members_have_their_kinds),
        cmocka_unit_test(unknown_members_are_named),
        cmocka_unit_test(writing_puts_commas),
        cmocka_unit_test(writing_gives_utf8),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
