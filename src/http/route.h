/*
 * route - the routes of the API: what each one takes, what it answers, and what it is for.
 *
 * A route is one row of a static table. The row is all there is: the server reads path, query and
 * body into the handler's struct by it and answers 400 where they do not fit; GET /v1, GET
 * /v1/openapi.json and the tables of doc/protocol.md are printed from it.
 *
 * How to declare a route. Declare the struct that the handler wants, then the row:
 *
 *     #include "http/server.h"
 *
 *     struct domain_in {
 *         struct str domain, comment;
 *         int64_t limit;
 *         int order;
 *         const int64_t *hosts;
 *         size_t host_count;
 *     };
 *
 *     static void put_domain(struct http_request *r)
 *     {
 *         const struct domain_in *in = r->in;
 *
 *         if (in->host_count && !in->comment.p)
 *             http_reply_field(r, "comment", "comment is required with hosts");
 *         else
 *             http_reply(r, 200, STR("{\"count\":2}"));
 *     }
 *
 *     const struct route DOMAIN_ROUTES[] = {
 *         {METHOD_PUT, "/v1/domains/{domain}", put_domain, ROLE_WORK | ROUTE_WORKER,
 *          "Set a domain", "setDomain", .reply = "count:int next?:text|null",
 *          .errors = "404 No such domain\n409 The domain is full\n503",
 *          .example = "{\"hosts\": [1, 2], \"comment\": \"new\"}",
 *          ROUTE_IN(struct domain_in,
 *                   FIELD_TEXT(IN_PATH, struct domain_in, domain, "domain", 1, 255, "The domain"),
 *                   FIELD_INT(IN_QUERY, struct domain_in, limit, "limit", 1, 1000, "At most",
 *                             .preset = 100),
 *                   FIELD_CHOICE(IN_QUERY, struct domain_in, order, "order", "asc|desc", "Order"),
 *                   FIELD_TEXT(IN_BODY, struct domain_in, comment, "comment", 0, 80, "For people"),
 *                   FIELD_INTS(IN_BODY | REQUIRED, struct domain_in, hosts, host_count, "hosts",
 *                              0, 1000, "Ids of the hosts"))},
 *     };
 *
 * When the handler runs, every field holds a value that the row allows: a required field is there,
 * one that was left out (or is null in the body) is zero or its preset, and no name is in the query
 * or the body that the row does not have. What is left to the handler is what depends on two fields
 * or on the state; it refuses with http_reply_field(), http_reply_err() or http_reply_error().
 * r->in and all it points to live as long as the request. A row without fields takes no query, and
 * no body or {}.
 *
 * Shapes. The reply of a route, and of what FIELD_JSON takes, is written in a short notation:
 *
 *     int number text bool any object     the types of JSON; number may have a fraction
 *     =a|b|c                              one of these words
 *     [int]  {int}                        a list, an object with any names
 *     a:int b?:text                       an object; "?" marks a member that may be missing
 *     (a:int b:[text])                    the same inside another shape
 *     Task                                a shape that the route table names
 *     text|null                           may be null
 *     text/plain                          a body of that type that is not JSON
 */
#ifndef HTTP_ROUTE_H
#define HTTP_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/identity.h"
#include "base/json.h"
#include "base/str.h"

/* All but the last may stand in a route; a request may come with any other. */
enum method { METHOD_GET, METHOD_POST, METHOD_PUT, METHOD_PATCH, METHOD_DELETE, METHOD_OTHER };

/* Beside the roles (enum role), of which the sender needs one. */
enum route_flag {
    ROUTE_WORKER = 256, /* the handler runs on a thread of the pool and may block */
    ROUTE_OPEN = 512,   /* answers anybody */
    ROUTE_LARGE = 1024, /* its body may have HTTP_LARGE_BODY_LEN_MAX */

    /*
     * The handler itself keeps to the limits of the sender (http_reaches). Other routes are open to
     * a sender with limits only if a field names a group, a world or a queue within them.
     */
    ROUTE_LIMITS = 2048,
};

/* Where a field stands; and that it is the name of something that senders are limited to. */
enum route_field_where {
    IN_PATH = 1,
    IN_QUERY = 2,
    IN_BODY = 4,
    REQUIRED = 8,
    NAMES_GROUP = 16 << SCOPE_GROUP,
    NAMES_WORLD = 16 << SCOPE_WORLD,
    NAMES_QUEUE = 16 << SCOPE_QUEUE,
};

enum route_field_kind {
    FIELD_KIND_TEXT,    /* struct str; p is NULL where it is missing */
    FIELD_KIND_INT,     /* int64_t */
    FIELD_KIND_ID,      /* int64_t: an id, or "first:" and an id, which has INT64_MIN added */
    FIELD_KIND_REAL,    /* double; min and max are whole numbers */
    FIELD_KIND_BOOL,    /* bool; in a query 0, 1, yes, no, true, false in any case */
    FIELD_KIND_CHOICE,  /* int: which of the words */
    FIELD_KIND_JSON,    /* const struct json *; NULL where it is missing */
    FIELD_KIND_OBJECT,  /* const T *; NULL where it is missing */
    FIELD_KIND_IGNORED, /* may be there, with any value */
    FIELD_KIND_LIST, /* const T *, and a size_t; with commas between items in a path or a query */
};

struct route_field {
    struct str name; /* empty, in the body: the body as a whole */
    enum route_field_kind kind;
    int where;                        /* enum route_field_where */
    size_t offset, count_offset;      /* in the struct that is filled */
    int64_t min, max;                 /* of an int; bytes of a text; items of a list */
    const char *help;                 /* one line */
    int64_t preset;                   /* of an int or a choice that is missing */
    const char *words;                /* a choice: "asc|desc"; JSON: its shape */
    const struct route_field *fields; /* an object: its members; a list: what its items are */
    size_t size;                      /* an object, a list: of one */
};

/* clang-format off */
#define FIELD_BASE(w, T, m, n, k, lo, hi, h) \
    .name = {"" n, sizeof(n) - 1}, .kind = (k), .where = (w), .offset = offsetof(T, m), \
    .min = (lo), .max = (hi), .help = (h)

/* The trailing ... is for .preset. */
#define FIELD_TEXT(where, T, member, name, min, max, help) \
    {FIELD_BASE(where, T, member, name, FIELD_KIND_TEXT, min, max, help)}
#define FIELD_INT(where, T, member, name, min, max, help, ...) \
    {FIELD_BASE(where, T, member, name, FIELD_KIND_INT, min, max, help), __VA_ARGS__}
#define FIELD_ID(where, T, member, name, help) \
    {FIELD_BASE(where, T, member, name, FIELD_KIND_ID, INT64_MIN, INT64_MAX, help)}
#define FIELD_REAL(where, T, member, name, min, max, help) \
    {FIELD_BASE(where, T, member, name, FIELD_KIND_REAL, min, max, help)}
#define FIELD_BOOL(where, T, member, name, help) \
    {FIELD_BASE(where, T, member, name, FIELD_KIND_BOOL, 0, 1, help)}
#define FIELD_CHOICE(where, T, member, name, choices, help, ...) \
    {FIELD_BASE(where, T, member, name, FIELD_KIND_CHOICE, 0, 0, help), .words = (choices), \
     __VA_ARGS__}
#define FIELD_JSON(where, T, member, name, shape, help) \
    {FIELD_BASE(where, T, member, name, FIELD_KIND_JSON, 0, 0, help), .words = (shape)}
#define FIELD_OBJECT(where, T, member, name, U, members, help) \
    {FIELD_BASE(where, T, member, name, FIELD_KIND_OBJECT, 0, 0, help), .fields = (members), \
     .size = sizeof(U)}

#define FIELD_IGNORED(where_, name_, help_) \
    {.name = {"" name_, sizeof(name_) - 1}, .kind = FIELD_KIND_IGNORED, .where = (where_), \
     .help = (help_)}

/* Lists of min to max texts, numbers, objects; more than max is 413. */
#define FIELD_LIST_(w, T, m, count, n, lo, hi, h, item, bytes) \
    {FIELD_BASE(w, T, m, n, FIELD_KIND_LIST, lo, hi, h), .count_offset = offsetof(T, count), \
     .fields = (item), .size = (bytes)}
#define FIELD_TEXTS(where, T, member, count, name, min, max, help) \
    FIELD_LIST_(where, T, member, count, name, min, max, help, &FIELD_ITEM_TEXT, sizeof(struct str))
#define FIELD_INTS(where, T, member, count, name, min, max, help) \
    FIELD_LIST_(where, T, member, count, name, min, max, help, &FIELD_ITEM_INT, sizeof(int64_t))
#define FIELD_IDS(where, T, member, count, name, min, max, help) \
    FIELD_LIST_(where, T, member, count, name, min, max, help, &FIELD_ITEM_ID, sizeof(int64_t))
#define FIELD_OBJECTS(where, T, member, count, name, min, max, U, members, help) \
    FIELD_LIST_(where, T, member, count, name, min, max, help, members, sizeof(U))

/* An array of fields, for FIELD_OBJECT and FIELD_OBJECTS; and the fields of a row. */
#define FIELDS(...) (const struct route_field[]) {__VA_ARGS__, {.name = {NULL, 0}}}
#define ROUTE_IN(T, ...) .in_size = sizeof(T), .fields = FIELDS(__VA_ARGS__)
/* clang-format on */

/* Items of 1 byte or more; any number; any id. */
extern const struct route_field FIELD_ITEM_TEXT, FIELD_ITEM_INT, FIELD_ITEM_ID;

struct http_request;

typedef void route_fn(struct http_request *r);

struct route {
    enum method method;
    const char *pattern; /* see below */
    route_fn *handler;
    unsigned flags;      /* the roles and enum route_flag */
    const char *summary; /* an imperative, without full stop */
    const char *id;      /* of the operation in OpenAPI */
    const char *reply;   /* the shape of 200 */

    /*
     * Further statuses, a line each, with a description or without: "404 No such world\n409". Those
     * that every route has are added: 400, 401, 413, 415, 421, 431, 500.
     */
    const char *errors;
    const char *example; /* a body, as JSON; NULL: none */
    size_t in_size;
    const struct route_field *fields; /* a field without name ends them */
};

/* Where a server of an ensemble leads: the others answer 307, and 503 while none does. */
#define ROUTE_LEADER "307\n503"

/* A shape that has a name. */
struct route_shape {
    const char *name, *shape;
};

struct route_table {
    const struct route *routes;
    size_t count;
    void *arg;       /* handed to the handlers */
    const char *tag; /* what the routes are about, in OpenAPI: "Tasks" */
    const struct route_shape *shapes;
    size_t shape_count;
};

/*
 * Reading, which the server does before it calls the handler; and others, of a struct of their own.
 * Failures are BAD_ARGUMENT or TOO_BIG.
 */

struct route_field_error {
    char field[96]; /* the one to blame: "adds[2].group"; empty: none */
    struct err_info why;
};

/* The members of an object; v is NULL where there is none. Text is borrowed from v. */
int field_read_body(const struct route_field *fields, const struct json *v, struct arena *a,
                    void *in, struct route_field_error *e);

/* One field, from the text of a path or a query. */
int field_read_text(const struct route_field *f, struct str text, struct arena *a, void *in,
                    struct route_field_error *e);

/* The field of this place and name, or NULL. */
const struct route_field *field_find(const struct route_field *fields, int where, struct str name);

/*
 * Finding the route of a request: build a router from tables, find, release.
 *
 * The pattern of a route is a path. A part "{name}" stands for any one part that is not empty; a
 * last part "{name...}" stands for the rest of the path, slashes included. router_find() returns
 * what stood there in order, still percent-encoded. HEAD is GET without the body, so a GET route
 * answers both.
 */

enum { ROUTE_PARAMS_MAX = 4 };

/* A route, prepared for comparison. */
struct router_row {
    const struct route *route;
    const struct route_table *table;
    struct str fixed; /* the pattern up to its first "{" */
    size_t slashes;
    bool rest;                                /* the last parameter takes the rest of the path */
    const struct route_field *fields, *whole; /* whole: the body is one field; else NULL */
    bool has_body, body_optional;
};

struct router {
    struct router_row *rows;
    size_t count;
    struct route_table *tables;
    size_t table_count;
};

void router_build(struct router *r, const struct route_table *tables, size_t table_count);
void router_release(struct router *r);

/*
 * Finds the first route that matches a request, and fills params with what stood for its "{name}"
 * parts. NULL when there is none; *ret_allow is then the set of methods (1 << METHOD_...) that the
 * path has: empty means 404, else 405.
 */
const struct router_row *router_find(const struct router *r, enum method method, struct str path,
                                     struct str params[ROUTE_PARAMS_MAX], unsigned *ret_allow);

/* "GET" */
const char *route_method(const struct route *route);

/* Appends the methods of a set as the Allow header lists them: "GET, HEAD, PUT". */
void route_put_allow(struct buf *b, unsigned allow);

/* Appends the list of the API as JSON: [{"method","path","summary"}, ...]. */
void router_put_list(struct buf *b, const struct router *r);

/* Appends the OpenAPI document of the routes. */
void router_put_openapi(struct buf *b, const struct router *r);

#endif
