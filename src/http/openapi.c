/*
 * The OpenAPI document of the routes (version 3.1), printed from their rows.
 *
 * Shapes (see route.h) become JSON schemas by a small recursive-descent parser. Rows and shapes are
 * constants of the program: one that is wrong is a bug, and ends the process in the first test that
 * asks for the document.
 */
#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "http/route.h"

/*
 * Appends JSON. A ' in the format stands for a ", and a comma is put before it where one is needed.
 * Text that is filled in has no " and no backslash.
 */
static __attribute__((format(printf, 2, 3))) void emit(struct buf *b, const char *fmt, ...)
{
    char json[256], text[1024];
    size_t len = strlen(fmt);
    va_list ap;
    assert(len < sizeof json);
    for (size_t i = 0; i <= len; i++)
        json[i] = fmt[i] == '\'' ? '"' : fmt[i];
    va_start(ap, fmt);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    len = (size_t)vsnprintf(text, sizeof text, json, ap);
#pragma GCC diagnostic pop
    va_end(ap);
    assert(len < sizeof text);
    if (b->len && !strchr("{[:,", b->p[b->len - 1]) && !strchr("}]", text[0]))
        buf_put(b, ",", 1);
    buf_put(b, text, len);
}

/* Shapes. */

static struct str take_word(const char **at, const char *ends)
{
    struct str word = {*at, strcspn(*at, ends)};
    *at += word.len;
    return word;
}

static bool take(const char **at, const char *text)
{
    bool there = str_starts(str_of(*at), str_of(text));
    *at += there ? strlen(text) : 0;
    return there;
}

/* A member with the items, unless there are none. */
static void put_list(struct buf *b, const char *name, const struct buf *items)
{
    if (!items->len)
        return;
    emit(b, "'%s':[", name);
    buf_put(b, items->p, items->len);
    emit(b, "]");
}

static void put_shape(struct buf *b, const char **at);

/* "a:int b?:text", up to the end or a parenthesis. */
static void put_members(struct buf *b, const char **at)
{
    CLEANUP(buf_release) struct buf required = {0};
    emit(b, "'type':'object','properties':{");
    while (**at && **at != ')') {
        struct str name = take_word(at, "?:");
        if (!take(at, "?"))
            emit(&required, "'%.*s'", STR_ARGS(name));
        assert(name.len && **at == ':');
        ++*at;
        emit(b, "'%.*s':{", STR_ARGS(name));
        put_shape(b, at);
        emit(b, "}");
        take(at, " ");
    }
    emit(b, "}");
    put_list(b, "required", &required);
}

/* "a|b|c" */
static void put_words(struct buf *b, const char **at)
{
    emit(b, "'type':'string','enum':[");
    do {
        struct str word = take_word(at, "| )]}");
        emit(b, "'%.*s'", STR_ARGS(word));
    } while (strncmp(*at, "|null", 5) != 0 && take(at, "|"));
    emit(b, "]");
}

static void put_type(struct buf *b, const char **at)
{
    static const char *const TYPES[][2] = {{"int", "integer"},
                                           {"number", "number"},
                                           {"text", "string"},
                                           {"bool", "boolean"},
                                           {"object", "object"}};
    struct str word = take_word(at, "| )]}");

    if (str_eq(word, STR("any")))
        return;
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (str_eq(word, str_of(TYPES[i][0]))) {
            emit(b, "'type':'%s'", TYPES[i][1]);
            if (!i)
                emit(b, "'format':'int64'");
            return;
        }
    assert(word.len && isupper((unsigned char)word.p[0]));
    emit(b, "'$ref':'#/components/schemas/%.*s'", STR_ARGS(word));
}

/* What stands between the braces of a schema. */
static void put_shape(struct buf *b, const char **at)
{
    size_t begin = b->len;
    if (take(at, "(")) {
        put_members(b, at);
        take(at, ")");
    } else if (**at == '[' || **at == '{') {
        bool list = *(*at)++ == '[';
        emit(b, "'type':'%s','%s':{", list ? "array" : "object",
             list ? "items" : "additionalProperties");
        put_shape(b, at);
        emit(b, "}");
        take(at, list ? "]" : "}");
    } else if (take(at, "=")) {
        put_words(b, at);
    } else {
        put_type(b, at);
    }
    if (take(at, "|null")) {
        CLEANUP(buf_release) struct buf plain = {0};
        buf_put(&plain, b->p + begin, b->len - begin);
        b->len = begin;
        emit(b, "'anyOf':[{");
        buf_put(b, plain.p, plain.len);
        emit(b, "},{'type':'null'}]");
    }
}

/* A member that is the schema of a shape. */
static void put_schema(struct buf *b, const char *name, const char *shape)
{
    const char *colon = strchr(shape, ':');
    emit(b, "'%s':{", name);
    if (colon && strcspn(shape, "[({=") > (size_t)(colon - shape))
        put_members(b, &shape);
    else
        put_shape(b, &shape);
    assert(!*shape);
    emit(b, "}");
}

/* Fields. */

static void put_bounds(struct buf *b, const struct route_field *f, const char *unit, int64_t least)
{
    if (f->min > least)
        emit(b, "'min%s':%lld", unit, (long long)f->min);
    if (f->max < INT64_MAX)
        emit(b, "'max%s':%lld", unit, (long long)f->max);
}

static void put_fields(struct buf *b, const struct route_field *fields);

/* What stands between the braces of a schema. */
static void put_field(struct buf *b, const struct route_field *f)
{
    const char *at = f->words;
    switch (f->kind) {
    case FIELD_KIND_TEXT:
        emit(b, "'type':'string'");
        put_bounds(b, f, "Length", 0);
        break;
    case FIELD_KIND_INT:
        emit(b, "'type':'integer','format':'int64'");
        put_bounds(b, f, "imum", -(INT64_C(1) << 53)); /* readers take these for doubles */
        if (f->preset && f->preset >= f->min && f->preset <= f->max)
            emit(b, "'default':%lld", (long long)f->preset);
        break;
    case FIELD_KIND_ID:
        emit(b, "'oneOf':[{'type':'integer','format':'int64'},"
                "{'type':'string','pattern':'^first:[0-9]+$'}]");
        break;
    case FIELD_KIND_REAL:
        emit(b, "'type':'number'");
        put_bounds(b, f, "imum", INT64_MIN);
        break;
    case FIELD_KIND_BOOL:
        emit(b, "'type':'boolean'");
        break;
    case FIELD_KIND_CHOICE:
        put_words(b, &at);
        break;
    case FIELD_KIND_IGNORED:
        break;
    case FIELD_KIND_JSON:
        put_shape(b, &at);
        break;
    case FIELD_KIND_OBJECT:
        put_fields(b, f->fields);
        break;
    case FIELD_KIND_LIST:
        emit(b, "'type':'array'");
        put_bounds(b, f, "Items", 0);
        emit(b, "'items':{");
        (f->fields->name.p ? put_fields : put_field)(b, f->fields);
        emit(b, "}");
        break;
    }
}

static bool is_in(const struct route_field *f, int where)
{
    return (f->where & where) == where;
}

/* The fields of a body as the members of an object. */
static void put_fields(struct buf *b, const struct route_field *fields)
{
    CLEANUP(buf_release) struct buf required = {0};
    emit(b, "'type':'object','additionalProperties':false,'properties':{");
    for (const struct route_field *f = fields; f->name.p; f++)
        if (is_in(f, IN_BODY)) {
            emit(b, "'%s':{", f->name.p);
            put_field(b, f);
            emit(b, "'description':'%s'}", f->help);
            if (is_in(f, REQUIRED))
                emit(&required, "'%s'", f->name.p);
        }
    emit(b, "}");
    put_list(b, "required", &required);
}

static void put_parameters(struct buf *b, const struct route_field *fields)
{
    CLEANUP(buf_release) struct buf list = {0};
    for (const struct route_field *f = fields; f->name.p; f++) {
        bool in_path = is_in(f, IN_PATH);
        if (is_in(f, IN_BODY))
            continue;
        emit(&list, "{'name':'%s','in':'%s','required':%s,'description':'%s'", f->name.p,
             in_path ? "path" : "query", in_path || is_in(f, REQUIRED) ? "true" : "false", f->help);
        if (f->kind == FIELD_KIND_LIST)
            emit(&list, "'style':'%s','explode':false", in_path ? "simple" : "form");
        emit(&list, "'schema':{");
        put_field(&list, f);
        emit(&list, "}}");
    }
    put_list(b, "parameters", &list);
}

static void put_request_body(struct buf *b, const struct router_row *row)
{
    emit(b, "'requestBody':{'required':%s,'content':{'application/json':{'schema':{",
         row->body_optional ? "false" : "true");
    if (row->whole)
        put_field(b, row->whole);
    else
        put_fields(b, row->fields);
    emit(b, "}");
    if (row->route->example) {
        emit(b, "'example':");
        buf_put_str(b, str_of(row->route->example));
    }
    emit(b, "}}}");
}

/* Replies. */

static const struct {
    const char *number, *description;
} STATUSES[] = {
    {"307", "Another server leads: send the same request to the URL in Location"},
    {"400", "The request is not valid"},
    {"401", "The token is missing or wrong"},
    {"403", "The sender may not do this"},
    {"404", "Not found"},
    {"409", "Refused. Nothing was changed"},
    {"410", "It has ended"},
    {"413", "Too large, or too many at once"},
    {"415", "The Content-Type is not application/json"},
    {"421", "The Host is not one of this server's"},
    {"429", "Too many at once. Try again later"},
    {"431", "The request head is longer than 16 KiB"},
    {"500", "The server failed. Its log says why"},
    {"503", "Not available now. It is not known whether the request took effect"},
    {"507", "The disk is full. Nothing was changed"},
};

/* Whether every route of this kind can answer so. */
static bool is_common(const struct route *route, const char *number)
{
    return strstr("400 421 431 500", number) ||
           (strstr("401 403", number) && !(route->flags & ROUTE_OPEN)) ||
           (route->method != METHOD_GET && strstr("413 415", number));
}

/* The line of route->errors for a status: its description, which may be empty; p is NULL: none. */
static struct str own_error(const struct route *route, const char *number)
{
    for (const char *at = route->errors; at && *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (!strncmp(at, number, 3)) {
            at += 3 + (at[3] == ' ');
            return (struct str){at, strcspn(at, "\n")};
        }
    return (struct str){0};
}

static void put_content(struct buf *b, const char *shape)
{
    bool json = !strchr(shape, '/');
    emit(b, "'content':{'%s':{", json ? "application/json" : shape);
    put_schema(b, "schema", json ? shape : "text");
    emit(b, "}}}");
}

static void put_responses(struct buf *b, const struct route *route)
{
    emit(b, "'responses':{'200':{'description':'Success'");
    put_content(b, route->reply ? route->reply : "any");
    for (size_t i = 0; i < sizeof STATUSES / sizeof *STATUSES; i++) {
        const char *number = STATUSES[i].number;
        struct str own = own_error(route, number);
        if (own.len) {
            emit(b, "'%s':{'description':'%.*s'", number, STR_ARGS(own));
            put_content(b, "Errors");
        } else if (own.p || is_common(route, number)) {
            emit(b, "'%s':{'$ref':'#/components/responses/%s'}", number, number);
        }
    }
    emit(b, "}");
}

/* One of these is needed. */
static void put_roles(struct buf *b, unsigned roles)
{
    emit(b, "'x-roles':[");
    for (unsigned role = 1; role < ROLE_ALL; role *= 2)
        if (roles & role)
            emit(b, "'%s'", role_name((enum role)role));
    emit(b, "]");
}

static void put_operation(struct buf *b, const struct router_row *row)
{
    static const char *const names[] = {"get", "post", "put", "patch", "delete"};
    const struct route *route = row->route;
    emit(b, "'%s':{'tags':['%s'],'summary':'%s'", names[route->method],
         row->table->tag ? row->table->tag : "Server", route->summary);
    if (route->id)
        emit(b, "'operationId':'%s'", route->id);
    if (route->flags & ROUTE_OPEN)
        emit(b, "'security':[]");
    put_roles(b, route->flags & ROLE_ALL);
    put_parameters(b, row->fields);
    if (row->has_body)
        put_request_body(b, row);
    put_responses(b, route);
    emit(b, "}");
}

/* All operations, below their paths. */
static void put_paths(struct buf *b, const struct router *r)
{
    emit(b, "'paths':{");
    for (size_t i = 0; i < r->count; i++) {
        const char *pattern = r->rows[i].route->pattern;
        size_t len = strlen(pattern), before = 0;
        while (before < i && strcmp(r->rows[before].route->pattern, pattern) != 0)
            before++;
        if (before < i)
            continue;
        emit(b, "'%.*s%s':{", (int)(r->rows[i].rest ? len - 4 : len), pattern,
             r->rows[i].rest ? "}" : "");
        for (size_t j = i; j < r->count; j++)
            if (!strcmp(r->rows[j].route->pattern, pattern))
                put_operation(b, &r->rows[j]);
        emit(b, "}");
    }
    emit(b, "}");
}

static void put_components(struct buf *b, const struct router *r)
{
    emit(b, "'components':{'securitySchemes':{'token':{'type':'http','scheme':'bearer'}},"
            "'schemas':{");
    put_schema(b, "Errors", "(errors:[text] code:text field?:text)");
    for (size_t i = 0; i < r->table_count; i++)
        for (size_t j = 0; j < r->tables[i].shape_count; j++)
            put_schema(b, r->tables[i].shapes[j].name, r->tables[i].shapes[j].shape);
    emit(b, "},'responses':{");
    for (size_t i = 0; i < sizeof STATUSES / sizeof *STATUSES; i++) {
        emit(b, "'%s':{'description':'%s'", STATUSES[i].number, STATUSES[i].description);
        put_content(b, "Errors");
    }
    emit(b, "}}");
}

/* The tags of the tables, each once. */
static void put_tags(struct buf *b, const struct router *r)
{
    emit(b, "'tags':[");
    for (size_t i = 0; i < r->table_count; i++) {
        const char *tag = r->tables[i].tag;
        bool listed = !tag;
        for (size_t j = 0; j < i && !listed; j++)
            listed = r->tables[j].tag && !strcmp(r->tables[j].tag, tag);
        if (!listed)
            emit(b, "{'name':'%s'}", tag);
    }
    emit(b, "]");
}

void router_put_openapi(struct buf *b, const struct router *r)
{
    emit(b,
         "{'openapi':'3.1.0','info':{'title':'Drover','version':'%s','description':"
         "'Tasks, nodes, worlds, queues and batches on one durable tree.',",
         DROVER_VERSION);
    emit(b, "'license':{'name':'Apache-2.0','identifier':'Apache-2.0'}},"
            "'servers':[{'url':'http://127.0.0.1:8048'}],'security':[{'token':[]},{}]");
    put_tags(b, r);
    put_paths(b, r);
    put_components(b, r);
    emit(b, "}");
}
