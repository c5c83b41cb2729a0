/* /v1/runs: listing, adding, showing and removing runs. */
#include <inttypes.h>

#include "base/mem.h"
#include "dag/service.h"

static void put_run(struct buf *b, const struct dag_run *r)
{
    int64_t nodes = 0;
    bool lives = dag_run_lives(r);
    json_open(b, '{');
    json_member_text(b, "id", str_of(r->id));
    json_member_text(b, "name", (struct str){r->id, r->name_len});
    json_member_text(b, "state", str_of(node_state_name(dag_run_state(r))));
    json_member_int(b, "added", r->added_ms);
    if (!lives)
        json_member_int(b, "ended", r->ended_ms > r->added_ms ? r->ended_ms : r->added_ms);
    json_member_bool(b, "keep_going", r->keep_going);
    json_member_open(b, "states", '{');
    for (int i = NODE_INCIPIENT; i <= NODE_SKIPPED; i++) {
        json_member_int(b, node_state_name((enum node_state)i), r->counts[i]);
        nodes += r->counts[i];
    }
    json_close(b, '}');
    json_member_int(b, "nodes", nodes);
    json_close(b, '}');
}

static int run_state_of(struct str word)
{
    int state = node_state_of(word);
    return state == NODE_INCIPIENT || state == NODE_SKIPPED ? -1 : state;
}

static bool fits(const struct dag_run *r, const struct dag_in *in, unsigned states)
{
    return (states >> dag_run_state(r) & 1) && r->added_ms >= in->since &&
           r->added_ms <= in->until &&
           (!in->name.p || str_eq((struct str){r->id, r->name_len}, in->name));
}

/* The newest first. A page ends before the run that `next` names. */
void http_get_runs(struct http_request *r)
{
    const struct dag_in *in = r->in;
    const struct dag *d = r->arg;
    CLEANUP(buf_release) struct buf b = {0};
    uint64_t before = UINT64_MAX;
    unsigned states;
    int64_t count = 0;

    if (!http_is_ready(r) ||
        !http_read_words(r, "state", in->states, in->state_count, run_state_of, &states))
        return;
    if (in->before.p && !graph_parse_id(in->before, &before)) {
        http_reply_field(r, "before", "before must be `next` of the previous page");
        return;
    }
    json_open(&b, '{');
    json_member_open(&b, "runs", '[');
    uint32_t i = d->graph.run_count;
    while (i && (d->graph.runs[i - 1]->number >= before || !fits(d->graph.runs[i - 1], in, states)))
        i--;
    while (i && count < in->limit) {
        put_run(&b, d->graph.runs[--i]);
        before = d->graph.runs[i]->number;
        count++;
        while (i && !fits(d->graph.runs[i - 1], in, states))
            i--;
    }
    json_close(&b, ']');
    if (i)
        http_member_id(&b, "next", before);
    json_close(&b, '}');
    http_reply(r, 200, buf_str(&b));
}

struct dag_run *http_run(struct http_request *r, struct str name)
{
    if (!http_is_ready(r))
        return NULL;
    struct dag_run *run = dag_resolve(r->arg, name).run;
    if (!run)
        http_reply_errorf(r, 404, "there is no run '%.*s'", NODE_CUT(name));
    return run;
}

void http_get_run(struct http_request *r)
{
    const struct dag_run *run = http_run(r, ((const struct dag_in *)r->in)->run);
    CLEANUP(buf_release) struct buf b = {0};
    if (!run)
        return;
    put_run(&b, run);
    http_reply(r, 200, buf_str(&b));
}

void http_post_runs(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    struct draft draft;
    struct err_info why;

    if (!http_is_ready(r))
        return;
    if (in->nodes->kind == JSON_LIST && !in->nodes->count) {
        http_reply_field(r, "nodes", "a run has at least one node");
        return;
    }
    int err = dag_draft_run(d, in->nodes, in->name, in->keep_going, &r->arena, &draft, &why);
    if (err) {
        http_reply_err(r, err, why.text);
        return;
    }
    struct dag_call *c = http_add_draft(r, &draft);
    if (!c)
        return;
    json_open(&c->out, '{');
    json_member_text(&c->out, "run", str_of(draft.run));
    json_key(&c->out, "nodes");
    http_put_ids(&c->out, draft.first_id, draft.count);
    json_close(&c->out, '}');
    dag_add(d, &draft, dag_call_done, c);
}

void http_delete_run(struct http_request *r)
{
    struct dag *d = r->arg;
    struct dag_run *run = http_run(r, ((const struct dag_in *)r->in)->run);
    struct err_info why;
    if (!run || !dag_may_change_runs(r))
        return;
    struct str id = str_of(run->id);
    if (dag_check_remove_run(d, run, &why)) {
        http_reply_error(r, 409, why.text);
        return;
    }
    if (!dag_audit_ids(r, &id, 1))
        return;
    struct dag_call *c = dag_call_new(r);
    json_open(&c->out, '{');
    json_member_text(&c->out, "run", id);
    json_close(&c->out, '}');
    dag_remove_run(d, run, dag_call_done, c);
}

/* Without a limit nothing would be kept: one is required. */
void http_post_prune(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    struct dag_keep keep = {.count = in->keep, .ms = in->older};
    if (!http_is_ready(r) || !dag_may_change_runs(r))
        return;
    if (keep.count < 0 && keep.ms < 0) {
        http_reply_field(r, "keep", "keep or older is missing");
        return;
    }
    if (!dag_audit_ids(r, NULL, 0))
        return;
    struct dag_call *c = dag_call_new(r);
    size_t removed = dag_prune(d, &keep, dag_call_done, c);
    json_open(&c->out, '{');
    json_member_int(&c->out, "removed", (int64_t)removed);
    json_close(&c->out, '}');
}
