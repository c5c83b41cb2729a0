/*
 * From bytes to requests: parses what has arrived on a connection into heads and bodies and passes
 * each request to its handler. A request that is refused here ends its connection: the bytes that
 * follow cannot be trusted.
 */
#include <stdlib.h>
#include <strings.h>

#include "base/mem.h"
#include "http/conn.h"

enum {
    SPARE_MAX = 128,
    READ_LEN_MAX = 64 * 1024, /* longer bodies are read by a worker: that takes milliseconds */
};

/* Clears all but the arena, the buffers and the table of header fields. */
static void clear(struct exchange *x)
{
    struct http_request *r = &x->request;
    memset(r->params, 0, (size_t)((char *)r->head.fields - (char *)r->params));
    memset(&x->conn, 0, offsetof(struct exchange, text) - offsetof(struct exchange, conn));
}

struct exchange *exchange_new(struct conn *c, const char *head, size_t len)
{
    struct http_server *s = c->server;
    struct exchange *x = s->spare;
    if (x) {
        s->spare = x->next;
        s->spare_count--;
        clear(x);
    } else {
        x = mem_zalloc(sizeof *x);
        x->server = s;
    }
    buf_put(&x->text, head, len);
    x->conn = c;
    x->came_ns = uv_hrtime();
    *(c->last ? &c->last->next : &c->first) = x;
    c->last = x;
    c->queued++;
    return x;
}

static void release(struct exchange *x)
{
    buf_release(&x->text);
    buf_release(&x->body);
    buf_release(&x->fields);
    buf_release(&x->reply);
    buf_release(&x->answer);
    arena_release(&x->request.arena);
    free(x);
}

void exchange_free(struct exchange *x)
{
    struct http_server *s = x->server;
    identity_drop(x->request.who);
    x->request.who = NULL;
    limits_leave(x);
    slices_leave(x);
    memory_set(s, &x->held, 0);
    if (s->spare_count == SPARE_MAX) {
        release(x);
        return;
    }
    buf_empty(&x->text);
    buf_empty(&x->body);
    buf_empty(&x->fields);
    buf_empty(&x->reply);
    buf_empty(&x->answer);
    arena_reset(&x->request.arena);
    x->next = s->spare;
    s->spare = x;
    s->spare_count++;
}

void exchange_free_spare(struct http_server *s)
{
    struct exchange *next;
    for (struct exchange *x = s->spare; x; x = next) {
        next = x->next;
        release(x);
    }
}

void exchange_drop_first(struct conn *c)
{
    struct exchange *x = c->first;
    c->first = x->next;
    if (!c->first)
        c->last = NULL;
    c->queued--;
    exchange_free(x);
}

/* One that is away, or woken and posted, is freed when it returns. */
void exchange_abandon(struct exchange *x)
{
    if (x->away || (x->waits && !topic_leave(x))) {
        x->conn = NULL;
        x->server->detached++;
        return;
    }
    if (x->waits)
        topic_unpark(x);
    access_answered(x, 0);
    if (!x->answered && x->request.gone)
        x->request.gone(&x->request);
    exchange_free(x);
}

static void handle_read(struct exchange *x, int err, const struct route_field_error *e)
{
    struct http_request *r = &x->request;
    if (err)
        reply_with(r, drover_err_http_status(err), drover_err_name(err),
                   e->field[0] ? e->field : NULL, e->why.text);
    else if (access_reaches(x))
        x->row->route->handler(r);
}

void request_handle(struct exchange *x)
{
    struct route_field_error e;
    e.field[0] = '\0';
    int err = memory_read(x, &e);
    handle_read(x, err, &e);
}

void request_read_away(struct exchange *x)
{
    x->read_why = arena_zalloc(&x->request.arena, sizeof *x->read_why);
    x->read_err = memory_read(x, x->read_why);
}

void request_was_read(struct exchange *x)
{
    struct conn *c = x->conn;
    x->away = x->reads = false;
    c->away--;
    handle_read(x, x->read_err, x->read_why);
    conn_answered(c); /* goes on with what has arrived meanwhile */
}

void exchange_run(struct exchange *x)
{
    struct http_request *r = &x->request;
    arena_reset(&r->arena);
    x->fields.len = 0;
    r->arg = x->row->table->arg;
    r->handler_data = NULL;
    if (!x->parked_before)
        r->kept = 0;
    bool on_worker = x->row->route->flags & ROUTE_WORKER;
    x->reads = !on_worker && x->body.len > READ_LEN_MAX;
    x->conn->away += x->reads;
    if (!on_worker && !x->reads) {
        request_handle(x);
    } else if (!work_submit(x)) {
        x->conn->away -= x->reads;
        limits_refuse_wait(x);
    }
}

void http_take_memory(struct http_request *r, struct http_memory *ret_memory)
{
    struct exchange *x = (struct exchange *)r;
    *ret_memory = (struct http_memory){r->arena, x->text, x->body, r->who};
    r->arena = (struct arena){0};
    r->who = NULL;
    x->text = x->body = (struct buf){0};
}

void http_memory_release(struct http_memory *m)
{
    arena_release(&m->arena);
    buf_release(&m->head);
    buf_release(&m->body);
    identity_drop(m->who);
    *m = (struct http_memory){0};
}

/* From bytes to requests. */

void exchange_refuse(struct exchange *x, int status, const char *reason)
{
    x->closes = true;
    x->conn->reading = NULL;
    x->conn->last_request = true;
    reply_with(&x->request, status, status == 503 ? drover_err_name(DROVER_TOO_MANY) : NULL, NULL,
               reason);
}

/* Whether a type is this one, with or without parameters. */
static bool is_type(struct str type, struct str wanted)
{
    return type.len >= wanted.len && !strncasecmp(type.p, wanted.p, wanted.len) &&
           (type.len == wanted.len || strchr(" \t;", type.p[wanted.len]));
}

/*
 * Changes are application/json, or application/octet-stream: a page from another origin cannot send
 * either without a preflight request, which is not answered. Of the methods it could send without
 * one, only POST changes anything.
 */
static bool is_acceptable(const struct http_request *r, bool bytes)
{
    if (r->head.method == METHOD_GET || (r->head.method != METHOD_POST && !r->body.len))
        return true;
    const struct str *type = head_field(&r->head, "Content-Type");
    return type &&
           is_type(*type, bytes ? STR("application/octet-stream") : STR("application/json"));
}

static void dispatch(struct exchange *x)
{
    struct conn *c = x->conn;
    c->reading = NULL;
    c->phase = CONN_NONE; /* the timeout for the next request starts anew */
    if (!x->request.head.keep_alive)
        c->last_request = true;
    x->request.body = buf_str(&x->body);
    bool bytes = x->row->route->flags & ROUTE_BYTES;
    if (!is_acceptable(&x->request, bytes))
        http_reply_error(&x->request, 415,
                         bytes
                             ? "the body must be bytes, with the header Content-Type: "
                               "application/octet-stream"
                             : "the body must be JSON, with the header Content-Type: "
                               "application/json (curl: add -H 'Content-Type: application/json')");
    else
        exchange_run(x);
}

/* No route. The connection stays open if there is no body to skip. */
static void answer_no_route(struct exchange *x, unsigned allow)
{
    CLEANUP(buf_release) struct buf list = {0};
    x->conn->phase = CONN_NONE;
    if (x->request.head.chunked || x->request.head.content_len || !x->request.head.keep_alive)
        x->conn->last_request = true;
    if (!allow) {
        reply_with(&x->request, 404, "NO_ROUTE", NULL, "no such path");
        return;
    }
    route_put_allow(&list, allow);
    http_add_header(&x->request, "Allow", buf_str(&list));
    http_reply_error(&x->request, 405, "this path does not answer to this method");
}

static size_t body_len_max(const struct exchange *x)
{
    size_t max = x->row->route->flags & ROUTE_LARGE ? HTTP_LARGE_BODY_LEN_MAX : HTTP_BODY_LEN_MAX,
           room = memory_large_max(x->server);
    return max < room ? max : room;
}

/* The head is valid and has its route: dispatches the request, or waits for its body. */
static void begin_body(struct exchange *x)
{
    struct conn *c = x->conn;
    const struct head *h = &x->request.head;
    if (!h->chunked && !h->content_len) {
        dispatch(x);
        return;
    }
    c->reading = x;
    c->chunk = (struct chunk){0};
    if (h->expects_continue && x == c->first)
        buf_put_str(&c->out, STR("HTTP/1.1 100 Continue\r\n\r\n"));
}

/* Checks a parsed head and finds its route, unless the head came from the cache with it. */
static void begin(struct exchange *x)
{
    struct conn *c = x->conn;
    const struct head *h = &x->request.head;
    bool known = x->row;
    unsigned allow = 0;

    if (!listener_is_host(c, h->host)) {
        exchange_refuse(x, 421, "the Host is not one of this server's");
        return;
    }
    if (!known)
        x->row = router_find(&c->server->router, h->method, h->path, x->request.params, &allow);
    if (!access_check(x))
        return;
    if (!x->row) {
        answer_no_route(x, allow);
    } else if (h->content_len > body_len_max(x)) {
        exchange_refuse(x, 413, "the body is too long");
    } else if (!memory_fits(c->server, 0, h->content_len)) {
        memory_refuse_body(x);
    } else {
        if (!known)
            head_cache_add(&c->server->heads, buf_str(&x->text), h, x->row, x->request.params);
        begin_body(x);
    }
}

/* Parses a head. Returns its length, 0 when it is incomplete or refused. */
static size_t take_head(struct conn *c, const char *p, size_t len)
{
    const char *reason = "a byte that may not be in a request head";
    struct exchange *x;
    size_t known_len;

    /* Some clients send an empty line between requests. */
    if (len >= 2 && p[0] == '\r' && p[1] == '\n') {
        c->scanned = 0;
        return 2;
    }
    const struct cached_head *known = head_cache_find(&c->server->heads, p, len, &known_len);
    if (known) {
        x = exchange_new(c, p, known_len);
        c->scanned = 0;
        x->row = head_cache_use(known, x->text.p, &x->request.head, x->request.params);
        begin(x);
        return known_len;
    }
    ssize_t head_len = head_scan(p, len, &c->scanned);
    if (head_len == 0)
        return 0;
    x = exchange_new(c, p, head_len > 0 ? (size_t)head_len : 0);
    c->scanned = 0;
    if (head_len < 0) {
        exchange_refuse(x, (int)-head_len,
                        head_len == -431 ? "the request head is too long" : reason);
        return 0;
    }
    int status = head_parse(&x->request.head, x->text.p, (size_t)head_len, &reason);
    if (status)
        exchange_refuse(x, status, reason);
    else
        begin(x);
    return (size_t)head_len;
}

/* Takes bytes of a body. Returns how many were used. */
static size_t take_body(struct conn *c, const char *p, size_t len)
{
    struct exchange *x = c->reading;
    uint64_t left = x->request.head.content_len - x->body.len;
    if (x->request.head.chunked) {
        ssize_t used = chunk_feed(&c->chunk, p, len, &x->body, body_len_max(x));
        if (used < 0) {
            exchange_refuse(x, (int)-used,
                            used == -413 ? "the body is too long" : "malformed chunk");
            return 0;
        }
        if (!memory_take(x, x->body.len)) {
            memory_refuse_body(x);
            return 0;
        }
        if (c->chunk.done)
            dispatch(x);
        return (size_t)used;
    }
    if (len > left)
        len = (size_t)left;
    if (!memory_take(x, x->body.len + len)) {
        memory_refuse_body(x);
        return 0;
    }
    buf_put(&x->body, p, len);
    if (len == left)
        dispatch(x);
    return len;
}

bool conn_may_cut(const struct conn *c)
{
    return !c->closing && !c->last_request && !c->away && c->queued < HTTP_PIPELINE_MAX &&
           c->out.len + c->writing.len <
               (memory_is_short(c->server) ? 1 : (size_t)HTTP_UNSENT_LEN_MAX);
}

/* Returns how many bytes were used; *ret_waits: the rest waits for the connection's limits. */
static size_t cut(struct conn *c, const char *p, size_t len, bool *ret_waits)
{
    size_t at = 0, used = 1;
    c->cutting = true;
    while (at < len && used && conn_may_cut(c)) {
        used = (c->reading ? take_body : take_head)(c, p + at, len - at);
        at += used;
    }
    c->cutting = false;
    if (c->last_request)
        at = len;
    *ret_waits = at < len && used;
    return at;
}

bool conn_cut(struct conn *c)
{
    bool waits;
    size_t at = cut(c, c->in.p, c->in.len, &waits);
    if (at && at < c->in.len)
        memmove(c->in.p, c->in.p + at, c->in.len - at);
    c->in.len -= at;
    if (!c->in.len)
        buf_release(&c->in);
    return waits;
}

void conn_take(struct conn *c, const char *p, size_t len)
{
    bool waits, first = !c->in.len;
    size_t at = first ? cut(c, p, len, &waits) : 0;
    buf_put(&c->in, p + at, len - at);
    if (!first)
        conn_cut(c);
}
