/*
 * http - the worlds of drover serve: /v1/worlds and below. What the files of the module share.
 */
#ifndef WORLD_HTTP_H
#define WORLD_HTTP_H

#include <pthread.h>

#include "server/modules.h"
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
    int64_t retention_ms;
    struct periodic *sweep; /* NULL: completed tasks are kept */

    pthread_mutex_t lock; /* guards the rest */
    struct open_world *worlds;
    size_t count;
};

/* retention_ms 0: no sweep. */
struct world_registry *world_registry_new(struct context *h, int64_t retention_ms);
void world_registry_free(struct world_registry *s); /* completes on the loop */

#define WORLD_UNREACHABLE "the keeper is unreachable: try again"

/* NO_NODE: there is no such world; CLOSED: the keeper is unreachable. */
int world_registry_get(struct world_registry *s, struct str name, struct world **ret_world,
                       struct err_info *ret_error);
void world_registry_put(struct world_registry *s, struct world *w);

/* What a claim waits for, on the topic of the context: a task of a type; changes of the lists. */
uint64_t world_type_key(struct str world, struct str type);
uint64_t world_list_key(struct str world);

/* The fields of the routes. Each route declares the ones that it takes. */

struct world_task_in {
    struct str name, type;
    const struct json *data;
};

struct world_in {
    struct str world, session, node;
    const struct world_task_in *task; /* queueing */
    const struct world_parent *parent;
    struct str child_name;
    struct str after, path; /* reading */
    int64_t limit;
    int state;
    const struct str *types; /* claims */
    size_t type_count;
    int64_t wait_ms;
    struct str error;
};

route_fn world_get_worlds, world_post_world, world_get_tree;
route_fn world_post_task, world_get_tasks, world_get_task, world_delete_task;
route_fn world_post_claim, world_post_complete, world_post_release, world_post_fail;

#endif
