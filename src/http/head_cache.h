/*
 * head_cache - parsed heads of earlier requests. Pure.
 *
 * Clients repeat their heads: one that equals, byte for byte, a head that was parsed and routed
 * before is not parsed again. Only what is the same for every connection is cached; the Host and
 * the token are checked each time.
 */
#ifndef HTTP_HEAD_CACHE_H
#define HTTP_HEAD_CACHE_H

#include <stdint.h>

#include "http/head.h"

enum {
    HEAD_CACHE_MAX = 256,
    HEAD_CACHE_LEN_MAX = 1024, /* longer heads are not cached */
};

struct cached_head;

/* Direct-mapped: a new entry evicts the old one. */
struct head_cache {
    struct cached_head *places[HEAD_CACHE_MAX];
};

void head_cache_release(struct head_cache *s);

/* The cached head that the bytes begin with, and its length; NULL: none. */
const struct cached_head *head_cache_find(const struct head_cache *s, const char *p, size_t len,
                                          size_t *ret_len);

/* Copies the cached head, with `text`, its bytes, in place of the old ones. Returns its route. */
const struct router_row *head_cache_use(const struct cached_head *k, const char *text,
                                        struct head *h, struct str params[ROUTE_PARAMS_MAX]);

/* Adds a head that was parsed from text, with its route and the parameters of its path. */
void head_cache_add(struct head_cache *s, struct str text, const struct head *h,
                    const struct router_row *row, const struct str params[ROUTE_PARAMS_MAX]);

#endif
