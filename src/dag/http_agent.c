/*
 * For agents on other machines: starting a node that they have claimed, kills, and the end of a run.
 * Claims and renewals are requests to the task store.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dag/http_impl.h"

/* Starting. */

static void put_list(struct buf *b, const char *key, const char *const *list)
{
    json_key(b, key);
    json_open(b, '[');
    for (; list && *list; list++)
        json_put_text(b, str_of(*list));
    json_close(b, ']');
}

static void put_run(struct buf *b, struct dag *d, const struct dag_node *n)
{
    struct arena a = {0};
    struct node_command c;

    dag_command(d, n, &a, &c);
    json_open(b, '{');
    json_key(b, "node");
    http_put_id(b, n->id);
    json_key(b, "attempt");
    json_put_int(b, n->attempts);
    json_key(b, "store");
    json_put_int(b, d->client);
    json_key(b, "parent");
    json_put_text(b, str_of(dag_parent_text(d, n, &a)));
    put_list(b, "argv", c.argv);
    put_list(b, "env", c.env);
    if (c.cwd) {
        json_key(b, "cwd");
        json_put_text(b, str_of(c.cwd));
    }
    json_key(b, "timeout");
    json_put_int(b, c.timeout_ms);
    json_close(b, '}');
    arena_release(&a);
}

void http_post_start(struct http_request *r)
{
    static const char *const names[] = {"clientid", "task", NULL};
    struct dag *d = http_dag(r);
    struct dag_node *n = d ? http_node(r, d) : NULL;
    const struct json *v = n ? http_json(r) : NULL;
    int64_t client = 0, task = 0;
    struct err_info why;
    struct buf b = {0};

    if (!v)
        return;
    if (json_only(v, names, &why) || json_get_int(v, "clientid", &client, &why) < 0 ||
        json_get_int(v, "task", &task, &why) < 0) {
        http_reply_error(r, 400, why.text);
        return;
    }
    if (!dag_start(n, client, task)) {
        http_reply_errorf(r, 409,
                          "client %" PRId64 " has not claimed node %" PRIu64 " as task %" PRId64,
                          client, n->id, task);
        return;
    }
    put_run(&b, d, n);
    http_reply(r, 200, (struct str){b.p, b.len});
    buf_release(&b);
}

/* Kills. */

static bool put_kills(struct buf *b, const struct dag *d, int64_t client, uint64_t after)
{
    bool any = false;

    json_open(b, '{');
    json_key(b, "nodes");
    json_open(b, '[');
    for (uint32_t i = 0; i < d->running_count; i++) {
        const struct dag_node *n = d->running[i];

        if (n->agent != client || !n->kill_asked || n->kill_number <= after)
            continue;
        http_put_id(b, n->id);
        any = true;
    }
    json_close(b, ']');
    json_key(b, "next");
    json_put_int(b, (int64_t)d->kill_number);
    json_close(b, '}');
    return any;
}

void http_get_kills(struct http_request *r)
{
    struct dag *d = http_dag(r);
    uint64_t seen = d ? http_topic_seen(dag_topic_kill(d)) : 0;
    int64_t client = 0, after = 0, wait_ms = 0;
    struct buf b = {0};

    if (!d || http_query_number(r, "clientid", &client) < 0 ||
        http_query_number(r, "after", &after) < 0 || http_query_number(r, "wait", &wait_ms) < 0)
        return;
    if ((uint64_t)after > d->kill_number)
        after = 0; /* a number of the server before a restart */
    if (put_kills(&b, d, client, (uint64_t)after) ||
        !http_wait(r, dag_topic_kill(d), seen, wait_ms))
        http_reply(r, 200, (struct str){b.p, b.len});
    buf_release(&b);
}

/* The end of a run. */

static void on_done(void *arg, int err)
{
    struct dag_call *c = arg;

    if (c->r && err)
        http_reply_err(c->r, err, NULL);
    else if (c->r)
        http_reply(c->r, 200, STR("{}"));
    dag_call_free(c);
}

static bool read_outcome(struct http_request *r, const struct json *v, struct run_outcome *o)
{
    static const char *const hows[] = {"exited", "signalled", "timed out", "killed"};
    struct str how = STR("exited"), reason = {0};
    int64_t status = 0;
    struct err_info why;

    if (json_get_text(v, "how", &how, &why) < 0 || json_get_text(v, "reason", &reason, &why) < 0 ||
        json_get_int(v, "status", &status, &why) < 0) {
        http_reply_error(r, 400, why.text);
        return false;
    }
    for (int i = 0; i < 4; i++)
        if (str_eq(how, str_of(hows[i])) && status >= 0 && status < 256) {
            *o = (struct run_outcome){.how = (enum run_how)i, .status = (int)status};
            o->reason = reason.len ? arena_text(&r->arena, reason) : NULL;
            return true;
        }
    http_reply_error(r, 400, "how is exited, signalled, timed out or killed; status is 0 to 255");
    return false;
}

/* Stores the outputs in the request. An output that was never sent is empty. */
static void save_outputs(struct dag *d, struct dag_node *n, const struct json *v)
{
    for (int i = 0; i < RUN_STREAMS; i++) {
        struct node_datum *value = dag_output_value(d, n, (enum run_stream)i);
        struct str text = {0};

        if (json_get_text(v, DAG_OUTPUTS[i], &text, NULL) == 1) {
            dag_drop_slots(d, n, value);
            node_set_text(n, DAG_OUTPUTS[i], text);
            value->live_pid = node_live_pid(n);
        }
        dag_save_value(d, n, value, NULL, NULL);
    }
}

void http_post_done(struct http_request *r)
{
    struct dag *d = http_dag(r);
    const struct json *v = d ? http_json(r) : NULL;
    int64_t client = 0, attempt = 0;
    struct run_outcome o;
    struct err_info why;
    struct dag_node *n;
    struct str id = {0};

    if (!v)
        return;
    if (json_get_int(v, "clientid", &client, &why) < 0 || json_get_text(v, "node", &id, &why) < 0 ||
        json_get_int(v, "attempt", &attempt, &why) < 0) {
        http_reply_error(r, 400, why.text);
        return;
    }
    n = http_find_node(r, d, id);
    if (!n || !read_outcome(r, v, &o))
        return;
    if (!dag_is_run_by(n, client, attempt)) {
        http_reply_errorf(r, 409,
                          "client %" PRId64 " does not run attempt %" PRId64 " of node %" PRIu64,
                          client, attempt, n->id);
        return;
    }
    save_outputs(d, n, v);
    dag_ended(d, n, &o, on_done, dag_call_new(r));
}
