/*
 * The server as a whole: its limits, its metrics, its own routes, its start and its end.
 */
#include <assert.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/uv_check.h"
#include "http/conn.h"

enum { FLOOD_CONNECTIONS = 1024 };

static void on_all_closed(uv_handle_t *came)
{
    struct http_server *s = came->data;
    void (*closed)(void *arg) = s->options.closed;
    void *arg = s->options.closed_arg;

    workers_release(&s->workers);
    exchange_free_spare(s);
    head_cache_release(&s->heads);
    router_release(&s->router);
    free(s->route_metrics);
    pthread_mutex_destroy(&s->lock);
    free(s);
    if (closed)
        closed(arg);
}

static void on_busy_closed(uv_handle_t *busy)
{
    struct http_server *s = busy->data;
    uv_close((uv_handle_t *)&s->came, on_all_closed);
}

static void on_rest_closed(uv_handle_t *rest)
{
    struct http_server *s = rest->data;
    uv_close((uv_handle_t *)&s->busy, on_busy_closed);
}

void server_free_if_done(struct http_server *s)
{
    if (s->closing && !s->open_listeners && !s->conns && !s->detached &&
        !uv_is_closing((uv_handle_t *)&s->rest))
        uv_close((uv_handle_t *)&s->rest, on_rest_closed);
}

/*
 * After a flood the allocator would keep the memory of thousands of connections. It is returned to
 * the system when most of them have closed, once a flood: that takes milliseconds.
 */
static void give_memory_back(struct http_server *s)
{
    if (s->conn_peak < FLOOD_CONNECTIONS || s->conn_count > s->conn_peak / 8)
        return;
    s->conn_peak = s->conn_count;
    malloc_trim(0);
}

void server_forget(struct http_server *s, struct conn *c)
{
    *(c->prev ? &c->prev->next : &s->conns) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    s->conn_count--;
    door_leave(&s->door, &c->guest);
    give_memory_back(s);
    server_free_if_done(s);
}

/* Metrics: answers and durations by route, connections. */

static double read_connections(void *arg)
{
    const struct http_server *s = arg;
    return (double)s->conn_count;
}

static double read_tls_failed(void *arg)
{
    const struct http_server *s = arg;
    return (double)s->tls_failed;
}

static void register_route(struct metrics *m, struct route_metrics *f, const char *method,
                           const char *route)
{
    CLEANUP(buf_release) struct buf labels = {0};
    CLEANUP(buf_release) struct buf with_code = {0};
    metrics_put_label(&labels, "method", str_of(method));
    metrics_put_label(&labels, "route", str_of(route));
    f->seconds =
        metrics_histogram(m, "drover_http_request_seconds", buf_text(&labels),
                          "Time from the head of a request to its answer.", &HISTOGRAM_LATENCY);
    for (int i = 1; i < 6; i++) {
        with_code.len = 0;
        buf_printf(&with_code, "%s,code=\"%dxx\"", buf_text(&labels), i);
        f->answers[i] = metrics_counter(m, "drover_http_requests_total", buf_text(&with_code),
                                        "Requests by route and status.");
    }
}

static void register_metrics(struct http_server *s)
{
    struct metrics *m = s->options.metrics;
    if (!m)
        return;
    s->route_metrics = mem_zalloc(sizeof *s->route_metrics * (s->router.count + 1));
    for (size_t i = 0; i < s->router.count; i++)
        register_route(m, &s->route_metrics[i], route_method(s->router.rows[i].route),
                       s->router.rows[i].route->pattern);
    register_route(m, &s->route_metrics[s->router.count], "", "");
    metrics_read(m, "drover_http_connections", "gauge", NULL, "Connections that are open.",
                 read_connections, s);
    admit_metrics(s, m);
    limits_metrics(s, m);
    if (s->options.tls)
        metrics_read(m, "drover_http_tls_failures_total", "counter", NULL,
                     "Connections that ended because of an error of TLS.", read_tls_failed, s);
}

static void log_request(const struct exchange *x, int status)
{
    const char *method = x->row ? route_method(x->row->route) : "-";
    struct str path = x->request.head.path;
    int64_t us = (int64_t)((uv_hrtime() - x->came_ns) / 1000);
    log_event(LOG_LEVEL_DEBUG,
              LOG_FIELDS("request", LOG_TEXT_OF("method", method), LOG_STR("path", path),
                         LOG_NUMBER("status", status), LOG_NUMBER("us", us)),
              "%s %.*s: %d in %" PRId64 " us", method, STR_ARGS(path), status, us);
}

void server_metrics_count(const struct exchange *x, int status)
{
    struct http_server *s = x->server;
    if (log_shows(LOG_LEVEL_DEBUG))
        log_request(x, status);
    if (!s->route_metrics)
        return;
    struct route_metrics *f =
        &s->route_metrics[x->row ? (size_t)(x->row - s->router.rows) : s->router.count];
    counter_add(f->answers[status / 100], 1);
    histogram_add(f->seconds, uv_hrtime() - x->came_ns);
}

/* The server's own routes. */

static void reply_printed(struct http_request *r, void (*put)(struct buf *, const struct router *))
{
    struct http_server *s = r->arg;
    CLEANUP(buf_release) struct buf b = {0};
    put(&b, &s->router);
    http_reply(r, 200, buf_str(&b));
}

static void get_v1(struct http_request *r)
{
    reply_printed(r, router_put_list);
}

static void get_openapi(struct http_request *r)
{
    reply_printed(r, router_put_openapi);
}

static const struct route ROUTES[] = {
    {METHOD_GET, "/v1", get_v1, ROLE_READ | ROUTE_LIMITS, "List the routes", "listRoutes",
     .reply = "[(method:text path:text summary:text)]"},
    {METHOD_GET, "/v1/openapi.json", get_openapi, ROLE_READ | ROUTE_LIMITS,
     "Describe the routes as OpenAPI", "getOpenapi", .reply = "object"},
};

void http_serve(struct http_server *s, const struct route_table *tables, size_t count)
{
    struct route_table all[HTTP_TABLES_MAX];
    assert(count < HTTP_TABLES_MAX);
    all[0] = (struct route_table){ROUTES, sizeof ROUTES / sizeof *ROUTES, s, .tag = "Server"};
    for (size_t i = 0; i < count; i++)
        all[i + 1] = tables[i];
    head_cache_release(&s->heads);
    router_release(&s->router);
    router_build(&s->router, all, count + 1);
    for (size_t i = 0; s->options.identify && i < s->router.count; i++)
        assert(s->router.rows[i].route->flags & (ROLE_ALL | ROUTE_OPEN));
    register_metrics(s);
}

static struct http_server *server_new(uv_loop_t *loop, const struct http_options *o)
{
    struct http_server *s = mem_zalloc(sizeof *s);
    s->options = *o;
    if (!s->options.request_timeout_ms)
        s->options.request_timeout_ms = HTTP_REQUEST_TIMEOUT_MS;
    if (!s->options.idle_timeout_ms)
        s->options.idle_timeout_ms = HTTP_IDLE_TIMEOUT_MS;
    if (!s->options.write_timeout_ms)
        s->options.write_timeout_ms = HTTP_WRITE_TIMEOUT_MS;
    if (!s->options.waits_max)
        s->options.waits_max = HTTP_WAITS_MAX;
    memory_open(s, o->memory_max);
    admit_open(s);
    s->loop = loop;
    slices_open(s);
    pthread_mutex_init(&s->lock, NULL);
    s->posted_last = &s->posted;
    workers_init(&s->workers);
    UV_CHECK(uv_async_init(loop, &s->came, server_take_posted));
    UV_CHECK(uv_prepare_init(loop, &s->rest));
    UV_CHECK(uv_prepare_start(&s->rest, conns_pump));
    uv_unref((uv_handle_t *)&s->rest);
    s->came.data = s->rest.data = s;
    return s;
}

void http_change(struct http_server *s, const struct http_options *o)
{
    s->options.request_timeout_ms = o->request_timeout_ms;
    s->options.hosts = o->hosts;
    s->options.host_count = o->host_count;
    s->options.waits_max = o->waits_max;
    memory_open(s, o->memory_max);
    s->door.max = o->connections_max;
    s->door.max_of_address = o->connections_per_address;
}

int http_listen(uv_loop_t *loop, const struct http_options *o, struct http_server **ret_server,
                struct err_info *ret_error)
{
    struct http_server *s = server_new(loop, o);
    int err = listener_open_addresses(s, o->addresses, false, ret_error);
    if (!err)
        err = listener_open_addresses(s, o->tls_addresses, true, ret_error);
    if (err && o->unix_socket)
        close(o->unix_socket);
    else if (o->unix_socket)
        err = listener_open_unix(s, o->unix_socket, ret_error);
    if (err) {
        s->options.closed = NULL;
        http_close(s);
        return err;
    }
    *ret_server = s;
    return 0;
}

const char *http_url(const struct http_server *s, size_t i)
{
    return i < s->listener_count ? s->listeners[i].url : NULL;
}

void http_close(struct http_server *s)
{
    struct conn *next;
    s->closing = true;
    listeners_close(s);
    for (struct conn *c = s->conns; c; c = next) {
        next = c->next;
        conn_finish(c);
    }
}
