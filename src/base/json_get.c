/* The members of an object that was read. */
#include "base/json.h"

const char *json_kind_name(const struct json *v)
{
    static const char *const names[] = {
        [JSON_NULL] = "null",       [JSON_BOOL] = "a boolean", [JSON_INT] = "a number",
        [JSON_REAL] = "a number",   [JSON_TEXT] = "a string",  [JSON_LIST] = "a list",
        [JSON_OBJECT] = "an object"};
    return names[v->kind];
}

const struct json *json_get(const struct json *v, const char *name)
{
    struct str key = str_of(name);
    if (!v || v->kind != JSON_OBJECT)
        return NULL;
    json_each(m, v)
        if (str_eq(m->key, key))
            return m;
    return NULL;
}

/* 1: it has the kind; 0: it is missing or null. */
static int get_kind(const struct json *v, const char *name, enum json_kind kind, const char *wanted,
                    const struct json **ret, struct err_info *e)
{
    const struct json *m = json_get(v, name);
    if (!m || m->kind == JSON_NULL)
        return 0;
    if (m->kind != kind)
        return err_set(e, DROVER_BAD_ARGUMENT, "%s must be %s, not %s", name, wanted,
                       m->kind == JSON_REAL ? "a number with a fraction or too large"
                                            : json_kind_name(m));
    *ret = m;
    return 1;
}

#define GETTER(function, type, json_kind, wanted, field)                                           \
    int function(const struct json *v, const char *name, type *ret, struct err_info *ret_error)    \
    {                                                                                              \
        const struct json *m = NULL;                                                               \
        int found = get_kind(v, name, json_kind, wanted, &m, ret_error);                           \
                                                                                                   \
        if (found > 0)                                                                             \
            *ret = m->field;                                                                       \
        return found;                                                                              \
    }

GETTER(json_get_int, int64_t, JSON_INT, "a whole number", number)
GETTER(json_get_bool, bool, JSON_BOOL, "true or false", truth)
GETTER(json_get_text, struct str, JSON_TEXT, "a string", text)

int json_get_list(const struct json *v, const char *name, const struct json **ret,
                  struct err_info *ret_error)
{
    return get_kind(v, name, JSON_LIST, "a list", ret, ret_error);
}

int json_get_object(const struct json *v, const char *name, const struct json **ret,
                    struct err_info *ret_error)
{
    return get_kind(v, name, JSON_OBJECT, "an object", ret, ret_error);
}

struct str json_text_of(const struct json *v, const char *name)
{
    const struct json *m = json_get(v, name);
    return m && m->kind == JSON_TEXT ? m->text : STR("");
}

int64_t json_int_of(const struct json *v, const char *name)
{
    const struct json *m = json_get(v, name);
    return m && m->kind == JSON_INT ? m->number : 0;
}

static bool is_among(struct str key, const char *const *names)
{
    for (; *names; names++)
        if (str_eq(key, str_of(*names)))
            return true;
    return false;
}

int json_only(const struct json *v, const char *const *names, struct err_info *ret_error)
{
    json_each(m, v)
        if (!is_among(m->key, names))
            return err_set(ret_error, DROVER_BAD_ARGUMENT, "unknown member \"%.*s\"",
                           (int)(m->key.len < 64 ? m->key.len : 64), m->key.p);
    return 0;
}
