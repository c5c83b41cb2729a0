/*
 * heads - heads of requests that came before. Pure.
 *
 * Clients say the same things again and again: a head that is byte for byte one that was parsed, found
 * good and given its route means what it meant then, and need not be parsed again. Only what is the same
 * for every connection is kept; who may call the server by which name is asked each time.
 */
#ifndef HTTP_HEAD_CACHE_H
#define HTTP_HEAD_CACHE_H

#include <stdint.h>

#include "http/head.h"

enum {
    HEAD_CACHE_MAX = 256,
    HEAD_CACHE_LEN_MAX = 1024, /* longer ones are not kept */
};

struct cached_head;

/* A place for each hash; who comes takes it from who was there. */
struct head_cache {
    struct cached_head *places[HEAD_CACHE_MAX];
};

void head_cache_release(struct head_cache *s);

/* The head that these bytes begin with, if it is known, else NULL; and its length. */
const struct cached_head *head_cache_find(const struct head_cache *s, const char *p, size_t len,
                                          size_t *ret_len);

/* What it was found to be, with text, its bytes, in the place of those that came then. */
const struct router_row *head_cache_use(const struct cached_head *k, const char *text,
                                        struct head *h, struct str params[ROUTE_PARAMS_MAX]);

/* A head that was parsed from text, its route, and what stood for the route's parameters. */
void head_cache_add(struct head_cache *s, struct str text, const struct head *h,
                    const struct router_row *row, const struct str params[ROUTE_PARAMS_MAX]);

#endif
