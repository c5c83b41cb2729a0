/*
 * For agents on other machines: starting a node that they have claimed, kills, and the end of a
 * run. Claims and renewals are requests to the task store.
 */
#include <inttypes.h>

#include "dag/http_impl.h"

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
    json_key(b, "node");
    http_put_id(b, n->id);
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
    struct dag *d = http_dag(r);
    struct dag_node *n = d ? http_node(r, d) : NULL;
    struct buf b = {0};

    if (!n)
        return;
    if (!dag_start(n, in->clientid, in->task)) {
        http_reply_errorf(r, 409,
                          "client %" PRId64 " has not claimed node %" PRIu64 " as task %" PRId64,
                          in->clientid, n->id, in->task);
        return;
    }
    put_run(&b, d, n, &r->arena);
    http_reply_buf(r, &b);
}

static bool put_kills(struct buf *b, const struct dag *d, int64_t client, uint64_t after)
{
    bool any = false;

    json_open(b, '{');
    json_member_open(b, "nodes", '[');
    for (uint32_t i = 0; i < d->running_count; i++) {
        const struct dag_node *n = d->running[i];

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
    struct dag *d = http_dag(r);
    uint64_t key = dag_key("kill", in->clientid), after = (uint64_t)in->after;
    struct buf b = {0};

    if (!d)
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
    struct dag *d = http_dag(r);
    struct dag_node *n = d ? http_find_node(r, d, in->node) : NULL;

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
    dag_ended(d, n, &o, dag_call_done, c);
}
