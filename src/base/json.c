/*
 * Reads JSON in one pass by recursive descent; the depth is limited, and so is the stack. Text
 * takes most of the time: plain ASCII is skipped a word at a time, and only text with escapes is
 * copied.
 *
 * Half a surrogate pair ("\ud800" alone) is legal JSON but no character. It is stored as ED A0..BF
 * xx, which UTF-8 forbids (and which is refused in the input), so that it can be written back as
 * the same escape.
 */
#include "base/json.h"

#include <math.h>
#include <stdlib.h>

enum { FEW_MEMBERS = 16 };

struct json_parser {
    const char *p, *end, *start;
    struct arena *arena;
    struct err_info *why;
    int err;
    int depth;
    const struct json_limit *limit;
    size_t values_left; /* of this step */
    size_t values;      /* of the steps so far */
};

static bool wrong(struct json_parser *s, const char *what)
{
    s->err = err_set(s->why, DROVER_BAD_ARGUMENT, "not JSON: %s at byte %zu", what,
                     (size_t)(s->p - s->start));
    return false;
}

static void skip_space(struct json_parser *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r'))
        s->p++;
}

/* Moves on if that is the next byte. */
static bool skip_byte(struct json_parser *s, char c)
{
    bool is_next = s->p < s->end && *s->p == c;
    s->p += is_next;
    return is_next;
}

/* Text */

static bool hex4(const char *p, const char *end, uint32_t *ret)
{
    uint32_t v = 0;
    if (end - p < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        if (c >= '0' && c <= '9')
            v = v << 4 | (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            v = v << 4 | (uint32_t)((c | 32) - 'a' + 10);
        else
            return false;
    }
    *ret = v;
    return true;
}

/* At the 'u' of an escape. Joins the two halves of a surrogate pair. */
static bool unescape_u(struct json_parser *s, char **to)
{
    uint32_t c, low;
    if (!hex4(s->p + 1, s->end, &c))
        return wrong(s, "bad \\u escape");
    s->p += 5;
    if (c >= 0xd800 && c < 0xdc00 && s->end - s->p >= 6 && s->p[0] == '\\' && s->p[1] == 'u' &&
        hex4(s->p + 2, s->end, &low) && low >= 0xdc00 && low < 0xe000) {
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        s->p += 6;
    }
    *to = utf8_put(*to, c);
    return true;
}

static bool unescape(struct json_parser *s, char **to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    s->p++;
    if (s->p == s->end)
        return wrong(s, "unfinished escape");
    if (*s->p == 'u')
        return unescape_u(s, to);
    const char *known = *s->p ? strchr(from, *s->p) : NULL;
    if (!known)
        return wrong(s, "an unknown escape");
    *(*to)++ = into[known - from];
    s->p++;
    return true;
}

/* Skips to the quote or escape; false if there is a byte that text may not contain. */
static bool skip_plain(struct json_parser *s)
{
    while ((s->p = json_skip_plain(s->p, s->end)) < s->end) {
        unsigned char c = (unsigned char)*s->p;
        if (c == '"' || c == '\\')
            return true;
        if (c < 0x20)
            return wrong(s, "a control character in a string");
        size_t len = utf8_len(s->p, s->end);
        if (!len)
            return wrong(s, "bytes that are not UTF-8");
        s->p += len;
    }
    return wrong(s, "an unfinished string");
}

/* The rest of a text with an escape at s->p. The result is never longer than the input. */
static bool parse_escaped(struct json_parser *s, const char *begin, struct str *ret)
{
    const char *quote = s->p;
    char *text, *to;

    while (quote < s->end && *quote != '"')
        quote += *quote == '\\' ? 2 : 1;
    if (quote >= s->end)
        return wrong(s, "an unfinished string");
    text = to = arena_alloc(s->arena, (size_t)(quote - begin));
    memcpy(to, begin, (size_t)(s->p - begin));
    to += s->p - begin;
    while (*s->p != '"') {
        const char *plain = s->p;

        if (*s->p == '\\') {
            if (!unescape(s, &to))
                return false;
            continue;
        }
        if (!skip_plain(s))
            return false;
        memcpy(to, plain, (size_t)(s->p - plain));
        to += s->p - plain;
    }
    s->p++;
    *ret = (struct str){text, (size_t)(to - text)};
    return true;
}

static bool parse_text(struct json_parser *s, struct str *ret)
{
    const char *begin = ++s->p;
    if (!skip_plain(s))
        return false;
    if (*s->p == '\\')
        return parse_escaped(s, begin, ret);
    *ret = (struct str){begin, (size_t)(s->p - begin)};
    s->p++;
    return true;
}

/* Numbers */

static bool is_digit(const struct json_parser *s)
{
    return s->p < s->end && *s->p >= '0' && *s->p <= '9';
}

static bool skip_digits(struct json_parser *s)
{
    if (!is_digit(s))
        return wrong(s, "a digit is missing");
    while (is_digit(s))
        s->p++;
    return true;
}

/* False: it does not fit. */
static bool to_int64(const char *p, const char *end, int64_t *ret)
{
    bool negative = *p == '-';
    uint64_t v = 0, limit = (uint64_t)INT64_MAX + negative;
    p += negative;
    for (const char *safe = end - p > 18 ? p + 18 : end; p < safe; p++) /* 18 digits always fit */
        v = v * 10 + (uint64_t)(*p - '0');
    for (; p < end; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (v > (limit - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *ret = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

static bool to_real(struct json_parser *s, const char *begin, double *ret)
{
    char *text = arena_text(s->arena, (struct str){begin, (size_t)(s->p - begin)});
    *ret = strtod(text, NULL);
    return isfinite(*ret) || wrong(s, "a number that is too large");
}

static bool parse_number(struct json_parser *s, struct json *v)
{
    const char *begin = s->p;
    skip_byte(s, '-');
    if (!skip_byte(s, '0') && !skip_digits(s))
        return false;
    bool has_fraction = skip_byte(s, '.');
    if (has_fraction && !skip_digits(s))
        return false;
    bool has_exponent = skip_byte(s, 'e') || skip_byte(s, 'E');
    if (has_exponent && !skip_byte(s, '+'))
        skip_byte(s, '-');
    if (has_exponent && !skip_digits(s))
        return false;
    v->kind = JSON_INT;
    if (!has_fraction && !has_exponent && to_int64(begin, s->p, &v->number))
        return true;
    v->kind = JSON_REAL;
    return to_real(s, begin, &v->real);
}

/* Lists and objects */

static int by_key(const void *a, const void *b)
{
    const struct json *x = *(struct json *const *)a, *y = *(struct json *const *)b;
    size_t len = x->key.len < y->key.len ? x->key.len : y->key.len;
    int order = len ? memcmp(x->key.p, y->key.p, len) : 0;
    return order ? order : (x->key.len > y->key.len) - (x->key.len < y->key.len);
}

static bool few_are_distinct(const struct json *v)
{
    json_each(a, v)
        for (const struct json *b = a->next; b; b = b->next)
            if (str_eq(a->key, b->key))
                return false;
    return true;
}

static bool keys_are_distinct(struct arena *arena, const struct json *v)
{
    if (v->count <= FEW_MEMBERS)
        return few_are_distinct(v);
    size_t n = 0;
    const struct json **sorted = arena_alloc(arena, v->count * sizeof *sorted);
    json_each(m, v)
        sorted[n++] = m;
    qsort(sorted, n, sizeof *sorted, by_key);
    for (size_t i = 1; i < n; i++)
        if (str_eq(sorted[i - 1]->key, sorted[i]->key))
            return false;
    return true;
}

static bool parse_value(struct json_parser *s, struct json *v);

static bool parse_key(struct json_parser *s, struct json *member)
{
    skip_space(s);
    if (s->p == s->end || *s->p != '"')
        return wrong(s, "the name of a member is missing");
    if (!parse_text(s, &member->key))
        return false;
    skip_space(s);
    return skip_byte(s, ':') || wrong(s, "a colon is missing");
}

/* At the opening bracket. */
static bool parse_members(struct json_parser *s, struct json *v, char closing)
{
    struct json **end = &v->first;
    v->first = NULL;
    s->p++;
    skip_space(s);
    if (skip_byte(s, closing))
        return true;
    do {
        struct json *member = arena_zalloc(s->arena, sizeof *member);
        if ((closing == '}' && !parse_key(s, member)) || !parse_value(s, member))
            return false;
        *end = member;
        end = &member->next;
        v->count++;
        skip_space(s);
    } while (skip_byte(s, ','));
    if (!skip_byte(s, closing))
        return wrong(s, closing == '}' ? "a comma or } is missing" : "a comma or ] is missing");
    return closing == ']' || keys_are_distinct(s->arena, v) ||
           wrong(s, "two members of the same name in the object that ends");
}

static bool parse_nested(struct json_parser *s, struct json *v)
{
    bool is_object = *s->p == '{';
    if (s->depth == JSON_DEPTH_MAX)
        return wrong(s, "too deep");
    s->depth++;
    v->kind = is_object ? JSON_OBJECT : JSON_LIST;
    bool ok = parse_members(s, v, is_object ? '}' : ']');
    s->depth--;
    return ok;
}

static bool parse_word(struct json_parser *s, struct json *v)
{
    static const struct {
        struct str word;
        enum json_kind kind;
        bool truth;
    } words[] = {{{"null", 4}, JSON_NULL, false},
                 {{"true", 4}, JSON_BOOL, true},
                 {{"false", 5}, JSON_BOOL, false}};
    struct str rest = {s->p, (size_t)(s->end - s->p)};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!str_starts(rest, words[i].word))
            continue;
        v->kind = words[i].kind;
        v->truth = words[i].truth;
        s->p += words[i].word.len;
        return true;
    }
    return wrong(s, "an unexpected character");
}

/* Begins the next step, with the value that comes. */
static bool next_step(struct json_parser *s)
{
    const struct json_limit *l = s->limit;
    size_t at = (size_t)(s->p - s->start), left = l->values_max - s->values;
    if (!left)
        s->err = err_set(s->why, DROVER_TOO_BIG, "too many values, at byte %zu", at);
    else if (s->values && l->take && !l->take(l->arg))
        s->err = err_set(s->why, DROVER_TOO_MANY, "no memory for more values, at byte %zu", at);
    if (s->err)
        return false;
    s->values_left = left < JSON_STEP ? left : JSON_STEP;
    s->values += s->values_left--;
    return true;
}

static bool parse_value(struct json_parser *s, struct json *v)
{
    skip_space(s);
    if (s->p == s->end)
        return wrong(s, "unexpected end");
    const char *begin = s->p;
    if (!s->values_left-- && !next_step(s))
        return false;
    bool ok;
    if (*s->p == '"') {
        v->kind = JSON_TEXT;
        ok = parse_text(s, &v->text);
    } else if (*s->p == '{' || *s->p == '[') {
        ok = parse_nested(s, v);
    } else if (*s->p == '-' || is_digit(s)) {
        ok = parse_number(s, v);
    } else {
        ok = parse_word(s, v);
    }
    v->raw = (struct str){begin, (size_t)(s->p - begin)};
    return ok;
}

int json_read(struct arena *a, struct str text, const struct json_limit *limit,
              struct json **ret_value, struct err_info *ret_error)
{
    struct json_parser s = {.p = text.p,
                            .end = text.p + text.len,
                            .start = text.p,
                            .arena = a,
                            .why = ret_error,
                            .limit = limit};
    struct json *v = arena_zalloc(a, sizeof *v);
    bool ok = parse_value(&s, v);
    skip_space(&s);
    if (ok && s.p < s.end)
        wrong(&s, "more text after the value");
    if (!s.err)
        *ret_value = v;
    return s.err;
}

struct json *json_parse(struct arena *a, struct str text, struct err_info *ret_error)
{
    static const struct json_limit none = {.values_max = SIZE_MAX};
    struct json *v = NULL;
    json_read(a, text, &none, &v, ret_error);
    return v;
}

/* The members of an object that was read. */

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

#define GETTER(function, type, json_kind, wanted, value)                                           \
    int function(const struct json *v, const char *name, type *ret, struct err_info *ret_error)    \
    {                                                                                              \
        const struct json *m = NULL;                                                               \
        int found = get_kind(v, name, json_kind, wanted, &m, ret_error);                           \
        if (found > 0)                                                                             \
            *ret = (value);                                                                        \
        return found;                                                                              \
    }

GETTER(json_get_int, int64_t, JSON_INT, "a whole number", m->number)
GETTER(json_get_bool, bool, JSON_BOOL, "true or false", m->truth)
GETTER(json_get_text, struct str, JSON_TEXT, "a string", m->text)
GETTER(json_get_list, const struct json *, JSON_LIST, "a list", m)
GETTER(json_get_object, const struct json *, JSON_OBJECT, "an object", m)

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
