/* /v1/nodes: listing, adding, showing and removing nodes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "base/mem.h"
#include "dag/service.h"

enum {
    LIMIT_DEFAULT = 1000,
    SLICE_NODES = 16384, /* looked at for a slice of a list: few may be wanted */
};

/* Metadata. A set of fields has a bit for each: the parents, then the texts, then the numbers. */

enum { FIELD_PARENT, FIELD_PARENTS, FIELD_TEXTS, FIELD_NUMBERS = 10, FIELD_COUNT = 15 };

static const char *const FIELDS[FIELD_COUNT] = {
    "parent", "parents", "type",     "state", "name",    "run",   "when",    "branch",
    "group",  "reason",  "priority", "added", "started", "ended", "attempts"};

/* The number of its bit, or -1. The id is always there. */
static int metadata_field(struct str name)
{
    for (int i = 0; i < FIELD_COUNT; i++)
        if (str_eq(str_of(FIELDS[i]), name))
            return i;
    return str_eq(name, STR("id")) ? FIELD_COUNT : -1;
}

static void put_parents(struct buf *b, const struct dag_plan *p, uint32_t ref, unsigned fields)
{
    uint32_t first = p->nodes[ref].parents;
    if (fields & 1u << FIELD_PARENT && first)
        http_member_id(b, "parent", p->nodes[p->edges[first].parent].id);
    else if (fields & 1u << FIELD_PARENT)
        json_member_text(b, "parent", STR("root"));
    if (fields & 1u << FIELD_PARENTS) {
        json_member_open(b, "parents", '[');
        plan_each_parent(e, p, ref)
            http_put_id(b, p->nodes[p->edges[e].parent].id);
        json_close(b, ']');
    }
}

void node_put_metadata(struct buf *b, struct dag *d, const struct dag_node *n, unsigned fields)
{
    const struct plan_node *p = graph_plan(&d->graph, n);
    const struct str texts[FIELD_NUMBERS - FIELD_TEXTS] = {
        str_of(node_type_name(p->type)),
        str_of(node_state_name(d->graph.shown[n->index])),
        n->name,
        n->chunk->run ? str_of(n->chunk->run->id) : (struct str){0},
        str_of(node_when_name(p->when)),
        str_of(node_branch_name(p->branch)),
        n->group,
        n->reason ? str_of(n->reason) : (struct str){0},
    };
    const int64_t numbers[FIELD_COUNT - FIELD_NUMBERS] = {p->priority, n->added_ms, n->started_ms,
                                                          n->ended_ms, n->attempts};

    json_open(b, '{');
    http_member_id(b, "id", n->id);
    put_parents(b, &d->graph.plan, n->ref, fields);
    for (int i = FIELD_TEXTS; i < FIELD_NUMBERS; i++)
        if (fields & 1u << i && texts[i - FIELD_TEXTS].len)
            json_member_text(b, FIELDS[i], texts[i - FIELD_TEXTS]);
    for (int i = FIELD_NUMBERS; i < FIELD_COUNT; i++)
        if (fields & 1u << i && numbers[i - FIELD_NUMBERS])
            json_member_int(b, FIELDS[i], numbers[i - FIELD_NUMBERS]);
    json_close(b, '}');
}

/* Listing. */

struct node_listing {
    unsigned types, states, fields; /* sets */
    uint64_t run;                   /* the number of the run; 0: any */
    uint64_t after;                 /* ids above this */
    int64_t limit;                  /* 0: not paged */
    int64_t count;                  /* of nodes so far */
    struct buf b;                   /* the slice */
    bool sent;                      /* one was sent */
    struct http_watch watch;        /* for new nodes, from before the first look */
    char pid[64];
};

bool http_read_words(struct http_request *r, const char *name, const struct str *words,
                     size_t count, int (*find)(struct str), unsigned *ret_set)
{
    unsigned set = words ? 0 : ~0u;
    for (size_t i = 0; i < count; i++) {
        int bit = find(words[i]);
        if (bit < 0) {
            http_reply_field(r, name, "there is no %s '%.*s'", name, NODE_CUT(words[i]));
            return false;
        }
        set |= 1u << bit;
    }
    *ret_set = set;
    return true;
}

/*
 * The pid names a listing by the query and the number of deletions: new nodes are appended, but
 * after a deletion the pages have moved.
 */
static bool read_listing(struct http_request *r, struct dag *d, struct node_listing *l)
{
    const struct dag_in *in = r->in;
    uint64_t start = 0;
    *l = (struct node_listing){.limit = in->limit ? in->limit : in->start.p ? LIMIT_DEFAULT : 0};
    if (!http_read_words(r, "type", in->types, in->type_count, node_type_of, &l->types) ||
        !http_read_words(r, "state", in->states, in->state_count, node_state_of, &l->states) ||
        !http_read_words(r, "metadata", in->metadata, in->metadata_count, metadata_field,
                         &l->fields))
        return false;
    if (in->new_id.p && !str_eq(in->new_id, STR("0")) && !graph_parse_id(in->new_id, &l->after)) {
        http_reply_field(r, "new", "new must be a node id");
        return false;
    }
    if (in->run.p) {
        const struct dag_run *run = http_run(r, in->run);
        if (!run)
            return false;
        l->run = run->number;
        l->after = run->first_id - 1 > l->after ? run->first_id - 1 : l->after;
    }
    uint64_t query[] = {l->types, l->states, l->fields, l->run};
    snprintf(l->pid, sizeof l->pid, "%" PRIx64 "-%" PRIx64 "-%08x", (uint64_t)d->client,
             d->graph.deletions, (unsigned)XXH3_64bits(query, (l->run ? 4 : 3) * sizeof *query));
    if (!http_read_start(r, l->pid, l->pid, &start))
        return false;
    if (start > l->after + 1)
        l->after = start - 1;
    return true;
}

static bool fits(const struct graph *g, uint32_t at, const struct node_listing *l)
{
    const struct dag_run *run = l->run && g->order[at] ? g->order[at]->chunk->run : NULL;
    return g->shown[at] != SHOWN_NONE && (l->states >> g->shown[at] & 1) &&
           (!l->run || (run && run->number == l->run)) &&
           (l->types == ~0u || l->types >> graph_plan(g, g->order[at])->type & 1);
}

/* Puts the next nodes. True: there is more, after l->after. */
static bool put_slice(struct dag *d, struct node_listing *l, size_t len)
{
    const struct graph *g = &d->graph;
    uint32_t at = graph_seek(g, l->after + 1), end = at + SLICE_NODES;
    bool is_last = false; /* the page is full, and a node at `at` is on the next one */
    for (; at < g->count && at < end && l->b.len < len && !is_last; at += !is_last) {
        if (!fits(g, at, l))
            continue;
        is_last = l->limit && l->count == l->limit;
        if (is_last)
            continue;
        node_put_metadata(&l->b, d, g->order[at], l->fields);
        l->count++;
    }
    while (at < g->count && !g->order[at])
        at++;
    if (at < g->count && !is_last) {
        l->after = g->order[at]->id - 1;
        return true;
    }
    json_close(&l->b, ']');
    if (is_last)
        http_put_pagination(&l->b, g->order[at]->id, l->pid);
    if (l->limit)
        json_close(&l->b, '}');
    return false;
}

static void listing_free(struct node_listing *l)
{
    buf_release(&l->b);
    free(l);
}

static void on_listing_gone(struct http_request *r)
{
    listing_free(r->handler_data);
}

static void list_nodes(struct http_request *r);

/* The next slice. While nothing is found, nothing is sent. False: the listing has ended. */
static bool list_slice(struct http_request *r, struct node_listing *l)
{
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    if (l->sent && !d->ready) {
        http_stream_abort(r);
        return false;
    }
    if (!http_is_ready(r))
        return false;
    bool more = put_slice(d, l, http_slice_len(r));
    if (more && !l->count) {
        http_later(r, list_nodes);
        return true;
    }
    if (!l->count && in->new_id.p && http_park(r, &l->watch, in->timeout))
        return false;
    l->sent = true;
    return http_reply_slice(r, &l->b, more ? list_nodes : NULL);
}

static void list_nodes(struct http_request *r)
{
    struct node_listing *l = r->handler_data;
    if (l->sent)
        http_slice_begin(&l->b);
    if (!list_slice(r, l))
        listing_free(l);
}

void http_get_nodes(struct http_request *r)
{
    uint64_t key = dag_key("added", 0);
    struct dag *d = r->arg;
    struct node_listing *l = mem_alloc(sizeof *l);
    if (!http_is_ready(r) || !read_listing(r, d, l)) {
        free(l);
        return;
    }
    l->watch = http_watch(r, &d->topic, &key, 1);
    if (l->limit) {
        json_open(&l->b, '{');
        json_key(&l->b, "nodes");
    }
    json_open(&l->b, '[');
    r->handler_data = l;
    r->gone = on_listing_gone;
    list_nodes(r);
}

/* Adding. */

void http_put_ids(struct buf *b, uint64_t first_id, uint32_t count)
{
    json_open(b, '[');
    for (uint32_t i = 0; i < count; i++) {
        json_open(b, '{');
        http_member_id(b, "id", first_id + i);
        json_close(b, '}');
    }
    json_close(b, ']');
}

struct dag_call *http_add_draft(struct http_request *r, struct draft *draft)
{
    const struct dag_in *in = r->in;
    if (dag_may_add(r, draft) &&
        dag_audit_add(((struct dag *)r->arg)->context->audit, r, in->nodes, draft->first_id))
        return dag_call_new(r);
    draft_release(draft);
    return NULL;
}

void http_post_nodes(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    struct draft draft;
    struct err_info why;

    if (!http_is_ready(r))
        return;
    int err = dag_draft(d, in->nodes, &r->arena, &draft, &why);
    if (err) {
        http_reply_err(r, err, why.text);
        return;
    }
    struct dag_call *c = http_add_draft(r, &draft);
    if (!c)
        return;
    http_put_ids(&c->out, draft.first_id, draft.count);
    if (draft.count)
        dag_add(d, &draft, dag_call_done, c);
    else
        dag_call_done(c, 0);
}

/* One node. */

static void put_data(struct buf *b, const struct dag_node *n, struct arena *a)
{
    const struct json *data = node_spec_data(n, a);
    json_open(b, '{');
    for (const struct json *m = data ? data->first : NULL; m; m = m->next)
        if (!node_value(n, m->key)) {
            json_key_str(b, m->key);
            json_put_raw(b, m->raw);
        }
    for (const struct node_datum *v = n->values; v; v = v->next) /* large ones are read alone */
        if (!v->slot_count && !node_live(n, str_of(v->key)))
            node_put_value(b, v);
    json_close(b, '}');
}

/* Why the node is in its state. */
static void put_why(struct buf *b, struct dag *d, const struct dag_node *n)
{
    const struct graph *g = &d->graph;
    const struct dag_node *first = NULL; /* of the parents that have not ended */
    uint32_t count = 0;
    plan_each_parent(e, &g->plan, n->ref) {
        const struct dag_node *parent = graph_at(g, g->plan.edges[e].parent);
        if (!node_state_is_terminal(graph_state(g, parent)) && !count++)
            first = parent;
    }
    const char *state = first ? node_state_name(g->shown[first->index]) : "";
    if (n->parked)
        buf_printf(b, "waits %" PRId64 " ms before the next attempt",
                   n->due_at > dag_now_ms(d) ? n->due_at - dag_now_ms(d) : 0);
    else if (count == 1)
        buf_printf(b, "waits for node %" PRIu64 ", which is %s", first->id, state);
    else if (count)
        buf_printf(b, "waits for %" PRIu32 " nodes, of which node %" PRIu64 " is %s", count,
                   first->id, state);
    else if (graph_state(g, n) == NODE_INCIPIENT || n->ahead)
        buf_printf(b, "ready; waits for an agent of group %.*s", STR_ARGS(n->group));
    else if (graph_state(g, n) == NODE_SKIPPED)
        buf_printf(b, "skipped: its parents did not end as `when` requires (%s)",
                   node_when_name(graph_plan(g, n)->when));
}

void http_get_node(struct http_request *r)
{
    struct dag *d = r->arg;
    struct dag_node *n = http_node(r);
    CLEANUP(buf_release) struct buf why = {0}, b = {0};
    if (!n)
        return;
    json_open(&b, '{');
    json_key(&b, "metadata");
    node_put_metadata(&b, d, n, ~0u);
    put_why(&why, d, n);
    if (why.len)
        json_member_text(&b, "why", buf_str(&why));
    json_key(&b, "data");
    put_data(&b, n, &r->arena);
    json_close(&b, '}');
    http_reply(r, 200, buf_str(&b));
}

void http_delete_node(struct http_request *r)
{
    const struct dag_in *in = r->in;
    struct dag *d = r->arg;
    struct dag_node *n = http_node(r);
    CLEANUP(plan_changes_release) struct plan_changes all = {0};
    struct err_info why;

    if (!n || !dag_may_change(r, n))
        return;
    struct str id = str_of(arena_printf(&r->arena, "%" PRIu64, n->id));
    if (!dag_audit_ids(r, &id, 1))
        return;
    struct dag_call *c = dag_call_new(r);
    if (in->chain)
        plan_descendants(&d->graph.plan, n->ref, &all);
    else
        plan_changes_put(&all, n->ref);
    json_open(&c->out, '[');
    for (size_t i = 0; i < all.count; i++) {
        json_open(&c->out, '{');
        http_member_id(&c->out, "id", d->graph.plan.nodes[all.refs[i]].id);
        json_close(&c->out, '}');
    }
    json_close(&c->out, ']');
    int err = dag_remove(d, &all, in->chain, dag_call_done, c, &why);
    if (err) {
        http_reply_err(r, err, why.text);
        dag_call_free(c);
    }
}
