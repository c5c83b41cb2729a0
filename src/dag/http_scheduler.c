/*
 * /v1/scheduler: kill, retry, wait. For agents on other machines: starting a node that they have
 * claimed, kills, and the end of a run; claims and renewals are requests to the task store.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/uv_check.h"
#include "dag/http_impl.h"

static void reply_states(struct dag_call *c)
{
    const struct graph *g = &c->dag->graph;
    struct buf *b = &c->out;

    if (!c->r)
        return;
    json_open(b, '[');
    for (size_t i = 0; i < c->count; i++) {
        const struct dag_node *n = graph_find(g, c->ids[i]);
        bool exists = n && g->shown[n->index] != SHOWN_NONE;

        json_open(b, '{');
        http_member_id(b, "id", c->ids[i]);
        json_member_text(b, "state",
                         str_of(exists ? node_state_name(g->shown[n->index]) : "deleted"));
        json_close(b, '}');
    }
    json_close(b, ']');
    http_reply(c->r, 200, buf_str(b));
}

void http_get_scheduler(struct http_request *r)
{
    const struct dag *d = r->arg;
    int64_t counts[SHOWN_NONE + 1] = {0};
    struct buf b = {0};

    if (!http_is_ready(r))
        return;
    for (uint32_t i = 0; i < d->graph.count; i++)
        counts[d->graph.shown[i]]++;
    json_open(&b, '{');
    json_member_open(&b, "states", '{');
    for (enum node_state s = NODE_INCIPIENT; s <= NODE_SKIPPED; s++)
        json_member_int(&b, node_state_name(s), counts[s]);
    json_close(&b, '}');
    json_member_int(&b, "jobs", d->jobs);
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
    struct dag_call *c = http_nodes_call(r);

    if (!c)
        return;
    c->pending = c->count + 1;
    for (size_t i = 0; i < c->count; i++)
        dag_kill(c->dag, graph_find(&c->dag->graph, c->ids[i]), on_change, c);
    on_change(c, 0);
}

void http_put_retry(struct http_request *r)
{
    struct dag_call *c = http_nodes_call(r);
    struct err_info why;

    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++)
        if (dag_check_retry(c->dag, graph_find(&c->dag->graph, c->ids[i]), &why)) {
            http_reply_error(r, 409, why.text);
            dag_call_free(c);
            return;
        }
    c->pending = c->count + 1;
    for (size_t i = 0; i < c->count; i++)
        if (dag_retry(c->dag, graph_find(&c->dag->graph, c->ids[i]), on_change, c, &why))
            c->pending--; /* an earlier one has made it wait again */
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
    const struct graph *g = &w->call->dag->graph;

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

static void wait_over(struct node_wait *w)
{
    reply_states(w->call);
    wait_free(w);
}

static void on_wait_timeout(uv_timer_t *timer)
{
    wait_over(timer->data);
}

void node_waits_notify(struct dag_node *n)
{
    while (n->waits) {
        struct node_wait *w = n->waits;

        wait_unlink(w);
        if (!wait_link(w))
            wait_over(w);
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
    struct dag_call *c = http_nodes_call(r);

    if (!c)
        return;
    struct node_wait *w = mem_zalloc(sizeof *w);
    w->call = c;
    if (!wait_link(w) || !in->timeout) {
        wait_over(w);
        return;
    }
    r->handler_data = w;
    r->gone = on_wait_gone;
    if (in->timeout > 0) {
        w->timed = true;
        w->timer.data = w;
        UV_CHECK(uv_timer_init(c->dag->context->loop, &w->timer));
        UV_CHECK(uv_timer_start(&w->timer, on_wait_timeout, (uint64_t)in->timeout, 0));
    }
}

/* Agents. */

static void put_list(struct buf *b, const char *key, const char *const *list)
{
    json_member_open(b, key, '[');
    for (; *list; list++)
        json_put_text(b, str_of(*list));
    json_close(b, ']');
}

static void put_run(struct buf *b, struct dag *d, const struct dag_node *n, struct arena *a)
{
    struct node_command c;

    dag_command(d, n, a, &c);
    json_open(b, '{');
    http_member_id(b, "node", n->id);
    json_member_int(b, "attempt", n->attempts);
    json_member_int(b, "store", d->client);
    json_member_text(b, "parent", str_of(dag_parent_text(d, n, a)));
    put_list(b, "argv", c.argv);
    put_list(b, "env", c.env);
    if (c.cwd)
        json_member_text(b, "cwd", str_of(c.cwd));
    json_member_int(b, "timeout", c.timeout_ms);
    json_close(b, '}');
}

void http_post_start(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag_node *n = http_node(r);
    struct buf b = {0};

    if (!n)
        return;
    if (!dag_start(n, in->clientid, in->task)) {
        http_reply_errorf(r, 409,
                          "client %" PRId64 " has not claimed node %" PRIu64 " as task %" PRId64,
                          in->clientid, n->id, in->task);
        return;
    }
    put_run(&b, r->arg, n, &r->arena);
    http_reply_buf(r, &b);
}

static bool put_kills(struct buf *b, const struct dag *d, int64_t client, uint64_t after)
{
    bool any = false;

    json_open(b, '{');
    json_member_open(b, "nodes", '[');
    for (uint32_t i = 0; i < d->running.count; i++) {
        const struct dag_node *n = d->running.nodes[i];

        if (n->agent != client || !n->kill_asked || n->kill_number <= after)
            continue;
        http_put_id(b, n->id);
        any = true;
    }
    json_close(b, ']');
    json_member_int(b, "next", (int64_t)d->kill_number);
    json_close(b, '}');
    return any;
}

void http_get_kills(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    uint64_t key = dag_key("kill", in->clientid), after = (uint64_t)in->after;
    struct buf b = {0};

    if (!http_is_ready(r))
        return;
    struct http_watch w = http_watch(r, &d->topic, &key, 1);
    if (after > d->kill_number)
        after = 0; /* it is of the server before a restart */
    if (put_kills(&b, d, in->clientid, after) || !http_park(r, &w, in->wait))
        http_reply_buf(r, &b);
    else
        buf_release(&b);
}

/* Stores the outputs in the request. An output that was never sent is empty. */
static void save_outputs(struct dag *d, struct dag_node *n, const struct dag_in *in)
{
    for (int i = 0; i < RUN_STREAMS; i++) {
        struct node_datum *value = dag_output_value(d, n, (enum run_stream)i);

        if (in->outputs[i].p) {
            dag_drop_slots(d, n, value);
            node_set_text(n, DAG_OUTPUTS[i], in->outputs[i]);
            value->live_pid = node_live_pid(n);
        }
        dag_save_value(d, n, value, NULL, NULL);
    }
}

void http_post_done(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct run_outcome o = {.how = (enum run_how)in->how, .status = (int)in->status};
    struct dag *d = r->arg;
    struct dag_node *n = http_find_node(r, in->node);

    if (!n)
        return;
    if (!dag_is_run_by(n, in->clientid, in->attempt)) {
        http_reply_errorf(r, 409,
                          "client %" PRId64 " does not run attempt %" PRId64 " of node %" PRIu64,
                          in->clientid, in->attempt, n->id);
        return;
    }
    o.reason = in->reason.len ? arena_text(&r->arena, in->reason) : NULL;
    save_outputs(d, n, in);
    struct dag_call *c = dag_call_new(r);
    buf_put_str(&c->out, STR("{}"));
    dag_end_run(d, n, &o, dag_call_done, c);
}
