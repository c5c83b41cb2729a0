/*
 * PATCH /v1/nodes/{id}: changes parents, when, priority, group and name of a node that has not
 * started. The spec of a node never changes; its record says what replaces it ("changed", node.h),
 * so the change is one write. A node that is offered to agents is withdrawn with the same
 * transaction: its task is deleted, and an agent that has just claimed it is told so at its start.
 */
#include <inttypes.h>

#include "base/mem.h"
#include "dag/service.h"

/* What the node becomes. */
struct change {
    struct plan_spec spec; /* parents: refs; NULL: they stay */
    struct str group, name;
};

static bool check_text(struct http_request *r, const char *field, struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.p[i] < 0x20) {
            http_reply_field(r, field, "%s has a control character", field);
            return false;
        }
    return true;
}

static bool is_in(const uint32_t *refs, size_t count, uint32_t ref)
{
    for (size_t i = 0; i < count; i++)
        if (refs[i] == ref)
            return true;
    return false;
}

/* A way from the node down to the new parent, as people read a cycle. */
static void reject_cycle(struct http_request *r, const struct dag_node *n,
                         const struct dag_node *parent)
{
    if (n == parent)
        http_reply_field(r, "parents", "cycle: node %" PRIu64 " waits for itself", n->id);
    else
        http_reply_field(r, "parents", "cycle: node %" PRIu64 " is below node %" PRIu64, parent->id,
                         n->id);
}

/* False after an answer. */
static bool read_parents(struct http_request *r, const struct dag_node *n, struct change *c)
{
    const struct dag_in *in = r->in;
    const struct dag *d = r->arg;
    CLEANUP(plan_changes_release) struct plan_changes below = {0};
    uint32_t *refs = arena_alloc(&r->arena, (in->parent_count + 1) * sizeof *refs);
    if (!in->parents)
        return true;
    c->spec.parents = refs;
    plan_descendants(&d->graph.plan, n->ref, &below);
    for (size_t i = 0; i < in->parent_count; i++) {
        const struct dag_node *parent = dag_resolve(d, in->parents[i]).node;
        if (str_eq(in->parents[i], STR("root")))
            continue;
        if (!parent) {
            http_reply_field(r, "parents", "there is no parent '%.*s'", NODE_CUT(in->parents[i]));
            return false;
        }
        if (!dag_may_change(r, parent))
            return false;
        if (is_in(below.refs, below.count, parent->ref)) {
            reject_cycle(r, n, parent);
            return false;
        }
        if (!is_in(refs, c->spec.parent_count, parent->ref))
            refs[c->spec.parent_count++] = parent->ref;
    }
    return true;
}

/* A branch is selected by a parent of type if. */
static bool check_branch(struct http_request *r, const struct change *c)
{
    const struct dag_plan *p = &((const struct dag *)r->arg)->graph.plan;
    if (!c->spec.node.branch || !c->spec.parents)
        return true;
    for (uint32_t i = 0; i < c->spec.parent_count; i++)
        if (p->nodes[c->spec.parents[i]].type == NODE_IF)
            return true;
    http_reply_field(r, "parents", "a branch needs a parent of type if");
    return false;
}

static bool read_change(struct http_request *r, struct dag_node *n, struct change *c)
{
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    *c = (struct change){.spec.node = *graph_plan(&d->graph, n),
                         .group = in->group.p ? in->group : n->group,
                         .name = in->name.p ? in->name : n->name};
    if (in->when >= 0)
        c->spec.node.when = (uint8_t)in->when;
    if (in->priority != INT64_MIN)
        c->spec.node.priority = (int32_t)in->priority;
    if (!check_text(r, "group", c->group) || !check_text(r, "name", c->name) ||
        !read_parents(r, n, c) || !check_branch(r, c))
        return false;
    c->spec.node.group = graph_group(&d->graph, c->group);
    if (c->spec.node.group != UINT32_MAX)
        return true;
    http_reply_field(r, "group", "there are %d groups already", GRAPH_GROUPS_MAX);
    return false;
}

/* All words, as they are now in the plan. */
static void set_changed(struct dag *d, struct dag_node *n)
{
    const struct dag_plan *p = &d->graph.plan;
    const struct plan_node *q = &p->nodes[n->ref];
    CLEANUP(buf_release) struct buf b = {0};
    json_open(&b, '{');
    json_member_open(&b, "parents", '[');
    plan_each_parent(e, p, n->ref)
        json_put_int(&b, (int64_t)p->nodes[p->edges[e].parent].id);
    json_close(&b, ']');
    json_member_text(&b, "when", str_of(node_when_name(q->when)));
    json_member_int(&b, "priority", q->priority);
    json_member_text(&b, "group", n->group);
    json_member_text(&b, "name", n->name.p ? n->name : STR(""));
    json_close(&b, '}');
    node_set_changed(n, buf_str(&b));
}

static void change_node(struct dag *d, struct dag_node *n, const struct change *c)
{
    struct plan_changes changes = {0};
    struct dag_commit *t = dag_commit_open(d);
    plan_change(&d->graph.plan, n->ref, &c->spec, &changes);
    n->group = str_of(d->graph.groups[c->spec.node.group]);
    if (c->name.p != n->name.p)
        graph_rename(n, c->name);
    set_changed(d, n);
    if (n->slot)
        dag_drop_task(t, n); /* of an offer; in another group it needs another one */
    dag_commit_record(t, n);
    dag_follow(d, t, &changes);
}

/* Whether it has not started, and nothing about it is in flight. False after an answer. */
static bool is_unstarted(struct http_request *r, const struct dag_node *n)
{
    const struct dag *d = r->arg;
    enum node_state state = dag_visible(d, n);
    if (state != NODE_INCIPIENT)
        http_reply_errorf(r, 409, "node %" PRIu64 " is %s: it cannot be changed any more", n->id,
                          node_state_name(state));
    else if (n->agent || n->task_busy || n->kill_asked || n->attempts)
        http_reply_errorf(r, 409, "node %" PRIu64 " is about to start: try again", n->id);
    else
        return true;
    return false;
}

void http_patch_node(struct http_request *r)
{
    struct dag *d = r->arg;
    struct dag_node *n = http_node(r);
    struct change c;
    if (!n || !dag_may_change(r, n) || !is_unstarted(r, n) || !read_change(r, n, &c))
        return;
    struct str id = str_of(arena_printf(&r->arena, "%" PRIu64, n->id));
    if (!dag_audit_ids(r, &id, 1))
        return;
    change_node(d, n, &c);
    struct dag_call *call = dag_call_new(r);
    node_put_metadata(&call->out, d, n, ~0u);
    dag_commit_then(dag_commit_open(d), dag_call_done, call);
}
