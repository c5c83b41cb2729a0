/*
 * The end. When libzookeeper closes its socket, everything that it had written is still sent, which
 * may be the request to end the session; then the end of TLS and of the connection. What the server
 * sends meanwhile is dropped. When the server ends, what it had sent is passed on first.
 *
 * A server of TLS 1.3 looks at the client's certificate after the client's handshake is done. So
 * only an answer proves that the client was accepted.
 */
#include "keeper/zookeeper/zookeeper_link.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    UP_LEN_MAX = 1024 * 1024
}; /* only a server that asks for new keys all the time gets there */

static void close_side(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* An alert may be left to send: the server then knows why. */
void zk_link_close(struct zk_link *l)
{
    if (l->state == ZK_LINK_CLOSED)
        return;
    if (l->tls && l->tls->failed && l->tls->out.len > l->up_sent && l->remote >= 0)
        send(l->remote, l->tls->out.p + l->up_sent, l->tls->out.len - l->up_sent, MSG_NOSIGNAL);
    l->state = ZK_LINK_CLOSED;
    close_side(&l->local);
    close_side(&l->remote);
    if (l->addresses)
        freeaddrinfo(l->addresses);
    l->addresses = NULL;
    tls_free(l->tls);
    l->tls = NULL;
    buf_release(&l->down);
}

/* A connection that has worked ends without a problem: libzookeeper makes the next one. */
static void give_up(struct zk_link *l, const char *problem)
{
    if (!l->answered && l->state != ZK_LINK_ENDING)
        err_set(&l->problem, DROVER_IO, "%s", problem);
    zk_link_close(l);
}

/* Connecting. */

/* A socket that is connecting; -1: errno says why not. */
static int start_connecting(const struct addrinfo *a)
{
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || !connect(fd, a->ai_addr, a->ai_addrlen) || errno == EINPROGRESS)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static void try_next(struct zk_link *l, int why)
{
    close_side(&l->remote);
    l->deadline_ms = clock_boot_ms() + l->connect_ms;
    while (l->remote < 0 && l->next) {
        const struct addrinfo *a = l->next;
        l->next = a->ai_next;
        l->remote = start_connecting(a);
        why = errno;
    }
    if (l->remote < 0)
        give_up(l, strerror(why));
}

void zk_link_begin(struct zk_link *l, int local_take, struct tls_context *context, const char *host,
                   const char *port, int64_t connect_ms)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    *l = (struct zk_link){.state = ZK_LINK_CONNECTING,
                          .local = local_take,
                          .remote = -1,
                          .host = host,
                          .context = context,
                          .connect_ms = connect_ms};
    int failed = getaddrinfo(host, port, &hints, &l->addresses);
    if (failed) {
        l->addresses = NULL;
        give_up(l, gai_strerror(failed));
        return;
    }
    l->next = l->addresses;
    try_next(l, EHOSTUNREACH);
}

/* Passing on. */

static bool is_pending(const struct zk_link *l)
{
    return l->tls->out.len > l->up_sent;
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EINTR;
}

/* Returns whether everything was sent or will be. */
static bool send_rest(int fd, struct buf *b, size_t *sent)
{
    if (fd >= 0 && b->len > *sent) {
        ssize_t len = send(fd, b->p + *sent, b->len - *sent, MSG_NOSIGNAL);
        if (len < 0 && !would_block())
            return false;
        *sent += len > 0 ? (size_t)len : 0;
    }
    if (*sent == b->len)
        *sent = b->len = 0;
    return true;
}

/* The server sends no more. What it sent is passed on first. */
static void server_ended(struct zk_link *l)
{
    if (!l->tls->ready)
        give_up(l, "the server ended the connection during the TLS handshake");
    else if (!l->answered || l->local < 0)
        give_up(l, "the server ended the connection without an answer");
    else
        close_side(&l->remote);
}

static void tls_failed(struct zk_link *l)
{
    CLEANUP(buf_release) struct buf why = {0};
    buf_printf(&why, "%s: %s",
               l->tls->untrusted ? "the server's certificate is not accepted" : "TLS",
               l->tls->problem ? l->tls->problem : "failed");
    l->refused = true;
    give_up(l, buf_text(&why));
}

/* Decrypts what has arrived. */
static void decrypt(struct zk_link *l)
{
    ssize_t len;
    do {
        buf_reserve(&l->down, TLS_READ_SIZE);
        len = tls_read(l->tls, l->down.p + l->down.len, TLS_READ_SIZE);
        if (len > 0) {
            l->down.len += (size_t)len;
            l->answered = true;
        }
    } while (len > 0);
    if (l->tls->ready && l->state == ZK_LINK_OPEN)
        l->deadline_ms = INT64_MAX;
    if (l->local < 0)
        l->down.len = 0;
    if (len == TLS_CLOSED)
        server_ended(l);
    else if (len == TLS_FAILED)
        tls_failed(l);
    else if (l->tls->out.len > UP_LEN_MAX)
        give_up(l, "the server does not read");
}

static void read_remote(struct zk_link *l)
{
    ssize_t len = recv(l->remote, l->chunk, sizeof l->chunk, 0);
    if (len > 0) {
        tls_feed(l->tls, (struct str){l->chunk, (size_t)len});
        decrypt(l);
    } else if (!len) {
        server_ended(l);
    } else if (!would_block()) {
        give_up(l, strerror(errno));
    }
}

static void read_local(struct zk_link *l)
{
    ssize_t len = recv(l->local, l->chunk, sizeof l->chunk, 0);
    if (len > 0) {
        tls_write(l->tls, (struct str){l->chunk, (size_t)len});
    } else if (!len || !would_block()) {
        tls_end(l->tls);
        close_side(&l->local);
        l->down.len = l->down_sent = 0;
        l->state = ZK_LINK_ENDING;
        l->deadline_ms = clock_boot_ms() + ZK_LINK_LINGER_MS;
    }
}

static void on_connected(struct zk_link *l)
{
    int why = 0, on = 1;
    socklen_t len = sizeof why;
    if (getsockopt(l->remote, SOL_SOCKET, SO_ERROR, &why, &len))
        why = errno;
    if (why) {
        try_next(l, why);
        return;
    }
    setsockopt(l->remote, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(l->local, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    l->tls = tls_new_client(l->context, l->host);
    l->state = ZK_LINK_OPEN;
    decrypt(l); /* the greeting */
}

static void flush(struct zk_link *l)
{
    if (!send_rest(l->remote, &l->tls->out, &l->up_sent)) {
        give_up(l, strerror(errno));
        return;
    }
    if (!send_rest(l->local, &l->down, &l->down_sent))
        l->down.len = l->down_sent = 0; /* it has closed its socket, which reading will show */
    if (l->state == ZK_LINK_ENDING && !is_pending(l) && !l->shut) {
        shutdown(l->remote, SHUT_WR);
        l->shut = true;
    }
    if (l->remote < 0 && !l->down.len)
        zk_link_close(l);
}

void zk_link_poll(const struct zk_link *l, struct pollfd fds[2])
{
    short local = POLLRDHUP, remote = POLLOUT;
    if (l->state == ZK_LINK_OPEN || l->state == ZK_LINK_ENDING) {
        remote = (l->down.len ? 0 : POLLIN) | (is_pending(l) ? POLLOUT : 0);
        if (l->tls->ready)
            local = (l->down.len ? POLLOUT : 0) | (is_pending(l) || l->remote < 0 ? 0 : POLLIN);
    }
    /* Without events a socket that was closed would still be reported, again and again. */
    bool closed = l->state == ZK_LINK_CLOSED;
    fds[0] = (struct pollfd){.fd = closed || !local ? -1 : l->local, .events = local};
    fds[1] = (struct pollfd){.fd = closed || !remote ? -1 : l->remote, .events = remote};
}

static void on_time(struct zk_link *l)
{
    if (l->state == ZK_LINK_CONNECTING)
        try_next(l, ETIMEDOUT);
    else
        give_up(l, "the server does not answer the TLS handshake");
}

void zk_link_step(struct zk_link *l, const struct pollfd fds[2])
{
    enum { READABLE = POLLIN | POLLHUP | POLLERR };
    bool ready = l->tls && l->tls->ready;
    if (l->state == ZK_LINK_CLOSED)
        return;
    if (!ready && fds[0].revents)
        zk_link_close(l); /* libzookeeper has closed its socket */
    else if (l->state == ZK_LINK_CONNECTING && fds[1].revents)
        on_connected(l);
    else if (l->state != ZK_LINK_CONNECTING && fds[1].events & POLLIN && fds[1].revents & READABLE)
        read_remote(l);
    if (l->state == ZK_LINK_OPEN && ready && fds[0].events & POLLIN && fds[0].revents & READABLE &&
        l->remote >= 0)
        read_local(l);
    if (l->state == ZK_LINK_OPEN || l->state == ZK_LINK_ENDING)
        flush(l);
    if (l->state != ZK_LINK_CLOSED && clock_boot_ms() >= l->deadline_ms)
        on_time(l);
}
