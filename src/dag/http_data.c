/*
 * /v1/nodes/<id>/data: the keys of a node's data, in pages; /v1/nodes/<id>/data/<key>: values.
 *
 * Text is read in pages. `start` is an offset in bytes and `pid` names the value: when it was
 * replaced meanwhile, the answer is 410. The output of a running command is paged too: there is a
 * next page as long as it runs, and `wait` holds the request until that page has text.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dag/service.h"

enum { FETCH_SLOTS = 40 };

/* Keys. */

static size_t collect_keys(const struct dag_node *n, struct arena *a, struct str **ret_keys)
{
    const struct json *data = node_spec_data(n, a);
    size_t count = 0, max = RUN_STREAMS + (data ? data->count : 0) + 1;
    for (const struct node_datum *v = n->values; v; v = v->next)
        max++;
    struct str *keys = *ret_keys = arena_alloc(a, max * sizeof *keys);
    for (const struct json *m = data ? data->first : NULL; m; m = m->next)
        keys[count++] = m->key;
    for (const struct node_datum *v = n->values; v; v = v->next)
        if (!json_get(data, v->key) && !(n->run && node_key_is_output(str_of(v->key))))
            keys[count++] = str_of(v->key);
    for (int i = 0; i < RUN_STREAMS && n->run; i++)
        keys[count++] = str_of(DAG_OUTPUTS[i]);
    return count;
}

static int by_key(const void *a, const void *b)
{
    const struct str *x = a, *y = b;
    int order = memcmp(x->p, y->p, x->len < y->len ? x->len : y->len);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

void http_get_keys(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag_node *n = http_node(r);
    uint64_t at = 0;
    CLEANUP(buf_release) struct buf b = {0};
    struct str *keys;
    char pid[64];

    if (!n)
        return;
    size_t count = collect_keys(n, &r->arena, &keys);
    qsort(keys, count, sizeof *keys, by_key);
    snprintf(pid, sizeof pid, "%" PRIu64 "-%zu", n->id, count);
    if (!http_read_start(r, pid, pid, &at))
        return;
    size_t left = at < count ? count - at : 0;
    size_t end = left > (size_t)in->limit ? at + (size_t)in->limit : count;
    json_open(&b, '{');
    json_member_open(&b, "keys", '[');
    for (; at < end; at++)
        json_put_text(&b, keys[at]);
    json_close(&b, ']');
    if (end < count)
        http_put_pagination(&b, end, pid);
    json_close(&b, '}');
    http_reply(r, 200, buf_str(&b));
}

/* A page of text. */

struct text_page {
    struct str key;
    uint64_t start;
    int64_t limit;
    char pid[24];
    bool grows; /* the run may print more */
};

/*
 * A reader of live output goes on with the stored value when the run is over. False after an
 * answer.
 */
static bool read_page(struct http_request *r, struct text_page *p, uint64_t pid, uint64_t live_pid)
{
    const struct dag_in *in = r->in;
    char live[24];
    snprintf(p->pid, sizeof p->pid, "%" PRIu64, pid);
    snprintf(live, sizeof live, "%" PRIu64, live_pid ? live_pid : pid);
    if (!http_read_start(r, p->pid, live, &p->start))
        return false;
    p->limit = in->limit;
    if (in->start.p && str_eq(in->pid, str_of(live)))
        memcpy(p->pid, live, sizeof live);
    return true;
}

static void reply_page(struct http_request *r, const struct text_page *p, struct str text,
                       bool more)
{
    CLEANUP(buf_release) struct buf b = {0};
    json_open(&b, '{');
    json_member_text(&b, "key", p->key);
    json_key(&b, "data"); /* not json_member_text(): no text is "", not null */
    json_put_text(&b, text);
    if (more || p->grows)
        http_put_pagination(&b, p->start + text.len, p->pid);
    json_close(&b, '}');
    http_reply(r, 200, buf_str(&b));
}

/* The part of the text on the page: complete characters, unless it is the end or has none. */
static struct str cut_page(struct str text, uint64_t start, int64_t limit, bool is_end)
{
    size_t from = start < text.len ? (size_t)start : text.len, len = text.len - from;
    if (len > (size_t)limit) {
        len = (size_t)limit;
        is_end = false;
    }
    size_t whole = output_whole(text.p + from, len);
    return (struct str){text.p + from, !is_end && whole ? whole : len};
}

/* A worker thread reads text in slots from the keeper. */

/* In the arena of its call, whose `out` gets the text. */
struct slot_fetch {
    struct dag_call *call;
    uv_work_t work;
    struct text_page page;
    uint64_t id, total, base; /* base: the offset of the first slot */
    struct datum_slot slots[FETCH_SLOTS];
    uint32_t slot_count;
    struct str tail; /* empty: not on the page */
};

static int read_slots(struct slot_fetch *f, struct keeper *k)
{
    CLEANUP(buf_release) struct buf piece = {0};
    for (uint32_t i = 0; i < f->slot_count; i++) {
        TRY(keeper_get(k, dag_slot_path(f->id, f->slots[i].number).text, &piece, NULL));
        buf_put(&f->call->out, piece.p, piece.len);
    }
    buf_put_str(&f->call->out, f->tail);
    return 0;
}

static void work_fetch(uv_work_t *work)
{
    struct slot_fetch *f = work->data;
    struct context *context = f->call->dag->context;
    struct keeper *k = context_keeper(context);
    f->call->err = k ? read_slots(f, k) : DROVER_CLOSED;
    if (k)
        context_return(context, k);
}

static void after_fetch(uv_work_t *work, int status)
{
    struct slot_fetch *f = work->data;
    struct dag_call *c = f->call;
    (void)status;
    if (c->r && c->err == DROVER_NO_NODE) {
        http_reply_err(c->r, DROVER_SESSION_EXPIRED, "the value was replaced: start again");
    } else if (c->r && c->err) {
        http_reply_err(c->r, c->err, NULL);
    } else if (c->r) {
        struct str piece = cut_page(buf_str(&c->out), f->page.start - f->base, f->page.limit,
                                    f->base + c->out.len >= f->total);
        reply_page(c->r, &f->page, piece, f->page.start + piece.len < f->total);
    }
    dag_call_free(c);
}

static void fetch_text(struct http_request *r, const struct dag_node *n, const struct node_datum *v,
                       const struct text_page *p)
{
    struct dag_call *c = dag_call_new(r);
    struct slot_fetch *f = arena_alloc(&c->arena, sizeof *f);
    uint64_t at = 0, end = p->start + (uint64_t)p->limit;

    *f = (struct slot_fetch){
        .call = c, .work.data = f, .page = *p, .id = n->id, .total = v->len, .base = UINT64_MAX};
    f->page.key.p = arena_text(&c->arena, p->key);
    for (uint32_t i = 0; i < v->slot_count && f->slot_count < FETCH_SLOTS;
         at += v->slots[i++].len) {
        if (at + v->slots[i].len <= p->start || at >= end)
            continue;
        if (!f->slot_count)
            f->base = at;
        f->slots[f->slot_count++] = v->slots[i];
    }
    if (at == v->len - v->bytes.len && at < end) {
        f->tail = (struct str){arena_text(&c->arena, buf_str(&v->bytes)), v->bytes.len};
        f->base = f->slot_count ? f->base : at;
    }
    if (f->base > p->start)
        f->base = p->start;
    uv_queue_work(c->dag->context->loop, &f->work, work_fetch, after_fetch);
}

/* Reading. */

static void reply_json(struct http_request *r, struct str key, struct str json)
{
    CLEANUP(buf_release) struct buf b = {0};
    json_open(&b, '{');
    json_member_text(&b, "key", key);
    json_member_raw(&b, "data", json);
    json_close(&b, '}');
    http_reply(r, 200, buf_str(&b));
}

static const struct json *spec_value(struct http_request *r, const struct dag_node *n)
{
    const struct dag_in *in = r->in;
    return json_get(node_spec_data(n, &r->arena), arena_text(&r->arena, in->key));
}

static bool will_print(struct dag *d, const struct dag_node *n)
{
    return graph_plan(&d->graph, n)->type != NODE_GROUP &&
           !node_state_is_terminal(graph_state(&d->graph, n));
}

/* The value is the output of a run here or one to come, a stored value, or that of the spec. */
void http_get_value(struct http_request *r)
{
    static const struct run_output nothing;
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    struct dag_node *n = http_node(r);

    if (!n)
        return;
    bool is_output = node_key_is_output(in->key);
    const struct run_output *live = node_live(n, in->key);
    const struct node_datum *v = live ? NULL : node_value(n, in->key);
    if (!live && !v && is_output && will_print(d, n))
        live = &nothing;
    const struct json *m = live || v ? NULL : spec_value(r, n);
    if (!live && !v && !m) {
        http_reply_errorf(r, 404, "the node has no data key '%.*s'", NODE_CUT(in->key));
        return;
    }
    if ((v && !v->is_text) || (m && m->kind != JSON_TEXT)) {
        reply_json(r, in->key, v ? buf_str(&v->bytes) : m->raw);
        return;
    }
    uint64_t key = dag_key("output", (int64_t)n->id);
    struct http_watch w = http_watch(r, &d->topic, &key, 1);
    struct str text = m ? m->text : buf_str(v ? &v->bytes : &live->text);
    if (live)
        text.len = output_whole(text.p, text.len);
    struct text_page p = {.key = in->key, .grows = live || (v && n->agent && is_output)};
    if (!read_page(r, &p, live ? node_live_pid(n) : v ? v->pid : 0, v ? v->live_pid : 0))
        return;
    if (p.grows && p.start >= (v ? v->len : text.len) && in->wait && http_park(r, &w, in->wait))
        return;
    if (v && v->slot_count) {
        fetch_text(r, n, v, &p);
        return;
    }
    struct str piece = cut_page(text, p.start, p.limit, true);
    reply_page(r, &p, piece, p.start + piece.len < text.len);
}

/* Writing. False after an answer. */

/* Whether the command may still run with the new value. That of pieces is checked at its start. */
static int check_change(struct http_request *r, const struct dag *d, const struct dag_node *n,
                        struct err_info *e)
{
    const struct dag_in *in = r->in;
    struct node_change change = {in->key, in->value};
    if (!node_key_is_input(in->key))
        return 0;
    struct policy_request q =
        node_changed_request(n, graph_plan(&d->graph, n)->type, &change, &r->arena);
    return policy_check(d->policy, &q, e);
}

static bool may_put(struct http_request *r, struct dag *d, struct dag_node *n)
{
    const struct dag_in *in = r->in;
    struct err_info why;
    size_t clean = 0;
    while (clean < in->key.len && (unsigned char)in->key.p[clean] >= 0x20)
        clean++;
    if (clean < in->key.len)
        http_reply_field(r, "key", "a data key has no control characters");
    else if (node_key_is_result(in->key) && !dag_is_run_by(n, in->clientid, in->attempt))
        http_reply_errorf(r, 409, "'%.*s' is set by the run: only its agent may change it",
                          STR_ARGS(in->key));
    else if (node_key_is_input(in->key) && dag_visible(d, n) != NODE_INCIPIENT)
        http_reply_errorf(r, 409, "node %" PRIu64 " is %s: its command cannot be changed", n->id,
                          node_state_name(dag_visible(d, n)));
    else if (node_check_value(graph_plan(&d->graph, n)->type, in->key, in->value, &why) ||
             check_change(r, d, n, &why))
        http_reply_field(r, "value", "%s", why.text);
    else
        return true;
    return false;
}

/* Adds or replaces a piece: `start` is not empty. */
static bool put_piece(struct http_request *r, struct dag *d, struct dag_node *n)
{
    const struct dag_in *in = r->in;
    struct node_datum *v = node_value(n, in->key);
    struct str text = in->value->text;
    uint64_t start = 0;
    char pid[24];

    if (in->value->kind != JSON_TEXT) {
        http_reply_field(r, "value", "a piece is a string");
        return false;
    }
    snprintf(pid, sizeof pid, "%" PRIu64, v ? v->pid : 0);
    if (!http_read_start(r, pid, pid, &start))
        return false;
    if (!v || !v->is_text)
        http_reply_error(r, 410, "the value was replaced: start again");
    else if (v->len + text.len > NODE_VALUE_LEN_MAX)
        http_reply_errorf(r, 413, "a value may have %d bytes", NODE_VALUE_LEN_MAX);
    else if (start < v->len && text.len > NODE_SLOT_LEN)
        http_reply_field(r, "value", "a piece that replaces another may have %d bytes",
                         NODE_SLOT_LEN);
    else if (!dag_put_piece(d, n, v, start, text))
        http_reply_field(r, "start", "start is where a piece begins, or the end");
    else
        return true;
    return false;
}

void http_put_value(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    struct dag_node *n = http_node(r);
    char pid[24];

    if (!n || !dag_may_change(r, n) || !may_put(r, d, n))
        return;
    if (in->start.p && !in->start.len && (node_value(n, in->key) || spec_value(r, n))) {
        http_reply_errorf(r, 409, "'%.*s' is set already", STR_ARGS(in->key));
        return;
    }
    if (!dag_audit_input(r, in->key, in->value))
        return;
    struct node_datum *v = node_value(n, in->key);
    if (in->start.len && !put_piece(r, d, n))
        return;
    if (!in->start.len) {
        if (v)
            dag_drop_slots(d, n, v);
        v = node_set_json(n, in->key, in->value);
    }
    if (node_key_is_output(in->key))
        v->live_pid = node_live_pid(n);
    struct dag_call *c = dag_call_new(r);
    snprintf(pid, sizeof pid, "%" PRIu64, v->pid);
    json_open(&c->out, '{');
    if (in->start.p) /* replaces the piece that was put now */
        json_member_text(&c->out, "start", in->start.len ? in->start : STR("0"));
    http_put_pagination(&c->out, v->len, pid);
    json_close(&c->out, '}');
    dag_save_value(d, n, v, dag_call_done, c);
    if (n->agent)
        dag_wake_all(d, "output", (int64_t)n->id);
}
