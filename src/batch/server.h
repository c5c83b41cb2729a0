/*
 * server - batches and jobs in drover serve: the module, and the scope of one request.
 *
 * The keeper is that of the session that the request names, else the server's own. All routes run
 * on worker threads.
 */
#ifndef BATCH_SERVER_H
#define BATCH_SERVER_H

#include "batch/callback.h"
#include "batch/item.h"
#include "server/modules.h"

enum { BATCH_WAIT_MAX_MS = 60 * 1000, BATCH_LIST_MAX = 10000, BATCH_LIST_DEFAULT = 1000 };

struct batch_server {
    struct context *context;
    struct batch_store *store;
    struct arena arena; /* holds the machines */
    struct batch_machines machines;
    struct batch_callbacks *callbacks;
    struct batch_watcher *watcher;
    pthread_mutex_t lock;
    bool ready; /* batch_store_init() was done */
};

/* The fields of all routes; each route declares the ones that it takes. */
struct batch_in {
    struct str id;   /* of the batch, job or access item */
    int queue;       /* of access items: 0 small, 1 large */
    struct str kind; /* of locks */
    struct str name, who;
    struct str session, state, message, uuid, after, batch, profile, path;
    int64_t token, wait_ms, start, limit, priority;
    bool keep, force, repair, all, remove;
    const struct json *submission, *body;
};

struct batch_request {
    struct batch_server *server;
    struct http_request *r;
    const struct batch_in *in;
    enum batch_kind_id kind; /* of the items of the route */
    struct batch_call call;
    struct err_info why;
    struct buf out;
    struct keeper *keeper;
};

/* False: it has been answered. */
bool batch_request_open(struct batch_request *d, struct http_request *r);

/* Answers with d->out, {} if that is empty, or with an error. */
void batch_request_close(struct batch_request *d, int err);

/* Opens a request, calls answer, and closes it. */
void batch_request_run(struct http_request *r, int (*answer)(struct batch_request *d));

/* Defines a handler. Its body gets d, writes to d->out, and returns 0 or an error. */
#define BATCH_HANDLER(name)                                                                        \
    static int answer_##name(struct batch_request *d);                                             \
    void name(struct http_request *r)                                                              \
    {                                                                                              \
        batch_request_run(r, answer_##name);                                                       \
    }                                                                                              \
    static int answer_##name(struct batch_request *d)

/* {"KEY": [ and ]} */
void batch_request_open_list(struct batch_request *d, const char *key);
int batch_request_close_list(struct batch_request *d); /* 0 */

/* Gives the keeper back without an answer, before the request waits. */
void batch_request_leave(struct batch_request *d);

/* What acquires wait for on context->topic: an item of a list can be acquired. */
uint64_t batch_list_key(const struct batch_view *v);

/* Calls batch_store_init() once. */
int batch_server_ready(void *server, struct batch_call *c);

/* The handlers. */
route_fn list_items, get_item, delete_item, put_item_state, acquire_item;
route_fn post_batches, hold_batch, release_batch, post_batch_jobs, post_access;
route_fn put_job_field, post_job_verb, release_jobs;
route_fn get_locks, get_lock, put_lock, delete_lock;
route_fn get_machines, get_legacy, post_legacy, post_fsck;

struct route_table batch_server_routes(void *module);

extern const struct module batch_module;

#endif
