/* Fields: how a row fills a struct, and the message of each refusal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/route.h"

struct part {
    struct str name;
    int64_t size;
};

struct in {
    struct str text;
    int64_t number, limit;
    bool flag;
    int choice;
    const struct json *any;
    const struct part *part;
    const int64_t *ids;
    const struct str *words;
    const struct part *parts;
    size_t id_count, word_count, part_count;
};

static const struct route_field PART[] = {
    FIELD_TEXT(IN_BODY | REQUIRED, struct part, name, "name", 1, 8, ""),
    FIELD_INT(IN_BODY, struct part, size, "size", 0, INT64_MAX, "", .preset = 7),
    {.name = {NULL, 0}},
};

static const struct route_field FIELDS_OF_IN[] = {
    FIELD_TEXT(IN_BODY, struct in, text, "text", 1, 4, ""),
    FIELD_INT(IN_BODY, struct in, number, "number", -5, 5, ""),
    FIELD_INT(IN_QUERY, struct in, limit, "limit", 1, 1000, "", .preset = 100),
    FIELD_BOOL(IN_BODY, struct in, flag, "flag", ""),
    FIELD_CHOICE(IN_BODY, struct in, choice, "choice", "red|green|blue", "", .preset = 2),
    FIELD_JSON(IN_BODY, struct in, any, "any", "any", ""),
    FIELD_IGNORED(IN_BODY, "ignored", ""),
    FIELD_OBJECT(IN_BODY, struct in, part, "part", struct part, PART, ""),
    FIELD_INTS(IN_BODY, struct in, ids, id_count, "ids", 0, 3, ""),
    FIELD_TEXTS(IN_BODY, struct in, words, word_count, "words", 0, 3, ""),
    FIELD_OBJECTS(IN_BODY, struct in, parts, part_count, "parts", 1, 3, struct part, PART, ""),
    {.name = {NULL, 0}},
};

static struct arena arena;

static int read_body(const char *text, struct in *in, struct route_field_error *e)
{
    const struct json *v = json_parse(&arena, str_of(text), NULL);

    assert_non_null(v);
    *in = (struct in){0};
    *e = (struct route_field_error){0};
    return field_read_body(FIELDS_OF_IN, v, &arena, in, e);
}

static void a_body_fills_a_struct(void **state)
{
    struct route_field_error e;
    struct in in;

    (void)state;
    assert_int_equal(
        read_body("{\"parts\":[{\"name\":\"a\"},{\"size\":1,\"name\":\"b\"}],\"text\":\"abc\","
                  "\"number\":-5,\"flag\":true,\"choice\":\"green\",\"any\":null,\"ids\":[3,-4],"
                  "\"words\":[\"x\"],\"part\":{\"name\":\"n\"},\"ignored\":[{}]}",
                  &in, &e),
        0);
    assert_true(str_eq(in.text, STR("abc")) && in.number == -5 && in.flag && in.choice == 1);
    assert_int_equal(in.any->kind, JSON_NULL);
    assert_true(str_eq(in.part->name, STR("n")) && in.part->size == 7);
    assert_true(in.id_count == 2 && in.ids[0] == 3 && in.ids[1] == -4);
    assert_true(in.word_count == 1 && str_eq(in.words[0], STR("x")));
    assert_true(in.part_count == 2 && in.parts[0].size == 7 && in.parts[1].size == 1);
}

static void what_is_missing_or_null_has_its_preset(void **state)
{
    static const char *const bodies[] = {
        "{}", "{\"text\":null,\"number\":null,\"choice\":null,\"part\":null,\"ids\":null}"};
    struct route_field_error e;
    struct in in;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(read_body(bodies[i], &in, &e), 0);
        assert_true(!in.text.p && !in.number && in.limit == 100 && !in.flag && in.choice == 2);
        assert_true(!in.any && !in.part && !in.ids && !in.id_count);
    }
}

static void what_is_wrong_is_said(void **state)
{
    static const struct {
        const char *body, *field, *text;
        int err;
    } rows[] = {
        {"{\"txt\":1}", "txt", "txt is an unknown member", DROVER_BAD_ARGUMENT},
        {"{\"limit\":1}", "limit", "limit is an unknown member", DROVER_BAD_ARGUMENT},
        {"{\"text\":1}", "text", "text must be a string, not a number", DROVER_BAD_ARGUMENT},
        {"{\"text\":\"\"}", "text", "text must have 1 to 4 bytes", DROVER_BAD_ARGUMENT},
        {"{\"text\":\"12345\"}", "text", "text must have 1 to 4 bytes", DROVER_BAD_ARGUMENT},
        {"{\"number\":6}", "number", "number must be from -5 to 5", DROVER_BAD_ARGUMENT},
        {"{\"number\":1.5}", "number",
         "number must be a whole number, not a number with a fraction or too large",
         DROVER_BAD_ARGUMENT},
        {"{\"flag\":1}", "flag", "flag must be true or false, not a number", DROVER_BAD_ARGUMENT},
        {"{\"choice\":\"grey\"}", "choice", "choice must be one of red, green, blue",
         DROVER_BAD_ARGUMENT},
        {"{\"part\":{}}", "part.name", "part: name is missing", DROVER_BAD_ARGUMENT},
        {"{\"part\":{\"name\":\"n\",\"size\":-1}}", "part.size", "part: size must be at least 0",
         DROVER_BAD_ARGUMENT},
        {"{\"part\":[]}", "part", "part must be an object, not a list", DROVER_BAD_ARGUMENT},
        {"{\"ids\":[1,\"2\"]}", "ids[1]", "ids[1] must be a whole number, not a string",
         DROVER_BAD_ARGUMENT},
        {"{\"ids\":[1,2,3,4]}", "ids", "ids may have 3 items, not 4", DROVER_TOO_BIG},
        {"{\"words\":[\"\"]}", "words[0]", "words[0] must not be empty", DROVER_BAD_ARGUMENT},
        {"{\"parts\":[]}", "parts", "parts must have 1 to 3 items", DROVER_BAD_ARGUMENT},
        {"{\"parts\":[{\"name\":\"a\"},7]}", "parts[1]", "parts[1] must be an object, not a number",
         DROVER_BAD_ARGUMENT},
        {"{\"parts\":[{\"nam\":\"a\"}]}", "parts[0].nam", "parts[0]: nam is an unknown member",
         DROVER_BAD_ARGUMENT},
    };
    struct route_field_error e;
    struct in in;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(read_body(rows[i].body, &in, &e), rows[i].err);
        assert_string_equal(e.field, rows[i].field);
        assert_string_equal(e.why.text, rows[i].text);
    }
}

static void texts_of_paths_and_queries(void **state)
{
    static const struct {
        struct str text;
        size_t field; /* in FIELDS_OF_IN */
        int err;
        int64_t number;
    } rows[] = {
        {STR("1000"), 2, 0, 1000},
        {STR("1001"), 2, DROVER_BAD_ARGUMENT, 0},
        {STR(""), 2, DROVER_BAD_ARGUMENT, 0},
        {STR("+1"), 2, DROVER_BAD_ARGUMENT, 0},
        {STR("-1"), 2, DROVER_BAD_ARGUMENT, 0},
        {STR("1x"), 2, DROVER_BAD_ARGUMENT, 0},
        {STR("99999999999999999999"), 2, DROVER_BAD_ARGUMENT, 0},
        {STR("-5"), 1, 0, -5},
        {STR("-"), 1, DROVER_BAD_ARGUMENT, 0},
        {STR("YES"), 3, 0, 1},
        {STR("false"), 3, 0, 0},
        {STR("2"), 3, DROVER_BAD_ARGUMENT, 0},
        {STR("red"), 4, 0, 0},
        {STR("re"), 4, DROVER_BAD_ARGUMENT, 0},
        {STR("7,-8,9"), 8, 0, 3},
        {STR(""), 8, 0, 0},
        {STR("7,"), 8, DROVER_BAD_ARGUMENT, 0},
        {STR("7,8,9,10"), 8, DROVER_TOO_BIG, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct route_field *f = &FIELDS_OF_IN[rows[i].field];
        struct route_field_error e = {0};
        struct in in = {0};

        assert_int_equal(field_read_text(f, rows[i].text, &arena, &in, &e), rows[i].err);
        if (rows[i].err)
            assert_non_null(strstr(e.why.text, f->name.p));
        else
            assert_int_equal(in.limit + in.number + in.flag + in.choice + (int64_t)in.id_count,
                             rows[i].number);
    }
}

static int release(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_fills_a_struct),
        cmocka_unit_test(what_is_missing_or_null_has_its_preset),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(texts_of_paths_and_queries),
    };

    return cmocka_run_group_tests(tests, NULL, release);
}
