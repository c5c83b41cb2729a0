/*
 * The sockets that the server listens on: internet addresses, some of which a service manager may
 * have bound, and a Unix socket, which the caller has bound. Which Host names a request may have
 * depends on the socket.
 */
#include <assert.h>
#include <netinet/tcp.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/address.h"
#include "base/uv_check.h"
#include "http/conn.h"

enum {
    BACKLOG = 1024,
    KEEPALIVE_S = 30,    /* a silent client is probed */
    DEAD_MS = 60 * 1000, /* and dropped if it does not acknowledge for so long */
};

const char *listener_put_address(char *text, size_t size, const struct sockaddr_storage *address)
{
    char host[INET6_ADDRSTRLEN] = "";
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    bool six = address->ss_family == AF_INET6;
    uv_ip_name((const struct sockaddr *)address, host, sizeof host);
    snprintf(text, size, "%s%s%s:%d", six ? "[" : "", host, six ? "]" : "",
             ntohs(six ? v6->sin6_port : v4->sin_port));
    return strrchr(text, ':');
}

static void name_internet(struct listener *l, const struct sockaddr_storage *address)
{
    char text[64];
    const char *port = listener_put_address(text, sizeof text, address);
    snprintf(l->port_suffix, sizeof l->port_suffix, "%s", port);
    int scheme = snprintf(l->url, sizeof l->url, "http%s://", l->is_tls ? "s" : "");
    l->authority = l->url + scheme;
    snprintf(l->url + scheme, sizeof l->url - (size_t)scheme, "%s", text);
    l->any_address = address_is_any(address);
}

/*
 * Options that accepted sockets inherit. A client whose machine or network is gone sends no FIN; a
 * parked request or a stream without events would be kept for it for ever. On loopback there is no
 * congestion, and congestion control costs: BBR paces with a timer for every answer. Reno, which
 * every Linux has, costs least.
 */
static void set_socket_options(const struct listener *l, const struct sockaddr_storage *address)
{
    uv_os_fd_t fd;
    if (uv_fileno((const uv_handle_t *)&l->tcp, &fd))
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &(unsigned){DEAD_MS}, sizeof(unsigned));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){KEEPALIVE_S}, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &(int){KEEPALIVE_S / 3}, sizeof(int));
    if (address_is_loopback(address))
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
}

/* The next of the server's listeners, with its handle open. */
static struct listener *listener_new(struct http_server *s, bool is_unix)
{
    assert(s->listener_count < HTTP_LISTENERS_MAX);
    struct listener *l = &s->listeners[s->listener_count++];
    l->server = s;
    l->is_unix = is_unix;
    if (is_unix)
        UV_CHECK(uv_pipe_init(s->loop, &l->pipe, 0));
    else
        UV_CHECK(uv_tcp_init(s->loop, &l->tcp));
    l->stream.data = l;
    s->open_listeners++;
    return l;
}

static int listen_internet(struct listener *l)
{
    struct sockaddr_storage bound = {0};
    int len = sizeof bound;
    TRY(uv_tcp_getsockname(&l->tcp, (struct sockaddr *)&bound, &len));
    set_socket_options(l, &bound);
    TRY(uv_listen(&l->stream, BACKLOG, conn_accept));
    name_internet(l, &bound);
    return 0;
}

static int fail(const struct listener *l, int err, struct err_info *ret_error)
{
    return err_set(ret_error, DROVER_IO, "cannot listen on %s: %s",
                   l->authority ? l->authority : l->url, uv_strerror(err));
}

static int open_address(struct http_server *s, const struct sockaddr_storage *address, int fd,
                        bool is_tls, struct err_info *ret_error)
{
    struct listener *l = listener_new(s, false);
    l->is_tls = is_tls;
    unsigned flags = address->ss_family == AF_INET6 ? UV_TCP_IPV6ONLY : 0;
    name_internet(l, address);
    int err = fd ? uv_tcp_open(&l->tcp, fd)
                 : uv_tcp_bind(&l->tcp, (const struct sockaddr *)address, flags);
    if (!err)
        err = listen_internet(l);
    return err ? fail(l, err, ret_error) : 0;
}

int listener_open_addresses(struct http_server *s, const struct option_addresses *a, bool is_tls,
                            struct err_info *ret_error)
{
    for (size_t i = 0; a && i < a->count; i++)
        TRY(open_address(s, &a->items[i], a->fds[i], is_tls, ret_error));
    return 0;
}

int listener_open_unix(struct http_server *s, int fd, struct err_info *ret_error)
{
    struct sockaddr_un address = {0};
    socklen_t len = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &len)) {
        int errnum = errno;
        close(fd);
        return err_set_errno(ret_error, errnum, "descriptor %d is no socket", fd);
    }
    struct listener *l = listener_new(s, true);
    snprintf(l->url, sizeof l->url, "unix:%.*s", (int)sizeof address.sun_path, address.sun_path);
    int err = uv_pipe_open(&l->pipe, fd);
    if (err)
        close(fd);
    else
        err = uv_listen(&l->stream, BACKLOG, conn_accept);
    return err ? fail(l, err, ret_error) : 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct http_server *s = ((struct listener *)handle->data)->server;
    s->open_listeners--;
    server_free_if_done(s);
}

void listeners_close(struct http_server *s)
{
    for (size_t i = 0; i < s->listener_count; i++)
        uv_close((uv_handle_t *)&s->listeners[i].stream, on_closed);
    if (!s->listener_count)
        server_free_if_done(s);
}

/* Host names. */

static bool is_same(struct str host, const char *name)
{
    return host.len == strlen(name) && !strncasecmp(host.p, name, host.len);
}

/* When listening on every address: the Host must be the address that the client connected to. */
static bool is_address_of(const struct conn *c, struct str host)
{
    struct sockaddr_storage address = {0};
    int len = sizeof address;
    char text[64];
    if (!c->listener->any_address ||
        uv_tcp_getsockname(&c->tcp, (struct sockaddr *)&address, &len) != 0)
        return false;
    listener_put_address(text, sizeof text, &address);
    return is_same(host, text);
}

bool listener_is_host(const struct conn *c, struct str host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    const struct listener *l = c->listener;
    const struct http_options *o = &c->server->options;
    size_t suffix = strlen(l->port_suffix);
    struct str name = host;

    if (!host.len || l->is_unix || is_same(host, l->authority) || is_address_of(c, host))
        return true;
    if (host.len > suffix && !memcmp(host.p + host.len - suffix, l->port_suffix, suffix))
        name.len -= suffix;
    for (size_t i = 0; i < o->host_count; i++)
        if (is_same(host, o->hosts[i]) || is_same(name, o->hosts[i]))
            return true;
    /* The usual port may be left out. */
    if (name.len == host.len && strcmp(l->port_suffix, l->is_tls ? ":443" : ":80") != 0)
        return false;
    if (l->is_tls && tls_context_has_name(o->tls, name))
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_same(name, names[i]))
            return true;
    return false;
}
