#include "http/head.h"

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_plain(struct str text, bool plus_is_space)
{
    return !text.len ||
           (!memchr(text.p, '%', text.len) && !(plus_is_space && memchr(text.p, '+', text.len)));
}

bool query_unescape(struct arena *a, struct str text, bool plus_is_space, struct str *ret_text)
{
    char *out, *at;

    if (is_plain(text, plus_is_space)) {
        *ret_text = text;
        return true;
    }
    out = at = arena_alloc(a, text.len);
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] == '%') {
            int high = i + 2 < text.len ? digit_of(text.p[i + 1]) : -1;
            int low = high >= 0 ? digit_of(text.p[i + 2]) : -1;

            if (low < 0)
                return false;
            *at++ = (char)(high << 4 | low);
            i += 2;
        } else {
            *at++ = plus_is_space && text.p[i] == '+' ? ' ' : text.p[i];
        }
    }
    *ret_text = (struct str){out, (size_t)(at - out)};
    return true;
}

static bool is_named(const struct query *q, struct str name)
{
    for (size_t i = 0; i < q->count; i++)
        if (str_eq(q->params[i].name, name))
            return true;
    return false;
}

/* Removes the text up to the next separator, and the separator, from the front of *rest. */
static struct str take(struct str *rest, char separator)
{
    const char *found = memchr(rest->p, separator, rest->len);
    struct str taken = {rest->p, found ? (size_t)(found - rest->p) : rest->len};
    size_t used = taken.len + (found ? 1 : 0);

    rest->p += used;
    rest->len -= used;
    return taken;
}

const char *query_parse(struct arena *a, struct str text, struct query *ret_query)
{
    struct query q = {0};
    size_t room = 1;

    if (!text.len) {
        *ret_query = q;
        return NULL;
    }
    for (size_t i = 0; i < text.len; i++)
        room += text.p[i] == '&';
    q.params = arena_alloc(a, sizeof *q.params * (room < QUERY_MAX ? room : QUERY_MAX));
    while (text.len) {
        struct str value = take(&text, '&');

        if (!value.len)
            continue;
        if (q.count == QUERY_MAX)
            return "too many parameters in the query";
        struct query_param *param = &q.params[q.count];
        struct str name = take(&value, '=');
        if (!query_unescape(a, name, true, &param->name) ||
            !query_unescape(a, value, true, &param->value))
            return "malformed escape in the query";
        if (is_named(&q, param->name))
            return "a parameter stands twice in the query";
        q.count++;
    }
    *ret_query = q;
    return NULL;
}
