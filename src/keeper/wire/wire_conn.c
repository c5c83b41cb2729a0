/*
 * One connection.
 *
 * `in` collects bytes until a packet is complete. `out` collects answers, with barriers: positions
 * up to which they may leave once their LSN passes the gate. Because answers leave in order, a
 * barrier with a smaller LSN than the previous one is not needed.
 *
 * A client that does not read its answers, or is far ahead of the disk, is not read from until it
 * or the disk has caught up. Watch events cannot be held back: too many unread ones close the
 * connection.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/uv_check.h"
#include "keeper/wire/wire_impl.h"

enum { KEEP_MAX = 64 * 1024 }; /* larger empty buffers are freed */

static void buf_shrink(struct buf *b)
{
    if (!b->len && b->cap > KEEP_MAX)
        buf_release(b);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct wire_conn *c = handle->data;
    struct wire *w = c->w;
    if (++c->closed_handles < 2)
        return;
    for (size_t i = 0; i < c->who.count; i++)
        free((char *)c->ids[i].id.p);
    buf_release(&c->in);
    buf_release(&c->out);
    buf_release(&c->sending);
    buf_release(&c->events);
    free(c->barriers);
    free(c->token);
    pthread_mutex_lock(&w->l->lock); /* the end of a session walks the list on any thread */
    TAILQ_REMOVE(&w->conns, c, link);
    pthread_mutex_unlock(&w->l->lock);
    w->conn_count--;
    door_leave(&w->door, &c->guest);
    free(c);
}

void wire_conn_close(struct wire_conn *c)
{
    if (c->closing)
        return;
    pthread_mutex_lock(&c->w->l->lock);
    c->closing = true;
    c->w->unsent -= c->unsent;
    wire_watch_clear(c);
    wire_unnote(c);
    c->session = 0;
    pthread_mutex_unlock(&c->w->l->lock);
    wire_memory_count(c);
    uv_close((uv_handle_t *)&c->patience, on_handle_closed);
    uv_close((uv_handle_t *)&c->tcp, on_handle_closed);
}

/* Answers. */

static void add_barrier(struct wire_conn *c, int64_t lsn, uint64_t end)
{
    if (c->barrier_first && c->barrier_first + c->barrier_count == c->barrier_cap) {
        memmove(c->barriers, c->barriers + c->barrier_first,
                c->barrier_count * sizeof *c->barriers);
        c->barrier_first = 0;
    }
    mem_grow(c->barriers, c->barrier_first + c->barrier_count, c->barrier_cap);
    c->barriers[c->barrier_first + c->barrier_count++] =
        (struct wire_barrier){.lsn = lsn, .end = end};
    wire_wait_for_gate(c, lsn);
}

void wire_conn_put(struct wire_conn *c, struct str packet, int64_t lsn)
{
    struct wire_barrier *last =
        c->barrier_count ? &c->barriers[c->barrier_first + c->barrier_count - 1] : NULL;
    if (!packet.len)
        return;
    buf_put_str(&c->out, packet);
    uint64_t end = c->out_base + c->out.len;
    if (last && last->lsn >= lsn)
        last->end = end;
    else if (last || (lsn && gate_state(&c->w->l->gate, lsn) != 1))
        add_barrier(c, lsn, end);
    else
        c->out_open = end;
}

void wire_conn_answered(struct wire_conn *c, const char *op, int64_t xid, int64_t zxid,
                        enum wire_latency_kind kind)
{
    struct wire_waits *waits = c->barrier_count
                                   ? c->barriers[c->barrier_first + c->barrier_count - 1].waits
                                   : c->open_waits;
    wire_waits_add(&waits[kind], c->w->now_ms);
    c->unsent++;
    c->w->unsent++;
    c->traffic.last_op = op;
    c->traffic.last_zxid = zxid + 1;
    if (xid >= 0)
        c->traffic.last_xid = xid + 1;
}

void wire_conn_put_events(struct wire_conn *c)
{
    if (!c->events.len)
        return;
    wire_count_sent(c, c->event_count);
    c->event_count = 0;
    wire_conn_put(c, buf_str(&c->events), c->events_lsn);
    c->event_bytes += c->events.len;
    c->events.len = 0;
    buf_shrink(&c->events);
}

static void open_barriers(struct wire_conn *c)
{
    while (c->barrier_count && gate_state(&c->w->l->gate, c->barriers[c->barrier_first].lsn) == 1) {
        c->out_open = c->barriers[c->barrier_first].end;
        wire_waits_move(c->open_waits, c->barriers[c->barrier_first].waits);
        c->barrier_first++;
        c->barrier_count--;
    }
    if (!c->barrier_count)
        c->barrier_first = 0;
}

static void on_written(uv_write_t *write, int status)
{
    struct wire_conn *c = write->data;
    c->writing = false;
    c->sending.len = 0;
    if (status < 0)
        wire_conn_close(c);
    else
        wire_conn_flush(c);
}

/* Removes the first len bytes of the output. */
static void out_consume(struct wire_conn *c, size_t len)
{
    memmove(c->out.p, c->out.p + len, c->out.len - len);
    c->out.len -= len;
    c->out_base += len;
}

static void send_open(struct wire_conn *c)
{
    size_t len = (size_t)(c->out_open - c->out_base);
    uv_buf_t bytes = uv_buf_init(c->out.p, (unsigned)len);
    int sent = uv_try_write((uv_stream_t *)&c->tcp, &bytes, 1);

    if (sent < 0 && sent != UV_EAGAIN) {
        wire_conn_close(c);
        return;
    }
    sent = sent < 0 ? 0 : sent;
    if ((size_t)sent < len) { /* the rest is written when the socket has room */
        c->sending.len = 0;
        buf_put(&c->sending, c->out.p + sent, len - (size_t)sent);
        bytes = uv_buf_init(c->sending.p, (unsigned)c->sending.len);
        c->write.data = c;
        c->writing = uv_write(&c->write, (uv_stream_t *)&c->tcp, &bytes, 1, on_written) == 0;
        if (!c->writing) {
            wire_conn_close(c);
            return;
        }
    }
    out_consume(c, len);
    c->w->totals.sent_bytes += len;
    if (c->unsent)
        wire_waits_settle(c, clock_boot_ms());
}

/* Requests. */

static bool is_behind(const struct wire_conn *c)
{
    return c->out.len + c->sending.len > WIRE_UNSENT_MAX || c->barrier_count > WIRE_OUTSTANDING_MAX;
}

/* Moves the remaining bytes to the front. */
static void in_compact(struct wire_conn *c)
{
    if (!c->in_at)
        return;
    memmove(c->in.p, c->in.p + c->in_at, c->in.len - c->in_at);
    c->in.len -= c->in_at;
    c->in_at = 0;
    buf_shrink(&c->in);
}

/* False: there is no complete packet. May close the connection. */
static bool take_packet(struct wire_conn *c)
{
    struct reader r = {c->in.p + c->in_at, c->in.len - c->in_at, false};
    int32_t len = jute_i32(&r);

    if (r.bad)
        return false;
    if (!c->session && !c->traffic.received) {
        enum wire_word_state word = wire_word(c, c->in.p + c->in_at, c->in.len - c->in_at);
        if (word == WIRE_WORD_DONE)
            c->in.len = 0;
        if (word != WIRE_WORD_NONE)
            return false;
    }
    if (len < 0 || len > c->w->o.packet_max) {
        wire_conn_close(c);
        return false;
    }
    struct str packet = reader_bytes(&r, (size_t)len);
    if (r.bad)
        return false;
    c->in_at += 4 + (size_t)len;
    wire_count_received(c);
    c->w->totals.received_bytes += 4 + (size_t)len;
    bool good = c->session ? wire_request(c, packet) : wire_hello(c, packet);
    if (!good)
        wire_conn_close(c);
    return good;
}

static void take_packets(struct wire_conn *c)
{
    c->w->now_ms = clock_boot_ms();
    while (!c->closing && !c->close_when_sent && !c->paused && take_packet(c))
        if (is_behind(c)) {
            c->paused = true;
            uv_read_stop((uv_stream_t *)&c->tcp);
        }
    if (!c->closing)
        in_compact(c);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    struct wire_conn *c = (struct wire_conn *)handle;
    buf_reserve(&c->in, suggested);
    *ret = uv_buf_init(c->in.p + c->in.len, (unsigned)(c->in.cap - c->in.len));
}

static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *bytes)
{
    struct wire_conn *c = (struct wire_conn *)stream;
    (void)bytes;
    if (len < 0) {
        wire_conn_close(c);
        return;
    }
    c->in.len += (size_t)len;
    take_packets(c);
    wire_conn_flush(c);
}

static void start_reading(struct wire_conn *c)
{
    if (uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) < 0)
        wire_conn_close(c);
}

/* Sending. */

/* Resumes reading after a pause. True: there may be new answers. */
static bool resume(struct wire_conn *c)
{
    if (!c->paused || is_behind(c))
        return false;
    c->paused = false;
    take_packets(c);
    if (!c->closing && !c->paused && !c->close_when_sent)
        start_reading(c);
    return !c->closing;
}

/* Sends what may leave. False: the socket takes no more for now. */
static bool send_some(struct wire_conn *c)
{
    if (c->writing && c->event_bytes > WIRE_EVENTS_MAX)
        wire_conn_close(c);
    if (c->closing || c->writing)
        return false;
    open_barriers(c);
    if (c->out_open > c->out_base)
        send_open(c);
    if (!c->out.len)
        c->event_bytes = 0;
    if (c->closing || c->writing)
        return false;
    if (c->close_when_sent && !c->out.len)
        wire_conn_close(c);
    buf_shrink(&c->out);
    buf_shrink(&c->sending);
    return !c->closing;
}

void wire_conn_flush(struct wire_conn *c)
{
    while (send_some(c) && resume(c))
        continue;
    wire_memory_count(c);
}

static void on_patience_over(uv_timer_t *timer)
{
    struct wire_conn *c = timer->data;
    c->w->totals.timeouts += !c->close_when_sent;
    wire_conn_close(c);
}

void wire_conn_finish(struct wire_conn *c)
{
    c->close_when_sent = true;
    uv_read_stop((uv_stream_t *)&c->tcp);
    UV_CHECK(uv_timer_start(&c->patience, on_patience_over, WIRE_FINISH_MS, 0));
}

static struct wire_conn *conn_new(struct wire *w)
{
    struct wire_conn *c = mem_zalloc(sizeof *c);
    c->w = w;
    c->who = (struct acl_who){
        .ids = c->ids, .all = w->o.skip_acl, .no_digest = w->o.digest == WIRE_NO_DIGEST};
    c->since_ms = clock_wall_ms();
    UV_CHECK(uv_tcp_init(w->news.loop, &c->tcp));
    UV_CHECK(uv_timer_init(w->news.loop, &c->patience));
    c->tcp.data = c->patience.data = c;
    pthread_mutex_lock(&w->l->lock);
    TAILQ_INSERT_HEAD(&w->conns, c, link);
    pthread_mutex_unlock(&w->l->lock);
    w->conn_count++;
    return c;
}

static void conn_start(struct wire_conn *c, int err)
{
    if (err < 0 || !wire_let_in(c)) {
        wire_conn_close(c);
        return;
    }
    uv_tcp_nodelay(&c->tcp, 1);
    UV_CHECK(uv_timer_start(&c->patience, on_patience_over, (uint64_t)c->w->o.hello_ms, 0));
    start_reading(c);
}

void wire_conn_accept(struct wire *w, uv_stream_t *listener)
{
    struct wire_conn *c = conn_new(w);
    conn_start(c, uv_accept(listener, (uv_stream_t *)&c->tcp));
}

void wire_conn_open(struct wire *w, int fd)
{
    struct wire_conn *c = conn_new(w);
    conn_start(c, uv_tcp_open(&c->tcp, fd));
}
