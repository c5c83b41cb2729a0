/* From a request to the struct that its handler wants, by the fields of its route. */
#include <stdio.h>

#include "http/conn.h"

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

static int refuse(struct route_field_error *e, struct str name, const char *before,
                  const char *after)
{
    snprintf(e->field, sizeof e->field, "%.*s", name.len < 64 ? (int)name.len : 64, name.p);
    return err_set(&e->why, DROVER_BAD_ARGUMENT, "%s%s%s", before, e->field, after);
}

static int read_body(struct http_request *r, const struct router_row *row,
                     struct route_field_error *e)
{
    bool large = row->route->flags & ROUTE_LARGE;
    struct json *v = NULL;

    if (r->head.method == METHOD_GET || (!r->body.len && row->body_optional))
        return 0;
    TRY(json_read(&r->arena, r->body, large ? HTTP_LARGE_VALUES_MAX : HTTP_VALUES_MAX, &v,
                  &e->why));
    r->json = v;
    if (row->whole)
        return field_read_json(row->whole, v, &r->arena, r->in, e);
    if (v->kind != JSON_OBJECT)
        return err_set(&e->why, DROVER_BAD_ARGUMENT, "the body must be an object, not %s",
                       json_kind_name(v));
    return field_read_members(row->fields, v, &r->arena, r->in, e);
}

static int read_query(struct http_request *r, const struct route_field *fields,
                      struct route_field_error *e)
{
    const char *wrong = query_parse(&r->arena, r->head.query, &r->query);

    if (wrong)
        return err_set(&e->why, DROVER_BAD_ARGUMENT, "%s", wrong);
    for (size_t i = 0; i < r->query.count; i++) {
        const struct query_param *p = &r->query.params[i];
        const struct route_field *f = field_find(fields, IN_QUERY, p->name);
        if (!f)
            return refuse(e, p->name, "unknown query parameter '", "'");
        TRY(field_read_text(f, p->value, &r->arena, r->in, e));
    }
    return 0;
}

/* The path, and what is missing in the query. */
static int read_path(struct http_request *r, const struct route_field *fields,
                     struct route_field_error *e)
{
    const struct str *param = r->params;

    for (const struct route_field *f = fields; f->name.p; f++)
        if (f->where & IN_PATH) {
            struct str text;
            if (!query_unescape(&r->arena, *param++, false, &text))
                return err_set(&e->why, DROVER_BAD_ARGUMENT, "malformed escape in the path");
            TRY(field_read_text(f, text, &r->arena, r->in, e));
        } else if (f->where == (IN_QUERY | REQUIRED) && !query_has(&r->query, f->name)) {
            return refuse(e, f->name, "", " is missing");
        }
    return 0;
}

static int read_request(struct http_request *r, const struct router_row *row,
                        struct route_field_error *e)
{
    r->in = arena_zalloc(&r->arena, row->route->in_size + 1);
    r->json = NULL;
    field_preset(row->fields, r->in);
    if (r->head.query.len)
        TRY(read_query(r, row->fields, e));
    TRY(read_path(r, row->fields, e));
    return read_body(r, row, e);
}

void request_handle(struct exchange *x)
{
    struct http_request *r = &x->request;
    struct route_field_error e;

    e.field[0] = '\0';
    int err = read_request(r, x->row, &e);
    if (err)
        reply_with(r, drover_err_http_status(err), drover_err_name(err),
                   e.field[0] ? e.field : NULL, e.why.text);
    else
        x->row->route->handler(r);
}
