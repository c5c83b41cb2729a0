/*
 * The table is searched from the top. A server has a hundred routes. Most rows are skipped after
 * comparing the number of parts and the fixed beginning of the pattern; only then are pattern and
 * path compared part by part.
 */
#include "http/route.h"

#include <assert.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"

static const char *const METHOD_NAMES[] = {
    [METHOD_GET] = "GET",     [METHOD_POST] = "POST",     [METHOD_PUT] = "PUT",
    [METHOD_PATCH] = "PATCH", [METHOD_DELETE] = "DELETE",
};

static size_t count_slashes(struct str s)
{
    size_t count = 0;
    for (size_t i = 0; i < s.len; i++)
        count += s.p[i] == '/';
    return count;
}

static const struct route_field NO_FIELDS[] = {{.name = {NULL, 0}}};

/* Whether a field has all these flags. */
static bool has_field(const struct route_field *fields, int where)
{
    for (; fields->name.p; fields++)
        if ((fields->where & where) == where)
            return true;
    return false;
}

/* A row's path fields stand in the order of the pattern, under the same names. */
static void check_path_fields(const struct route *route)
{
    const char *at = route->pattern;
    if (!route->id)
        return;
    for (const struct route_field *f = route->fields; f && f->name.p; f++) {
        if (!(f->where & IN_PATH))
            continue;
        at = strchr(at, '{');
        assert(at && !strncmp(at + 1, f->name.p, f->name.len) && strchr(".}", at[f->name.len + 1]));
        at++;
    }
    assert(!strchr(at, '{'));
}

void router_build(struct router *r, const struct route_table *tables, size_t table_count)
{
    size_t count = 0;
    for (size_t i = 0; i < table_count; i++)
        count += tables[i].count;
    *r = (struct router){.rows = mem_zalloc(sizeof *r->rows * (count + 1)),
                         .tables = mem_zalloc(sizeof *tables * (table_count + 1)),
                         .table_count = table_count};
    for (size_t i = 0; i < table_count; i++) {
        r->tables[i] = tables[i];
        for (size_t j = 0; j < tables[i].count; j++) {
            const struct route *route = &tables[i].routes[j];
            const struct route_field *fields = route->fields ? route->fields : NO_FIELDS;
            struct str pattern = str_of(route->pattern);
            check_path_fields(route);
            r->rows[r->count++] = (struct router_row){
                .route = route,
                .table = &r->tables[i],
                .fixed = {pattern.p, strcspn(pattern.p, "{")},
                .slashes = count_slashes(pattern),
                .rest = pattern.len > 4 && !strcmp(pattern.p + pattern.len - 4, "...}"),
                .fields = fields,
                .whole = field_find(fields, IN_BODY, STR("")),
                .has_body = has_field(fields, IN_BODY),
                .body_optional = !has_field(fields, IN_BODY | REQUIRED),
            };
        }
    }
}

void router_release(struct router *r)
{
    free(r->rows);
    free(r->tables);
    *r = (struct router){0};
}

/* The path has as many parts as the pattern; or more, where the last parameter takes the rest. */
static bool pattern_matches(const struct router_row *row, struct str path,
                            struct str params[ROUTE_PARAMS_MAX])
{
    struct str pattern = str_of(row->route->pattern);
    size_t used = 0;
    for (size_t i = 0; i <= row->slashes; i++) {
        struct str want = str_cut(&pattern, '/'), left = path, part = str_cut(&path, '/');
        if (row->rest && i == row->slashes)
            part = left;
        if (!str_starts(want, STR("{"))) {
            if (!str_eq(want, part))
                return false;
        } else if (!part.len || used == ROUTE_PARAMS_MAX) {
            return false;
        } else {
            params[used++] = part;
        }
    }
    return true;
}

const struct router_row *router_find(const struct router *r, enum method method, struct str path,
                                     struct str params[ROUTE_PARAMS_MAX], unsigned *ret_allow)
{
    size_t slashes = count_slashes(path);
    unsigned allow = 0;
    for (size_t i = 0; i < r->count; i++) {
        const struct router_row *row = &r->rows[i];
        if (row->slashes > slashes || (row->slashes < slashes && !row->rest) ||
            !str_starts(path, row->fixed) || !pattern_matches(row, path, params))
            continue;
        if (row->route->method == method)
            return row;
        allow |= 1u << row->route->method;
    }
    *ret_allow = allow;
    return NULL;
}

const char *route_method(const struct route *route)
{
    return METHOD_NAMES[route->method];
}

void route_put_allow(struct buf *b, unsigned allow)
{
    const char *before = "";
    for (size_t i = 0; i < sizeof METHOD_NAMES / sizeof *METHOD_NAMES; i++) {
        if (!(allow & 1u << i))
            continue;
        buf_printf(b, "%s%s", before, i == METHOD_GET ? "GET, HEAD" : METHOD_NAMES[i]);
        before = ", ";
    }
}

void router_put_list(struct buf *b, const struct router *r)
{
    json_open(b, '[');
    for (size_t i = 0; i < r->count; i++) {
        const struct route *route = r->rows[i].route;
        json_open(b, '{');
        json_member_text(b, "method", str_of(METHOD_NAMES[route->method]));
        json_member_text(b, "path", str_of(route->pattern));
        json_member_text(b, "summary", str_of(route->summary ? route->summary : ""));
        json_close(b, '}');
    }
    json_close(b, ']');
}
