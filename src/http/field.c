/*
 * From a request to the struct that its handler wants, by the fields of its route.
 *
 * A body is walked once: each member is looked up among the fields, beginning behind the one that
 * was found last, since clients mostly send members in the order of the documentation. The lookup
 * of names and the check for missing ones then cost little more than reading the values.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#include "http/conn.h"

enum { SHOWN_LEN_MAX = 64 }; /* of text from a request in a message */

const struct route_field FIELD_ITEM_TEXT = {.kind = FIELD_KIND_TEXT, .min = 1, .max = INT64_MAX};
const struct route_field FIELD_ITEM_INT = {
    .kind = FIELD_KIND_INT, .min = INT64_MIN, .max = INT64_MAX};
const struct route_field FIELD_ITEM_ID = {
    .kind = FIELD_KIND_ID, .min = INT64_MIN, .max = INT64_MAX};

#define refuse(e, f, ...) fail(e, DROVER_BAD_ARGUMENT, (f)->name, __VA_ARGS__)

static int shown_len(struct str name)
{
    return name.len < SHOWN_LEN_MAX ? (int)name.len : SHOWN_LEN_MAX;
}

static void set_blame(struct route_field_error *e, struct str name)
{
    snprintf(e->field, sizeof e->field, "%.*s", shown_len(name), name.p ? name.p : "");
}

/* The name of the field, then the message. */
static __attribute__((format(printf, 4, 5))) int fail(struct route_field_error *e, int err,
                                                      struct str name, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    set_blame(e, name);
    return err_set(&e->why, err, "%s%s%s", e->field, name.len ? " " : "", text);
}

/* Moves what is wrong with a member into the object or list that it is in. */
static int fail_within(struct route_field_error *e, int err, struct str name, size_t index,
                       bool is_list)
{
    char place[80], field[sizeof e->field], text[sizeof e->why.text];
    bool own = !e->field[0]; /* the item itself is wrong, not a member of it */
    int len = snprintf(place, sizeof place, "%.*s", shown_len(name), name.p);
    if (is_list)
        snprintf(place + len, sizeof place - (size_t)len, "[%zu]", index);
    snprintf(field, sizeof field, "%.79s%s%.15s", place, own || e->field[0] == '[' ? "" : ".",
             e->field);
    snprintf(text, sizeof text, "%.79s%s%.400s", place, own ? " " : ": ", e->why.text);
    memcpy(e->field, field, sizeof field);
    memcpy(e->why.text, text, sizeof text);
    return err;
}

static int check_bounds(const struct route_field *f, int64_t value, const char *unit,
                        struct route_field_error *e)
{
    if (value >= f->min && value <= f->max)
        return 0;
    if (unit[0] && f->min == 1 && f->max == INT64_MAX)
        return refuse(e, f, "must not be empty");
    if (f->max == INT64_MAX)
        return refuse(e, f, "must %s at least %" PRId64 "%s", unit[0] ? "have" : "be", f->min,
                      unit);
    if (unit[0])
        return refuse(e, f, "must have %" PRId64 " to %" PRId64 "%s", f->min, f->max, unit);
    return refuse(e, f, "must be from %" PRId64 " to %" PRId64, f->min, f->max);
}

static int set_text(const struct route_field *f, struct str text, char *in,
                    struct route_field_error *e)
{
    TRY(check_bounds(f, (int64_t)text.len, " bytes", e));
    *(struct str *)(in + f->offset) = text;
    return 0;
}

static int set_int(const struct route_field *f, int64_t number, char *in,
                   struct route_field_error *e)
{
    TRY(check_bounds(f, number, "", e));
    *(int64_t *)(in + f->offset) = number;
    return 0;
}

static int set_digits(const struct route_field *f, struct str text, char *in,
                      struct route_field_error *e);

/* "first:40" */
static int set_first(const struct route_field *f, struct str text, char *in,
                     struct route_field_error *e)
{
    struct str prefix = STR("first:"), digits = {text.p + prefix.len, text.len - prefix.len};
    int64_t *id = (int64_t *)(in + f->offset);
    if (!str_starts(text, prefix) || digits.len == 0 || digits.p[0] == '-')
        return refuse(e, f, "must be an id, or \"first:\" and the first id that a task had");
    TRY(set_digits(f, digits, in, e));
    *id += INT64_MIN;
    return 0;
}

static int set_choice(const struct route_field *f, struct str text, char *in,
                      struct route_field_error *e)
{
    struct str words = str_of(f->words);
    char list[256] = "";
    for (int number = 0; words.p; number++) {
        struct str word = str_cut(&words, '|');
        if (str_eq(text, word)) {
            *(int *)(in + f->offset) = number;
            return 0;
        }
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%.*s", number ? ", " : "",
                 STR_ARGS(word));
    }
    return refuse(e, f, "must be one of %s", list);
}

/* Where the items of a list go. */
static void *set_list(const struct route_field *f, size_t count, struct arena *a, char *in)
{
    void *items = arena_zalloc(a, (count ? count : 1) * f->size);
    *(void **)(in + f->offset) = items;
    *(size_t *)(in + f->count_offset) = count;
    return items;
}

static int check_count(const struct route_field *f, size_t count, struct route_field_error *e)
{
    if ((int64_t)count > f->max)
        return fail(e, DROVER_TOO_BIG, f->name, "may have %" PRId64 " items, not %zu", f->max,
                    count);
    return check_bounds(f, (int64_t)count, " items", e);
}

/* From JSON. */

static const char *kind_of(const struct json *v)
{
    return v->kind == JSON_REAL ? "a number with a fraction or too large" : json_kind_name(v);
}

static int wrong_kind(const struct route_field *f, const char *wanted, const struct json *v,
                      struct route_field_error *e)
{
    if (!f->name.len && f->where)
        return err_set(&e->why, DROVER_BAD_ARGUMENT, "the body must be %s, not %s", wanted,
                       kind_of(v));
    return refuse(e, f, "must be %s, not %s", wanted, kind_of(v));
}

static int read_json(const struct route_field *f, const struct json *v, struct arena *a, void *in,
                     struct route_field_error *e);

static int set_items(const struct route_field *f, const struct json *v, struct arena *a, char *in,
                     struct route_field_error *e)
{
    const struct route_field *item = f->fields;
    size_t index = 0;
    TRY(check_count(f, v->count, e));
    char *at = set_list(f, v->count, a, in);
    json_each(m, v) {
        int err;
        if (item->name.p && m->kind != JSON_OBJECT)
            err = fail(e, DROVER_BAD_ARGUMENT, (struct str){0}, "must be an object, not %s",
                       kind_of(m));
        else
            err = item->name.p ? field_read_body(item, m, a, at, e) : read_json(item, m, a, at, e);
        if (err)
            return fail_within(e, err, f->name, index, true);
        at += f->size;
        index++;
    }
    return 0;
}

static int set_object(const struct route_field *f, const struct json *v, struct arena *a, char *in,
                      struct route_field_error *e)
{
    void *nested = *(void **)(in + f->offset) = arena_zalloc(a, f->size);
    int err = field_read_body(f->fields, v, a, nested, e);
    return err ? fail_within(e, err, f->name, 0, false) : 0;
}

/* A shape of FIELD_JSON says whether a list or an object is wanted. */
static int set_any(const struct route_field *f, const struct json *v, char *in,
                   struct route_field_error *e)
{
    if (f->words[0] == '[' && v->kind != JSON_LIST)
        return wrong_kind(f, "a list", v, e);
    if (f->words[0] != '[' && strncmp(f->words, "any", 3) != 0 && v->kind != JSON_OBJECT)
        return wrong_kind(f, "an object", v, e);
    *(const struct json **)(in + f->offset) = v;
    return 0;
}

static int set_real(const struct route_field *f, double number, char *in,
                    struct route_field_error *e)
{
    if (!(number >= (double)f->min && number <= (double)f->max))
        return refuse(e, f, "must be from %" PRId64 " to %" PRId64, f->min, f->max);
    *(double *)(in + f->offset) = number;
    return 0;
}

static int read_json(const struct route_field *f, const struct json *v, struct arena *a, void *in,
                     struct route_field_error *e)
{
    static const struct {
        enum json_kind kind;
        const char *name;
    } WANTED[] = {
        [FIELD_KIND_TEXT] = {JSON_TEXT, "a string"},
        [FIELD_KIND_INT] = {JSON_INT, "a whole number"},
        [FIELD_KIND_ID] = {JSON_INT, "an id"},
        [FIELD_KIND_REAL] = {JSON_REAL, "a number"},
        [FIELD_KIND_BOOL] = {JSON_BOOL, "true or false"},
        [FIELD_KIND_CHOICE] = {JSON_TEXT, "a string"},
        [FIELD_KIND_OBJECT] = {JSON_OBJECT, "an object"},
        [FIELD_KIND_LIST] = {JSON_LIST, "a list"},
    };

    if (f->kind == FIELD_KIND_IGNORED)
        return 0;
    if (f->kind == FIELD_KIND_JSON)
        return set_any(f, v, in, e);
    if (f->kind == FIELD_KIND_ID && v->kind == JSON_TEXT)
        return set_first(f, v->text, in, e);
    if (f->kind == FIELD_KIND_REAL && v->kind == JSON_INT)
        return set_real(f, (double)v->number, in, e);
    if (v->kind != WANTED[f->kind].kind)
        return wrong_kind(f, WANTED[f->kind].name, v, e);
    switch (f->kind) {
    case FIELD_KIND_TEXT:
        return set_text(f, v->text, in, e);
    case FIELD_KIND_INT:
    case FIELD_KIND_ID:
        return set_int(f, v->number, in, e);
    case FIELD_KIND_REAL:
        return set_real(f, v->real, in, e);
    case FIELD_KIND_BOOL:
        *(bool *)((char *)in + f->offset) = v->truth;
        return 0;
    case FIELD_KIND_CHOICE:
        return set_choice(f, v->text, in, e);
    case FIELD_KIND_LIST:
        return set_items(f, v, a, in, e);
    default:
        return set_object(f, v, a, in, e);
    }
}

static bool is_in_body(const struct route_field *f)
{
    return !f->where || f->where & IN_BODY;
}

/* The field of a member; the search begins at `next`, and goes round. NULL: there is none. */
static const struct route_field *find_member(const struct route_field *fields,
                                             const struct route_field *next, struct str key)
{
    const struct route_field *f = next;
    do {
        if (!f->name.p)
            f = fields;
        else if (str_eq(f->name, key) && is_in_body(f))
            return f;
        else
            f++;
    } while (f != next && (f->name.p || next != fields));
    return NULL;
}

/* Into a struct that has its presets. */
static int read_members(const struct route_field *fields, const struct json *v, struct arena *a,
                        void *in, struct route_field_error *e)
{
    const struct route_field *next = fields;
    uint64_t seen = 0;
    for (const struct json *m = v ? v->first : NULL; m; m = m->next) {
        const struct route_field *f = find_member(fields, next, m->key);
        if (!f)
            return fail(e, DROVER_BAD_ARGUMENT, m->key, "is an unknown member");
        next = f + 1;
        if (m->kind != JSON_NULL || f->kind == FIELD_KIND_JSON) {
            seen |= UINT64_C(1) << (f - fields);
            TRY(read_json(f, m, a, in, e));
        }
    }
    for (const struct route_field *f = fields; f->name.p; f++)
        if (f->where & REQUIRED && is_in_body(f) && !(seen & UINT64_C(1) << (f - fields)))
            return refuse(e, f, "is missing");
    return 0;
}

static void set_presets(const struct route_field *fields, void *in)
{
    for (const struct route_field *f = fields; f->name.p; f++)
        if (f->preset && f->kind == FIELD_KIND_INT)
            *(int64_t *)((char *)in + f->offset) = f->preset;
        else if (f->preset && f->kind == FIELD_KIND_CHOICE)
            *(int *)((char *)in + f->offset) = (int)f->preset;
}

int field_read_body(const struct route_field *fields, const struct json *v, struct arena *a,
                    void *in, struct route_field_error *e)
{
    set_presets(fields, in);
    return read_members(fields, v, a, in, e);
}

const struct route_field *field_find(const struct route_field *fields, int where, struct str name)
{
    for (const struct route_field *f = fields; f && f->name.p; f++)
        if (f->where & where && str_eq(f->name, name))
            return f;
    return NULL;
}

/* From the text of a path or a query. */

/* Digits, with a minus where that is allowed. What does not fit is INT64_MAX. */
static int set_digits(const struct route_field *f, struct str text, char *in,
                      struct route_field_error *e)
{
    size_t i = f->min < 0 && text.len > 1 && text.p[0] == '-';
    bool negative = i;
    int64_t number = 0;
    if (i == text.len)
        return refuse(e, f, "must be a whole number");
    for (; i < text.len; i++) {
        int digit = text.p[i] - '0';
        if (digit < 0 || digit > 9)
            return refuse(e, f, "must be a whole number");
        number = number > (INT64_MAX - digit) / 10 ? INT64_MAX : number * 10 + digit;
    }
    return set_int(f, negative ? -number : number, in, e);
}

static int set_truth(const struct route_field *f, struct str text, char *in,
                     struct route_field_error *e)
{
    static const struct str words[] = {{"0", 1},   {"1", 1},     {"no", 2},
                                       {"yes", 3}, {"false", 5}, {"true", 4}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (text.len == words[i].len && !strncasecmp(text.p, words[i].p, text.len)) {
            *(bool *)(in + f->offset) = i % 2;
            return 0;
        }
    return refuse(e, f, "must be one of 0, 1, yes, no, true, false");
}

/* "12,7,9". An empty text is a list of nothing. */
static int set_commas(const struct route_field *f, struct str text, struct arena *a, char *in,
                      struct route_field_error *e)
{
    size_t count = text.len != 0;
    for (size_t i = 0; i < text.len; i++)
        count += text.p[i] == ',';
    TRY(check_count(f, count, e));
    char *items = set_list(f, count, a, in);
    for (size_t i = 0; i < count; i++) {
        int err = field_read_text(f->fields, str_cut(&text, ','), a, items + i * f->size, e);
        if (err)
            return fail_within(e, err, f->name, i, true);
    }
    return 0;
}

int field_read_text(const struct route_field *f, struct str text, struct arena *a, void *in,
                    struct route_field_error *e)
{
    switch (f->kind) {
    case FIELD_KIND_INT:
        return set_digits(f, text, in, e);
    case FIELD_KIND_ID:
        if (text.len && text.p[0] == '-')
            return refuse(e, f, "must be a whole number");
        return text.len && text.p[0] == 'f' ? set_first(f, text, in, e)
                                            : set_digits(f, text, in, e);
    case FIELD_KIND_BOOL:
        return set_truth(f, text, in, e);
    case FIELD_KIND_CHOICE:
        return set_choice(f, text, in, e);
    case FIELD_KIND_LIST:
        return set_commas(f, text, a, in, e);
    case FIELD_KIND_IGNORED:
        return 0;
    default:
        return json_is_text(text) ? set_text(f, text, in, e) : refuse(e, f, "is not UTF-8 text");
    }
}

/* From a request. */

static int read_body(struct http_request *r, const struct router_row *row,
                     const struct json_limit *limit, struct route_field_error *e)
{
    struct json *v = NULL;
    if (r->head.method == METHOD_GET || (!r->body.len && row->body_optional))
        return 0;
    TRY(json_read(&r->arena, r->body, limit, &v, &e->why));
    r->json = v;
    if (row->whole)
        return read_json(row->whole, v, &r->arena, r->in, e);
    if (v->kind != JSON_OBJECT)
        return err_set(&e->why, DROVER_BAD_ARGUMENT, "the body must be an object, not %s",
                       json_kind_name(v));
    return read_members(row->fields, v, &r->arena, r->in, e);
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
        if (!f) {
            set_blame(e, p->name);
            return err_set(&e->why, DROVER_BAD_ARGUMENT, "unknown query parameter '%s'", e->field);
        }
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
            return refuse(e, f, "is missing");
        }
    return 0;
}

int request_read(struct http_request *r, const struct router_row *row,
                 const struct json_limit *limit, struct route_field_error *e)
{
    r->in = arena_zalloc(&r->arena, row->route->in_size + 1);
    r->json = NULL;
    set_presets(row->fields, r->in);
    if (r->head.query.len)
        TRY(read_query(r, row->fields, e));
    TRY(read_path(r, row->fields, e));
    return row->route->flags & ROUTE_BYTES ? 0 : read_body(r, row, limit, e);
}
