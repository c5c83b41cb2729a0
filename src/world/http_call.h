/*
 * What the handlers of worlds over HTTP have in common: reading what came, a world and a keeper to
 * do it with, and the answer.
 */
#ifndef WORLD_HTTP_CALL_H
#define WORLD_HTTP_CALL_H

#include "server/context.h"
#include "world/registry.h"
#include "world/sweep.h"
#include "world/world.h"

struct world_module {
    struct context *context;
    struct world_registry *registry;
    struct world_sweep *sweep; /* NULL: completed tasks are kept */
};

/* What a handler works with: a world, a keeper, and a place for the answer. */
struct world_call {
    struct http_request *r;
    struct world_module *worlds;
    struct world *world;
    struct keeper *k;
    bool own; /* k is a client's session */
    struct buf out;
    struct err_info e;
};

/* Answers with an error, in its own words where it has some. */
void world_refuse(struct http_request *r, int err, const struct err_info *e);

/* The body, an object with none but these members; or answers and returns NULL. */
const struct json *world_body(struct http_request *r, const char *const *members);

/* A member that must be there and be text. */
int world_read_text(const struct json *v, const char *member, struct str *ret, struct err_info *e);

/*
 * Borrows what a handler needs, or answers and returns false. session.p NULL: the server's session.
 * To be ended, or answered, which ends it: an error, or what stands in out.
 */
bool world_call_begin(struct world_call *c, struct http_request *r, struct str session);
void world_call_end(struct world_call *c);
void world_call_answer(struct world_call *c, int err);

/* Members of an object. Text whose p is NULL is null. */
void world_put_text(struct buf *b, const char *key, struct str text);
void world_put_record(struct buf *b, const struct world_record *r);
void world_put_data(struct world_call *c, struct str data);

/* The handlers of claims and their ends. */
void world_post_claim(struct http_request *r);
void world_post_complete(struct http_request *r);
void world_post_release(struct http_request *r);
void world_post_fail(struct http_request *r);

#endif
