/*
 * Long answers, a slice at a time: each is made when the client has read the one before, so a
 * connection holds one, and other requests have their turn in between.
 *
 * What is to be done later is queued. Each turn of the loop works on the queue for TURN_NS, or does
 * one thing, however many clients wait for something: then all others have their turn. The idle
 * handle keeps the loop from waiting while there is more.
 */
#include "base/uv_check.h"
#include "http/conn.h"

enum {
    TURN_NS = 2 * 1000 * 1000,
    SHORT_LEN = 4 * 1024, /* of a slice while there is little memory */
};

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* the queue is worked on before the loop waits */
}

void slices_open(struct http_server *s)
{
    UV_CHECK(uv_idle_init(s->loop, &s->busy));
    s->busy.data = s;
    TAILQ_INIT(&s->later);
}

void http_later(struct http_request *r, route_fn *next)
{
    struct exchange *x = (struct exchange *)r;
    struct http_server *s = x->server;
    if (!x->later)
        TAILQ_INSERT_TAIL(&s->later, x, later_link);
    x->later = next;
    UV_CHECK(uv_idle_start(&s->busy, on_idle));
}

void slices_leave(struct exchange *x)
{
    if (x->later)
        TAILQ_REMOVE(&x->server->later, x, later_link);
    x->later = NULL;
}

void slices_run(struct http_server *s)
{
    struct exchange *x;
    uint64_t end = TAILQ_EMPTY(&s->later) ? 0 : uv_hrtime() + TURN_NS;
    while ((x = TAILQ_FIRST(&s->later))) {
        route_fn *next = x->later;
        slices_leave(x);
        next(&x->request);
        if (uv_hrtime() >= end)
            break;
    }
    if (TAILQ_EMPTY(&s->later))
        uv_idle_stop(&s->busy);
}

/* Slices. */

size_t http_slice_len(const struct http_request *r)
{
    return memory_is_short(((const struct exchange *)r)->server) ? SHORT_LEN : HTTP_SLICE_LEN;
}

void http_slice_begin(struct buf *b)
{
    if (b->len) {
        b->p[0] = b->p[b->len - 1];
        b->len = 1;
    }
}

static void on_drained(struct http_request *r)
{
    http_later(r, ((struct exchange *)r)->next_slice);
}

bool http_reply_slice(struct http_request *r, const struct buf *b, route_fn *next)
{
    struct exchange *x = (struct exchange *)r;
    struct str json = buf_str(b);
    if (!x->streaming && !next) {
        http_reply(r, 200, json);
        return false;
    }
    if (x->streaming)
        json = (struct str){json.p + 1, json.len - 1};
    else if (memory_refuses_answer(x, 200, json.len) || !http_stream_begin(r, "application/json"))
        return false;
    stream_put(x, json);
    x->next_slice = next;
    r->drained = on_drained;
    if (next && !json.len)
        http_later(r, next);
    if (next)
        return true;
    stream_put(x, STR("\n"));
    http_stream_end(r);
    return false;
}
