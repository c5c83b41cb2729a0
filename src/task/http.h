/*
 * The module of tasks, with the routes of the document: /groups, /task, /tasks, /group, /update and
 * /claim. Other modules find its service at context->tasks.
 */
#ifndef TASK_HTTP_H
#define TASK_HTTP_H

#include "http/metrics.h"
#include "server/context.h"
#include "task/service.h"

extern const struct module task_module;
extern const struct module task_v1_module; /* http_v1.h; opened after it */

/* task_metrics.c: tasks by group and state, and counts of requests. */
struct task_metrics {
    struct service *service;
    struct histogram *latency[3]; /* by enum task_kind */
};

/* f lives as long as m. */
void task_metrics_open(struct task_metrics *f, struct metrics *m, struct service *s);

#endif
