/*
 * The memory of requests and answers, all together.
 *
 * Counted are bodies as they arrive, the values that are read from them, bytes that are not parsed
 * yet, and answers that are not sent yet. What would be too much is refused before it is taken: a
 * body gets 503 and is discarded as it arrives; so does a read whose answer is long. The answer to
 * a change leaves in any case, since the change has happened. A connection that has answers to read
 * is not read from meanwhile, so it adds one answer at most.
 *
 * An eighth is kept back for what is small: health checks, claims and deletions pass while others
 * send or read much. Requests without a body are never refused unless their answer is long.
 *
 * Not counted are heads, the first JSON_STEP values of a body, and what a handler needs for itself.
 * All are bounded for each request.
 */
#include "http/conn.h"

enum { SMALL_LEN = 64 * 1024 };

void memory_open(struct http_server *s, size_t max)
{
    atomic_store(&s->held_max, max ? max : HTTP_MEMORY_MAX);
}

static size_t all_of(const struct http_server *s)
{
    return atomic_load_explicit(&s->held_max, memory_order_relaxed);
}

size_t memory_large_max(const struct http_server *s)
{
    size_t all = all_of(s);
    return all - all / 8;
}

bool memory_is_short(const struct http_server *s)
{
    return atomic_load_explicit(&s->held, memory_order_relaxed) >= all_of(s);
}

void memory_set(struct http_server *s, size_t *held, size_t now)
{
    if (now != *held)
        atomic_fetch_add_explicit(&s->held, now - *held, memory_order_relaxed);
    *held = now;
}

bool memory_fits(const struct http_server *s, size_t held, size_t now)
{
    size_t others = atomic_load_explicit(&s->held, memory_order_relaxed) - held;
    size_t max = now <= SMALL_LEN ? all_of(s) : memory_large_max(s);
    return others < max && now <= max - others;
}

bool memory_take(struct exchange *x, size_t now)
{
    bool fits = memory_fits(x->server, x->held, now);
    if (fits)
        memory_set(x->server, &x->held, now);
    return fits;
}

void memory_count_conn(struct conn *c)
{
    memory_set(c->server, &c->held, c->closing ? 0 : c->in.len + c->out.len + c->writing.len);
}

/* Refusing. */

static const char SHORT[] = "the memory for requests and answers is in use: try again";

void memory_refuse_body(struct exchange *x)
{
    x->limit = HTTP_LIMIT_MEMORY;
    buf_release(&x->body);
    memory_set(x->server, &x->held, 0);
    exchange_refuse(x, 503, SHORT);
}

void http_reply_short(struct http_request *r)
{
    http_reply_busy(r, HTTP_LIMIT_MEMORY, SHORT);
}

bool memory_refuses_answer(struct exchange *x, int status, size_t len)
{
    if (len <= SMALL_LEN || status != 200 || x->request.head.method != METHOD_GET ||
        memory_fits(x->server, 0, len))
        return false;
    http_reply_short(&x->request);
    return true;
}

bool http_take_room(struct http_request *r, size_t len)
{
    struct exchange *x = (struct exchange *)r;
    return memory_take(x, x->held + len);
}

/* Reading a body: each step takes its memory first. */

static bool take_step(void *arg)
{
    struct exchange *x = arg;
    return memory_take(x, x->held + JSON_STEP * JSON_VALUE_LEN);
}

int memory_read(struct exchange *x, struct route_field_error *e)
{
    struct http_request *r = &x->request;
    bool large = x->row->route->flags & ROUTE_LARGE;
    struct json_limit limit = {
        .values_max = large ? HTTP_LARGE_VALUES_MAX : HTTP_VALUES_MAX, .take = take_step, .arg = x};
    memory_set(x->server, &x->held, x->body.len);
    int err = request_read(r, x->row, &limit, e);
    if (err == DROVER_TOO_MANY &&
        x->held + JSON_STEP * JSON_VALUE_LEN > memory_large_max(x->server)) {
        err = err_set(&e->why, DROVER_TOO_BIG, "the body has too many values for the memory");
    } else if (err == DROVER_TOO_MANY) {
        x->limit = HTTP_LIMIT_MEMORY;
        err_set(&e->why, err, "%s", SHORT);
    }
    if (x->body.len > SMALL_LEN)
        memory_set(x->server, &x->held, x->body.len + arena_size(&r->arena));
    return err;
}

/* Metrics. */

static double read_held(void *arg)
{
    const struct http_server *s = arg;
    return (double)atomic_load(&s->held);
}

static double read_max(void *arg)
{
    return (double)all_of(arg);
}

void memory_metrics(struct http_server *s, struct metrics *m)
{
    metrics_read(m, "drover_http_memory_bytes", "gauge", NULL,
                 "Memory of requests and answers: bodies, their values, answers not sent yet.",
                 read_held, s);
    metrics_read(m, "drover_http_memory_max_bytes", "gauge", NULL, "The most that it may be.",
                 read_max, s);
}
