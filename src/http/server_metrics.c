/*
 * The server's metrics: answers and durations by route, connections.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "http/conn.h"

static const char REQUESTS[] = "drover_http_requests_total";
static const char SECONDS[] = "drover_http_request_seconds";

static double read_connections(void *arg)
{
    const struct http_server *s = arg;

    return (double)s->conn_count;
}

static double read_refused(void *arg)
{
    const struct http_server *s = arg;

    return (double)s->refused_ever;
}

static void register_route(struct metrics *m, struct route_metrics *f, const char *method,
                           const char *route)
{
    struct buf labels = {0}, with_code = {0};

    metrics_put_label(&labels, "method", str_of(method));
    metrics_put_label(&labels, "route", str_of(route));
    f->seconds = metrics_histogram(m, SECONDS, buf_text(&labels),
                                   "Time from the head of a request to its answer.");
    for (int i = 1; i < 6; i++) {
        with_code.len = 0;
        buf_printf(&with_code, "%s,code=\"%dxx\"", buf_text(&labels), i);
        f->answers[i] =
            metrics_counter(m, REQUESTS, buf_text(&with_code), "Requests by route and status.");
    }
    buf_release(&labels);
    buf_release(&with_code);
}

void server_metrics_register(struct http_server *s)
{
    struct metrics *m = s->options.metrics;

    if (!m)
        return;
    s->route_metrics = mem_zalloc(sizeof *s->route_metrics * (s->router.count + 1));
    for (size_t i = 0; i < s->router.count; i++)
        register_route(m, &s->route_metrics[i], route_method(s->router.rows[i].route),
                       s->router.rows[i].route->pattern);
    register_route(m, &s->route_metrics[s->router.count], "", "");
    metrics_gauge(m, "drover_http_connections", NULL, "Connections that are open.",
                  read_connections, s);
    metrics_counted(m, "drover_http_connections_refused_total", NULL,
                    "Connections that were one too many.", read_refused, s);
}

void server_metrics_release(struct http_server *s)
{
    free(s->route_metrics);
}

void server_metrics_count(const struct exchange *x, int status)
{
    struct http_server *s = x->server;

    if (!s->route_metrics)
        return;
    struct route_metrics *f =
        &s->route_metrics[x->row ? (size_t)(x->row - s->router.rows) : s->router.count];
    counter_add(f->answers[status / 100], 1);
    histogram_add(f->seconds, uv_hrtime() - x->came_ns);
}
