/*
 * What the handlers of the DAG share: calls that are answered later, parts of requests and replies.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "dag/http_impl.h"
#include "server/leader.h"

/* Calls. */

static void on_gone(struct http_request *r)
{
    struct dag_call *c = r->handler_data;

    c->r = NULL;
}

struct dag_call *dag_call_new(struct http_request *r)
{
    struct dag_call *c = mem_zalloc(sizeof *c);

    c->h = r->arg;
    c->r = r;
    r->handler_data = c;
    r->gone = on_gone;
    return c;
}

void dag_call_free(struct dag_call *c)
{
    arena_release(&c->arena);
    buf_release(&c->out);
    free(c->ids);
    free(c);
}

void dag_call_done(void *call, int err)
{
    struct dag_call *c = call;

    if (c->r && err)
        http_reply_err(c->r, err, NULL);
    else if (c->r)
        http_reply(c->r, 200, buf_str(&c->out));
    dag_call_free(c);
}

/* Parts of requests and replies. */

struct dag *http_dag(struct http_request *r)
{
    struct dag_http *h = r->arg;
    char url[LEADER_URL_SIZE];

    if (h->dag->ready)
        return h->dag;
    leader_url(h->context->leader, url);
    http_reply_elsewhere(r, url, "the DAG is loading: try again");
    return NULL;
}

struct dag_node *http_find_node(struct http_request *r, struct dag *d, struct str id)
{
    struct dag_node *n = graph_find_text(&d->graph, id);

    if (!n)
        http_reply_errorf(r, 404, "there is no node '%.*s'", (int)(id.len < 80 ? id.len : 80),
                          id.p);
    return n;
}

struct dag_node *http_node(struct http_request *r, struct dag *d)
{
    return http_find_node(r, d, ((const struct dag_in *)r->in)->id);
}

struct dag_call *http_nodes_call(struct http_request *r, struct dag *d)
{
    const struct dag_in *in = r->in;

    for (size_t i = 0; i < in->id_count; i++)
        if (!graph_find(&d->graph, (uint64_t)in->ids[i])) {
            http_reply_errorf(r, 404, "there is no node '%" PRId64 "'", in->ids[i]);
            return NULL;
        }
    struct dag_call *c = dag_call_new(r);
    c->count = in->id_count;
    c->ids = mem_alloc((c->count + 1) * sizeof *c->ids);
    for (size_t i = 0; i < c->count; i++)
        c->ids[i] = (uint64_t)in->ids[i];
    return c;
}

bool http_read_start(struct http_request *r, const char *pid, const char *other_pid,
                     uint64_t *ret_start)
{
    const struct dag_in *in = r->in;
    uint64_t start = 0;

    if (!in->start.p)
        return true;
    if (!str_eq(in->start, STR("0")) && !graph_parse_id(in->start, &start))
        http_reply_field(r, "start", "start must be `next` of the previous page");
    else if (!in->pid.p)
        http_reply_field(r, "pid", "start needs the pid of the previous page");
    else if (!str_eq(in->pid, str_of(pid)) && !str_eq(in->pid, str_of(other_pid)))
        http_reply_error(r, 410, "the listing or value has changed: start again");
    else {
        *ret_start = start;
        return true;
    }
    return false;
}

void http_put_pagination(struct buf *b, uint64_t next, const char *pid)
{
    json_member_open(b, "pagination", '{');
    json_key(b, "next");
    http_put_id(b, next);
    json_member_text(b, "pid", str_of(pid));
    json_close(b, '}');
}

void http_reply_buf(struct http_request *r, struct buf *b)
{
    http_reply(r, 200, buf_str(b));
    buf_release(b);
}

const struct run_output *node_live(const struct dag_node *n, struct str key)
{
    for (int i = 0; i < RUN_STREAMS && n->run; i++)
        if (str_eq(key, str_of(DAG_OUTPUTS[i])))
            return run_output(n->run, (enum run_stream)i);
    return NULL;
}

const struct json *node_spec_data(const struct dag_node *n, struct arena *a)
{
    return n->data.len ? json_parse(a, n->data, NULL) : NULL;
}

void node_put_value(struct buf *b, const struct node_datum *v)
{
    if (v->is_text)
        json_put_text(b, buf_str(&v->bytes));
    else
        json_put_raw(b, buf_str(&v->bytes));
}
