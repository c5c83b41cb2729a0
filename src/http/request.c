/*
 * What handlers ask of a request.
 */
#include <inttypes.h>

#include "http/conn.h"

bool http_query(const struct http_request *r, const char *name, struct str *ret_value)
{
    struct str wanted = str_of(name);

    for (size_t i = 0; i < r->query.count; i++)
        if (str_eq(r->query.params[i].name, wanted)) {
            *ret_value = r->query.params[i].value;
            return true;
        }
    return false;
}

int http_query_number(struct http_request *r, const char *name, int64_t *ret_number)
{
    int64_t number = 0;
    struct str text;
    size_t i = 0;

    if (!http_query(r, name, &text))
        return 0;
    for (; i < text.len && text.len <= 18 && text.p[i] >= '0' && text.p[i] <= '9'; i++)
        number = number * 10 + (text.p[i] - '0');
    if (!text.len || i < text.len) {
        http_reply_errorf(r, 400, "%s is not a number", name);
        return DROVER_BAD_ARGUMENT;
    }
    *ret_number = number;
    return 1;
}

bool http_decode(struct http_request *r, struct str part, struct str *ret_text)
{
    if (query_unescape(&r->arena, part, false, ret_text))
        return true;
    http_reply_error(r, 400, "malformed escape in the path");
    return false;
}

const struct json *http_json(struct http_request *r)
{
    bool large = ((struct exchange *)r)->row->route->flags & ROUTE_LARGE;
    struct json *v = NULL;
    struct err_info why;
    int err =
        json_read(&r->arena, r->body, large ? HTTP_LARGE_VALUES_MAX : HTTP_VALUES_MAX, &v, &why);

    if (err)
        http_reply_err(r, err, why.text);
    return v;
}

bool http_is_gone(const struct http_request *r)
{
    return atomic_load(&((const struct exchange *)r)->left);
}
