/*
 * router - finds the handler of a request. Pure.
 *
 * The pattern of a route is a path. A part "{name}" stands for any one part that is not empty; a
 * last part "{name...}" stands for the rest of the path, slashes included. router_find() returns
 * what stood there in order, still percent-encoded. HEAD is GET without the body, so a GET route
 * answers both.
 *
 * Build a router from route tables, which it borrows; find; release.
 */
#ifndef HTTP_ROUTER_H
#define HTTP_ROUTER_H

#include "base/buf.h"
#include "http/route.h"

enum { ROUTE_PARAMS_MAX = 4 };

/* A route, prepared for comparison. */
struct router_row {
    const struct route *route;
    const struct route_table *table;
    struct str fixed; /* the pattern up to its first "{" */
    size_t slashes;
    bool rest;                                /* the last parameter takes the rest of the path */
    const struct route_field *fields, *whole; /* whole: the body is one field; else NULL */
    bool body_optional;
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
