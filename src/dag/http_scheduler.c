/* /v1/scheduler: kill, retry, wait. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/uv_check.h"
#include "dag/http_impl.h"

static void reply_states(struct dag_call *c)
{
    const struct graph *g = &c->h->dag->graph;
    struct buf *b = &c->out;

    if (!c->r)
        return;
    json_open(b, '[');
    for (size_t i = 0; i < c->count; i++) {
        struct dag_node *n = graph_find(g, c->ids[i]);
        bool exists = n && g->shown[n->index] != SHOWN_NONE;

        json_open(b, '{');
        json_key(b, "id");
        http_put_id(b, c->ids[i]);
        json_member_text(b, "state",
                         str_of(exists ? node_state_name(g->shown[n->index]) : "deleted"));
        json_close(b, '}');
    }
    json_close(b, ']');
    http_reply(c->r, 200, buf_str(b));
}

void http_get_scheduler(struct http_request *r)
{
    struct dag *d = http_dag(r);
    uint64_t counts[NODE_SKIPPED + 1] = {0};
    struct buf b = {0};

    if (!d)
        return;
    for (uint32_t i = 0; i < d->graph.count; i++)
        if (d->graph.shown[i] != SHOWN_NONE)
            counts[d->graph.shown[i]]++;
    json_open(&b, '{');
    json_member_open(&b, "states", '{');
    for (int s = NODE_INCIPIENT; s <= NODE_SKIPPED; s++) {
        json_member_int(&b, node_state_name((enum node_state)s), (int64_t)counts[s]);
    }
    json_close(&b, '}');
    json_member_int(&b, "jobs", d->o.jobs);
    json_close(&b, '}');
    http_reply_buf(r, &b);
}

/* One of several changes is durable. */
static void on_change(void *arg, int err)
{
    struct dag_call *c = arg;

    if (err)
        c->err = err;
    if (--c->pending)
        return;
    if (c->r && c->err)
        http_reply_err(c->r, c->err, NULL);
    else
        reply_states(c);
    dag_call_free(c);
}

void http_put_kill(struct http_request *r)
{
    struct dag *d = http_dag(r);
    struct dag_call *c = d ? http_nodes_call(r, d) : NULL;

    if (!c)
        return;
    c->pending = 1;
    for (size_t i = 0; i < c->count; i++) {
        c->pending++;
        dag_kill(d, graph_find(&d->graph, c->ids[i]), on_change, c);
    }
    on_change(c, 0);
}

void http_put_retry(struct http_request *r)
{
    struct dag *d = http_dag(r);
    struct dag_call *c = d ? http_nodes_call(r, d) : NULL;
    struct err_info why;

    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++)
        if (dag_check_retry(d, graph_find(&d->graph, c->ids[i]), &why)) {
            http_reply_error(r, 409, why.text);
            dag_call_free(c);
            return;
        }
    c->pending = 1;
    for (size_t i = 0; i < c->count; i++) {
        c->pending++;
        if (dag_retry(d, graph_find(&d->graph, c->ids[i]), on_change, c, &why))
            c->pending--; /* an earlier one has made it wait again */
    }
    on_change(c, 0);
}

/*
 * Waiting. A request is linked to one node that has not ended, and moves to the next when that one
 * ends. So the end of a node looks only at the requests that wait for this node.
 */

struct node_wait {
    struct node_wait *next, *prev;
    struct dag_node *node;
    struct dag_call *call;
    uv_timer_t timer;
    bool timed;
};

static void wait_unlink(struct node_wait *w)
{
    if (!w->node)
        return;
    if (w->prev)
        w->prev->next = w->next;
    else
        w->node->waits = w->next;
    if (w->next)
        w->next->prev = w->prev;
    w->node = NULL;
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void wait_free(struct node_wait *w)
{
    wait_unlink(w);
    dag_call_free(w->call);
    if (w->timed)
        uv_close((uv_handle_t *)&w->timer, on_timer_closed);
    else
        free(w);
}

static void on_wait_gone(struct http_request *r)
{
    struct node_wait *w = r->handler_data;

    w->call->r = NULL;
    wait_free(w);
}

/* Links the request to the first node that has not ended. False: all have. */
static bool wait_link(struct node_wait *w)
{
    const struct graph *g = &w->call->h->dag->graph;

    for (size_t i = w->call->pending; i < w->call->count; i++) {
        struct dag_node *n = graph_find(g, w->call->ids[i]);

        w->call->pending = i;
        if (!n || node_state_is_terminal(g->shown[n->index]))
            continue;
        w->node = n;
        w->prev = NULL;
        w->next = n->waits;
        if (n->waits)
            n->waits->prev = w;
        n->waits = w;
        return true;
    }
    return false;
}

static void on_wait_over(uv_timer_t *timer)
{
    struct node_wait *w = timer->data;

    reply_states(w->call);
    wait_free(w);
}

void node_waits_notify(struct dag_node *n)
{
    while (n->waits) {
        struct node_wait *w = n->waits;

        wait_unlink(w);
        if (wait_link(w))
            continue;
        reply_states(w->call);
        wait_free(w);
    }
}

void node_waits_end(struct graph *g)
{
    for (uint32_t i = 0; i < g->count; i++)
        while (g->order[i] && g->order[i]->waits) {
            struct node_wait *w = g->order[i]->waits;

            http_reply_err(w->call->r, DROVER_CLOSED, NULL);
            wait_free(w);
        }
}

void http_get_wait(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag *d = http_dag(r);
    struct dag_call *c = d ? http_nodes_call(r, d) : NULL;
    struct node_wait *w;

    if (!c)
        return;
    w = mem_zalloc(sizeof *w);
    w->call = c;
    if (!wait_link(w) || !in->timeout) {
        reply_states(c);
        wait_free(w);
        return;
    }
    r->handler_data = w;
    r->gone = on_wait_gone;
    if (in->timeout > 0) {
        w->timed = true;
        w->timer.data = w;
        UV_CHECK(uv_timer_init(c->h->context->loop, &w->timer));
        UV_CHECK(uv_timer_start(&w->timer, on_wait_over, (uint64_t)in->timeout, 0));
    }
}
