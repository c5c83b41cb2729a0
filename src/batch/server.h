/*
 * hall - the depot in drover serve, and the desk at which a request is served.
 *
 *     struct batch_request d;
 *     if (!batch_request_open(&d, r, body))   it has been answered
 *         return;
 *     err = batch_job_get(&d.call, id, &job);
 *     if (!err) batch_format_job(&d.out, &d.call, &job);
 *     batch_request_close(&d, err);           answers, with what stands in d.out or with what went wrong
 *
 * The keeper is that of the session which the request names, else the server's own.
 */
#ifndef BATCH_SERVER_H
#define BATCH_SERVER_H

#include "batch/callback.h"
#include "batch/store.h"
#include "server/context.h"

enum { BATCH_WAIT_MAX_MS = 60 * 1000, BATCH_LIST_MAX = 10000, BATCH_LIST_DEFAULT = 1000 };

struct batch_server {
    struct context *context;
    struct batch_store *store;
    struct arena arena; /* of the machines */
    struct batch_machines machines;
    struct http_topic topic; /* something has changed its state */
    struct batch_callbacks *callbacks;
    pthread_mutex_t lock;
    bool ready; /* the nodes that everything stands under are there */
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

/* body may be NULL. */
bool batch_request_open(struct batch_request *d, struct http_request *r, const struct json *body);

/* need: without a session there is nothing that could hold the lock. */
bool batch_request_open_session(struct batch_request *d, struct http_request *r,
                                const struct json *body);

void batch_request_close(struct batch_request *d, int err);

/* Gives the keeper back and nothing else: before waiting. */
void batch_request_leave(struct batch_request *d);

/* The body as an object with only these members, or NULL: it has been answered. */
const struct json *batch_request_body(struct http_request *r, const char *const *members);

/* Makes the nodes that the depot stands under, once. */
int batch_server_ready(struct batch_server *h, struct batch_call *c);

/* Answers 400 with what stands in why. */
bool batch_request_refuse(struct http_request *r, const struct err_info *why);

/* A number, text or truth from a body; false: it has been answered. */
bool batch_request_int(struct http_request *r, const struct json *v, const char *name,
                       int64_t *ret);
bool batch_request_text(struct http_request *r, const struct json *v, const char *name,
                        struct str *ret);
bool batch_request_bool(struct http_request *r, const struct json *v, const char *name, bool *ret);

/* How long an acquire may wait: `wait`, but not so long that the session would end meanwhile. */
int64_t batch_request_wait_ms(struct batch_server *h, const struct json *body);

/* The handlers. */
route_fn post_batches, get_batches, acquire_batch, get_batch, delete_batch, put_batch_state,
    hold_batch, release_batch, post_batch_jobs;
route_fn get_jobs, acquire_job, get_job, delete_job, put_job_state, put_job_field, post_job_verb,
    release_jobs;
route_fn get_locks, get_lock_kind, get_lock, put_lock, delete_lock;
route_fn post_access, get_access_list, acquire_access, get_access, put_access_state, delete_access;
route_fn get_machines, get_legacy, post_legacy, post_fsck;

#endif
