/* The collection: finding, loading, removing. draft.c checks what a request may add. */
#include "dag/graph.h"

#include <stdlib.h>

#include "base/mem.h"

void graph_release(struct graph *g)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (g->order[i])
            graph_remove(g, g->order[i]);
    for (uint32_t i = 0; i < g->group_count; i++)
        free(g->groups[i]);
    for (uint32_t i = 0; i < g->run_count; i++) { /* of chunks that could not be loaded */
        free(g->runs[i]->id);
        free(g->runs[i]);
    }
    free(g->runs);
    plan_release(&g->plan);
    free(g->groups);
    free(g->by_ref);
    free(g->order);
    free(g->shown);
    *g = (struct graph){0};
}

/* Finding. */

/* The id at an index, or of the next node after a hole. */
static uint64_t id_at(const struct graph *g, uint32_t at, uint32_t *ret_at)
{
    while (at < g->count && !g->order[at])
        at++;
    *ret_at = at;
    return at < g->count ? g->order[at]->id : UINT64_MAX;
}

uint32_t graph_seek(const struct graph *g, uint64_t id)
{
    uint32_t low = 0, high = g->count, at;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (id_at(g, middle, &at) < id)
            low = at + 1;
        else
            high = middle;
    }
    return low < g->count ? low : g->count;
}

struct dag_node *graph_find(const struct graph *g, uint64_t id)
{
    uint32_t at;
    return id_at(g, graph_seek(g, id), &at) == id ? g->order[at] : NULL;
}

bool graph_parse_id(struct str text, uint64_t *ret_id)
{
    uint64_t id = 0;
    if (!text.len || text.len > 18 || text.p[0] == '0')
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        id = id * 10 + (uint64_t)(text.p[i] - '0');
    }
    *ret_id = id;
    return true;
}

struct dag_node *graph_find_text(const struct graph *g, struct str text)
{
    uint64_t id;
    return graph_parse_id(text, &id) ? graph_find(g, id) : NULL;
}

uint32_t graph_group(struct graph *g, struct str name)
{
    for (uint32_t i = 0; i < g->group_count; i++)
        if (str_eq(str_of(g->groups[i]), name))
            return i;
    if (g->group_count == GRAPH_GROUPS_MAX)
        return UINT32_MAX;
    g->groups = mem_realloc(g->groups, (g->group_count + 1) * sizeof *g->groups);
    g->groups[g->group_count] = mem_dup(name.p, name.len);
    return g->group_count++;
}

/* Loading. */

struct graph_loading {
    struct graph *g;
    uint32_t from; /* the new nodes are in `order` from this index on */
    uint64_t last_id;
    struct plan_spec *specs;
    uint32_t count, cap;
    uint64_t *parents; /* the ids of the parents of all specs, in the order of the specs */
    size_t parent_count, parent_cap;
    graph_recall_fn *recall;
    void *arg;
};

int graph_read_words(const struct json *v, struct plan_node *ret_node, struct str *ret_group,
                     struct str *ret_name, struct err_info *e)
{
    struct str type = {0}, when = STR("success"), branch = {0}, group = STR(NODE_GROUP_DEFAULT);
    struct err_info why;
    int64_t priority = 0;
    if (json_get_text(v, "type", &type, &why) < 0 || json_get_text(v, "when", &when, &why) < 0 ||
        json_get_text(v, "branch", &branch, &why) < 0 ||
        json_get_text(v, "group", &group, &why) < 0 ||
        json_get_text(v, "name", ret_name, &why) < 0 ||
        json_get_int(v, "priority", &priority, &why) < 0)
        return err_set(e, DROVER_BAD_ARGUMENT, "metadata: %s", why.text);
    if (!type.p)
        return err_set(e, DROVER_BAD_ARGUMENT, "metadata.type is missing");
    if (node_type_of(type) < 0)
        return err_set(e, DROVER_BAD_ARGUMENT, "there is no type '%.*s'", NODE_CUT(type));
    if (node_when_of(when) < 0)
        return err_set(e, DROVER_BAD_ARGUMENT,
                       "metadata.when is success, failure or always, not '%.*s'", NODE_CUT(when));
    if (branch.p && node_branch_of(branch) < 0)
        return err_set(e, DROVER_BAD_ARGUMENT, "metadata.branch is then or else, not '%.*s'",
                       NODE_CUT(branch));
    if (priority < INT32_MIN || priority > INT32_MAX)
        return err_set(e, DROVER_BAD_ARGUMENT, "metadata.priority is out of range");
    *ret_group = group;
    *ret_node = (struct plan_node){
        .type = (uint8_t)node_type_of(type),
        .when = (uint8_t)node_when_of(when),
        .branch = branch.p ? (uint8_t)node_branch_of(branch) : BRANCH_NONE,
        .priority = (int32_t)priority,
    };
    return 0;
}

static bool read_spec(struct graph_loading *l, const struct json *v, struct dag_node *n,
                      struct plan_spec *s)
{
    const struct json *data = NULL;
    struct str group;
    int64_t id = 0;
    *s = (struct plan_spec){0};
    if (graph_read_words(v, &s->node, &group, &n->name, NULL) ||
        json_get_int(v, "id", &id, NULL) != 1 || json_get_int(v, "added", &n->added_ms, NULL) < 0 ||
        json_get_object(v, "data", &data, NULL) < 0 || id <= 0)
        return false;
    n->id = s->node.id = (uint64_t)id;
    n->data = data ? data->raw : (struct str){0};
    s->node.group = graph_group(l->g, group);
    if (s->node.group == UINT32_MAX)
        return false;
    n->group = str_of(l->g->groups[s->node.group]);
    return true;
}

/* Names and data point into the chunk of their node, unless they contain escapes. */
static bool is_in(const struct chunk_text *c, struct str s)
{
    return s.p >= c->text.p && s.p < c->text.p + c->text.len;
}

static void free_node(struct dag_node *n)
{
    if (n->name.len && !is_in(n->chunk, n->name))
        free((char *)n->name.p);
    node_free(n);
}

static void free_chunk(struct graph *g, struct chunk_text *c)
{
    graph_leave_run(g, c);
    buf_release(&c->text);
    free(c);
}

/*
 * Sets the parents of all specs, in refs. A parent that was deleted had ended, and its children had
 * been decided: it is left out.
 */
static void find_parents(struct graph_loading *l, uint32_t *refs)
{
    size_t at = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        struct plan_spec *s = &l->specs[i];
        size_t end = at + s->parent_count;
        s->parents = refs;
        for (s->parent_count = 0; at < end; at++) {
            const struct dag_node *n = graph_find(l->g, l->parents[at]);
            if (n)
                refs[s->parent_count++] =
                    n->index < l->from ? n->ref : plan_in_batch(n->index - l->from);
        }
        refs += s->parent_count;
    }
}

static void append(struct graph *g, struct dag_node *n)
{
    if (g->count == g->cap) {
        g->cap = g->cap ? g->cap * 2 : 64;
        g->order = mem_realloc(g->order, g->cap * sizeof *g->order);
        g->shown = mem_realloc(g->shown, g->cap);
    }
    n->index = g->count;
    g->shown[g->count] = SHOWN_NONE;
    g->order[g->count++] = n;
}

/* The ids of nodes rise, because they are found by binary search; those of parents are numbers. */
static bool are_numbers(const struct json *parents)
{
    json_each(m, json_list(parents))
        if (m->kind != JSON_INT)
            return false;
    return true;
}

static bool is_in_order(struct graph_loading *l, const struct dag_node *n,
                        const struct json *parents)
{
    if (!are_numbers(parents))
        return false;
    bool rises = l->last_id < n->id;
    l->last_id = n->id;
    return rises;
}

/* Replaces words of the spec by those of the record. */
static bool read_changed(struct graph_loading *l, struct dag_node *n, struct plan_node *p,
                         const struct json *v, const struct json **ret_parents)
{
    struct str when = {0}, group = {0};
    int64_t priority = 0;
    *ret_parents = NULL;
    if (json_get_text(v, "when", &when, NULL) != 1 || node_when_of(when) < 0 ||
        json_get_text(v, "group", &group, NULL) != 1 ||
        json_get_text(v, "name", &n->name, NULL) != 1 ||
        json_get_int(v, "priority", &priority, NULL) != 1 ||
        json_get_list(v, "parents", ret_parents, NULL) != 1)
        return false;
    p->when = (uint8_t)node_when_of(when);
    p->priority = (int32_t)priority;
    p->group = graph_group(l->g, group);
    if (p->group == UINT32_MAX)
        return false;
    n->group = str_of(l->g->groups[p->group]);
    return true;
}

static bool load_node(struct graph_loading *l, struct chunk_text *c, const struct json *v)
{
    CLEANUP(arena_release) struct arena a = {0};
    const struct json *parents = NULL;
    struct dag_node *n = mem_zalloc(sizeof *n);
    mem_grow(l->specs, l->count, l->cap);
    struct plan_spec *s = &l->specs[l->count];
    bool good = read_spec(l, v, n, s) && json_get_list(v, "parents", &parents, NULL) >= 0 &&
                is_in_order(l, n, parents);
    bool there = good && (!l->recall || l->recall(l->arg, n, &s->node));
    if (there && n->changed) {
        const struct json *changed = json_parse(&a, str_of(n->changed), NULL);
        good = there = read_changed(l, n, &s->node, changed, &parents) && are_numbers(parents);
    }
    if (!there) {
        node_free(n);
        return good;
    }
    n->chunk = c;
    c->nodes++;
    if (n->name.len && !is_in(c, n->name))
        n->name = (struct str){mem_dup(n->name.p, n->name.len), n->name.len};
    json_each(m, json_list(parents)) {
        mem_grow(l->parents, l->parent_count, l->parent_cap);
        l->parents[l->parent_count++] = (uint64_t)m->number;
        s->parent_count++;
    }
    append(l->g, n);
    l->count++;
    return true;
}

static bool load_chunk(struct graph_loading *l, struct chunk_text *c)
{
    CLEANUP(arena_release) struct arena a = {0};
    const struct json *list = json_parse(&a, buf_str(&c->text), NULL);
    bool good = list && list->kind == JSON_LIST && list->count;
    for (const struct json *v = good ? list->first : NULL; v && good; v = v->next) {
        bool is_run = !v->next && json_get(v, "run");
        good = is_run ? graph_load_run(l->g, c, v) : load_node(l, c, v);
        c->count += !is_run;
    }
    return good;
}

/* Puts the nodes into the plan. False: they form a cycle. */
static bool plan_nodes(struct graph_loading *l, struct plan_changes *changes)
{
    struct graph *g = l->g;
    CLEANUP(mem_free) uint32_t *refs = mem_alloc((l->count + 1) * sizeof *refs);
    CLEANUP(mem_free) uint32_t *parents = mem_alloc((l->parent_count + 1) * sizeof *parents);
    find_parents(l, parents);
    if (!plan_add(&g->plan, l->specs, l->count, refs, changes))
        return false;
    g->by_ref = mem_realloc(g->by_ref, g->plan.node_cap * sizeof *g->by_ref);
    for (uint32_t i = 0; i < l->count; i++) {
        struct dag_node *n = g->order[l->from + i];
        n->ref = refs[i];
        g->by_ref[n->ref] = n;
        graph_show(g, n, g->plan.nodes[n->ref].state);
        if (n->id > g->last_id)
            g->last_id = n->id;
    }
    return true;
}

int graph_load(struct graph *g, struct chunk_text **chunks, uint32_t count, graph_recall_fn *recall,
               void *arg, struct plan_changes *changes, uint64_t *ret_damaged)
{
    struct graph_loading l = {.g = g, .from = g->count, .recall = recall, .arg = arg};
    bool good = true;
    uint64_t damaged = 0;
    for (uint32_t i = 0; i < count && good; i++) {
        good = load_chunk(&l, chunks[i]);
        if (!good)
            damaged = chunks[i]->first_id;
    }
    good = good && plan_nodes(&l, changes);
    while (!good && g->count > l.from)
        free_node(g->order[--g->count]);
    for (uint32_t i = 0; i < count && good; i++)
        if (!chunks[i]->nodes) /* all of its nodes were deleted */
            free_chunk(g, chunks[i]);
    free(l.specs);
    free(l.parents);
    if (!good)
        *ret_damaged = damaged;
    return good ? 0 : DROVER_DAMAGED;
}

void graph_rename(struct dag_node *n, struct str name)
{
    if (n->name.len && !is_in(n->chunk, n->name))
        free((char *)n->name.p);
    n->name = (struct str){name.len ? mem_dup(name.p, name.len) : NULL, name.len};
}

/* Removing. */

void graph_compact(struct graph *g)
{
    uint32_t to = 0;
    if (g->holes <= 1000 || g->holes <= g->count / 2)
        return;
    for (uint32_t i = 0; i < g->count; i++) {
        if (!g->order[i])
            continue;
        g->order[to] = g->order[i];
        g->shown[to] = g->shown[i];
        g->order[to]->index = to;
        to++;
    }
    g->count = to;
    g->holes = 0;
}

void graph_remove(struct graph *g, struct dag_node *n)
{
    if (g->plan.nodes[n->ref].state != NODE_RUNNING) /* graph_release() may find running nodes */
        plan_remove(&g->plan, n->ref);
    graph_show(g, n, SHOWN_NONE);
    g->by_ref[n->ref] = NULL;
    g->order[n->index] = NULL;
    g->holes++;
    g->deletions++;
    struct chunk_text *c = n->chunk;
    free_node(n);
    if (!--c->nodes)
        free_chunk(g, c);
}
