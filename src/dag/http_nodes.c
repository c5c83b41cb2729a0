/* /v1/nodes: listing, adding, one node, removing. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "dag/http_impl.h"

enum { LIMIT_DEFAULT = 1000, LIMIT_MAX = 100000, NEW_WAIT_MS = 3600 * 1000 };

/* Metadata. */

enum field {
    FIELD_TYPE,
    FIELD_PARENT,
    FIELD_PARENTS,
    FIELD_STATE,
    FIELD_NAME,
    FIELD_WHEN,
    FIELD_BRANCH,
    FIELD_PRIORITY,
    FIELD_GROUP,
    FIELD_ADDED,
    FIELD_STARTED,
    FIELD_ENDED,
    FIELD_ATTEMPTS,
    FIELD_REASON,
    FIELD_COUNT,
};

static const char *const FIELDS[FIELD_COUNT] = {"type",    "parent", "parents",  "state", "name",
                                                "when",    "branch", "priority", "group", "added",
                                                "started", "ended",  "attempts", "reason"};

int node_metadata_field(struct str name)
{
    for (int i = 0; i < FIELD_COUNT; i++)
        if (str_eq(str_of(FIELDS[i]), name))
            return i;
    return str_eq(name, STR("id")) ? FIELD_COUNT : -1;
}

void http_put_id(struct buf *b, uint64_t id)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, id);
    json_put_text(b, str_of(text));
}

static void put_text(struct buf *b, enum field f, struct str text)
{
    if (!text.len)
        return;
    json_key(b, FIELDS[f]);
    json_put_text(b, text);
}

static void put_number(struct buf *b, enum field f, int64_t number)
{
    if (!number)
        return;
    json_key(b, FIELDS[f]);
    json_put_int(b, number);
}

static void put_parents(struct buf *b, const struct dag_plan *p, uint32_t ref, unsigned fields)
{
    if (fields & 1u << FIELD_PARENT) {
        json_key(b, "parent");
        if (p->nodes[ref].parents)
            http_put_id(b, p->nodes[p->edges[p->nodes[ref].parents].parent].id);
        else
            json_put_text(b, STR("root"));
    }
    if (fields & 1u << FIELD_PARENTS) {
        json_key(b, "parents");
        json_open(b, '[');
        plan_each_parent(e, p, ref)
            http_put_id(b, p->nodes[p->edges[e].parent].id);
        json_close(b, ']');
    }
}

void node_put_metadata(struct buf *b, struct dag *d, const struct dag_node *n, unsigned fields)
{
    const struct graph *g = dag_graph(d);
    const struct plan_node *p = graph_plan(g, n);

    json_open(b, '{');
    json_key(b, "id");
    http_put_id(b, n->id);
    if (fields & 1u << FIELD_TYPE)
        put_text(b, FIELD_TYPE, str_of(node_type_name(p->type)));
    put_parents(b, &g->plan, n->ref, fields);
    if (fields & 1u << FIELD_STATE)
        put_text(b, FIELD_STATE, str_of(node_state_name(g->shown[n->index])));
    if (fields & 1u << FIELD_NAME)
        put_text(b, FIELD_NAME, n->name);
    if (fields & 1u << FIELD_WHEN)
        put_text(b, FIELD_WHEN, str_of(node_when_name(p->when)));
    if (fields & 1u << FIELD_BRANCH)
        put_text(b, FIELD_BRANCH, str_of(node_branch_name(p->branch)));
    if (fields & 1u << FIELD_PRIORITY)
        put_number(b, FIELD_PRIORITY, p->priority);
    if (fields & 1u << FIELD_GROUP)
        put_text(b, FIELD_GROUP, n->group);
    if (fields & 1u << FIELD_ADDED)
        put_number(b, FIELD_ADDED, n->added_ms);
    if (fields & 1u << FIELD_STARTED)
        put_number(b, FIELD_STARTED, n->started_ms);
    if (fields & 1u << FIELD_ENDED)
        put_number(b, FIELD_ENDED, n->ended_ms);
    if (fields & 1u << FIELD_ATTEMPTS)
        put_number(b, FIELD_ATTEMPTS, n->attempts);
    if (fields & 1u << FIELD_REASON && n->reason)
        put_text(b, FIELD_REASON, str_of(n->reason));
    json_close(b, '}');
}

/* Listing. */

struct node_listing {
    unsigned types, states, fields; /* sets */
    uint64_t after;                 /* ids above this */
    int64_t limit, wait_ms;
    bool paged;
    char pid[64];
};

/* Reads a list of words with commas into a set of bits. False after an answer. */
static bool read_words(struct http_request *r, const char *name, int (*find)(struct str),
                       unsigned *ret_set)
{
    struct str list;
    unsigned set = 0;

    if (!http_query(r, name, &list))
        return true;
    while (list.len) {
        const char *comma = memchr(list.p, ',', list.len);
        struct str word = {list.p, comma ? (size_t)(comma - list.p) : list.len};
        int bit = find(word);

        if (bit < 0) {
            http_reply_errorf(r, 400, "there is no %s '%.*s'", name,
                              (int)(word.len < 80 ? word.len : 80), word.p);
            return false;
        }
        set |= 1u << bit;
        list.p += word.len + (comma != NULL);
        list.len -= word.len + (comma != NULL);
    }
    *ret_set = set;
    return true;
}

static bool read_id(struct http_request *r, const char *name, uint64_t *ret_id)
{
    struct str text;

    if (!http_query(r, name, &text) || str_eq(text, STR("0")))
        return true;
    if (graph_parse_id(text, ret_id))
        return true;
    http_reply_errorf(r, 400, "%s='%.*s' is no node id", name, (int)(text.len < 80 ? text.len : 80),
                      text.p);
    return false;
}

/*
 * A listing is named by what was asked for and by the deletions so far: nodes that are added come at
 * its end, but after one was deleted nobody can say which page it was on.
 */
static bool read_page(struct http_request *r, struct dag *d, struct node_listing *l)
{
    const unsigned asked[] = {l->types, l->states, l->fields};
    struct str pid, start;
    uint64_t from = 0;
    int got = http_query_number(r, "limit", &l->limit);

    if (got < 0)
        return false;
    l->paged = got > 0;
    if (l->paged && (l->limit < 1 || l->limit > LIMIT_MAX)) {
        http_reply_errorf(r, 400, "limit is 1 to %d", LIMIT_MAX);
        return false;
    }
    snprintf(l->pid, sizeof l->pid, "%" PRIx64 "-%" PRIx64 "-%08x", (uint64_t)d->client,
             dag_graph(d)->deletions, (unsigned)XXH3_64bits(asked, sizeof asked));
    if (!http_query(r, "start", &start))
        return true;
    if (!l->paged)
        l->limit = LIMIT_DEFAULT;
    l->paged = true;
    if (!graph_parse_id(start, &from)) {
        http_reply_error(r, 400, "start is what the page before gave as next");
        return false;
    }
    if (!http_query(r, "pid", &pid)) {
        http_reply_error(r, 400, "start needs the pid of the page before");
        return false;
    }
    if (!str_eq(pid, str_of(l->pid))) {
        http_reply_error(r, 410, "this listing is no longer valid: begin again");
        return false;
    }
    if (from > l->after + 1)
        l->after = from - 1;
    return true;
}

static bool read_listing(struct http_request *r, struct dag *d, struct node_listing *l)
{
    int64_t wait_ms = NEW_WAIT_MS;

    *l = (struct node_listing){.types = ~0u, .states = ~0u, .fields = ~0u};
    if (!read_words(r, "type", (int (*)(struct str))node_type_of, &l->types) ||
        !read_words(r, "state", (int (*)(struct str))node_state_of, &l->states) ||
        !read_words(r, "metadata", node_metadata_field, &l->fields) ||
        !read_id(r, "new", &l->after) || http_query_number(r, "timeout", &wait_ms) < 0)
        return false;
    l->wait_ms = wait_ms;
    return read_page(r, d, l);
}

static bool fits(const struct graph *g, uint32_t at, const struct node_listing *l)
{
    return g->shown[at] != SHOWN_NONE && (l->states >> g->shown[at] & 1) &&
           (l->types == ~0u || l->types >> graph_plan(g, g->order[at])->type & 1);
}

static size_t put_listing(struct buf *b, struct dag *d, const struct node_listing *l)
{
    const struct graph *g = dag_graph(d);
    uint32_t at = graph_seek(g, l->after + 1);
    int64_t left = l->paged ? l->limit : INT64_MAX;
    size_t count = 0;

    if (l->paged) {
        json_open(b, '{');
        json_key(b, "nodes");
    }
    json_open(b, '[');
    for (; at < g->count && left; at++)
        if (fits(g, at, l)) {
            node_put_metadata(b, d, g->order[at], l->fields);
            left--;
            count++;
        }
    json_close(b, ']');
    while (at < g->count && !fits(g, at, l))
        at++;
    if (l->paged && at < g->count) {
        json_key(b, "pagination");
        json_open(b, '{');
        json_key(b, "next");
        http_put_id(b, g->order[at]->id);
        json_key(b, "pid");
        json_put_text(b, str_of(l->pid));
        json_close(b, '}');
    }
    if (l->paged)
        json_close(b, '}');
    return count;
}

void http_get_nodes(struct http_request *r)
{
    struct dag_http *h = r->arg;
    uint64_t seen = http_topic_seen(&h->added);
    struct dag *d = http_dag(r);
    struct buf b = {0};
    struct node_listing l;
    struct str new_id;

    if (!d || !read_listing(r, d, &l))
        return;
    if (!put_listing(&b, d, &l) && http_query(r, "new", &new_id) &&
        http_wait(r, &h->added, seen, l.wait_ms)) {
        buf_release(&b);
        return;
    }
    http_reply(r, 200, (struct str){b.p, b.len});
    buf_release(&b);
}

/* Adding. */

static void put_ids(struct buf *b, uint64_t first, uint32_t count)
{
    json_open(b, '[');
    for (uint32_t i = 0; i < count; i++) {
        json_open(b, '{');
        json_key(b, "id");
        http_put_id(b, first + i);
        json_close(b, '}');
    }
    json_close(b, ']');
}

static void on_added(void *arg, int err)
{
    struct dag_call *c = arg;

    if (c->r && err)
        http_reply_err(c->r, err, NULL);
    else if (c->r)
        http_reply(c->r, 200, (struct str){c->out.p, c->out.len});
    dag_call_free(c);
}

void http_post_nodes(struct http_request *r)
{
    struct dag *d = http_dag(r);
    const struct json *v = d ? http_json(r) : NULL;
    struct draft draft;
    struct err_info why;
    struct dag_call *c;
    int err;

    if (!v)
        return;
    c = dag_call_new(r);
    err = graph_draft(dag_graph(d), v, dag_now_ms(d), &c->arena, &draft, &why);
    if (err) {
        http_reply_err(r, err, why.text);
        dag_call_free(c);
        return;
    }
    put_ids(&c->out, draft.first_id, draft.count);
    if (draft.count)
        dag_add(d, &draft, on_added, c);
    else
        on_added(c, 0);
}

/* One node. */

static void put_data(struct buf *b, const struct dag_node *n, struct arena *a)
{
    const struct json *data = n->data.len ? json_parse(a, n->data, NULL) : NULL;

    json_open(b, '{');
    for (const struct json *m = data ? data->first : NULL; m; m = m->next)
        if (!node_value(n, m->key)) {
            json_key_str(b, m->key);
            json_put_raw(b, m->raw);
        }
    for (const struct node_datum *v = n->values; v; v = v->next) {
        if (v->slot_count || node_live(n, str_of(v->key)))
            continue; /* large ones are asked for one by one */
        json_key(b, v->key);
        if (v->is_text)
            json_put_text(b, (struct str){v->bytes.p, v->bytes.len});
        else
            json_put_raw(b, (struct str){v->bytes.p, v->bytes.len});
    }
    json_close(b, '}');
}

/* Why it is as it is, in words. */
static void put_why(struct buf *b, struct dag *d, const struct dag_node *n)
{
    const struct graph *g = dag_graph(d);
    uint64_t first = 0;
    uint32_t count = 0;

    plan_each_parent(e, &g->plan, n->ref) {
        const struct plan_node *p = &g->plan.nodes[g->plan.edges[e].parent];

        if (node_state_is_terminal(p->state))
            continue;
        if (!count++)
            first = p->id;
    }
    if (n->parked)
        buf_printf(b, "waits %" PRId64 " ms before the next attempt",
                   n->due_at > dag_now_ms(d) ? n->due_at - dag_now_ms(d) : 0);
    else if (count == 1)
        buf_printf(b, "waits for node %" PRIu64 ", which is %s", first,
                   node_state_name(g->shown[graph_find(g, first)->index]));
    else if (count)
        buf_printf(b, "waits for %" PRIu32 " nodes, of which node %" PRIu64 " is %s", count, first,
                   node_state_name(g->shown[graph_find(g, first)->index]));
    else if (graph_state(g, n) == NODE_INCIPIENT || n->ahead)
        buf_printf(b, "ready; waits for an agent of group %.*s", (int)n->group.len, n->group.p);
    else if (graph_state(g, n) == NODE_SKIPPED)
        buf_printf(b, "skipped: its parents did not end as `when` requires (%s)",
                   node_when_name(graph_plan(g, n)->when));
}

void http_get_node(struct http_request *r)
{
    struct dag *d = http_dag(r);
    struct dag_node *n = d ? http_node(r, d) : NULL;
    struct buf b = {0}, why = {0};

    if (!n)
        return;
    json_open(&b, '{');
    json_key(&b, "metadata");
    node_put_metadata(&b, d, n, ~0u);
    put_why(&why, d, n);
    if (why.len) {
        json_key(&b, "why");
        json_put_text(&b, (struct str){why.p, why.len});
    }
    json_key(&b, "data");
    put_data(&b, n, &r->arena);
    json_close(&b, '}');
    http_reply(r, 200, (struct str){b.p, b.len});
    buf_release(&b);
    buf_release(&why);
}

void http_delete_node(struct http_request *r)
{
    struct dag *d = http_dag(r);
    struct dag_node *n = d ? http_node(r, d) : NULL;
    struct plan_changes all = {0};
    struct err_info why;
    struct str chain = STR("false");
    struct dag_call *c;
    int err;

    if (!n)
        return;
    if (http_query(r, "chain", &chain) && !str_eq(chain, STR("true")) &&
        !str_eq(chain, STR("false"))) {
        http_reply_error(r, 400, "chain is true or false");
        return;
    }
    c = dag_call_new(r);
    if (str_eq(chain, STR("true")))
        plan_descendants(&dag_graph(d)->plan, n->ref, &all);
    else
        plan_changes_put(&all, n->ref);
    json_open(&c->out, '[');
    for (size_t i = 0; i < all.count; i++) {
        json_open(&c->out, '{');
        json_key(&c->out, "id");
        http_put_id(&c->out, dag_graph(d)->plan.nodes[all.refs[i]].id);
        json_close(&c->out, '}');
    }
    json_close(&c->out, ']');
    plan_changes_release(&all);
    err = dag_remove(d, n, str_eq(chain, STR("true")), on_added, c, &why);
    if (err) {
        http_reply_err(r, err, why.text);
        dag_call_free(c);
    }
}
