/*
 * Checks a request to add nodes and encodes it as chunks. All errors are found here, before
 * anything is stored: kinds of values, types, names, parents, cycles.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dag/graph.h"

struct drafting {
    struct graph *g;
    struct arena *a;
    uint32_t count;
    uint64_t first_id;
    const struct json **nodes, **metadata;
    struct str *refs; /* empty: none */
    struct map by_ref;
    struct plan_spec *specs; /* only the parents of the same request, to find cycles */
    struct str *groups, *names;
    uint64_t **parents; /* ids */
    uint32_t *parent_counts;
    uint32_t *stamps; /* by ref of the plan, then by index: the last node that has it as a parent */
    struct dag_node **existing;
    uint32_t existing_count, existing_cap;
    struct err_info *e;
};

static int wrong(struct drafting *d, uint32_t i, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int wrong(struct drafting *d, uint32_t i, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(d->e, DROVER_BAD_ARGUMENT, "nodes[%" PRIu32 "]: %s", i, text);
}

static int cut(struct str s)
{
    return (int)(s.len < 80 ? s.len : 80);
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
        if (str_eq(d->refs[r - 1], ref))
            return r - 1;
    return UINT32_MAX;
}

static int read_ref(struct drafting *d, uint32_t i)
{
    struct str ref = {0}, inner = {0};
    uint64_t id;

    if (json_get_text(d->nodes[i], "ref", &ref, d->e) < 0 ||
        json_get_text(d->metadata[i], "ref", &inner, d->e) < 0)
        return wrong(d, i, "ref has to be a string");
    if (!ref.p)
        ref = inner;
    if (!ref.p)
        return 0;
    TRY(check_name(d, i, "ref", ref));
    if (graph_parse_id(ref, &id) || str_eq(ref, STR("root")))
        return wrong(d, i, "ref '%.*s' could be mistaken for an id", cut(ref), ref.p);
    if (find_ref(d, ref) != UINT32_MAX)
        return wrong(d, i, "ref '%.*s' is there twice", cut(ref), ref.p);
    d->refs[i] = ref;
    map_add(&d->by_ref, map_hash_str(ref), i + 1);
    return 0;
}

/* The metadata, except ref and parents. */
static int read_words(struct drafting *d, uint32_t i)
{
    static const char *const names[] = {"type",     "parent", "parents", "when", "branch",
                                        "priority", "group",  "name",    "ref",  NULL};
    struct str type = {0}, when = STR("success"), branch = {0}, group = STR(NODE_GROUP_DEFAULT);
    const struct json *m = d->metadata[i];
    struct plan_spec *s = &d->specs[i];
    struct err_info why;
    int64_t priority = 0;
    int err;

    if (json_only(m, names, &why) || json_get_text(m, "type", &type, &why) < 0 ||
        json_get_text(m, "when", &when, &why) < 0 ||
        json_get_text(m, "branch", &branch, &why) < 0 ||
        json_get_text(m, "group", &group, &why) < 0 ||
        json_get_text(m, "name", &d->names[i], &why) < 0 ||
        json_get_int(m, "priority", &priority, &why) < 0)
        return wrong(d, i, "metadata: %s", why.text);
    if (!type.p)
        return wrong(d, i, "metadata.type is missing");
    if (node_type_of(type) < 0)
        return wrong(d, i, "there is no type '%.*s'", cut(type), type.p);
    if (node_when_of(when) < 0)
        return wrong(d, i, "metadata.when is success, failure or always, not '%.*s'", cut(when),
                     when.p);
    if (branch.p && node_branch_of(branch) < 0)
        return wrong(d, i, "metadata.branch is then or else, not '%.*s'", cut(branch), branch.p);
    if (priority < INT32_MIN || priority > INT32_MAX)
        return wrong(d, i, "metadata.priority is out of range");
    err = check_name(d, i, "metadata.group", group);
    if (!err && d->names[i].p)
        err = check_name(d, i, "metadata.name", d->names[i]);
    if (!err && graph_group(d->g, group) == UINT32_MAX)
        err = wrong(d, i, "there are %d groups already", GRAPH_GROUPS_MAX);
    s->type = (uint8_t)node_type_of(type);
    s->when = (uint8_t)node_when_of(when);
    s->branch = branch.p ? (uint8_t)node_branch_of(branch) : BRANCH_NONE;
    s->priority = (int32_t)priority;
    d->groups[i] = group;
    return err;
}

static int read_node(struct drafting *d, uint32_t i, const struct json *v)
{
    static const char *const names[] = {"metadata", "data", "ref", NULL};
    const struct json *data = NULL;
    struct err_info why;
    int err;

    d->nodes[i] = v;
    if (v->kind != JSON_OBJECT)
        return wrong(d, i, "a node is an object, not %s", json_kind_name(v));
    if (json_only(v, names, &why) || json_get_object(v, "metadata", &d->metadata[i], &why) < 0 ||
        json_get_object(v, "data", &data, &why) < 0)
        return wrong(d, i, "%s", why.text);
    if (!d->metadata[i])
        return wrong(d, i, "metadata is missing");
    err = read_ref(d, i);
    if (!err)
        err = read_words(d, i);
    if (!err && node_check_data(d->specs[i].type, data, &why))
        err = wrong(d, i, "%s", why.text);
    return err;
}

/* Parents. */

static void note_existing(struct drafting *d, struct dag_node *n)
{
    if (d->existing_count == d->existing_cap) {
        struct dag_node **more = arena_alloc(d->a, (d->existing_cap * 2 + 16) * sizeof *more);

        if (d->existing_count)
            memcpy(more, d->existing, d->existing_count * sizeof *more);
        d->existing = more;
        d->existing_cap = d->existing_cap * 2 + 16;
    }
    d->existing[d->existing_count++] = n;
}

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
        return wrong(d, i, "there is no parent '%.*s'", cut(text), text.p);
    uint32_t *stamp = n ? &d->stamps[n->ref] : &d->stamps[d->g->plan.node_count + index];
    if (*stamp == i + 1)
        return 0; /* a duplicate */
    *stamp = i + 1;
    d->parents[i][d->parent_counts[i]++] = n ? n->id : d->first_id + index;
    if (n)
        note_existing(d, n);
    else
        in_batch[s->parent_count++] = plan_in_batch(index);
    return 0;
}

static bool parent_is_if(const struct drafting *d, uint64_t id)
{
    return id >= d->first_id ? d->specs[id - d->first_id].type == NODE_IF
                             : graph_plan(d->g, graph_find(d->g, id))->type == NODE_IF;
}

static int read_parents(struct drafting *d, uint32_t i)
{
    const struct json *one = json_get(d->metadata[i], "parent"), *list = NULL;
    struct err_info why;
    uint32_t *in_batch;
    bool has_if = false;
    int err = 0;

    if (json_get_list(d->metadata[i], "parents", &list, &why) < 0)
        return wrong(d, i, "metadata: %s", why.text);
    if (one && one->kind == JSON_NULL)
        one = NULL;
    if (one && list)
        return wrong(d, i, "metadata has both parent and parents");
    uint32_t count = list ? list->count : one ? 1 : 0;
    d->parents[i] = arena_alloc(d->a, (count + 1) * sizeof **d->parents);
    d->specs[i].parents = in_batch = arena_alloc(d->a, (count + 1) * sizeof *in_batch);
    if (one)
        err = add_parent(d, i, one, in_batch);
    for (const struct json *v = list ? list->first : NULL; v && !err; v = v->next)
        err = add_parent(d, i, v, in_batch);
    for (uint32_t k = 0; k < d->parent_counts[i] && d->specs[i].branch && !err; k++)
        has_if |= parent_is_if(d, d->parents[i][k]);
    if (!err && d->specs[i].branch && !has_if)
        err = wrong(d, i, "a branch needs a parent of type if");
    return err;
}

/* Writing. */

static void put_node(struct buf *b, const struct drafting *d, uint32_t i, int64_t now_ms)
{
    const struct plan_spec *s = &d->specs[i];
    const struct json *data = json_get(d->nodes[i], "data");

    json_open(b, '{');
    json_member_int(b, "id", (int64_t)(d->first_id + i));
    json_member_text(b, "type", str_of(node_type_name(s->type)));
    if (s->when)
        json_member_text(b, "when", str_of(node_when_name(s->when)));
    if (s->branch)
        json_member_text(b, "branch", str_of(node_branch_name(s->branch)));
    if (s->priority)
        json_member_int(b, "priority", s->priority);
    if (!str_eq(d->groups[i], STR(NODE_GROUP_DEFAULT))) {
        json_member_text(b, "group", d->groups[i]);
    }
    if (d->names[i].len) {
        json_member_text(b, "name", d->names[i]);
    }
    json_member_int(b, "added", now_ms);
    if (d->parent_counts[i]) {
        json_member_open(b, "parents", '[');
        for (uint32_t k = 0; k < d->parent_counts[i]; k++)
            json_put_int(b, (int64_t)d->parents[i][k]);
        json_close(b, ']');
    }
    if (data && data->kind == JSON_OBJECT && data->count) {
        json_member_raw(b, "data", data->raw);
    }
    json_close(b, '}');
}

static struct chunk_text *new_chunk(struct draft *r, uint64_t first_id)
{
    struct chunk_text *c = mem_zalloc(sizeof *c);

    r->chunks = mem_realloc(r->chunks, (r->chunk_count + 1) * sizeof *r->chunks);
    r->chunks[r->chunk_count++] = c;
    c->first_id = first_id;
    json_open(&c->text, '[');
    return c;
}

static int write_chunks(struct drafting *d, int64_t now_ms, struct draft *r)
{
    struct chunk_text *c = NULL;
    uint32_t in_chunk = 0;

    for (uint32_t i = 0; i < d->count; i++) {
        if (c && (c->text.len > GRAPH_CHUNK_LEN || in_chunk == GRAPH_CHUNK_NODES)) {
            json_close(&c->text, ']');
            c = NULL;
        }
        if (!c) {
            c = new_chunk(r, d->first_id + i);
            in_chunk = 0;
        }
        size_t before = c->text.len;
        put_node(&c->text, d, i, now_ms);
        in_chunk++;
        if (c->text.len - before > GRAPH_NODE_LEN_MAX)
            return err_set(d->e, DROVER_TOO_BIG, "nodes[%" PRIu32 "]: a node may have %d bytes", i,
                           GRAPH_NODE_LEN_MAX);
    }
    if (c)
        json_close(&c->text, ']');
    return 0;
}

void draft_release(struct draft *d)
{
    for (uint32_t i = 0; i < d->chunk_count; i++) {
        buf_release(&d->chunks[i]->text);
        free(d->chunks[i]);
    }
    free(d->chunks);
    *d = (struct draft){0};
}

/* A node of a cycle is a parent, so it has a ref. */
static int reject_cycle(struct drafting *d, const struct plan_changes *cycle)
{
    CLEANUP(buf_release) struct buf text = {0};

    for (size_t k = 0; k <= cycle->count; k++) {
        struct str ref = d->refs[cycle->refs[k % cycle->count]];

        buf_printf(&text, "%s%.*s", k ? " → " : "", cut(ref), ref.p);
    }
    return wrong(d, cycle->refs[0], "cycle: %s", buf_text(&text));
}

static int check_all(struct drafting *d, const struct json *list)
{
    struct plan_changes cycle = {0};
    uint32_t i = 0;
    int err = 0;

    for (const struct json *v = list->first; v && !err; v = v->next, i++)
        err = read_node(d, i, v);
    for (i = 0; i < d->count && !err; i++)
        err = read_parents(d, i);
    if (!err && plan_has_cycle(d->specs, d->count, &cycle))
        err = reject_cycle(d, &cycle);
    plan_changes_release(&cycle);
    return err;
}

int graph_draft(struct graph *g, const struct json *list, int64_t now_ms, struct arena *a,
                struct draft *ret_draft, struct err_info *ret_error)
{
    struct drafting d = {.g = g, .a = a, .e = ret_error, .first_id = g->last_id + 1};
    struct draft r = {0};

    if (list->kind != JSON_LIST)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "nodes are a list, not %s",
                       json_kind_name(list));
    if (list->count > GRAPH_NODES_MAX || g->plan.used + list->count > GRAPH_NODES_MAX)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "a graph may have %d nodes",
                       GRAPH_NODES_MAX);
    d.count = list->count;
    d.nodes = arena_zalloc(a, (d.count + 1) * sizeof *d.nodes);
    d.metadata = arena_zalloc(a, (d.count + 1) * sizeof *d.metadata);
    d.refs = arena_zalloc(a, (d.count + 1) * sizeof *d.refs);
    d.specs = arena_zalloc(a, (d.count + 1) * sizeof *d.specs);
    d.groups = arena_zalloc(a, (d.count + 1) * sizeof *d.groups);
    d.names = arena_zalloc(a, (d.count + 1) * sizeof *d.names);
    d.parents = arena_zalloc(a, (d.count + 1) * sizeof *d.parents);
    d.parent_counts = arena_zalloc(a, (d.count + 1) * sizeof *d.parent_counts);
    d.stamps = mem_zalloc((g->plan.node_count + d.count + 1) * sizeof *d.stamps);
    int err = check_all(&d, list);
    if (!err)
        err = write_chunks(&d, now_ms, &r);
    free(d.stamps);
    map_release(&d.by_ref);
    if (err) {
        draft_release(&r);
        return err;
    }
    r.first_id = d.first_id;
    r.count = d.count;
    r.parents = d.existing;
    r.parent_count = d.existing_count;
    g->last_id += d.count;
    *ret_draft = r;
    return 0;
}
