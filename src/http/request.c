/*
 * From a request to the struct that its handler wants, by the fields of its route; and what
 * handlers ask of a request.
 */
#include <stdio.h>

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

static int parse_json(struct http_request *r, struct json **ret_json, struct err_info *why)
{
    bool large = ((struct exchange *)r)->row->route->flags & ROUTE_LARGE;

    return json_read(&r->arena, r->body, large ? HTTP_LARGE_VALUES_MAX : HTTP_VALUES_MAX, ret_json,
                     why);
}

const struct json *http_json(struct http_request *r)
{
    struct json *v = NULL;
    struct err_info why;
    int err = parse_json(r, &v, &why);

    if (err)
        http_reply_err(r, err, why.text);
    return v;
}

bool http_is_gone(const struct http_request *r)
{
    return atomic_load(&((const struct exchange *)r)->left);
}

void http_take_memory(struct http_request *r, struct http_memory *ret_memory)
{
    struct exchange *x = (struct exchange *)r;

    *ret_memory = (struct http_memory){r->arena, x->text, x->body};
    r->arena = (struct arena){0};
    x->text = x->body = (struct buf){0};
}

void http_memory_release(struct http_memory *m)
{
    arena_release(&m->arena);
    buf_release(&m->head);
    buf_release(&m->body);
    *m = (struct http_memory){0};
}

/* Reading. */

static const struct route_field NO_FIELDS[] = {{.name = {NULL, 0}}};

/* Whether an empty body will do: none of its fields is required. */
static bool is_body_optional(const struct route_field *fields)
{
    for (; fields->name.p; fields++)
        if ((fields->where & (IN_BODY | REQUIRED)) == (IN_BODY | REQUIRED))
            return false;
    return true;
}

static int read_body(struct http_request *r, const struct route_field *fields,
                     struct route_field_error *e)
{
    const struct route_field *whole = field_find(fields, IN_BODY, STR(""));
    struct json *v = NULL;

    if (r->head.method == METHOD_GET || (!r->body.len && is_body_optional(fields))) {
        field_preset(fields, r->in);
        return 0;
    }
    e->err = parse_json(r, &v, &e->why);
    r->json = v;
    if (e->err)
        return e->err;
    if (whole)
        return field_read_json(whole, v, &r->arena, r->in, e);
    if (v->kind != JSON_OBJECT)
        return err_set(&e->why, e->err = DROVER_BAD_ARGUMENT, "the body must be an object, not %s",
                       json_kind_name(v));
    return field_read_body(fields, v, &r->arena, r->in, e);
}

static int read_query(struct http_request *r, const struct route_field *fields,
                      struct route_field_error *e)
{
    for (size_t i = 0; i < r->query.count; i++) {
        struct query_param *p = &r->query.params[i];
        const struct route_field *f = field_find(fields, IN_QUERY, p->name);
        int err;

        if (!f) {
            int len = p->name.len < 64 ? (int)p->name.len : 64;

            snprintf(e->field, sizeof e->field, "%.*s", len, p->name.p);
            return err_set(&e->why, e->err = DROVER_BAD_ARGUMENT, "unknown query parameter '%.*s'",
                           len, p->name.p);
        }
        err = field_read_text(f, p->value, &r->arena, r->in, e);
        if (err)
            return err;
    }
    for (const struct route_field *f = fields; f->name.p; f++)
        if ((f->where & (IN_QUERY | REQUIRED)) == (IN_QUERY | REQUIRED) &&
            !http_query(r, f->name.p, &(struct str){0})) {
            snprintf(e->field, sizeof e->field, "%s", f->name.p);
            return err_set(&e->why, e->err = DROVER_BAD_ARGUMENT, "%s is missing", f->name.p);
        }
    return 0;
}

static int read_path(struct http_request *r, const struct route_field *fields,
                     struct route_field_error *e)
{
    const struct str *param = r->params;
    int err = 0;

    for (const struct route_field *f = fields; f->name.p && !err; f++) {
        struct str text;

        if (!(f->where & IN_PATH))
            continue;
        if (!query_unescape(&r->arena, *param++, false, &text))
            return err_set(&e->why, e->err = DROVER_BAD_ARGUMENT, "malformed escape in the path");
        err = field_read_text(f, text, &r->arena, r->in, e);
    }
    return err;
}

/* The body comes first: reading it presets every field. */
static int read_in(struct http_request *r, const struct route *route, struct route_field_error *e)
{
    const struct route_field *fields = route->fields ? route->fields : NO_FIELDS;
    int err;

    r->in = arena_zalloc(&r->arena, route->in_size + 1);
    r->json = NULL;
    err = read_body(r, fields, e);
    if (!err)
        err = read_query(r, fields, e);
    return err ? err : read_path(r, fields, e);
}

void request_handle(struct exchange *x)
{
    const struct route *route = x->row->route;
    struct http_request *r = &x->request;
    struct route_field_error e;
    const char *wrong = query_parse(&r->arena, r->head.query, &r->query);

    e.field[0] = '\0';
    if (wrong)
        http_reply_error(r, 400, wrong);
    else if (route->id && read_in(r, route, &e))
        reply_with(r, drover_err_http_status(e.err), drover_err_name(e.err),
                   e.field[0] ? e.field : NULL, e.why.text);
    else
        route->handler(r);
}
