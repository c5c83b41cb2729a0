/*
 * One connection. Every event (bytes, an answer, a finished write) ends in conn_pump(), which
 * parses the bytes that have arrived into requests, writes the answers that are ready, and decides
 * what the connection waits for next. Nothing else decides, so events cannot interleave in
 * different orders.
 *
 * Requests are handled as they are read, but answers are written after the loop has read from all
 * connections: the clients then wake together instead of one by one, which costs less on both
 * sides.
 *
 * After the last answer the server shuts down its side and discards what the client still sends
 * until the client closes, too. Closing with unread bytes would make the kernel send a reset, which
 * can overtake the answer.
 */
#include "http/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "base/uv_check.h"

enum {
    KEEP_CAP = 4096, /* an empty buffer larger than this is freed */
};

static void make_due(struct conn *c)
{
    struct http_server *s = c->server;
    if (c->due_link || c->closing)
        return;
    c->due_next = s->due;
    c->due_link = &s->due;
    if (s->due)
        s->due->due_link = &c->due_next;
    s->due = c;
}

static void make_not_due(struct conn *c)
{
    if (!c->due_link)
        return;
    *c->due_link = c->due_next;
    if (c->due_next)
        c->due_next->due_link = c->due_link;
    c->due_link = NULL;
}

static void pump_due(struct http_server *s)
{
    while (s->due) {
        struct conn *c = s->due;
        make_not_due(c);
        conn_pump(c);
    }
}

void conns_pump(uv_prepare_t *rest)
{
    struct http_server *s = rest->data;
    admit_more(s);
    slices_run(s);
    pump_due(s);
    if (s->options.rest && s->options.rest(s->options.rest_arg))
        pump_due(s);
}

void buf_empty(struct buf *b)
{
    b->len = 0;
    if (b->cap > KEEP_CAP)
        buf_release(b);
}

void conn_answered(struct conn *c)
{
    while (c->first && c->first->answered) {
        buf_put(&c->out, c->first->answer.p, c->first->answer.len);
        exchange_drop_first(c);
    }
    if (c->first && c->first->streaming) {
        buf_put(&c->out, c->first->answer.p, c->first->answer.len);
        buf_empty(&c->first->answer);
    }
    memory_count_conn(c);
    if (!c->cutting)
        make_due(c);
}

/* Writing. */

/*
 * uv_try_write() with less overhead. Returns the bytes written, 0 when the socket is full, or -1.
 */
static ssize_t send_now(const struct conn *c, const struct buf *out)
{
    ssize_t sent;
    do
        sent = send(c->fd, out->p, out->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 && (errno == EAGAIN || errno == ENOBUFS) ? 0 : sent;
}

static void on_written(uv_write_t *w, int status)
{
    struct conn *c = w->data;
    buf_empty(&c->writing);
    c->phase = CONN_NONE; /* each write has its own timeout */
    if (status < 0)
        conn_close(c);
    else
        conn_pump(c);
}

static void write_out(struct conn *c)
{
    if (c->closing || c->writing.len)
        return;
    struct buf *out = c->tls ? secure_out(c) : &c->out;
    if (!out->len)
        return;
    ssize_t sent = send_now(c, out);
    if (sent < 0) {
        conn_close(c);
        return;
    }
    if ((size_t)sent == out->len) {
        buf_empty(out);
        return;
    }
    buf_release(&c->writing);
    c->writing = *out;
    *out = (struct buf){0};
    uv_buf_t rest = uv_buf_init(c->writing.p + sent, (unsigned)(c->writing.len - (size_t)sent));
    c->write.data = c;
    if (uv_write(&c->write, (uv_stream_t *)&c->tcp, &rest, 1, on_written))
        conn_close(c);
}

static void on_shutdown(uv_shutdown_t *r, int status)
{
    (void)r;
    (void)status; /* the linger timeout ends it in any case */
}

static void end_if_done(struct conn *c)
{
    if (c->closing || c->lingering || !c->last_request || c->first || c->out.len || c->writing.len)
        return;
    if (c->tls) {
        tls_end(c->tls);
        write_out(c);
        if (c->closing || c->writing.len)
            return;
    }
    c->lingering = true;
    if (c->ended || uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shutdown))
        conn_close(c);
}

/* Time. */

static enum conn_phase phase_of(const struct conn *c)
{
    if (c->lingering)
        return CONN_LINGER;
    if (c->writing.len)
        return CONN_WRITE;
    if (c->tls && !c->tls->ready)
        return CONN_HANDSHAKE;
    if (c->denied)
        return CONN_DENIED;
    if (c->reading)
        return CONN_BODY;
    if (c->first)
        return CONN_BUSY;
    return c->in.len ? CONN_HEAD : CONN_IDLE;
}

static void on_timer(uv_timer_t *timer);

/*
 * When the deadline moves later, the timer keeps running and checks again when it fires: a request
 * then does not touch it.
 */
static void arm_timer(struct conn *c)
{
    uint64_t now = uv_now(c->tcp.loop), wait = topic_due_ms(c), due = c->deadline_ms;
    if (wait && (!due || wait < due))
        due = wait;
    if (due &&
        (!uv_is_active((uv_handle_t *)&c->timer) || now + uv_timer_get_due_in(&c->timer) > due))
        UV_CHECK(uv_timer_start(&c->timer, on_timer, due > now ? due - now : 0, 0));
}

/*
 * The timeout of a phase starts when the phase is entered; bytes that trickle in do not extend it.
 */
static void set_phase(struct conn *c, enum conn_phase phase)
{
    if (phase != c->phase) {
        const struct http_options *o = &c->server->options;
        const int64_t times_ms[] = {
            [CONN_HANDSHAKE] = o->request_timeout_ms,
            [CONN_IDLE] = o->idle_timeout_ms,
            [CONN_HEAD] = o->request_timeout_ms,
            [CONN_BODY] = o->request_timeout_ms,
            [CONN_BUSY] = 0, /* no timeout */
            [CONN_WRITE] = o->write_timeout_ms,
            [CONN_DENIED] = HTTP_DENIED_MS,
            [CONN_LINGER] = HTTP_LINGER_MS,
        };
        c->phase = phase;
        c->deadline_ms = times_ms[phase] ? uv_now(c->tcp.loop) + (uint64_t)times_ms[phase] : 0;
    }
    arm_timer(c);
}

static void on_timer(uv_timer_t *timer)
{
    struct conn *c = timer->data;
    uint64_t now = uv_now(timer->loop);
    topic_expire(c, now);
    if (!c->deadline_ms || c->deadline_ms > now)
        arm_timer(c);
    else if (c->phase == CONN_DENIED)
        access_deny(c->denied);
    else if (c->phase == CONN_BODY)
        exchange_refuse(c->reading, 408, "the body did not arrive in time");
    else if (c->phase == CONN_HEAD)
        exchange_refuse(exchange_new(c, "", 0), 408, "the request head did not arrive in time");
    else
        conn_close(c);
}

/* Reading. */

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *ret_buf)
{
    struct conn *c = h->data;
    (void)suggested;
    *ret_buf = uv_buf_init(c->server->read_space, sizeof c->server->read_space);
}

/*
 * The client has closed its side. If it still waits for an answer, it counts as gone: a task that
 * was given to it now would be lost until its lease ends.
 */
void conn_end(struct conn *c)
{
    c->last_request = c->ended = true;
    if (c->first || c->lingering || !c->writing.len)
        conn_close(c);
    else
        uv_read_stop((uv_stream_t *)&c->tcp);
}

void conn_receive(struct conn *c, struct str bytes)
{
    if (c->last_request)
        return;
    if (c->guest.refused) {
        exchange_refuse(exchange_new(c, "", 0), 503, "too many connections");
    } else {
        conn_take(c, bytes.p, bytes.len);
        make_due(c);
    }
}

static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct conn *c = stream->data;
    if (len < 0)
        conn_end(c);
    else if (len > 0)
        (c->tls ? secure_receive : conn_receive)(c, (struct str){buf->base, (size_t)len});
}

/* A connection that takes no further request keeps reading, to see the client close. */
static void set_reading(struct conn *c)
{
    bool paused = !conn_may_cut(c) && !c->last_request;
    if (paused == c->paused)
        return;
    c->paused = paused;
    if (paused)
        uv_read_stop((uv_stream_t *)&c->tcp);
    else
        UV_CHECK(uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read));
}

/* May close the connection. */
static void tell_drained(struct conn *c)
{
    struct exchange *x = c->first;
    if (!x || !x->undrained || c->out.len || c->writing.len)
        return;
    x->undrained = false;
    if (x->request.drained)
        x->request.drained(&x->request);
}

void conn_pump(struct conn *c)
{
    bool waits;
    do {
        waits = conn_cut(c);
        write_out(c);
    } while (waits && conn_may_cut(c));
    tell_drained(c);
    end_if_done(c);
    memory_count_conn(c);
    if (c->closing)
        return;
    set_reading(c);
    set_phase(c, phase_of(c));
}

/* Life. */

static void on_closed(uv_handle_t *h)
{
    struct conn *c = h->data;
    if (--c->open_handles)
        return;
    server_forget(c->server, c);
    identity_drop(c->who);
    tls_free(c->tls);
    buf_release(&c->credential);
    buf_release(&c->in);
    buf_release(&c->out);
    buf_release(&c->writing);
    free(c);
}

void conn_close(struct conn *c)
{
    if (c->closing)
        return;
    c->closing = true;
    make_not_due(c);
    c->reading = c->denied = NULL;
    while (c->first) {
        struct exchange *x = c->first;
        c->first = x->next;
        exchange_abandon(x);
    }
    c->last = NULL;
    c->queued = 0;
    memory_count_conn(c);
    uv_close((uv_handle_t *)&c->tcp, on_closed);
    uv_close((uv_handle_t *)&c->timer, on_closed);
}

void conn_finish(struct conn *c)
{
    if (c->closing)
        return;
    c->last_request = true;
    if (c->first || !c->writing.len)
        conn_close(c);
    else
        set_phase(c, CONN_LINGER);
}

void conn_accept(uv_stream_t *listener, int status)
{
    struct listener *l = listener->data;
    struct http_server *s = l->server;
    if (!admit_now(l, status))
        return;
    struct conn *c = mem_zalloc(sizeof *c);
    c->server = s;
    c->listener = l;
    c->open_handles = 2;
    UV_CHECK(uv_tcp_init(s->loop, &c->tcp));
    UV_CHECK(uv_timer_init(s->loop, &c->timer));
    c->tcp.data = c->timer.data = c;
    c->next = s->conns;
    if (c->next)
        c->next->prev = c;
    s->conns = c;
    if (++s->conn_count > s->conn_peak)
        s->conn_peak = s->conn_count;
    if (uv_accept(listener, (uv_stream_t *)&c->tcp) || uv_fileno((uv_handle_t *)&c->tcp, &c->fd) ||
        !admit(c)) {
        conn_close(c);
        return;
    }
    if (l->is_tls)
        c->tls = tls_new(s->options.tls);
    UV_CHECK(uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read));
    set_phase(c, c->guest.refused ? CONN_LINGER : phase_of(c));
}
