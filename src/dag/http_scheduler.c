/*
 * /v1/scheduler: kill, retry, wait. For agents on other machines: starting a node that they have
 * claimed, kills, and the end of a run; claims and renewals are requests to the task store.
 */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "dag/service.h"

/* The states of nodes and runs, by their ids. */
static void put_states(struct buf *b, const struct dag *d, const struct str *ids, size_t count)
{
    json_open(b, '[');
    for (size_t i = 0; i < count; i++) {
        struct dag_target t = dag_resolve(d, ids[i]);
        uint8_t shown = t.node  ? d->graph.shown[t.node->index]
                        : t.run ? (uint8_t)dag_run_state(t.run)
                                : SHOWN_NONE;
        json_open(b, '{');
        json_member_text(b, "id", ids[i]);
        json_member_text(b, "state",
                         shown == SHOWN_NONE ? STR("deleted") : str_of(node_state_name(shown)));
        json_close(b, '}');
    }
    json_close(b, ']');
}

/*
 * Finds what ?id=1,build-7,build-7/test names, and puts the ids in place of names, so that they
 * mean the same later. False after an answer.
 */
static bool find_targets(struct http_request *r)
{
    struct dag_in *in = r->in;
    const struct dag *d = r->arg;
    if (!http_is_ready(r))
        return false;
    struct str *ids = arena_alloc(&r->arena, (in->id_count + 1) * sizeof *ids);
    for (size_t i = 0; i < in->id_count; i++) {
        struct dag_target t = dag_resolve(d, in->ids[i]);
        if (!t.node && !t.run) {
            http_reply_errorf(r, 404, "there is no node or run '%.*s'", NODE_CUT(in->ids[i]));
            return false;
        }
        ids[i] = str_of(t.node ? arena_printf(&r->arena, "%" PRIu64, t.node->id)
                               : arena_text(&r->arena, str_of(t.run->id)));
    }
    in->ids = ids;
    return true;
}

void http_get_scheduler(struct http_request *r)
{
    const struct dag *d = r->arg;
    int64_t counts[SHOWN_NONE + 1] = {0};
    CLEANUP(buf_release) struct buf b = {0};
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
    http_reply(r, 200, buf_str(&b));
}

/* The same of what the request changes. */
static bool targets_may_change(struct http_request *r)
{
    const struct dag_in *in = r->in;
    bool may = find_targets(r);
    for (size_t i = 0; may && i < in->id_count; i++) {
        struct dag_target t = dag_resolve(r->arg, in->ids[i]);
        may = t.node ? dag_may_change(r, t.node) : dag_may_change_runs(r);
    }
    return may;
}

/* One of several changes is durable, or all of them were made. */
static void on_change(void *arg, int err)
{
    struct dag_call *c = arg;
    if (err)
        c->err = err;
    if (--c->pending)
        return;
    if (!c->err)
        put_states(&c->out, c->dag, c->ids, c->count);
    dag_call_done(c, c->err);
}

/* Changes a node if that makes sense. */
typedef void change_fn(struct dag_call *c, struct dag_node *n);

static void kill_node(struct dag_call *c, struct dag_node *n)
{
    c->pending++;
    dag_kill(c->dag, n, on_change, c);
}

static void retry_node(struct dag_call *c, struct dag_node *n)
{
    struct err_info why;
    if (dag_check_retry(c->dag, n, &why))
        return; /* an earlier one has made it wait again; of a run: it has not failed */
    c->pending++;
    dag_retry(c->dag, n, on_change, c);
}

/* Changes the nodes of a request, and answers when all changes are durable. */
static void change_all(struct http_request *r, change_fn *change)
{
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    struct dag_call *c = dag_call_new(r);
    struct str *ids = arena_alloc(&c->arena, (in->id_count + 1) * sizeof *ids);
    for (size_t i = 0; i < in->id_count; i++)
        ids[i] = str_of(arena_text(&c->arena, in->ids[i]));
    c->ids = ids;
    c->count = in->id_count;
    c->pending = 1;
    for (size_t i = 0; i < c->count; i++) {
        struct dag_target t = dag_resolve(d, ids[i]);
        if (t.node)
            change(c, t.node);
        else
            graph_each_in_run(k, &d->graph, t.run) change(c, d->graph.order[k]);
    }
    on_change(c, 0);
}

void http_put_kill(struct http_request *r)
{
    const struct dag_in *in = r->in;
    if (targets_may_change(r) && dag_audit_ids(r, in->ids, in->id_count))
        change_all(r, kill_node);
}

/* A node that did not fail is refused, and so is a run in which none did. */
static int check_retry(const struct dag *d, struct dag_target t, struct err_info *e)
{
    if (t.node)
        return dag_check_retry(d, t.node, e);
    if (t.run->counts[NODE_FAILED] || t.run->counts[NODE_KILLED])
        return 0;
    return err_set(e, DROVER_REFUSED, "run %s is %s: no node of it failed or was killed", t.run->id,
                   node_state_name(dag_run_state(t.run)));
}

void http_put_retry(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    struct err_info why;
    if (!targets_may_change(r))
        return;
    for (size_t i = 0; i < in->id_count; i++)
        if (check_retry(d, dag_resolve(d, in->ids[i]), &why)) {
            http_reply_error(r, 409, why.text);
            return;
        }
    if (dag_audit_ids(r, in->ids, in->id_count))
        change_all(r, retry_node);
}

/*
 * Waits for the newest of the nodes that have not ended: it is likely to end last, so the request
 * is seldom run again. A run is waited for as a whole. What was removed meanwhile counts as ended.
 */
void http_get_wait(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    uint64_t newest = 0, key = 0;
    CLEANUP(buf_release) struct buf b = {0};

    if (http_was_parked(r) ? !http_is_ready(r) : !find_targets(r))
        return;
    for (size_t i = 0; i < in->id_count; i++) {
        struct dag_target t = dag_resolve(d, in->ids[i]);
        if (t.run && dag_run_lives(t.run)) {
            newest = UINT64_MAX;
            key = dag_key("run", (int64_t)t.run->number);
        } else if (t.node && !node_state_is_terminal(d->graph.shown[t.node->index]) &&
                   t.node->id > newest) {
            newest = t.node->id;
            key = dag_key("ended", (int64_t)newest);
        }
    }
    if (newest) {
        uint64_t keys[] = {key, dag_key("stopped", 0)};
        struct http_watch w = http_watch(r, &d->topic, keys, 2);
        if (http_park(r, &w, in->timeout < 0 ? INT64_MAX : in->timeout))
            return;
    }
    put_states(&b, d, in->ids, in->id_count);
    http_reply(r, 200, buf_str(&b));
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
    const char *password = dag_password(d, n, a);
    dag_command(d, n, a, &c);
    json_open(b, '{');
    http_member_id(b, "node", n->id);
    json_member_int(b, "attempt", n->attempts);
    json_member_int(b, "store", d->client);
    json_member_text(b, "parent", str_of(dag_parent_text(d, n, a)));
    if (password)
        json_member_text(b, "password", str_of(password));
    put_list(b, "argv", c.ask.argv);
    put_list(b, "env", c.ask.env);
    if (c.ask.user)
        json_member_text(b, "user", str_of(c.ask.user));
    json_key(b, "limits");
    limits_put(b, &c.ask.limits);
    if (c.cwd)
        json_member_text(b, "cwd", str_of(c.cwd));
    json_member_int(b, "timeout", c.timeout_ms);
    json_close(b, '}');
}

void http_post_start(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag_node *n = http_node(r);
    CLEANUP(buf_release) struct buf b = {0};
    if (!n || !dag_may_be_agent(r))
        return;
    if (n->agent != in->clientid || n->task != in->task || n->kill_asked) {
        http_reply_errorf(r, 409,
                          "client %" PRId64 " has not claimed node %" PRIu64 " as task %" PRId64,
                          in->clientid, n->id, in->task);
        return;
    }
    if (!n->begun && dag_agent_drains(r->arg, in->clientid)) { /* its claim was waiting */
        dag_unclaim(r->arg, n);
        http_reply_errorf(r, 409, "client %" PRId64 " drains: it takes no more nodes",
                          in->clientid);
        return;
    }
    if (!n->begun)
        dag_count_start(r->arg, n);
    n->begun = true;
    put_run(&b, r->arg, n, &r->arena);
    http_reply(r, 200, buf_str(&b));
}

static bool put_kills(struct buf *b, const struct dag *d, int64_t client, uint64_t after)
{
    bool any = false;
    json_open(b, '{');
    json_member_open(b, "nodes", '[');
    for (uint32_t i = 0; i < d->running.count; i++) {
        const struct dag_node *n = d->running.nodes[i];
        if (n->agent == client && n->kill_asked && n->kill_number > after) {
            http_put_id(b, n->id);
            any = true;
        }
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
    CLEANUP(buf_release) struct buf b = {0};
    if (!http_is_ready(r) || !dag_may_be_agent(r))
        return;
    struct http_watch w = http_watch(r, &d->topic, &key, 1);
    if (after > d->kill_number)
        after = 0; /* it is of the server before a restart */
    if (put_kills(&b, d, in->clientid, after) || !http_park(r, &w, in->wait))
        http_reply(r, 200, buf_str(&b));
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
    struct run_end end = {.how = (enum run_how)in->how, .status = (int)in->status};
    struct dag *d = r->arg;
    struct dag_node *n = http_node(r);
    if (!n || !dag_may_be_agent(r))
        return;
    if (!dag_is_run_by(n, in->clientid, in->attempt)) {
        http_reply_errorf(r, 409,
                          "client %" PRId64 " does not run attempt %" PRId64 " of node %" PRIu64,
                          in->clientid, in->attempt, n->id);
        return;
    }
    end.reason = in->reason.len ? arena_text(&r->arena, in->reason) : NULL;
    save_outputs(d, n, in);
    struct dag_call *c = dag_call_new(r);
    buf_put_str(&c->out, STR("{}"));
    dag_end_run(d, n, &end, dag_call_done, c);
}
