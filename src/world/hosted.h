/*
 * hosted - the worlds that a server has open, on its session of the moment.
 *
 * A world is opened when it is first asked for and stays open, with what it knows of its lists, until
 * the server's session goes. hosted_use() and hosted_done() from any thread, the rest on the loop.
 */
#ifndef WORLD_HOSTED_H
#define WORLD_HOSTED_H

#include "server/context.h"
#include "world/world.h"

struct hosted;

struct hosted *hosted_new(struct context *h);
void hosted_free(struct hosted *s); /* frees itself on the loop */

/* NO_NODE: there is no such world; CLOSED: the keeper is away. */
int hosted_use(struct hosted *s, struct str name, struct world **ret_world,
               struct err_info *ret_error);
void hosted_done(struct hosted *s, struct world *w);

/* Signalled when a claim may find something, and every HOSTED_ALIVE_MS for those who wait. */
struct http_topic *hosted_topic(struct hosted *s);

enum {
    HOSTED_ALIVE_MS = 300, /* a session that waits is touched so often; shorter than any timeout */
    HOSTED_SIGNAL_MS = 3,  /* changes are told together that come closer than this */
    HOSTED_WORLDS_MAX = 1000,
};

#endif
