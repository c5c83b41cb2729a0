/*
 * http_v1 - the routes of tasks and groups below /v1: finding tasks, acting on many, waiting for
 * the end of one, settings. http_find.c, http_groups.c and http_wait.c have the handlers; http_v1.c
 * has what they share.
 *
 * A call is in the memory of its HTTP request, and outlives a client that leaves while the service
 * has it. A handler begins one, fills call->request, and submits it; `finish` gets the outcome and
 * answers, unless the client has left.
 */
#ifndef TASK_HTTP_V1_H
#define TASK_HTTP_V1_H

#include "http/server.h"
#include "server/context.h"
#include "task/service.h"

struct task_v1;

struct v1_call {
    struct task_v1 *v1;
    struct http_request *r; /* NULL: its client has left */
    struct arena *arena;    /* of the request */
    struct http_memory memory;
    struct task_request request;
    bool submitted;             /* the service has it */
    const struct identity *who; /* who sent it; NULL: no limits */
    void *in;
    struct buf out; /* the answer */
    int err;
    void (*finish)(struct v1_call *c, const struct task_reply *reply); /* NULL: out, or the error */
    void *data;                                                        /* the handler's own */
};

struct v1_call *v1_begin(struct http_request *r);

/* Submits a read whose result is in c->out, or another request. */
void v1_read(struct v1_call *c, void (*read)(void *arg, struct store *s, int64_t now_ms));
void v1_submit(struct v1_call *c);

/* Answers with c->out, or with the error. A `finish` that wrote to c->out ends with it. */
void v1_finish(struct v1_call *c, const struct task_reply *reply);

bool v1_reaches(const struct v1_call *c, struct str group);

/* A task that the sender reaches. NO_TASK: the message is in c->out. */
int v1_get(struct v1_call *c, struct store *s, int64_t id, struct task *ret_task);

/* What the handlers share. */
struct task_v1 {
    struct context *context;
    struct service *service;
    struct task_outcome *outcomes; /* of tasks that somebody waited for, the last ones */
    size_t outcome_next;
};

route_fn v1_find_tasks, v1_get_task, v1_bulk, v1_wait;
route_fn v1_list_groups, v1_get_group, v1_put_group, v1_delete_group;

/* http_wait.c: the service's watcher. */
service_event_fn v1_on_event;
void v1_release_outcomes(struct task_v1 *v);

extern const struct event_words TASK_EVENT_WORDS;

/* What the routes take. */

struct v1_filter_in {
    struct str group, text, key, error, origin;
    const struct str *states;
    const int64_t *ids; /* of bulk only */
    size_t state_count, id_count;
    bool internal;
};

struct v1_find_in {
    struct v1_filter_in filter;
    struct str after;
    int64_t limit;
};

struct v1_bulk_in {
    const struct v1_filter_in *filter;
    struct str after, group;
    int64_t clientid, priority, limit;
    int action;
    bool all, dry_run;
};

struct v1_task_in {
    int64_t id, timeout;
};

struct v1_group_in {
    struct str group, after;
    int64_t limit;
    bool internal;
    const struct json *settings;
};

/* http_find.c */
extern const struct route_field V1_FILTER_FIELDS[];

#endif
