#include "dag/http_input.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* NULL: nobody can attach to it. */
static struct attach *attach_of(struct dag *d, struct dag_node *n)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct node_command c;
    if (n->attach || node_state_is_terminal(graph_state(&d->graph, n)))
        return n->attach;
    node_command(n, graph_plan(&d->graph, n)->type, &a, &c);
    if (!c.attach)
        return NULL;
    n->attach = mem_zalloc(sizeof *n->attach);
    n->attach->holds = true;
    n->attach->until_ms = dag_now_ms(d) + ATTACH_PATIENCE_MS;
    return n->attach;
}

/* Holding. */

static void apply_hold(struct dag *d, struct dag_node *n)
{
    const struct attach *a = n->attach;
    if (n->out)
        output_hold(n->out, a && a->holds ? &(struct output_at){{a->read, 0}} : NULL);
    if (n->run)
        run_resume(n->run);
    else if (n->out && !output_is_full(n->out))
        dag_wake_all(d, "room", (int64_t)n->id);
}

void attach_enter(struct dag *d, struct dag_node *n, struct attach_guest *g)
{
    struct attach *a = attach_of(d, n);
    g->attached = a != NULL;
    if (a)
        a->guests++;
}

void attach_leave(struct dag *d, struct dag_node *n, struct attach_guest *g)
{
    if (!g->attached || !n || !n->attach)
        return;
    g->attached = false;
    if (--n->attach->guests)
        return;
    n->attach->until_ms = dag_now_ms(d) + ATTACH_PATIENCE_MS;
    dag_arm(d, n->attach->until_ms);
}

void attach_read(struct dag *d, struct dag_node *n, struct attach_guest *g, uint64_t offset)
{
    if (!g->attached || !n->attach || n->attach->read >= offset)
        return;
    n->attach->read = offset;
    apply_hold(d, n);
}

/* Input. */

/* Passes on what the command takes. */
void dag_feed(struct dag *d, struct dag_node *n)
{
    struct attach *a = n->attach;
    if (!n->run || !a)
        return;
    size_t taken = run_write(n->run, buf_str(&a->input), a->input_ended);
    a->input_at += taken;
    if (taken)
        memmove(a->input.p, a->input.p + taken, a->input.len -= taken);
    if (taken)
        dag_wake_all(d, "stdin", (int64_t)n->id);
}

/* A run begins: holds its output, and passes on what has come before. */
void dag_attach(struct dag *d, struct dag_node *n)
{
    struct attach *a = attach_of(d, n);
    if (!a)
        return;
    a->read = 0;
    a->until_ms = dag_now_ms(d) + ATTACH_PATIENCE_MS;
    if (!a->guests)
        dag_arm(d, a->until_ms);
    apply_hold(d, n);
    dag_feed(d, n);
}

int64_t dag_attach_tick(struct dag *d, struct dag_node *n, int64_t now_ms)
{
    struct attach *a = n->attach;
    if (!a || a->guests || !a->holds)
        return INT64_MAX;
    if (now_ms < a->until_ms)
        return a->until_ms;
    a->holds = false;
    a->input_ended = true;
    apply_hold(d, n);
    dag_feed(d, n);
    dag_wake_all(d, "stdin", (int64_t)n->id);
    return INT64_MAX;
}

static struct attach *http_attach(struct http_request *r, struct dag_node *n)
{
    struct attach *a = attach_of(r->arg, n);
    if (!a)
        http_reply_errorf(r, 409,
                          "node %" PRIu64 " takes no input: data.attach is not true, or "
                          "it has ended",
                          n->id);
    return a;
}

static void reply_next(struct http_request *r, uint64_t next)
{
    CLEANUP(buf_release) struct buf b = {0};
    json_open(&b, '{');
    json_member_int(&b, "next", (int64_t)next);
    json_close(&b, '}');
    http_reply(r, 200, buf_str(&b));
}

/*
 * Takes what there is room for; if there is none, the request waits. What was taken before is
 * passed over.
 */
void http_post_stdin(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    struct dag_node *n = http_node(r);
    struct attach *a = n && dag_may_change(r, n) ? http_attach(r, n) : NULL;
    if (!a)
        return;
    uint64_t key = dag_key("stdin", (int64_t)n->id), end = a->input_at + a->input.len,
             at = (uint64_t)in->at;
    struct http_watch w = http_watch(r, &d->topic, &key, 1);
    if (at > end) {
        http_reply_errorf(r, 409, "the next byte is %" PRIu64, end);
        return;
    }
    size_t known = end - at < r->body.len ? (size_t)(end - at) : r->body.len,
           room = RUN_INPUT_LEN - a->input.len, len = r->body.len - known;
    if (len && !room && !a->input_ended && http_park(r, &w, in->wait))
        return;
    len = len < room ? len : room;
    if (a->input_ended)
        a->input_at += len; /* it has ended: dropped */
    else
        buf_put(&a->input, r->body.p + known, len);
    a->input_ended |= in->end && known + len == r->body.len;
    if (n->run)
        dag_feed(d, n);
    else if (n->agent)
        dag_wake_all(d, "input", (int64_t)n->id);
    reply_next(r, end + len);
}

/* For the agent that runs it. What is before `at` was written to the command. */
void http_get_stdin(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    struct dag_node *n = http_node(r);
    if (!n || !dag_may_be_agent(r))
        return;
    struct attach *a = dag_is_run_by(n, in->clientid, in->attempt) ? attach_of(d, n) : NULL;
    uint64_t at = (uint64_t)in->at;
    if (!a || at < a->input_at || at > a->input_at + a->input.len) {
        http_reply_error(r, 409, "the agent does not run it, or this was read before");
        return;
    }
    uint64_t key = dag_key("input", (int64_t)n->id);
    struct http_watch w = http_watch(r, &d->topic, &key, 1);
    size_t taken = (size_t)(at - a->input_at);
    if (taken) {
        a->input_at = at;
        memmove(a->input.p, a->input.p + taken, a->input.len -= taken);
        dag_wake_all(d, "stdin", (int64_t)n->id);
    }
    if (!a->input.len && a->input_ended)
        http_reply_error(r, 410, "the input has ended");
    else if (a->input.len || !http_park(r, &w, in->wait))
        http_reply_as(r, 200, "application/octet-stream", buf_str(&a->input));
}

/* The output of a run at an agent. */

static bool take_records(struct dag_node *n, struct str records, int64_t now_ms)
{
    struct output *o = n->out;
    struct output_at at = o->total;
    for (ssize_t len; records.len; records.p += len, records.len -= (size_t)len) {
        struct output_record r;
        len = output_read_record(records.p, records.len, false, &r);
        if (len <= 0)
            return false;
        if (r.kind == OUTPUT_AT)
            at = (struct output_at){{r.numbers[0], r.numbers[1]}};
        if (r.kind == OUTPUT_GAP)
            at = (struct output_at){{at.of[0] + r.numbers[0], at.of[1] + r.numbers[1]}};
        if (r.kind > OUTPUT_STDERR)
            continue;
        if (output_offset(&at, RUN_MIXED) > output_offset(&o->total, RUN_MIXED))
            output_put_missing(o, &at, now_ms);
        uint64_t known = o->total.of[r.kind] - at.of[r.kind];
        at.of[r.kind] += r.data.len;
        if (known < r.data.len)
            output_put(o, (enum run_stream)r.kind,
                       (struct str){r.data.p + known, r.data.len - (size_t)known}, r.time_ms);
    }
    if (output_offset(&at, RUN_MIXED) > output_offset(&o->total, RUN_MIXED))
        output_put_missing(o, &at, now_ms);
    return true;
}

static void reply_position(struct http_request *r, const struct dag *d, const struct output *o)
{
    CLEANUP(buf_release) struct buf b = {0};
    json_open(&b, '{');
    json_member_int(&b, "stdout", (int64_t)o->total.of[0]);
    json_member_int(&b, "stderr", (int64_t)o->total.of[1]);
    json_member_int(&b, "limit", (int64_t)o->limit);
    json_member_bool(&b, "all", d->outputs != NULL);
    json_close(&b, '}');
    http_reply(r, 200, buf_str(&b));
}

/* Records, from an AT on. Waits while the output is held and full. */
void http_post_output(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    struct dag_node *n = http_node(r);
    if (!n || !dag_may_be_agent(r))
        return;
    if (!dag_is_run_by(n, in->clientid, in->attempt)) {
        http_reply_error(r, 409, "the agent does not run it");
        return;
    }
    if (!n->out) {
        n->out = dag_output_continue(d, n);
        dag_attach(d, n);
    }
    uint64_t key = dag_key("room", (int64_t)n->id);
    struct http_watch w = http_watch(r, &d->topic, &key, 1);
    if (output_is_full(n->out) && http_park(r, &w, in->wait))
        return;
    if (!take_records(n, r->body, dag_now_ms(d))) {
        http_reply_error(r, 400, "the body has no whole records");
        return;
    }
    dag_output_printed(d, n);
    dag_printed(d, n);
    reply_position(r, d, n->out);
}
