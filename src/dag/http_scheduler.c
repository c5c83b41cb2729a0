/* /v1/scheduler: kill, retry, wait. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/uv_check.h"
#include "dag/http_impl.h"

static void put_states(struct buf *b, struct dag *d, const uint64_t *ids, size_t count)
{
    const struct graph *g = dag_graph(d);

    json_open(b, '[');
    for (size_t i = 0; i < count; i++) {
        struct dag_node *n = graph_find(g, ids[i]);
        char id[24];

        snprintf(id, sizeof id, "%" PRIu64, ids[i]);
        json_open(b, '{');
        json_key(b, "id");
        json_put_text(b, str_of(id));
        json_key(b, "state");
        json_put_text(b, n && g->shown[n->index] != SHOWN_NONE
                             ? str_of(node_state_name(g->shown[n->index]))
                             : STR("deleted"));
        json_close(b, '}');
    }
    json_close(b, ']');
}

static void reply_states(struct dag_call *c)
{
    if (!c->r)
        return;
    put_states(&c->out, c->h->dag, c->ids, c->count);
    http_reply(c->r, 200, (struct str){c->out.p, c->out.len});
}

void http_get_scheduler(struct http_request *r)
{
    struct dag *d = http_dag(r);
    uint64_t counts[NODE_SKIPPED + 1] = {0};
    struct buf b = {0};

    if (!d)
        return;
    for (uint32_t i = 0; i < dag_graph(d)->count; i++)
        if (dag_graph(d)->shown[i] != SHOWN_NONE)
            counts[dag_graph(d)->shown[i]]++;
    json_open(&b, '{');
    json_key(&b, "states");
    json_open(&b, '{');
    for (int s = NODE_INCIPIENT; s <= NODE_SKIPPED; s++) {
        json_key(&b, node_state_name((enum node_state)s));
        json_put_int(&b, (int64_t)counts[s]);
    }
    json_close(&b, '}');
    json_key(&b, "jobs");
    json_put_int(&b, dag_options(d)->jobs);
    json_close(&b, '}');
    http_reply(r, 200, (struct str){b.p, b.len});
    buf_release(&b);
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
    struct dag_call *c = d ? dag_call_new(r) : NULL;

    if (!c)
        return;
    if (!http_nodes(c, d)) {
        dag_call_free(c);
        return;
    }
    c->pending = c->count;
    for (size_t i = 0, count = c->count; i < count; i++)
        dag_kill(d, c->nodes[i], on_change, c);
}

void http_put_retry(struct http_request *r)
{
    struct dag *d = http_dag(r);
    struct dag_call *c = d ? dag_call_new(r) : NULL;
    struct err_info why;

    if (!c)
        return;
    if (!http_nodes(c, d)) {
        dag_call_free(c);
        return;
    }
    for (size_t i = 0; i < c->count; i++) {
        enum node_state s = graph_state(dag_graph(d), c->nodes[i]);

        if (s != NODE_FAILED && s != NODE_KILLED) {
            http_reply_errorf(r, 409,
                              "node %" PRIu64 " is %s: only failed and killed nodes can be retried",
                              c->ids[i], node_state_name(dag_visible(d, c->nodes[i])));
            dag_call_free(c);
            return;
        }
    }
    c->pending = 1;
    for (size_t i = 0; i < c->count; i++)
        if (node_state_is_terminal(graph_state(dag_graph(d), c->nodes[i]))) {
            c->pending++;
            if (dag_retry(d, c->nodes[i], on_change, c, &why))
                c->pending--;
        }
    on_change(c, 0);
}

/*
 * Waiting. A request hangs on one node that has not ended, and moves on to the next when that one has;
 * so however many nodes it asks for, the end of a node looks at those that wait for just this one.
 */

struct node_wait {
    struct node_wait *next, *prev;
    struct dag_node *node;
    struct dag_call *call;
    uv_timer_t timer;
    bool timed, answered;
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

/* Hangs the request on the first node that has not ended. False: all have. */
static bool wait_link(struct node_wait *w)
{
    const struct graph *g = dag_graph(w->call->h->dag);

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
    struct dag *d = http_dag(r);
    int64_t timeout_ms = 0;
    struct node_wait *w;
    struct dag_call *c;
    int timed;

    if (!d || (timed = http_query_number(r, "timeout", &timeout_ms)) < 0)
        return;
    c = dag_call_new(r);
    if (!http_nodes(c, d)) {
        dag_call_free(c);
        return;
    }
    w = mem_zalloc(sizeof *w);
    w->call = c;
    if (!wait_link(w) || (timed && !timeout_ms)) {
        reply_states(c);
        wait_free(w);
        return;
    }
    r->handler_data = w;
    r->gone = on_wait_gone;
    if (timed) {
        w->timed = true;
        w->timer.data = w;
        UV_CHECK(uv_timer_init(c->h->context->loop, &w->timer));
        uv_timer_start(&w->timer, on_wait_over, (uint64_t)timeout_ms, 0);
    }
}
