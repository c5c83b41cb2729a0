/*
 * hall - the depot in drover serve, and the desk at which a request is served.
 *
 *     struct desk d;
 *     if (!desk_open(&d, r, body))   it has been answered
 *         return;
 *     err = job_get(&d.call, id, &job);
 *     if (!err) show_job(&d.out, &d.call, &job);
 *     desk_close(&d, err);           answers, with what stands in d.out or with what went wrong
 *
 * The keeper is that of the session which the request names, else the server's own.
 */
#ifndef BATCH_HALL_H
#define BATCH_HALL_H

#include "batch/depot.h"
#include "batch/notify.h"
#include "server/context.h"

enum { HALL_WAIT_MAX_MS = 60 * 1000, HALL_LIST_MAX = 10000, HALL_LIST_DEFAULT = 1000 };

struct hall {
    struct context *context;
    struct depot *depot;
    struct arena arena; /* of the machines */
    struct machines machines;
    struct http_topic topic; /* something has changed its state */
    struct notify *notify;
    pthread_mutex_t lock;
    bool ready; /* the nodes that everything stands under are there */
};

struct desk {
    struct hall *hall;
    struct http_request *r;
    struct call call;
    struct err_info why;
    struct buf out;
    struct keeper *keeper;
    bool of_session;
};

/* body may be NULL. */
bool desk_open(struct desk *d, struct http_request *r, const struct json *body);

/* need: without a session there is nothing that could hold the lock. */
bool desk_open_session(struct desk *d, struct http_request *r, const struct json *body);

void desk_close(struct desk *d, int err);

/* Gives the keeper back and nothing else: before waiting. */
void desk_leave(struct desk *d);

/* The body as an object with only these members, or NULL: it has been answered. */
const struct json *desk_body(struct http_request *r, const char *const *members);

/* Makes the nodes that the depot stands under, once. */
int hall_ready(struct hall *h, struct call *c);

/* Answers 400 with what stands in why. */
bool desk_refuse(struct http_request *r, const struct err_info *why);

/* A number, text or truth from a body; false: it has been answered. */
bool desk_int(struct http_request *r, const struct json *v, const char *name, int64_t *ret);
bool desk_text(struct http_request *r, const struct json *v, const char *name, struct str *ret);
bool desk_bool(struct http_request *r, const struct json *v, const char *name, bool *ret);

/* How long an acquire may wait: `wait`, but not so long that the session would end meanwhile. */
int64_t desk_wait_ms(struct hall *h, const struct json *body);

/* The handlers. */
route_fn post_batches, get_batches, acquire_batch, get_batch, delete_batch, put_batch_state,
    hold_batch, release_batch, post_batch_jobs;
route_fn get_jobs, acquire_job, get_job, delete_job, put_job_state, put_job_field, post_job_verb,
    release_jobs;
route_fn get_locks, get_lock_kind, get_lock, put_lock, delete_lock;
route_fn post_access, get_access_list, acquire_access, get_access, put_access_state, delete_access;
route_fn get_machines, get_legacy, post_legacy, post_fsck;

#endif
