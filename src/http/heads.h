/*
 * heads - heads of requests that came before. Pure.
 *
 * Clients say the same things again and again: a head that is byte for byte one that was parsed, found
 * good and given its route means what it meant then, and need not be parsed again. Only what is the same
 * for every connection is kept; who may call the server by which name is asked each time.
 */
#ifndef HTTP_HEADS_H
#define HTTP_HEADS_H

#include <stdint.h>

#include "http/head.h"

enum {
    HEADS_MAX = 256,
    HEADS_LEN_MAX = 1024, /* longer ones are not kept */
};

struct known_head;

/* A place for each hash; who comes takes it from who was there. */
struct heads {
    struct known_head *places[HEADS_MAX];
};

void heads_release(struct heads *s);

/* The head that these bytes begin with, if it is known, else NULL; and its length. */
const struct known_head *heads_find(const struct heads *s, const char *p, size_t len,
                                    size_t *ret_len);

/* What it was found to be, with text, its bytes, in the place of those that came then. */
const struct router_row *heads_use(const struct known_head *k, const char *text, struct head *h,
                                   struct str params[ROUTE_PARAMS_MAX]);

/* A head that was parsed from text, its route, and what stood for the route's parameters. */
void heads_keep(struct heads *s, struct str text, const struct head *h,
                const struct router_row *row, const struct str params[ROUTE_PARAMS_MAX]);

#endif
