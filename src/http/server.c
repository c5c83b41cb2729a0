/*
 * The listener: binds, accepts up to a maximum, knows by which names it may be called, closes.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "http/conn.h"

enum {
    BACKLOG = 1024,
    OTHER_FILES = 128, /* descriptors left for journal, snapshot and the rest */
};

/* Connections must not use up the descriptors that the journal needs. */
static size_t connections_max(void)
{
    struct rlimit limit;
    size_t max = HTTP_CONNECTIONS_MAX, files;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return max;
    files = (size_t)limit.rlim_cur;
    if (files <= OTHER_FILES + CONN_REFUSALS_MAX)
        return 1;
    files -= OTHER_FILES + CONN_REFUSALS_MAX;
    return files < max ? files : max;
}

static void server_free_if_done(struct http_server *s)
{
    if (s->tcp_closed && !s->conns)
        free(s);
}

static void on_closed(uv_handle_t *h)
{
    struct http_server *s = h->data;

    s->tcp_closed = true;
    server_free_if_done(s);
}

void server_forget(struct http_server *s, struct conn *c)
{
    *(c->prev ? &c->prev->next : &s->conns) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    s->conn_count--;
    s->refused_count -= c->refused;
    server_free_if_done(s);
}

static void on_connection(uv_stream_t *stream, int status)
{
    if (status == 0) /* else the client has left again, or the system is short of something */
        conn_accept(stream->data);
}

static void name_address(struct http_server *s, const struct sockaddr_storage *address)
{
    char host[INET6_ADDRSTRLEN] = "";
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    bool six = address->ss_family == AF_INET6;

    uv_ip_name((const struct sockaddr *)address, host, sizeof host);
    snprintf(s->port_suffix, sizeof s->port_suffix, ":%d",
             ntohs(six ? v6->sin6_port : v4->sin_port));
    snprintf(s->address, sizeof s->address, "%s%s%s%s", six ? "[" : "", host, six ? "]" : "",
             s->port_suffix);
}

static int bind_and_listen(struct http_server *s)
{
    struct sockaddr_storage bound = {0};
    int len = sizeof bound, err;

    err = uv_tcp_bind(&s->tcp, (const struct sockaddr *)&s->options.address, 0);
    if (!err)
        err = uv_listen((uv_stream_t *)&s->tcp, BACKLOG, on_connection);
    if (!err)
        err = uv_tcp_getsockname(&s->tcp, (struct sockaddr *)&bound, &len);
    if (!err)
        name_address(s, &bound);
    return err;
}

int http_listen(uv_loop_t *loop, const struct http_options *o, struct http_server **ret_server,
                struct err_info *ret_error)
{
    struct http_server *s = mem_zalloc(sizeof *s);
    int err;

    s->options = *o;
    if (!s->options.request_timeout_ms)
        s->options.request_timeout_ms = HTTP_REQUEST_TIMEOUT_MS;
    s->conn_max = connections_max();
    name_address(s, &o->address);
    uv_tcp_init(loop, &s->tcp);
    s->tcp.data = s;
    err = bind_and_listen(s);
    if (err) {
        err_set(ret_error, DROVER_IO, "cannot listen on %s: %s", s->address, uv_strerror(err));
        uv_close((uv_handle_t *)&s->tcp, on_closed);
        return DROVER_IO;
    }
    *ret_server = s;
    return 0;
}

const char *http_address(const struct http_server *s)
{
    return s->address;
}

bool server_is_host(const struct http_server *s, struct str host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    size_t suffix = strlen(s->port_suffix);

    if (!host.len)
        return true;
    if (host.len == strlen(s->address) && !strncasecmp(host.p, s->address, host.len))
        return true;
    if (host.len > suffix && !memcmp(host.p + host.len - suffix, s->port_suffix, suffix))
        host.len -= suffix;
    else if (strcmp(s->port_suffix, ":80")) /* which is the one that need not be named */
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (host.len == strlen(names[i]) && !strncasecmp(host.p, names[i], host.len))
            return true;
    return false;
}

void http_close(struct http_server *s)
{
    struct conn *next;

    s->closing = true;
    uv_close((uv_handle_t *)&s->tcp, on_closed);
    for (struct conn *c = s->conns; c; c = next) {
        next = c->next;
        conn_finish(c);
    }
}
