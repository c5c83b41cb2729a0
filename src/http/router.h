/*
 * router - which handler answers which request. Pure.
 *
 * Routes are a table: method, pattern, handler. A pattern is a path whose parts may be "{name}",
 * which stands for any one part that is not empty; the parts that stood there are handed to the
 * handler in order, as they came, not percent-decoded. HEAD is GET whose body is not sent, so a GET
 * route answers both. The table is also what the 404s and the 405s (with Allow) are made from.
 */
#ifndef HTTP_ROUTER_H
#define HTTP_ROUTER_H

#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

/* The first four may stand in a route; a request may have come with any other. */
enum method { METHOD_GET, METHOD_POST, METHOD_PUT, METHOD_DELETE, METHOD_OTHER };

enum { ROUTE_PARAMS_MAX = 4 };

struct http_request;

typedef void route_fn(struct http_request *r);

struct route {
    enum method method;
    const char *pattern;
    route_fn *handler;
};

struct route_table {
    const struct route *routes;
    size_t count;
};

/*
 * Finds the route of a request and fills params with what stood for its "{name}" parts. NULL when
 * there is none; *ret_allow then is the set of methods (1 << METHOD_...) that the path does answer:
 * empty means 404, else 405.
 */
const struct route *route_find(const struct route_table *t, enum method method, struct str path,
                               struct str params[ROUTE_PARAMS_MAX], unsigned *ret_allow);

/* Appends the methods of a set as the Allow header lists them: "GET, HEAD, PUT". */
void route_put_allow(struct buf *b, unsigned allow);

#endif
