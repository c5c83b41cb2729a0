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

/* Upper bounds of the buckets, in nanoseconds; one more bucket is for longer durations. */
static const uint64_t ENDS_NS[] = {
    100000,   250000,    500000,    1000000,   2500000,    5000000,     10000000,    25000000,
    50000000, 100000000, 250000000, 500000000, 1000000000, 2500000000u, 5000000000u, 10000000000u,
};

enum { END_COUNT = sizeof ENDS_NS / sizeof *ENDS_NS };

enum kind { COUNTER, COUNTED, GAUGE, HISTOGRAM };

struct counter {
    atomic_uint_fast64_t count;
};

struct histogram {
    atomic_uint_fast64_t buckets[END_COUNT + 1], sum_ns;
};

struct metric_series {
    struct metric_series *next;
    char *labels;
    metrics_read_fn *read;
    void *arg;
    struct counter counter;
    struct histogram *histogram;
};

struct metric_family {
    struct metric_family *next;
    char *name;
    const char *help;
    enum kind kind;
    struct metric_series *series, **series_last;
};

struct metric_collector {
    struct metric_collector *next;
    metrics_collect_fn *collect;
    void *arg;
};

struct metrics {
    struct metric_family *families, **families_last;
    struct metric_collector *collectors, **collectors_last;
};

/* Registration. */

struct metrics *metrics_new(void)
{
    struct metrics *m = mem_zalloc(sizeof *m);

    m->families_last = &m->families;
    m->collectors_last = &m->collectors;
    return m;
}

static void family_free(struct metric_family *f)
{
    struct metric_series *next;

    for (struct metric_series *s = f->series; s; s = next) {
        next = s->next;
        free(s->labels);
        free(s->histogram);
        free(s);
    }
    free(f->name);
    free(f);
}

void metrics_free(struct metrics *m)
{
    struct metric_family *next;
    struct metric_collector *next_collector;

    for (struct metric_family *f = m->families; f; f = next) {
        next = f->next;
        family_free(f);
    }
    for (struct metric_collector *c = m->collectors; c; c = next_collector) {
        next_collector = c->next;
        free(c);
    }
    free(m);
}

static struct metric_family *family_of(struct metrics *m, const char *name, const char *help,
                                       enum kind kind)
{
    struct metric_family *f = m->families;

    while (f && strcmp(f->name, name) != 0)
        f = f->next;
    if (f)
        return f;
    f = mem_zalloc(sizeof *f);
    f->name = mem_dup(name, strlen(name));
    f->help = help;
    f->kind = kind;
    f->series_last = &f->series;
    *m->families_last = f;
    m->families_last = &f->next;
    return f;
}

static struct metric_series *series_new(struct metric_family *f, const char *labels)
{
    struct metric_series *s = mem_zalloc(sizeof *s);

    s->labels = mem_dup(labels ? labels : "", labels ? strlen(labels) : 0);
    *f->series_last = s;
    f->series_last = &s->next;
    return s;
}

struct counter *metrics_counter(struct metrics *m, const char *name, const char *labels,
                                const char *help)
{
    return &series_new(family_of(m, name, help, COUNTER), labels)->counter;
}

struct histogram *metrics_histogram(struct metrics *m, const char *name, const char *labels,
                                    const char *help)
{
    struct metric_series *s = series_new(family_of(m, name, help, HISTOGRAM), labels);

    s->histogram = mem_zalloc(sizeof *s->histogram);
    return s->histogram;
}

static void add_read(struct metric_family *f, const char *labels, metrics_read_fn *read, void *arg)
{
    struct metric_series *s = series_new(f, labels);

    s->read = read;
    s->arg = arg;
}

void metrics_gauge(struct metrics *m, const char *name, const char *labels, const char *help,
                   metrics_read_fn *read, void *arg)
{
    add_read(family_of(m, name, help, GAUGE), labels, read, arg);
}

void metrics_counted(struct metrics *m, const char *name, const char *labels, const char *help,
                     metrics_read_fn *read, void *arg)
{
    add_read(family_of(m, name, help, COUNTED), labels, read, arg);
}

void metrics_collector(struct metrics *m, metrics_collect_fn *collect, void *arg)
{
    struct metric_collector *c = mem_zalloc(sizeof *c);

    c->collect = collect;
    c->arg = arg;
    *m->collectors_last = c;
    m->collectors_last = &c->next;
}

/* Counting. */

void counter_add(struct counter *c, uint64_t count)
{
    atomic_fetch_add_explicit(&c->count, count, memory_order_relaxed);
}

void histogram_add(struct histogram *h, uint64_t ns)
{
    size_t i = 0;

    while (i < END_COUNT && ns > ENDS_NS[i])
        i++;
    atomic_fetch_add_explicit(&h->buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum_ns, ns, memory_order_relaxed);
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

static void put_histogram(struct buf *page, const char *name, const struct metric_series *s)
{
    const struct histogram *h = s->histogram;
    const char *comma = *s->labels ? "," : "";
    uint64_t count = 0;

    for (size_t i = 0; i < END_COUNT; i++) {
        count += atomic_load(&h->buckets[i]);
        buf_printf(page, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, s->labels, comma,
                   (double)ENDS_NS[i] / 1e9, count);
    }
    count += atomic_load(&h->buckets[END_COUNT]);
    buf_printf(page, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, s->labels, comma, count);
    buf_printf(page, "%s_sum%s%s%s %.9f\n", name, *s->labels ? "{" : "", s->labels,
               *s->labels ? "}" : "", (double)atomic_load(&h->sum_ns) / 1e9);
    buf_printf(page, "%s_count%s%s%s %" PRIu64 "\n", name, *s->labels ? "{" : "", s->labels,
               *s->labels ? "}" : "", count);
}

static bool has_counted(const struct metric_family *f, const struct metric_series *s)
{
    if (f->kind == COUNTER)
        return atomic_load(&s->counter.count);
    for (size_t i = 0; f->kind == HISTOGRAM && i <= END_COUNT; i++)
        if (atomic_load(&s->histogram->buckets[i]))
            return true;
    return f->kind != HISTOGRAM;
}

static void put_series(struct buf *page, const struct metric_family *f,
                       const struct metric_series *s)
{
    if (f->kind == HISTOGRAM)
        put_histogram(page, f->name, s);
    else
        metrics_put_sample(page, f->name, str_of(s->labels),
                           s->read ? s->read(s->arg) : (double)atomic_load(&s->counter.count));
}

void metrics_put(struct buf *page, struct metrics *m)
{
    static const char *const types[] = {
        [COUNTER] = "counter", [COUNTED] = "counter", [GAUGE] = "gauge", [HISTOGRAM] = "histogram"};

    for (struct metric_family *f = m->families; f; f = f->next) {
        metrics_put_family(page, f->name, types[f->kind], f->help);
        for (struct metric_series *s = f->series; s; s = s->next)
            if (has_counted(f, s))
                put_series(page, f, s);
    }
    for (struct metric_collector *c = m->collectors; c; c = c->next)
        c->collect(c->arg, page);
}

static void get_metrics(struct http_request *r)
{
    CLEANUP(buf_release) struct buf page = {0};

    metrics_put(&page, r->arg);
    http_reply_as(r, 200, "text/plain; version=0.0.4; charset=utf-8", buf_str(&page));
}

static const struct route ROUTES[] = {
    {METHOD_GET, "/metrics", get_metrics, 0, "Read the metrics, for Prometheus", "getMetrics",
     .reply = "text/plain"},
};

struct route_table metrics_routes(struct metrics *m)
{
    return (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, m, .tag = "Server"};
}
