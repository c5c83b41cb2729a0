/*
 * /v1/agent: for agents on other machines. An agent has a number of its own choice (clientid); a run
 * is named by its node and its task, and the task is the fence.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dag/http_impl.h"

enum { CLAIM_MAX = 1000, GROUPS_MAX = 100, BUSY_WAIT_MS = 2000 };

/* What every request of an agent says. False after an answer. */
static bool read_agent(struct http_request *r, const struct json *v, int64_t *client,
                       int64_t *lease_ms)
{
    struct err_info why;

    *client = 0;
    *lease_ms = DAG_LEASE_MS;
    if (json_get_int(v, "clientid", client, &why) < 0 ||
        json_get_int(v, "duration", lease_ms, &why) < 0) {
        http_reply_error(r, 400, why.text);
        return false;
    }
    if (*client <= 0) {
        http_reply_error(r, 400, "clientid is missing: a positive number");
        return false;
    }
    if (*lease_ms < 100 || *lease_ms > DAG_LEASE_MAX_MS) {
        http_reply_errorf(r, 400, "duration is 100 to %d ms", DAG_LEASE_MAX_MS);
        return false;
    }
    return true;
}

/* A node that the body names, with the task. NULL after an answer. */
static struct dag_node *read_run(struct http_request *r, struct dag *d, const struct json *v,
                                 int64_t *task)
{
    struct str id = {0};
    struct err_info why;
    struct dag_node *n;

    *task = 0;
    if (json_get_text(v, "node", &id, &why) < 0 || json_get_int(v, "task", task, &why) < 0) {
        http_reply_error(r, 400, why.text);
        return NULL;
    }
    n = graph_find_text(dag_graph(d), id);
    if (!n)
        http_reply_errorf(r, 404, "there is no node '%.*s'", (int)(id.len < 80 ? id.len : 80),
                          id.p);
    return n;
}

/* Claiming. */

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
    enum node_type type = graph_plan(dag_graph(d), n)->type;
    struct arena a = {0};
    struct node_command c;

    node_command(n, type, &a, &c);
    json_open(b, '{');
    json_key(b, "node");
    json_put_text(b, str_of(arena_printf(&a, "%" PRIu64, n->id)));
    json_key(b, "task");
    json_put_int(b, n->task);
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
    if (type == NODE_CONDITION && c.timeout_ms) {
        c.timeout_ms -= dag_now_ms(d) - n->started_ms;
        c.timeout_ms = c.timeout_ms > 0 ? c.timeout_ms : 1;
    }
    json_put_int(b, c.timeout_ms);
    json_close(b, '}');
    arena_release(&a);
}

static void on_claimed(void *arg, int err, struct dag_node *n)
{
    struct dag_call *c = arg;

    if (err)
        c->err = err;
    else
        put_run(&c->out, c->h->dag, n);
    if (--c->pending)
        return;
    json_close(&c->out, ']');
    json_close(&c->out, '}');
    if (c->r && c->err)
        http_reply_err(c->r, c->err, NULL);
    else if (c->r)
        http_reply(c->r, 200, (struct str){c->out.p, c->out.len});
    dag_call_free(c);
}

/* `group` or `groups`. Returns how many, or -1 after an answer. */
static int read_groups(struct http_request *r, const struct json *v, struct str *groups)
{
    struct str one = STR(NODE_GROUP_DEFAULT);
    const struct json *list = NULL;
    struct err_info why;
    int count = 0;

    if (json_get_text(v, "group", &one, &why) < 0 || json_get_list(v, "groups", &list, &why) < 0) {
        http_reply_error(r, 400, why.text);
        return -1;
    }
    if (!list) {
        groups[0] = one;
        return 1;
    }
    json_each(m, list) {
        if (m->kind != JSON_TEXT || count == GROUPS_MAX) {
            http_reply_errorf(r, 400, "groups is a list of at most %d strings", GROUPS_MAX);
            return -1;
        }
        groups[count++] = m->text;
    }
    return count;
}

static void claim(struct http_request *r, struct dag *d, int64_t client, int64_t lease_ms,
                  const struct str *groups, int count, int64_t limit, int64_t wait_ms)
{
    struct dag_http *h = r->arg;
    uint64_t seen = http_topic_seen(dag_topic_ready(d));
    struct dag_call *c = mem_zalloc(sizeof *c);
    bool busy = false;

    c->h = h;
    c->pending = 1;
    json_open(&c->out, '{');
    json_key(&c->out, "runs");
    json_open(&c->out, '[');
    for (int64_t i = 0; i < limit; i++) {
        if (!dag_claim(d, client, groups, (size_t)count, lease_ms, &busy, on_claimed, c))
            break;
        c->pending++;
    }
    if (busy && wait_ms < BUSY_WAIT_MS)
        wait_ms = BUSY_WAIT_MS;
    if (c->pending == 1 && http_wait(r, dag_topic_ready(d), seen, wait_ms)) {
        dag_call_free(c);
        return;
    }
    dag_call_take(c, r);
    c->pending--;
    if (c->pending)
        return; /* answered when the claims are durable */
    http_reply(r, 200, STR("{\"runs\":[]}"));
    dag_call_free(c);
}

void http_post_claim(struct http_request *r)
{
    struct dag *d = http_dag(r);
    const struct json *v = d ? http_json(r) : NULL;
    int64_t client, lease_ms, limit = 1, wait_ms = 0;
    struct str groups[GROUPS_MAX];
    struct err_info why;
    int count;

    if (!v || !read_agent(r, v, &client, &lease_ms))
        return;
    if (json_get_int(v, "limit", &limit, &why) < 0 || json_get_int(v, "wait", &wait_ms, &why) < 0) {
        http_reply_error(r, 400, why.text);
        return;
    }
    if (limit < 1 || limit > CLAIM_MAX || wait_ms < 0) {
        http_reply_errorf(r, 400, "limit is 1 to %d, wait is not negative", CLAIM_MAX);
        return;
    }
    count = read_groups(r, v, groups);
    if (count >= 0)
        claim(r, d, client, lease_ms, groups, count, limit, wait_ms);
}

/* Renewing. */

void http_post_renew(struct http_request *r)
{
    struct dag *d = http_dag(r);
    const struct json *v = d ? http_json(r) : NULL, *runs = NULL;
    uint64_t seen = d ? http_topic_seen(dag_topic_kill(d)) : 0;
    int64_t client, lease_ms, wait_ms = 0, task;
    struct err_info why;
    struct buf b = {0};
    bool news = false;

    if (!v || !read_agent(r, v, &client, &lease_ms))
        return;
    if (json_get_list(v, "runs", &runs, &why) < 0 || json_get_int(v, "wait", &wait_ms, &why) < 0) {
        http_reply_error(r, 400, why.text);
        return;
    }
    json_open(&b, '{');
    json_key(&b, "runs");
    json_open(&b, '[');
    for (const struct json *m = runs ? runs->first : NULL; m; m = m->next) {
        struct str id = {0};
        struct dag_node *n;
        const char *state = "lost";

        task = 0;
        if (json_get_text(m, "node", &id, &why) < 0 || json_get_int(m, "task", &task, &why) < 0) {
            http_reply_error(r, 400, why.text);
            buf_release(&b);
            return;
        }
        n = graph_find_text(dag_graph(d), id);
        if (n && dag_renew(d, n, client, task, lease_ms))
            state = n->kill_asked ? "kill" : "yours";
        news |= strcmp(state, "yours") != 0;
        json_open(&b, '{');
        json_key(&b, "node");
        json_put_text(&b, id);
        json_key(&b, "task");
        json_put_int(&b, task);
        json_key(&b, "state");
        json_put_text(&b, str_of(state));
        json_close(&b, '}');
    }
    json_close(&b, ']');
    json_close(&b, '}');
    if (news || !http_wait(r, dag_topic_kill(d), seen, wait_ms))
        http_reply(r, 200, (struct str){b.p, b.len});
    buf_release(&b);
}

/* The end. */

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

/* What was printed, where it comes with the end; an output that was never sent is empty. */
static void keep_outputs(struct dag *d, struct dag_node *n, const struct json *v)
{
    static const char *const keys[] = {"stdout", "stderr", "mixedout"};

    for (int i = 0; i < RUN_STREAMS; i++) {
        struct node_datum *before = node_value(n, str_of(keys[i]));
        struct str text = {0};
        bool given = json_get_text(v, keys[i], &text, NULL) == 1;

        if (before && !given && before->live_pid == node_live_pid(n))
            continue; /* it came in pieces, from this run */
        if (before)
            dag_drop_slots(d, n, before);
        node_set_text(n, keys[i], text);
        node_value(n, str_of(keys[i]))->live_pid = node_live_pid(n);
        dag_keep_value(d, n, node_value(n, str_of(keys[i])), NULL, NULL);
    }
}

void http_post_done(struct http_request *r)
{
    struct dag *d = http_dag(r);
    const struct json *v = d ? http_json(r) : NULL;
    int64_t client, lease_ms, task;
    struct run_outcome o;
    struct dag_node *n;
    struct dag_call *c;

    if (!v || !read_agent(r, v, &client, &lease_ms) || !(n = read_run(r, d, v, &task)) ||
        !read_outcome(r, v, &o))
        return;
    if (n->agent == client && n->has_task && n->task == task)
        keep_outputs(d, n, v);
    c = dag_call_new(r);
    if (dag_ended(d, n, client, task, &o, on_done, c)) {
        http_reply_errorf(r, 409, "the run of node %" PRIu64 " is no longer yours", n->id);
        dag_call_free(c);
    }
}
