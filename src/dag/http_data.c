/*
 * /v1/nodes/<id>/data/<key>: values.
 *
 * Text comes in pages. `start` is an offset in bytes and `pid` names the value; when it was replaced
 * meanwhile, the answer is 410. What a running command prints is paged too: there is a next page as
 * long as it runs, and `wait` holds the request until there is something on it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dag/http_impl.h"
#include "dag/output.h"

enum { PAGE_LEN_DEFAULT = 256 * 1024, PAGE_LEN_MAX = 1024 * 1024, FETCH_SLOTS = 40 };

/* A page of text. */

struct text_page {
    struct str key;
    uint64_t start, pid;
    int64_t limit, wait_ms;
    bool given_start;
};

static bool parse_offset(struct http_request *r, struct str text, const char *name, uint64_t *ret)
{
    uint64_t id = 0;

    if (!str_eq(text, STR("0")) && !graph_parse_id(text, &id)) {
        http_reply_errorf(r, 400, "%s is what the page before gave", name);
        return false;
    }
    *ret = id;
    return true;
}

/* False after an answer. */
static bool read_page(struct http_request *r, struct text_page *p, uint64_t pid)
{
    struct str start, given;
    uint64_t named;

    p->limit = PAGE_LEN_DEFAULT;
    p->pid = pid;
    if (http_query_number(r, "limit", &p->limit) < 0 ||
        http_query_number(r, "wait", &p->wait_ms) < 0)
        return false;
    if (p->limit < 4 || p->limit > PAGE_LEN_MAX) {
        http_reply_errorf(r, 400, "limit is 4 to %d bytes", PAGE_LEN_MAX);
        return false;
    }
    p->given_start = http_query(r, "start", &start);
    if (!p->given_start)
        return true;
    if (!http_query(r, "pid", &given)) {
        http_reply_error(r, 400, "start needs the pid of the page before");
        return false;
    }
    if (!parse_offset(r, start, "start", &p->start) || !parse_offset(r, given, "pid", &named))
        return false;
    if (named == pid)
        return true;
    http_reply_error(r, 410, "this value was replaced: begin again");
    return false;
}

static void put_page(struct buf *b, const struct text_page *p, struct str text, bool more)
{
    char number[24];

    json_open(b, '{');
    json_key(b, "key");
    json_put_text(b, p->key);
    json_key(b, "data");
    json_put_text(b, text);
    if (more) {
        json_key(b, "pagination");
        json_open(b, '{');
        json_key(b, "next");
        snprintf(number, sizeof number, "%" PRIu64, p->start + text.len);
        json_put_text(b, str_of(number));
        json_key(b, "pid");
        snprintf(number, sizeof number, "%" PRIu64, p->pid);
        json_put_text(b, str_of(number));
        json_close(b, '}');
    }
    json_close(b, '}');
}

/* What of the text is on the page. Whole characters, unless it is the end or there are none. */
static struct str cut_page(struct str text, uint64_t start, int64_t limit, bool is_end)
{
    size_t from = start < text.len ? (size_t)start : text.len, len = text.len - from, whole;

    if (len > (size_t)limit) {
        len = (size_t)limit;
        is_end = false;
    }
    whole = output_whole(text.p + from, len);
    return (struct str){text.p + from, !is_end && whole ? whole : len};
}

static void reply_text(struct http_request *r, const struct text_page *p, struct str text,
                       bool grows)
{
    struct str piece = cut_page(text, p->start, p->limit, true);
    struct buf b = {0};

    put_page(&b, p, piece, grows || p->start + piece.len < text.len);
    http_reply(r, 200, (struct str){b.p, b.len});
    buf_release(&b);
}

/* Text in slots is read from the keeper by a worker. */

struct slot_fetch {
    struct dag_call *call;
    uv_work_t work;
    struct text_page page;
    uint64_t id, total, base; /* base: the offset at which the first slot begins */
    struct datum_slot slots[FETCH_SLOTS];
    uint32_t slot_count;
    struct str tail; /* empty: it is not on the page */
    bool grows;
    struct buf text;
    int err;
};

static void work_fetch(uv_work_t *work)
{
    struct slot_fetch *f = work->data;
    struct keeper *k = context_keeper(f->call->h->context);
    struct buf piece = {0};
    char path[DAG_PATH_LEN];

    f->err = k ? 0 : DROVER_CLOSED;
    for (uint32_t i = 0; i < f->slot_count && !f->err; i++) {
        dag_slot_path(path, sizeof path, f->id, f->slots[i].number);
        f->err = keeper_get(k, path, &piece, NULL);
        if (!f->err)
            buf_put(&f->text, piece.p, piece.len);
    }
    if (!f->err)
        buf_put_str(&f->text, f->tail);
    if (k)
        context_return(f->call->h->context, k);
    buf_release(&piece);
}

static void after_fetch(uv_work_t *work, int status)
{
    struct slot_fetch *f = work->data;
    struct dag_call *c = f->call;

    (void)status;
    if (c->r && f->err) {
        http_reply_err(c->r, f->err == DROVER_NO_NODE ? DROVER_SESSION_EXPIRED : f->err,
                       f->err == DROVER_NO_NODE ? "this value was replaced: begin again" : NULL);
    } else if (c->r) {
        struct str piece;
        struct buf b = {0};

        piece = cut_page((struct str){f->text.p, f->text.len}, f->page.start - f->base,
                         f->page.limit, f->base + f->text.len >= f->total);
        put_page(&b, &f->page, piece, f->grows || f->page.start + piece.len < f->total);
        http_reply(c->r, 200, (struct str){b.p, b.len});
        buf_release(&b);
    }
    buf_release(&f->text);
    free(f);
    dag_call_free(c);
}

static void fetch_text(struct http_request *r, const struct dag_node *n, const struct node_datum *v,
                       const struct text_page *p, bool grows)
{
    struct slot_fetch *f = mem_zalloc(sizeof *f);
    uint64_t at = 0, end = p->start + (uint64_t)p->limit;

    f->call = dag_call_new(r);
    f->page = *p;
    f->page.key = (struct str){arena_text(&f->call->arena, p->key), p->key.len};
    f->id = n->id;
    f->total = v->len;
    f->grows = grows;
    f->base = UINT64_MAX;
    for (uint32_t i = 0; i < v->slot_count && f->slot_count < FETCH_SLOTS;
         at += v->slots[i++].len) {
        if (at + v->slots[i].len <= p->start || at >= end)
            continue;
        if (!f->slot_count)
            f->base = at;
        f->slots[f->slot_count++] = v->slots[i];
    }
    if (at == v->len - v->bytes.len && at < end) {
        f->tail = (struct str){arena_text(&f->call->arena, (struct str){v->bytes.p, v->bytes.len}),
                               v->bytes.len};
        f->base = f->slot_count ? f->base : at;
    }
    if (f->base > p->start)
        f->base = p->start;
    f->work.data = f;
    uv_queue_work(f->call->h->context->loop, &f->work, work_fetch, after_fetch);
}

/* Values. */

static void reply_json(struct http_request *r, struct str key, struct str json)
{
    struct buf b = {0};

    json_open(&b, '{');
    json_key(&b, "key");
    json_put_text(&b, key);
    json_key(&b, "data");
    json_put_raw(&b, json);
    json_close(&b, '}');
    http_reply(r, 200, (struct str){b.p, b.len});
    buf_release(&b);
}

static bool read_key(struct http_request *r, struct str *ret_key)
{
    if (!http_decode(r, r->params[1], ret_key))
        return false;
    for (size_t i = 0; i < ret_key->len; i++)
        if ((unsigned char)ret_key->p[i] < 0x20) {
            http_reply_error(r, 400, "a key has no control characters");
            return false;
        }
    if (ret_key->len && ret_key->len <= NODE_KEY_LEN_MAX)
        return true;
    http_reply_errorf(r, 400, "a key has 1 to %d bytes", NODE_KEY_LEN_MAX);
    return false;
}

static void get_live(struct http_request *r, struct dag_node *n, struct text_page *p,
                     const struct run_output *o, uint64_t seen)
{
    struct dag_http *h = r->arg;
    size_t len;

    if (!read_page(r, p, node_live_pid(n)))
        return;
    len = output_whole(o->text.p, o->text.len);
    if (p->start >= len && p->wait_ms && http_wait(r, &h->printed, seen, p->wait_ms))
        return;
    reply_text(r, p, (struct str){o->text.p, len}, true);
}

/* Where a reader of a live output goes on when the run is over: the same bytes, kept. */
static uint64_t value_pid(const struct http_request *r, const struct node_datum *v)
{
    char live[24];
    struct str pid;

    snprintf(live, sizeof live, "%" PRIu64, v->live_pid);
    if (v->live_pid && http_query(r, "pid", &pid) && str_eq(pid, str_of(live)))
        return v->live_pid;
    return v->pid;
}

static void get_given(struct http_request *r, struct dag_node *n, struct str key,
                      struct text_page *p)
{
    const struct json *data = n->data.len ? json_parse(&r->arena, n->data, NULL) : NULL;
    const struct json *m = json_get(data, arena_text(&r->arena, key));

    if (!m)
        http_reply_errorf(r, 404, "the node has no data '%.*s'", (int)(key.len < 80 ? key.len : 80),
                          key.p);
    else if (m->kind != JSON_TEXT)
        reply_json(r, key, m->raw);
    else if (read_page(r, p, 0))
        reply_text(r, p, m->text, false);
}

static bool is_to_print(struct dag *d, const struct dag_node *n)
{
    return graph_plan(dag_graph(d), n)->type != NODE_GROUP &&
           !node_state_is_terminal(graph_state(dag_graph(d), n));
}

void http_get_value(struct http_request *r)
{
    static const struct run_output nothing;
    struct dag_http *h = r->arg;
    uint64_t seen = http_topic_seen(&h->printed);
    struct dag *d = http_dag(r);
    struct dag_node *n = d ? http_node(r, d) : NULL;
    const struct run_output *live;
    struct node_datum *v;
    struct text_page p = {0};
    bool grows;

    if (!n || !read_key(r, &p.key))
        return;
    grows = n->agent && node_key_is_output(p.key);
    live = node_live(n, p.key);
    v = node_value(n, p.key);
    if (!live && !v && node_key_is_output(p.key) && is_to_print(d, n))
        live = &nothing;
    if (live)
        get_live(r, n, &p, live, seen);
    else if (!v)
        get_given(r, n, p.key, &p);
    else if (!v->is_text)
        reply_json(r, p.key, (struct str){v->bytes.p, v->bytes.len});
    else if (!read_page(r, &p, value_pid(r, v)))
        return;
    else if (grows && p.start >= v->len && p.wait_ms && http_wait(r, &h->printed, seen, p.wait_ms))
        return;
    else if (v->slot_count)
        fetch_text(r, n, v, &p, grows);
    else
        reply_text(r, &p, (struct str){v->bytes.p, v->bytes.len}, grows);
}

/* Putting. */

static void on_put(void *arg, int err)
{
    struct dag_call *c = arg;

    if (c->r && err)
        http_reply_err(c->r, err, NULL);
    else if (c->r)
        http_reply(c->r, 200, (struct str){c->out.p, c->out.len});
    dag_call_free(c);
}

/* Whether the run's own agent says what it printed. False after an answer. */
static bool check_agent(struct http_request *r, const struct dag_node *n, struct str key)
{
    int64_t attempt = 0, client = 0;

    if (http_query_number(r, "attempt", &attempt) < 0 ||
        http_query_number(r, "clientid", &client) < 0)
        return false;
    if (dag_is_run_by(n, client, attempt))
        return true;
    http_reply_errorf(r, 409, "'%.*s' is set by the run: only its agent may change it",
                      (int)key.len, key.p);
    return false;
}

static bool may_put(struct http_request *r, struct dag *d, struct dag_node *n, struct str key,
                    const struct json *value)
{
    struct err_info why;

    if (node_key_is_result(key))
        return check_agent(r, n, key);
    if (!node_key_is_input(key))
        return true;
    if (dag_visible(d, n) != NODE_INCIPIENT) {
        http_reply_errorf(r, 409, "node %" PRIu64 " is %s: what it was started with stays", n->id,
                          node_state_name(dag_visible(d, n)));
        return false;
    }
    if (!node_check_value(graph_plan(dag_graph(d), n)->type, key, value, &why))
        return true;
    http_reply_error(r, 400, why.text);
    return false;
}

static bool is_set(struct http_request *r, const struct dag_node *n, struct str key)
{
    const struct json *data = n->data.len ? json_parse(&r->arena, n->data, NULL) : NULL;

    return node_value(n, key) || json_get(data, arena_text(&r->arena, key));
}

static void replace(struct dag *d, struct dag_node *n, struct str key, const struct json *value)
{
    struct node_datum *v = node_value(n, key);

    if (v)
        dag_drop_slots(d, n, v);
    v = node_set_value(n, key);
    v->is_text = value->kind == JSON_TEXT;
    buf_put_str(&v->bytes, v->is_text ? value->text : value->raw);
    v->len = v->is_text ? v->bytes.len : 0;
}

/* `start` is given and not empty. False after an answer. */
static bool put_piece(struct http_request *r, struct dag *d, struct dag_node *n, struct str key,
                      struct str start, const struct json *value)
{
    struct node_datum *v = node_value(n, key);
    uint64_t offset, named;
    struct str pid;

    if (value->kind != JSON_TEXT) {
        http_reply_error(r, 400, "a piece is a string");
        return false;
    }
    if (!http_query(r, "pid", &pid)) {
        http_reply_error(r, 400, "start needs the pid of the piece before");
        return false;
    }
    if (!parse_offset(r, start, "start", &offset) || !parse_offset(r, pid, "pid", &named))
        return false;
    if (!v || !v->is_text || v->pid != named) {
        http_reply_error(r, 410, "this value was replaced: begin again");
        return false;
    }
    if (v->len + value->text.len > NODE_VALUE_LEN_MAX) {
        http_reply_errorf(r, 413, "a value may have %d bytes", NODE_VALUE_LEN_MAX);
        return false;
    }
    if (offset < v->len && value->text.len > NODE_SLOT_LEN) {
        http_reply_errorf(r, 400, "a piece that replaces another may have %d bytes", NODE_SLOT_LEN);
        return false;
    }
    if (offset == v->len && node_key_is_output(key)) {
        dag_append_text(d, n, v, value->text);
    } else if (offset == v->len) {
        dag_append_piece(d, n, v, value->text);
    } else if (!dag_replace_piece(d, n, v, offset, value->text)) {
        http_reply_error(r, 400, "start is where a piece begins, or the end");
        return false;
    }
    return true;
}

static const struct json *read_value(struct http_request *r)
{
    static const char *const names[] = {"value", NULL};
    const struct json *body = http_json(r), *value = json_get(body, "value");
    struct err_info why;

    if (!body)
        return NULL;
    if (json_only(body, names, &why)) {
        http_reply_error(r, 400, why.text);
        return NULL;
    }
    if (!value)
        http_reply_error(r, 400, "value is missing");
    return value;
}

void http_put_value(struct http_request *r)
{
    struct dag *d = http_dag(r);
    struct dag_node *n = d ? http_node(r, d) : NULL;
    const struct json *value;
    struct str key, start = {0};
    struct node_datum *v;
    struct dag_call *c;
    bool paged;

    if (!n || !read_key(r, &key) || !(value = read_value(r)) || !may_put(r, d, n, key, value))
        return;
    paged = http_query(r, "start", &start);
    if (paged && !start.len && is_set(r, n, key)) {
        http_reply_errorf(r, 409, "'%.*s' is set already", (int)key.len, key.p);
        return;
    }
    if (paged && start.len) {
        if (!put_piece(r, d, n, key, start, value))
            return;
    } else {
        replace(d, n, key, value);
    }
    v = node_value(n, key);
    if (node_key_is_output(key))
        v->live_pid = node_live_pid(n);
    c = dag_call_new(r);
    buf_printf(&c->out, "{\"pagination\":{\"next\":\"%" PRIu64 "\",\"pid\":\"%" PRIu64 "\"}}",
               v->len, v->pid);
    dag_save_value(d, n, v, on_put, c);
    if (n->agent)
        http_topic_signal(&c->h->printed, HTTP_TOPIC_ALL);
}
