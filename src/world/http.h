/*
 * http - the worlds of drover serve: /v1/worlds and below. What the files of the module share.
 */
#ifndef WORLD_HTTP_H
#define WORLD_HTTP_H

#include "server/modules.h"
#include "world/world.h"

extern const struct module world_module;

/*
 * The registry holds the worlds that are open on the server's current session. A world is opened
 * when it is first used and stays open, with its caches, until that session ends. Get and put from
 * any thread, the rest on the loop.
 */
enum {
    REGISTRY_WAKE_MS =
        10, /* after changes of other clients, one waiting claim refreshes the view */
    REGISTRY_WORLDS_MAX = 1000,
};

struct world_registry;

struct world_registry *world_registry_new(struct context *h);
void world_registry_free(struct world_registry *s); /* completes on the loop */

/* NO_NODE: there is no such world; CLOSED: the keeper is unreachable. */
int world_registry_get(struct world_registry *s, struct str name, struct world **ret_world,
                       struct err_info *ret_error);
void world_registry_put(struct world_registry *s, struct world *w);

/* What a claim waits for, on the topic of the context: a task of a type; changes of the lists. */
uint64_t world_type_key(struct str world, struct str type);
uint64_t world_list_key(struct str world);

/*
 * The sweep removes tasks that were completed longer ago than the retention, periodically, on a
 * thread of its own. The document keeps completed tasks for ever, but on an ensemble a list of
 * children must not exceed 1 MB. A task is removed with its node in the tree, children first: a
 * parent stays while it has children.
 */
struct world_sweep;

struct world_sweep *world_sweep_start(struct context *h, struct world_registry *registry,
                                      int64_t retention_ms);
void world_sweep_free(struct world_sweep *s);

struct world_module {
    struct context *context;
    struct world_registry *registry;
    struct world_sweep *sweep; /* NULL: completed tasks are kept */
};

/* What a handler works with: a world, a keeper, and a buffer for the answer. */
struct world_call {
    struct http_request *r;
    struct world_module *module;
    struct world *world;
    struct keeper *k;
    bool own; /* k is a client's session */
    struct buf out;
    struct err_info e;
};

/*
 * Gets the world and a keeper: the session of a client, or (session.p NULL) the server's. False: it
 * has answered with an error. End it, or answer, which ends it too: with an error, or with what is
 * in `out`.
 */
bool world_call_begin(struct world_call *c, struct http_request *r, struct str world,
                      struct str session);
void world_call_end(struct world_call *c);
void world_call_answer(struct world_call *c, int err);

/* Members of an object. */
void world_put_record(struct buf *b, const struct world_record *r);
void world_put_data(struct world_call *c, struct str data);

/* The handlers of claims. */
struct world_claim_in {
    struct str world, session;
    const struct str *types;
    size_t type_count;
    int64_t wait_ms;
};

struct world_end_in {
    struct str world, node, session, error;
};

void world_post_claim(struct http_request *r);
void world_post_complete(struct http_request *r);
void world_post_release(struct http_request *r);
void world_post_fail(struct http_request *r);

#endif
