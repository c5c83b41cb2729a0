/*
 * Checks a request to add nodes and encodes it as chunks. All errors are found here, before
 * anything is stored: kinds of values, types, names, parents, cycles.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "dag/graph.h"

struct draft_node {
    const struct json *json, *metadata;
    struct str ref; /* empty: none */
    struct str group, name;
    uint64_t *parents; /* ids */
    uint32_t parent_count;
};

struct drafting {
    struct graph *g;
    const struct draft_gate *gate; /* NULL: none */
    struct arena *a;
    struct draft draft; /* the result */
    uint32_t parent_cap;
    struct draft_node *nodes;
    struct plan_spec *specs; /* only the parents of the same request, to find cycles */
    struct map by_ref;
    uint32_t *stamps; /* by ref of the plan, then by index: the last node that has it as a parent */
    struct err_info *e;
};

__attribute__((format(printf, 3, 4))) static int wrong(struct drafting *d, uint32_t i,
                                                       const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(d->e, DROVER_BAD_ARGUMENT, "nodes[%" PRIu32 "]: %s", i, text);
}

/* A name: of limited length and without control characters. */
static int check_name(struct drafting *d, uint32_t i, const char *what, struct str s)
{
    if (!s.len || s.len > NODE_NAME_LEN_MAX)
        return wrong(d, i, "%s has to have 1 to %d bytes", what, NODE_NAME_LEN_MAX);
    for (size_t k = 0; k < s.len; k++)
        if ((unsigned char)s.p[k] < 0x20)
            return wrong(d, i, "%s has a control character", what);
    return 0;
}

static uint32_t find_ref(const struct drafting *d, struct str ref)
{
    uint32_t hash = map_hash_str(ref);
    for (uint32_t at, r = map_first(&d->by_ref, hash, &at); r; r = map_next(&d->by_ref, hash, &at))
        if (str_eq(d->nodes[r - 1].ref, ref))
            return r - 1;
    return UINT32_MAX;
}

static int read_ref(struct drafting *d, uint32_t i)
{
    struct draft_node *n = &d->nodes[i];
    struct str ref = {0};
    uint64_t id;
    if (json_get_text(n->metadata, "ref", &ref, d->e) < 0 ||
        json_get_text(n->json, "ref", &ref, d->e) < 0)
        return wrong(d, i, "ref has to be a string");
    if (!ref.p)
        return 0;
    TRY(check_name(d, i, "ref", ref));
    if (graph_parse_id(ref, &id) || str_eq(ref, STR("root")))
        return wrong(d, i, "ref '%.*s' could be mistaken for an id", NODE_CUT(ref));
    if (find_ref(d, ref) != UINT32_MAX)
        return wrong(d, i, "ref '%.*s' is there twice", NODE_CUT(ref));
    n->ref = ref;
    map_add(&d->by_ref, map_hash_str(ref), i + 1);
    return 0;
}

static int check_gate(struct drafting *d, uint32_t i, const struct json *data)
{
    enum node_type type = d->specs[i].node.type;
    struct err_info why;
    if (!d->gate || type == NODE_GROUP ||
        (!d->gate->all && !json_get(data, "user") && !json_get(data, "limits")))
        return 0;
    struct policy_request q = node_new_request(type, data, d->a);
    return d->gate->check(d->gate->arg, &q, &why) ? wrong(d, i, "%s", why.text) : 0;
}

static int read_node(struct drafting *d, uint32_t i, const struct json *v)
{
    static const char *const names[] = {"metadata", "data", "ref", NULL};
    static const char *const words[] = {"type",     "parent", "parents", "when", "branch",
                                        "priority", "group",  "name",    "ref",  NULL};
    struct draft_node *n = &d->nodes[i];
    const struct json *data = NULL;
    struct err_info why;

    n->json = v;
    if (v->kind != JSON_OBJECT)
        return wrong(d, i, "a node is an object, not %s", json_kind_name(v));
    if (json_only(v, names, &why) || json_get_object(v, "metadata", &n->metadata, &why) < 0 ||
        json_get_object(v, "data", &data, &why) < 0)
        return wrong(d, i, "%s", why.text);
    if (!n->metadata)
        return wrong(d, i, "metadata is missing");
    TRY(read_ref(d, i));
    if (json_only(n->metadata, words, &why))
        return wrong(d, i, "metadata: %s", why.text);
    if (graph_read_words(n->metadata, &d->specs[i].node, &n->group, &n->name, &why))
        return wrong(d, i, "%s", why.text);
    TRY(check_name(d, i, "metadata.group", n->group));
    if (n->name.p)
        TRY(check_name(d, i, "metadata.name", n->name));
    if (graph_group(d->g, n->group) == UINT32_MAX)
        return wrong(d, i, "there are %d groups already", GRAPH_GROUPS_MAX);
    if (node_check_data(d->specs[i].node.type, data, &why))
        return wrong(d, i, "%s", why.text);
    return check_gate(d, i, data);
}

/* Parents. */

static int add_parent(struct drafting *d, uint32_t i, const struct json *v, uint32_t *in_batch)
{
    struct plan_spec *s = &d->specs[i];
    struct str text = v->kind == JSON_TEXT ? v->text : v->raw;
    struct dag_node *n = NULL;
    if (v->kind != JSON_TEXT && v->kind != JSON_INT)
        return wrong(d, i, "a parent is an id or a ref, not %s", json_kind_name(v));
    if (str_eq(text, STR("root")))
        return 0;
    uint32_t index = find_ref(d, text);
    if (index == UINT32_MAX)
        n = graph_find_text(d->g, text);
    if (index == UINT32_MAX && !n)
        return wrong(d, i, "there is no parent '%.*s'", NODE_CUT(text));
    uint32_t *stamp = n ? &d->stamps[n->ref] : &d->stamps[d->g->plan.node_count + index];
    if (*stamp == i + 1)
        return 0; /* a duplicate */
    *stamp = i + 1;
    d->nodes[i].parents[d->nodes[i].parent_count++] = n ? n->id : d->draft.first_id + index;
    if (!n) {
        in_batch[s->parent_count++] = plan_in_batch(index);
        return 0;
    }
    mem_grow(d->draft.parents, d->draft.parent_count, d->parent_cap);
    d->draft.parents[d->draft.parent_count++] = n;
    return 0;
}

static bool parent_is_if(const struct drafting *d, uint64_t id)
{
    return id >= d->draft.first_id ? d->specs[id - d->draft.first_id].node.type == NODE_IF
                                   : graph_plan(d->g, graph_find(d->g, id))->type == NODE_IF;
}

static int read_parents(struct drafting *d, uint32_t i)
{
    struct draft_node *n = &d->nodes[i];
    const struct json *one = json_get(n->metadata, "parent"), *list = NULL;
    struct err_info why;
    if (json_get_list(n->metadata, "parents", &list, &why) < 0)
        return wrong(d, i, "metadata: %s", why.text);
    if (one && one->kind == JSON_NULL)
        one = NULL;
    if (one && list)
        return wrong(d, i, "metadata has both parent and parents");
    uint32_t count = list ? list->count : 1;
    uint32_t *in_batch = arena_alloc(d->a, (count + 1) * sizeof *in_batch);
    n->parents = arena_alloc(d->a, (count + 1) * sizeof *n->parents);
    d->specs[i].parents = in_batch;
    if (one)
        return add_parent(d, i, one, in_batch);
    for (const struct json *v = list ? list->first : NULL; v; v = v->next)
        TRY(add_parent(d, i, v, in_batch));
    return 0;
}

static int check_branch(struct drafting *d, uint32_t i)
{
    const struct draft_node *n = &d->nodes[i];
    if (!d->specs[i].node.branch)
        return 0;
    for (uint32_t k = 0; k < n->parent_count; k++)
        if (parent_is_if(d, n->parents[k]))
            return 0;
    return wrong(d, i, "a branch needs a parent of type if");
}

/* Writing. */

static void put_node(struct buf *b, const struct drafting *d, uint32_t i, int64_t now_ms)
{
    const struct plan_node *s = &d->specs[i].node;
    const struct draft_node *n = &d->nodes[i];
    const struct json *data = json_get(n->json, "data");
    json_open(b, '{');
    json_member_int(b, "id", (int64_t)(d->draft.first_id + i));
    json_member_text(b, "type", str_of(node_type_name(s->type)));
    if (s->when)
        json_member_text(b, "when", str_of(node_when_name(s->when)));
    if (s->branch)
        json_member_text(b, "branch", str_of(node_branch_name(s->branch)));
    if (s->priority)
        json_member_int(b, "priority", s->priority);
    if (!str_eq(n->group, STR(NODE_GROUP_DEFAULT)))
        json_member_text(b, "group", n->group);
    if (n->name.len)
        json_member_text(b, "name", n->name);
    json_member_int(b, "added", now_ms);
    if (n->parent_count) {
        json_member_open(b, "parents", '[');
        for (uint32_t k = 0; k < n->parent_count; k++)
            json_put_int(b, (int64_t)n->parents[k]);
        json_close(b, ']');
    }
    if (data && data->kind == JSON_OBJECT && data->count)
        json_member_raw(b, "data", data->raw);
    json_close(b, '}');
}

static int write_chunks(struct drafting *d, int64_t now_ms)
{
    struct draft *r = &d->draft;
    struct chunk_text *c = NULL;
    uint32_t in_chunk = 0;
    for (uint32_t i = 0; i < d->draft.count; i++) {
        if (!c || c->text.len > GRAPH_CHUNK_LEN || in_chunk == GRAPH_CHUNK_NODES) {
            r->chunks = mem_realloc(r->chunks, (r->chunk_count + 1) * sizeof *r->chunks);
            r->chunks[r->chunk_count++] = c = mem_zalloc(sizeof *c);
            c->first_id = d->draft.first_id + i;
            json_open(&c->text, '[');
            in_chunk = 0;
        }
        size_t before = c->text.len;
        put_node(&c->text, d, i, now_ms);
        in_chunk++;
        if (c->text.len - before > GRAPH_NODE_LEN_MAX)
            return err_set(d->e, DROVER_TOO_BIG, "nodes[%" PRIu32 "]: a node may have %d bytes", i,
                           GRAPH_NODE_LEN_MAX);
    }
    for (uint32_t i = 0; i < r->chunk_count; i++)
        json_close(&r->chunks[i]->text, ']');
    return 0;
}

void draft_release(struct draft *d)
{
    for (uint32_t i = 0; i < d->chunk_count; i++) {
        buf_release(&d->chunks[i]->text);
        free(d->chunks[i]);
    }
    free(d->chunks);
    free(d->parents);
    *d = (struct draft){0};
}

/* A node of a cycle is a parent, so it has a ref. */
static int reject_cycle(struct drafting *d, const struct plan_changes *cycle)
{
    CLEANUP(buf_release) struct buf text = {0};
    for (size_t k = 0; k <= cycle->count; k++) {
        struct str ref = d->nodes[cycle->refs[k % cycle->count]].ref;
        buf_printf(&text, "%s%.*s", k ? " → " : "", NODE_CUT(ref));
    }
    return wrong(d, cycle->refs[0], "cycle: %s", buf_text(&text));
}

static int check_all(struct drafting *d, const struct json *list)
{
    CLEANUP(plan_changes_release) struct plan_changes cycle = {0};
    uint32_t at = 0;
    json_each(v, list)
        TRY(read_node(d, at++, v));
    for (uint32_t i = 0; i < d->draft.count; i++) {
        TRY(read_parents(d, i));
        d->draft.root_count += !d->nodes[i].parent_count;
        TRY(check_branch(d, i));
    }
    return plan_has_cycle(d->specs, d->draft.count, &cycle) ? reject_cycle(d, &cycle) : 0;
}

int graph_draft(struct graph *g, const struct json *list, int64_t now_ms,
                const struct draft_gate *gate, struct arena *a, struct draft *ret_draft,
                struct err_info *ret_error)
{
    if (list->kind != JSON_LIST)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "nodes are a list, not %s",
                       json_kind_name(list));
    if (list->count > GRAPH_NODES_MAX || g->plan.used + list->count > GRAPH_NODES_MAX)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "a graph may have %d nodes",
                       GRAPH_NODES_MAX);
    struct drafting d = {
        .g = g,
        .gate = gate,
        .a = a,
        .e = ret_error,
        .draft = {.first_id = g->last_id + 1, .count = list->count},
        .nodes = arena_zalloc(a, (list->count + 1) * sizeof *d.nodes),
        .specs = arena_zalloc(a, (list->count + 1) * sizeof *d.specs),
        .stamps = mem_zalloc((g->plan.node_count + list->count + 1) * sizeof *d.stamps),
    };
    int err = check_all(&d, list);
    if (!err)
        err = write_chunks(&d, now_ms);
    free(d.stamps);
    map_release(&d.by_ref);
    if (err) {
        draft_release(&d.draft);
        return err;
    }
    g->last_id += list->count;
    *ret_draft = d.draft;
    return 0;
}
