/*
 * registry - the worlds that a server has open, on its session of the moment.
 *
 * A world is opened when it is first asked for and stays open, with what it knows of its lists,
 * until the server's session goes. world_registry_get() and world_registry_put() from any thread,
 * the rest on the loop.
 */
#ifndef WORLD_REGISTRY_H
#define WORLD_REGISTRY_H

#include "server/context.h"
#include "world/world.h"

struct world_registry;

struct world_registry *world_registry_new(struct context *h);
void world_registry_free(struct world_registry *s); /* frees itself on the loop */

/* NO_NODE: there is no such world; CLOSED: the keeper is away. */
int world_registry_get(struct world_registry *s, struct str name, struct world **ret_world,
                       struct err_info *ret_error);
void world_registry_put(struct world_registry *s, struct world *w);

/* Signalled when a claim may find something, and every REGISTRY_ALIVE_MS for those who wait. */
struct http_topic *world_registry_topic(struct world_registry *s);

enum {
    REGISTRY_ALIVE_MS =
        300,                /* a session that waits is touched so often; shorter than any timeout */
    REGISTRY_SIGNAL_MS = 3, /* changes are told together that come closer than this */
    REGISTRY_WORLDS_MAX = 1000,
};

#endif
