/*
 * JSON against jansson: both take the same texts and understand the same by them.
 *
 * They differ where we meant to. We take half a surrogate pair in an escape, "\u0000" in the name
 * of a member, and whole numbers of any size (as reals); jansson takes deeper nesting, and a NUL
 * byte for the end. What we took is also written and read again, and has to be the same.
 */

/* Both have constants of these names. */
#define JSON_NULL JANSSON_NULL
#define JSON_OBJECT JANSSON_OBJECT
#define JSON_REAL JANSSON_REAL
#include <jansson.h>
#undef JSON_NULL
#undef JSON_OBJECT
#undef JSON_REAL

#include "base/json.h"
#include "fuzz.h"

static bool is_same(const struct json *v, const json_t *j);

static bool same_text(struct str s, const char *text, size_t len)
{
    return str_eq(s, (struct str){text, len});
}

static bool same_list(const struct json *v, const json_t *j)
{
    size_t i = 0;

    if (v->count != json_array_size(j))
        return false;
    json_each(m, v) {
        if (!is_same(m, json_array_get(j, i++)))
            return false;
    }
    return true;
}

static bool same_object(const struct json *v, const json_t *j)
{
    if (v->count != json_object_size(j))
        return false;
    json_each(m, v) {
        char *name = mem_dup(m->key.p, m->key.len);
        const json_t *member = json_object_get(j, name);

        free(name);
        if (!member || !is_same(m, member))
            return false;
    }
    return true;
}

static bool is_same(const struct json *v, const json_t *j)
{
    switch (v->kind) {
    case JSON_NULL:
        return json_typeof(j) == JANSSON_NULL;
    case JSON_BOOL:
        return json_is_boolean(j) && json_is_true(j) == v->truth;
    case JSON_INT:
        return json_is_integer(j) && json_integer_value(j) == v->number;
    case JSON_REAL:
        return json_typeof(j) == JANSSON_REAL && json_real_value(j) == v->real;
    case JSON_TEXT:
        return json_is_string(j) && same_text(v->text, json_string_value(j), json_string_length(j));
    case JSON_LIST:
        return json_is_array(j) && same_list(v, j);
    default:
        return json_typeof(j) == JANSSON_OBJECT && same_object(v, j);
    }
}

/* Whether it is one of the things that we take and jansson does not. */
static bool is_known_difference(const json_error_t *e)
{
    enum json_error_code code = json_error_code(e);

    return code == json_error_numeric_overflow || code == json_error_null_byte_in_key ||
           strstr(e->text, "invalid Unicode") || strstr(e->text, "too big");
}

static void check_written(struct arena *a, const struct json *v)
{
    struct buf once = {0}, twice = {0};
    const struct json *again;
    struct err_info why;

    json_put(&once, v);
    again = json_parse(a, (struct str){once.p, once.len}, &why);
    FUZZ_CHECK(again != NULL);
    json_put(&twice, again);
    FUZZ_CHECK(str_eq((struct str){once.p, once.len}, (struct str){twice.p, twice.len}));
    buf_release(&once);
    buf_release(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct str in = {(const char *)data, len};
    char *exact = fuzz_exact(in);
    struct arena a = {0};
    struct err_info why = {""};
    const struct json *v = json_parse(&a, (struct str){exact, len}, &why);
    json_error_t error = {0};
    json_t *j =
        json_loadb(exact, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);

    if (v && j)
        FUZZ_CHECK(is_same(v, j));
    else if (v)
        FUZZ_CHECK(is_known_difference(&error));
    else if (j)
        FUZZ_CHECK(strstr(why.text, "too deep") || memchr(exact, '\0', len));
    if (v)
        check_written(&a, v);
    json_decref(j);
    arena_release(&a);
    free(exact);
    return 0;
}
