/*
 * http_impl - what the files of the task routes share: http.c has the module, its routes and the
 * changes, http_read.c the reads.
 */
#ifndef TASK_HTTP_IMPL_H
#define TASK_HTTP_IMPL_H

#include "task/http.h"

struct task_http {
    struct context *context;
    struct service *service;
    struct task_metrics metrics;
    uv_async_t wake;
    uv_timer_t timer;
    int64_t timer_ms; /* what it is set to, by clock_boot_ms() */
    struct buf out;
    int handles; /* still open */
};

/* What the reads take. */
struct task_read {
    int64_t id, limit;
    const int64_t *ids;
    size_t id_count;
    struct str group;
    bool owned;
};

/* Answers with an error, or where the leader is. */
void task_reply_err(struct task_http *h, struct http_request *r, int err);

route_fn task_get_groups, task_get_task, task_get_tasks, task_get_group;

#endif
