/*
 * figures - what GET /metrics says about tasks: tasks by group and state, and what has been done.
 */
#ifndef TASK_FIGURES_H
#define TASK_FIGURES_H

#include "http/metrics.h"
#include "task/service.h"

struct figures {
    struct service *service;
    struct histogram *latency[3]; /* by enum task_kind */
};

/* f lives as long as m. */
void figures_open(struct figures *f, struct metrics *m, struct service *s);

#endif
