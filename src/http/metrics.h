/*
 * metrics - counters, gauges and histograms in Prometheus' text format: GET /metrics.
 *
 * Register at start, on one thread; count from any thread. What is registered lives as long as the
 * registry; names and help are borrowed, labels are copied. Names begin with "drover_", counters
 * end in "_total", units are seconds and bytes. Labels are given as on the page,
 * `method="GET",route="/v1"`; metrics_put_label() escapes a value. Series of one name are
 * registered with the same help and are listed together. Of a family with many series (by route),
 * those that are zero are left out.
 *
 * Values that are known elsewhere are read when the page is written: a gauge by a function; metrics
 * whose labels come and go (tasks by group) by a collector, which writes whole families. Both run
 * on the loop.
 */
#ifndef HTTP_METRICS_H
#define HTTP_METRICS_H

#include <stdint.h>

#include "base/buf.h"
#include "base/histogram.h"
#include "base/str.h"
#include "http/route.h"

struct metrics;
struct counter;

struct metrics *metrics_new(void);
void metrics_free(struct metrics *m);

/* labels: "" or NULL for none. */
struct counter *metrics_counter(struct metrics *m, const char *name, const char *labels,
                                const char *help);
struct histogram *metrics_histogram(struct metrics *m, const char *name, const char *labels,
                                    const char *help, const struct histogram_scale *scale);

/* A histogram that is kept elsewhere, and lives as long as pages are written. */
void metrics_show_histogram(struct metrics *m, const char *name, const char *labels,
                            const char *help, const struct histogram *h);

typedef double metrics_read_fn(void *arg);

/* A value that is read by a function. type: "gauge" or "counter". */
void metrics_read(struct metrics *m, const char *name, const char *type, const char *labels,
                  const char *help, metrics_read_fn *read, void *arg);

typedef void metrics_collect_fn(void *arg, struct buf *page);

void metrics_collector(struct metrics *m, metrics_collect_fn *collect, void *arg);

/* For collectors: the head of a family, a sample of it, a label. */
void metrics_put_family(struct buf *page, const char *name, const char *type, const char *help);
void metrics_put_sample(struct buf *page, const char *name, struct str labels, double value);
void metrics_put_label(struct buf *labels, const char *name, struct str value);

void counter_add(struct counter *c, uint64_t count);

/* The whole page. */
void metrics_put(struct buf *page, struct metrics *m);

/* GET /metrics. */
struct route_table metrics_routes(struct metrics *m);

#endif
