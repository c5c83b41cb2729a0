/*
 * server - batches and jobs in drover serve: the module, and the scope of one request.
 *
 *     struct batch_request d;
 *     if (!batch_request_open(&d, r, body))   it has been answered
 *         return;
 *     err = batch_item_get(&d.call, kind, id, &item);
 *     if (!err) batch_format_item(&d.out, &d.call, &item);
 *     batch_request_close(&d, err);           answers, with d.out or with the error
 *
 * The keeper is that of the session that the request names, else the server's own. All routes run
 * on worker threads.
 */
#ifndef BATCH_SERVER_H
#define BATCH_SERVER_H

#include "batch/callback.h"
#include "batch/lock.h"
#include "batch/store.h"
#include "server/modules.h"

enum { BATCH_WAIT_MAX_MS = 60 * 1000, BATCH_LIST_MAX = 10000, BATCH_LIST_DEFAULT = 1000 };

struct batch_server {
    struct context *context;
    struct batch_store *store;
    struct arena arena; /* holds the machines */
    struct batch_machines machines;
    struct http_topic topic; /* signalled when an item changes its state */
    struct batch_callbacks *callbacks;
    pthread_mutex_t lock;
    bool ready; /* batch_store_init() was done */
};

struct batch_request {
    struct batch_server *server;
    struct http_request *r;
    struct batch_call call;
    struct err_info why;
    struct buf out;
    struct keeper *keeper;
    bool of_session;
};

/* The session is a member of the body; body may be NULL. */
bool batch_request_open(struct batch_request *d, struct http_request *r, const struct json *body);

/* The same, but a session is required: it holds the lock. */
bool batch_request_open_session(struct batch_request *d, struct http_request *r,
                                const struct json *body);

void batch_request_close(struct batch_request *d, int err);

/* Gives the keeper back without an answer, before the request waits. */
void batch_request_leave(struct batch_request *d);

/* The body as an object with only these members; NULL: it has been answered. */
const struct json *batch_request_body(struct http_request *r, const char *const *members);

/* Calls batch_store_init() once. */
int batch_server_ready(struct batch_server *h, struct batch_call *c);

/* Answers 400 with a message. */
bool batch_request_refuse(struct http_request *r, const struct err_info *why);

/* A member of a body; false: it has been answered. */
bool batch_request_int(struct http_request *r, const struct json *v, const char *name,
                       int64_t *ret);
bool batch_request_text(struct http_request *r, const struct json *v, const char *name,
                        struct str *ret);
bool batch_request_bool(struct http_request *r, const struct json *v, const char *name, bool *ret);

/* How long an acquire may wait: `wait`, but not so long that the session would expire. */
int64_t batch_request_wait_ms(struct batch_server *h, const struct json *body);

/* Writes {"KEY": item} to d->out. */
int batch_request_put_item(struct batch_request *d, enum batch_kind_id kind, struct str id);

/* Moves an item and answers. */
void batch_request_move(struct batch_request *d, enum batch_kind_id kind, struct str id,
                        const struct batch_move *m);

/* Items and locks as JSON. Data of a node that is not JSON is written as a string. */
void batch_format_item(struct buf *b, struct batch_call *c, const struct batch_item *i);
void batch_format_lock(struct buf *b, const struct batch_lock *lock);

/* The handlers. */
route_fn list_items, get_item, delete_item, put_item_state, acquire_item;
route_fn post_batches, hold_batch, release_batch, post_batch_jobs;
route_fn put_job_field, post_job_verb, release_jobs, post_access;
route_fn get_locks, get_lock_kind, get_lock, put_lock, delete_lock;
route_fn get_machines, get_legacy, post_legacy, post_fsck;

extern const struct module batch_module;

#endif
