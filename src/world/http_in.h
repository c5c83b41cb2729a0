/*
 * http_in - what the routes of worlds take, and their handlers. Each route (http_routes.c) declares
 * the fields that it takes.
 */
#ifndef WORLD_HTTP_IN_H
#define WORLD_HTTP_IN_H

#include "world/http.h"

enum {
    LIST_LIMIT_DEFAULT = 1000,
    LIST_LIMIT_MAX = 100000,
    WAIT_MAX_MS = 3600 * 1000,
};

struct world_task_in {
    struct str name, type;
    const struct json *data;
    int64_t attempts;
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
    bool final;
};

void world_post_world(struct http_request *r);
void world_get_worlds(struct http_request *r);
void world_post_task(struct http_request *r);
void world_get_tasks(struct http_request *r);
void world_get_task(struct http_request *r);
void world_delete_task(struct http_request *r);
void world_get_tree(struct http_request *r);
void world_post_claim(struct http_request *r);
void world_post_complete(struct http_request *r);
void world_post_release(struct http_request *r);
void world_post_fail(struct http_request *r);
void world_post_retry(struct http_request *r);

#endif
