/*
 * router - which handler answers which request. Pure.
 *
 * Routes are tables, one a room: method, pattern, handler, flags, and one line that says what it is
 * for. A pattern is a path whose parts may be "{name}", which stands for any one part that is not
 * empty, and the last "{name...}", which stands for all that is left, slashes included; what stood
 * there is handed to the handler in order, as it came, not percent-decoded (http_decode() does that). HEAD is GET whose body is not sent, so a GET route
 * answers both. The tables are also what the 404s, the 405s (with Allow) and the list of the API are
 * made from.
 *
 * Build a router from the tables, which it borrows; find; release.
 */
#ifndef HTTP_ROUTER_H
#define HTTP_ROUTER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

/* The first four may stand in a route; a request may have come with any other. */
enum method { METHOD_GET, METHOD_POST, METHOD_PUT, METHOD_DELETE, METHOD_OTHER };

enum { ROUTE_PARAMS_MAX = 4 };

enum route_flag {
    ROUTE_WORKER = 1, /* the handler runs on a thread of the pool and may block */
    ROUTE_OPEN = 2,   /* answers without a token */
    ROUTE_LARGE = 4,  /* its body may have HTTP_LARGE_BODY_LEN_MAX */
};

struct http_request;

typedef void route_fn(struct http_request *r);

struct route {
    enum method method;
    const char *pattern;
    route_fn *handler;
    int flags; /* enum route_flag */
    const char *summary;
};

struct route_table {
    const struct route *routes;
    size_t count;
    void *arg; /* handed to the handlers */
};

/* A route, ready to be compared. */
struct router_row {
    const struct route *route;
    void *arg;
    struct str fixed; /* the pattern up to its first "{" */
    size_t slashes;
    bool rest; /* the last parameter takes all that is left of the path */
};

struct router {
    struct router_row *rows;
    size_t count;
};

void router_build(struct router *r, const struct route_table *tables, size_t table_count);
void router_release(struct router *r);

/*
 * Finds the route of a request, the first that fits, and fills params with what stood for its
 * "{name}" parts. NULL when there is none; *ret_allow then is the set of methods (1 << METHOD_...)
 * that the path does answer: empty means 404, else 405.
 */
const struct router_row *router_find(const struct router *r, enum method method, struct str path,
                                     struct str params[ROUTE_PARAMS_MAX], unsigned *ret_allow);

/* "GET" */
const char *route_method(const struct route *route);

/* Appends the methods of a set as the Allow header lists them: "GET, HEAD, PUT". */
void route_put_allow(struct buf *b, unsigned allow);

/* Appends the list of the API as JSON: [{"method","path","summary"}, ...]. */
void router_put_list(struct buf *b, const struct router *r);

#endif
