/*
 * late_metrics - metrics whose values take calls that may block, on the keeper.
 *
 * The loop writes the page and must not wait. So the page has what was counted after the page
 * before, and writing it wakes a thread that counts anew. While nobody asks for metrics, nothing is
 * counted.
 */
#ifndef SERVER_LATE_METRICS_H
#define SERVER_LATE_METRICS_H

#include "http/metrics.h"

struct late_metrics;

/* Writes families, on the thread. An error: they are left out, rather than wrong. */
typedef int late_metrics_fn(void *arg, struct buf *page);

struct late_metrics *late_metrics_open(struct metrics *m, const char *thread, late_metrics_fn *fn,
                                       void *arg);

/* Ends the thread, when no page is written any more. */
void late_metrics_close(struct late_metrics *l);

#endif
