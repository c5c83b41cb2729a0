/*
 * http - the worlds of drover serve: /v1/worlds and below. What the files of the module share.
 */
#ifndef WORLD_HTTP_H
#define WORLD_HTTP_H

#include <pthread.h>

#include "server/context.h"
#include "world/world.h"

extern const struct module world_module;

/*
 * The registry holds the worlds that are open on the server's current session. A world is opened
 * when it is first used and stays open, with its caches, until that session ends. Get and put from
 * any thread, the rest on the loop.
 *
 * With a retention it sweeps: it removes tasks that were completed longer ago, periodically, on a
 * thread of its own. The document keeps completed tasks for ever, but on an ensemble a list of
 * children must not exceed 1 MB. A task is removed with its node in the tree, children first: a
 * parent stays while it has children.
 */
enum {
    /* So long after changes of other clients, one waiting claim refreshes the view. */
    REGISTRY_WAKE_MS = 10,
    REGISTRY_WORLDS_MAX = 1000,
};

struct world_registry {
    struct context *context;
    uv_timer_t timer;
    struct counter *became[WORLD_IS_NONE + 1]; /* how many tasks, by state */
    _Atomic int64_t retention_ms;              /* 0: completed tasks are kept */
    struct periodic *sweep;                    /* NULL: that has been so since the start */

    pthread_mutex_t lock; /* guards the rest */
    struct open_world *worlds;
    size_t count;
};

#define WORLD_UNREACHABLE "the keeper is unreachable: try again"

/* NO_NODE: there is no such world; CLOSED: the keeper is unreachable. */
int world_registry_get(struct world_registry *s, struct str name, struct world **ret_world,
                       struct err_info *ret_error);
void world_registry_put(struct world_registry *s, struct world *w);

/* What a claim waits for, on the topic of the context: a task of a type; changes of the lists. */
uint64_t world_type_key(struct str world, struct str type);
uint64_t world_list_key(struct str world);

/* The routes, for the module. */
struct route_table world_routes(void *registry);

#endif
