/*
 * Families in the order of their registration, each with its series. Counting is one relaxed atomic
 * addition (two for a histogram), cheap enough for every request.
 */
#include "http/metrics.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "http/server.h"

enum { SERIES_FEW = 32 }; /* a family with more leaves out those that are zero */

struct counter {
    atomic_uint_fast64_t count;
};

struct metric_series {
    char *labels;
    metrics_read_fn *read; /* NULL: it is counted here */
    void *arg;
    struct counter counter;
    const struct histogram *histogram; /* NULL: a single value */
    struct histogram *owned;           /* NULL: it is kept elsewhere */
};

struct metric_family {
    const char *name, *type, *help;
    struct metric_series **series;
    size_t count, cap;
};

struct metric_collector {
    metrics_collect_fn *collect;
    void *arg;
};

struct metrics {
    struct metric_family *families;
    size_t family_count, family_cap;
    struct metric_collector *collectors;
    size_t collector_count, collector_cap;
};

/* Registration. */

struct metrics *metrics_new(void)
{
    return mem_zalloc(sizeof(struct metrics));
}

void metrics_free(struct metrics *m)
{
    for (size_t i = 0; i < m->family_count; i++) {
        struct metric_family *f = &m->families[i];
        for (size_t j = 0; j < f->count; j++) {
            free(f->series[j]->labels);
            free(f->series[j]->owned);
            free(f->series[j]);
        }
        free(f->series);
    }
    free(m->families);
    free(m->collectors);
    free(m);
}

static struct metric_family *family_of(struct metrics *m, const char *name, const char *type,
                                       const char *help)
{
    for (size_t i = 0; i < m->family_count; i++)
        if (!strcmp(m->families[i].name, name))
            return &m->families[i];
    mem_grow(m->families, m->family_count, m->family_cap);
    struct metric_family *f = &m->families[m->family_count++];
    *f = (struct metric_family){.name = name, .type = type, .help = help};
    return f;
}

static struct metric_series *series_new(struct metrics *m, const char *name, const char *type,
                                        const char *labels, const char *help)
{
    struct metric_family *f = family_of(m, name, type, help);
    struct metric_series *s = mem_zalloc(sizeof *s);
    s->labels = mem_dup(labels ? labels : "", labels ? strlen(labels) : 0);
    mem_grow(f->series, f->count, f->cap);
    f->series[f->count++] = s;
    return s;
}

struct counter *metrics_counter(struct metrics *m, const char *name, const char *labels,
                                const char *help)
{
    return &series_new(m, name, "counter", labels, help)->counter;
}

void metrics_show_histogram(struct metrics *m, const char *name, const char *labels,
                            const char *help, const struct histogram *h)
{
    series_new(m, name, "histogram", labels, help)->histogram = h;
}

struct histogram *metrics_histogram(struct metrics *m, const char *name, const char *labels,
                                    const char *help, const struct histogram_scale *scale)
{
    struct metric_series *s = series_new(m, name, "histogram", labels, help);
    s->histogram = s->owned = mem_zalloc(sizeof *s->owned);
    histogram_init(s->owned, scale);
    return s->owned;
}

void metrics_read(struct metrics *m, const char *name, const char *type, const char *labels,
                  const char *help, metrics_read_fn *read, void *arg)
{
    struct metric_series *s = series_new(m, name, type, labels, help);
    s->read = read;
    s->arg = arg;
}

void metrics_collector(struct metrics *m, metrics_collect_fn *collect, void *arg)
{
    mem_grow(m->collectors, m->collector_count, m->collector_cap);
    m->collectors[m->collector_count++] = (struct metric_collector){collect, arg};
}

/* Counting. */

void counter_add(struct counter *c, uint64_t count)
{
    atomic_fetch_add_explicit(&c->count, count, memory_order_relaxed);
}

/* The page. */

void metrics_put_family(struct buf *page, const char *name, const char *type, const char *help)
{
    buf_printf(page, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_put_sample(struct buf *page, const char *name, struct str labels, double value)
{
    buf_printf(page, "%s%s%.*s%s %.17g\n", name, labels.len ? "{" : "", STR_ARGS(labels),
               labels.len ? "}" : "", value);
}

void metrics_put_label(struct buf *labels, const char *name, struct str value)
{
    buf_printf(labels, "%s%s=\"", labels->len ? "," : "", name);
    for (size_t i = 0; i < value.len; i++) {
        char c = value.p[i];
        if (c == '\\' || c == '"')
            buf_printf(labels, "\\%c", c);
        else if (c == '\n')
            buf_put_str(labels, STR("\\n"));
        else
            buf_put(labels, &c, 1);
    }
    buf_put_str(labels, STR("\""));
}

static uint64_t histogram_count(const struct histogram *h)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= HISTOGRAM_ENDS; i++)
        count += atomic_load(&h->buckets[i]);
    return count;
}

static void put_histogram(struct buf *page, const char *name, const struct metric_series *s)
{
    const struct histogram *h = s->histogram;
    const char *comma = *s->labels ? "," : "", *open = *s->labels ? "{" : "",
               *close = *s->labels ? "}" : "";
    uint64_t count = 0;
    for (size_t i = 0; i < HISTOGRAM_ENDS; i++) {
        count += atomic_load(&h->buckets[i]);
        buf_printf(page, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, s->labels, comma,
                   (double)h->scale->ends_ns[i] / 1e9, count);
    }
    count += atomic_load(&h->buckets[HISTOGRAM_ENDS]);
    buf_printf(page, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, s->labels, comma, count);
    buf_printf(page, "%s_sum%s%s%s %.9f\n", name, open, s->labels, close,
               (double)atomic_load(&h->sum_ns) / 1e9);
    buf_printf(page, "%s_count%s%s%s %" PRIu64 "\n", name, open, s->labels, close, count);
}

static bool is_zero(const struct metric_series *s)
{
    if (s->histogram)
        return !histogram_count(s->histogram);
    return !s->read && !atomic_load(&s->counter.count);
}

static void put_series(struct buf *page, const char *name, const struct metric_series *s)
{
    if (s->histogram)
        put_histogram(page, name, s);
    else
        metrics_put_sample(page, name, str_of(s->labels),
                           s->read ? s->read(s->arg) : (double)atomic_load(&s->counter.count));
}

void metrics_put(struct buf *page, struct metrics *m)
{
    for (size_t i = 0; i < m->family_count; i++) {
        const struct metric_family *f = &m->families[i];
        metrics_put_family(page, f->name, f->type, f->help);
        for (size_t j = 0; j < f->count; j++)
            if (f->count <= SERIES_FEW || !is_zero(f->series[j]))
                put_series(page, f->name, f->series[j]);
    }
    for (size_t i = 0; i < m->collector_count; i++)
        m->collectors[i].collect(m->collectors[i].arg, page);
}

static void get_metrics(struct http_request *r)
{
    CLEANUP(buf_release) struct buf page = {0};
    metrics_put(&page, r->arg);
    http_reply_as(r, 200, "text/plain; version=0.0.4; charset=utf-8", buf_str(&page));
}

static const struct route ROUTES[] = {
    {METHOD_GET, "/metrics", get_metrics, ROLE_READ, "Read the metrics, for Prometheus",
     "getMetrics", .reply = "text/plain"},
};

struct route_table metrics_routes(struct metrics *m)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, m, .tag = "Server"};
}
