/* The listener, and its wake-ups: the gate has moved, a watch has fired, a session has ended. */
#include "keeper/wire/wire.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/uv_check.h"
#include "keeper/journal/record.h"
#include "keeper/wire/wire_impl.h"

void wire_note(struct wire_conn *c)
{
    if (c->noted || c->closing)
        return;
    c->noted = true;
    LIST_INSERT_HEAD(&c->w->noted, c, noted_link);
}

void wire_unnote(struct wire_conn *c)
{
    if (c->noted)
        LIST_REMOVE(c, noted_link);
    c->noted = false;
}

void wire_wait_for_gate(struct wire_conn *c, int64_t lsn)
{
    wire_note(c);
    if (!gate_subscribe(&c->w->l->gate, &c->w->gate_waiter, lsn))
        uv_async_send(&c->w->news);
}

/*
 * Sends what may leave now, or closes; a connection that still waits for the disk is noted again.
 */
static void look_at(struct wire_conn *c, bool ended)
{
    if (ended || gate_state(&c->w->l->gate, 0) < 0) /* or no answer will ever leave */
        wire_conn_close(c);
    else
        wire_conn_flush(c);
    if (c->closing || !c->barrier_count)
        return;
    LOCKED(&c->w->l->lock);
    wire_wait_for_gate(c, c->barriers[c->barrier_first].lsn);
}

/* Looks at the noted connections only: thousands of idle ones must cost nothing. */
static void on_news(uv_async_t *news)
{
    struct wire *w = news->data;
    struct wire_conn *c;
    wire_accept_more(w);
    pthread_mutex_lock(&w->l->lock);
    while ((c = LIST_FIRST(&w->noted))) {
        LIST_REMOVE(c, noted_link);
        LIST_INSERT_HEAD(&w->called, c, noted_link);
    }
    while ((c = LIST_FIRST(&w->called))) {
        bool ended = c->ended && !c->close_when_sent;
        wire_unnote(c);
        wire_conn_put_events(c);
        pthread_mutex_unlock(&w->l->lock);
        look_at(c, ended);
        pthread_mutex_lock(&w->l->lock);
    }
    pthread_mutex_unlock(&w->l->lock);
}

static void on_gate_moved(void *arg)
{
    uv_async_send(&((struct wire *)arg)->news);
}

static void on_session_ended(void *arg, int64_t session)
{
    struct wire *w = arg;
    struct wire_conn *c;
    TAILQ_FOREACH(c, &w->conns, link)
        if (c->session == session) {
            c->ended = true;
            wire_note(c);
            uv_async_send(&w->news);
        }
}

/* Both families have it at the same place. */
int wire_port(const struct sockaddr_storage *address)
{
    return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

_Static_assert(WIRE_PACKET_LIMIT <= (int)RECORD_MAX, "a change would not fit into a record");

static struct wire_options with_defaults(struct wire_options o)
{
    const struct {
        int64_t *value, otherwise;
    } limits[] = {
        {&o.packet_max, WIRE_PACKET_MAX},
        {&o.connections_max, WIRE_CONNECTIONS_MAX},
        {&o.sessions_max, WIRE_SESSIONS_MAX},
        {&o.memory_max, WIRE_MEMORY_MAX},
        {&o.timeout_min_ms, KEEPER_TIMEOUT_MIN_MS},
        {&o.timeout_max_ms, KEEPER_TIMEOUT_MAX_MS},
        {&o.hello_ms, WIRE_HELLO_MS},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (!*limits[i].value)
            *limits[i].value = limits[i].otherwise;
    if (!o.words)
        o.words = wire_words_default();
    return o;
}

static int listen_on(uv_tcp_t *listener, const struct sockaddr_storage *address, int fd,
                     char name[64])
{
    struct sockaddr_storage bound = *address;
    int len = sizeof bound;
    char host[48];
    unsigned flags = address->ss_family == AF_INET6 ? UV_TCP_IPV6ONLY : 0;
    int err = fd ? uv_tcp_open(listener, fd)
                 : uv_tcp_bind(listener, (const struct sockaddr *)address, flags);
    if (!err)
        err = uv_listen((uv_stream_t *)listener, WIRE_BACKLOG, wire_accept);
    if (!err)
        err = uv_tcp_getsockname(listener, (struct sockaddr *)&bound, &len);
    uv_ip_name((struct sockaddr *)&bound, host, sizeof host);
    snprintf(name, 64, bound.ss_family == AF_INET6 ? "[%s]:%d" : "%s:%d", host, wire_port(&bound));
    return err;
}

static struct wire *wire_new(uv_loop_t *loop, const struct wire_options *o)
{
    struct wire *w = mem_zalloc(sizeof *w);
    w->o = with_defaults(*o);
    wire_door_open(w);
    w->started_ms = clock_boot_ms();
    w->trace_mask = WIRE_TRACE_MASK;
    TAILQ_INIT(&w->conns);
    TAILQ_INIT(&w->holders);
    UV_CHECK(uv_async_init(loop, &w->news, on_news));
    w->news.data = w;
    return w;
}

int wire_listen(uv_loop_t *loop, const struct wire_options *o, struct wire **ret_wire,
                struct err_info *ret_error)
{
    struct wire *w = wire_new(loop, o);
    int err = o->super_file ? wire_read_super(o, &w->super, ret_error) : 0;
    for (size_t i = 0; !err && i < o->listen.count + o->tls_listen.count; i++) {
        bool is_tls = i >= o->listen.count;
        const struct option_addresses *from = is_tls ? &o->tls_listen : &o->listen;
        size_t at = is_tls ? i - o->listen.count : i;
        UV_CHECK(uv_tcp_init(loop, &w->listeners[i]));
        w->listeners[i].data = w;
        w->listener_count++;
        err = listen_on(&w->listeners[i], &from->items[at], from->fds[at], w->addresses[i]);
        if (err)
            err = err_set(ret_error, DROVER_IO, "cannot listen on %s: %s", w->addresses[i],
                          uv_strerror(err));
    }
    if (err) {
        wire_close(w);
        return err;
    }
    *ret_wire = w;
    return 0;
}

void wire_serve(struct wire *w, struct local *l)
{
    w->l = l;
    w->gate_waiter = (struct gate_waiter){.moved = on_gate_moved, .arg = w};
    engine_listen(l, on_session_ended, w);
    LOCKED(&l->lock);
    l->tree.enforces_quotas = w->o.enforce_quota;
}

int wire_prepare(const struct wire *w, const char *super_file, char **ret_super,
                 struct err_info *ret_error)
{
    struct wire_options o = {.super_file = super_file, .digest = w->o.digest};
    *ret_super = NULL;
    return super_file ? wire_read_super(&o, ret_super, ret_error) : 0;
}

void wire_change(struct wire *w, const struct wire_options *o, char *super)
{
    struct wire_options now = w->o;
    now.packet_max = o->packet_max;
    now.connections_max = o->connections_max;
    now.connections_per_address = o->connections_per_address;
    now.sessions_max = o->sessions_max;
    now.memory_max = o->memory_max;
    now.timeout_min_ms = o->timeout_min_ms;
    now.timeout_max_ms = o->timeout_max_ms;
    now.hello_ms = o->hello_ms;
    now.words = o->words;
    now.enforce_quota = o->enforce_quota;
    w->o = with_defaults(now);
    w->door.max = (size_t)w->o.connections_max;
    w->door.max_of_address = (size_t)w->o.connections_per_address;
    free(w->super);
    w->super = super;
    LOCKED(&w->l->lock);
    w->l->tree.enforces_quotas = now.enforce_quota;
}

void wire_leave(struct wire *w)
{
    engine_listen(w->l, NULL, NULL);
    LOCKED(&w->l->lock);
    gate_unsubscribe(&w->gate_waiter);
}

const char *wire_address(const struct wire *w, size_t i)
{
    return i < w->listener_count ? w->addresses[i] : NULL;
}

bool wire_is_tls(const struct wire *w, size_t i)
{
    return i >= w->o.listen.count;
}

static void free_if_closed(struct wire *w)
{
    if (w->listener_count)
        return;
    buf_release(&w->head);
    buf_release(&w->body);
    free(w->super);
    free(w);
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct wire *w = handle->data;
    w->listener_count--;
    free_if_closed(w);
}

/* Connections first: they point here. */
static void on_news_closed(uv_handle_t *handle)
{
    struct wire *w = handle->data;
    for (size_t i = 0; i < w->listener_count; i++)
        uv_close((uv_handle_t *)&w->listeners[i], on_listener_closed);
    free_if_closed(w);
}

void wire_close(struct wire *w)
{
    struct wire_conn *c;
    if (w->l)
        wire_leave(w);
    TAILQ_FOREACH(c, &w->conns, link)
        wire_conn_close(c);
    uv_close((uv_handle_t *)&w->news, on_news_closed);
}
