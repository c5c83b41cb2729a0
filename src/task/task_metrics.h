/*
 * task_metrics - the metrics of tasks: tasks by group and state, and counts of requests.
 */
#ifndef TASK_TASK_METRICS_H
#define TASK_TASK_METRICS_H

#include "http/metrics.h"
#include "task/service.h"

struct task_metrics {
    struct service *service;
    struct histogram *latency[3]; /* by enum task_kind */
};

/* f lives as long as m. */
void task_metrics_open(struct task_metrics *f, struct metrics *m, struct service *s);

#endif
