/* The nodes of a picture and their order; Graphviz and Mermaid. */
#include "cli/graph_draw.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"

void draw_release(struct draw *d)
{
    free(d->nodes);
    arena_release(&d->arena);
}

struct draw_node *draw_add(struct draw *d)
{
    mem_grow(d->nodes, d->count, d->cap);
    d->nodes[d->count] = (struct draw_node){.took_ms = -1};
    return &d->nodes[d->count++];
}

/* Reading. */

static struct str name_of(const struct json *v)
{
    struct str name = json_text_of(v, "name"), run = json_text_of(v, "run");
    const char *dash = run.len ? memrchr(run.p, '-', run.len) : NULL;
    size_t len = dash ? (size_t)(dash - run.p) : 0; /* the run build-7 has nodes build/NAME */
    if (len && name.len > len + 1 && !memcmp(name.p, run.p, len) && name.p[len] == '/')
        return (struct str){name.p + len + 1, name.len - len - 1};
    return name.len ? name : json_text_of(v, "id");
}

static int64_t took(const struct json *v, int64_t now_ms)
{
    int64_t from = json_int_of(v, "started"), to = json_int_of(v, "ended");
    int64_t ms = (to ? to : now_ms) - from;
    return !from ? -1 : ms > 0 ? ms : 0;
}

/* The index of an id; UINT32_MAX: it is not drawn. */
static uint32_t find(const struct draw *d, const struct map *ids, struct str id)
{
    uint32_t at, i = map_first(ids, map_hash_str(id), &at);
    while (i && !str_eq(d->nodes[i - 1].id, id))
        i = map_next(ids, map_hash_str(id), &at);
    return i - 1;
}

static void read_parents(struct draw *d, const struct map *ids, const struct json *v,
                         struct draw_node *n)
{
    const struct json *list = json_get(v, "parents"), *one = json_get(v, "parent");
    n->parents = arena_alloc(&d->arena, ((list ? list->count : 0) + 1) * sizeof *n->parents);
    if (list && list->kind == JSON_LIST) {
        json_each(p, list) {
            uint32_t i = p->kind == JSON_TEXT ? find(d, ids, p->text) : UINT32_MAX;
            if (i != UINT32_MAX)
                n->parents[n->parent_count++] = i;
        }
    } else if (one && one->kind == JSON_TEXT) {
        uint32_t i = find(d, ids, one->text);
        if (i != UINT32_MAX)
            n->parents[n->parent_count++] = i;
    }
}

void draw_read(struct draw *d, const struct json *list, uint32_t limit, int64_t now_ms)
{
    CLEANUP(map_release) struct map ids = {0};
    uint32_t i = 0;
    json_each(v, json_list(list)) {
        if (d->count >= limit) {
            d->left_out++;
            continue;
        }
        struct draw_node *n = draw_add(d);
        *n = (struct draw_node){.id = json_text_of(v, "id"),
                                .name = name_of(v),
                                .type = json_text_of(v, "type"),
                                .state = json_text_of(v, "state"),
                                .branch = json_text_of(v, "branch"),
                                .started_ms = json_int_of(v, "started"),
                                .took_ms = took(v, now_ms)};
        map_add(&ids, map_hash_str(n->id), d->count);
    }
    json_each(v, json_list(list)) {
        if (i == d->count)
            break;
        read_parents(d, &ids, v, &d->nodes[i]);
        i++;
    }
    draw_order(d);
}

/* The order. */

/* Forgets parents that a node names twice. */
static void remove_doubles(struct draw *d)
{
    uint32_t *seen = arena_zalloc(&d->arena, (d->count + 1) * sizeof *seen);
    for (uint32_t i = 0; i < d->count; i++) {
        struct draw_node *n = &d->nodes[i];
        uint32_t kept = 0;
        for (uint32_t k = 0; k < n->parent_count; k++)
            if (seen[n->parents[k]] != i + 1) {
                seen[n->parents[k]] = i + 1;
                n->parents[kept++] = n->parents[k];
            }
        n->parent_count = kept;
    }
}

static void add_children(struct draw *d)
{
    for (uint32_t i = 0; i < d->count; i++)
        d->nodes[i].child_count = 0;
    for (uint32_t i = 0; i < d->count; i++)
        for (uint32_t k = 0; k < d->nodes[i].parent_count; k++)
            d->nodes[d->nodes[i].parents[k]].child_count++;
    for (uint32_t i = 0; i < d->count; i++) {
        struct draw_node *n = &d->nodes[i];
        n->children = arena_alloc(&d->arena, (n->child_count + 1) * sizeof *n->children);
        n->child_count = 0;
    }
    for (uint32_t i = 0; i < d->count; i++)
        for (uint32_t k = 0; k < d->nodes[i].parent_count; k++) {
            struct draw_node *p = &d->nodes[d->nodes[i].parents[k]];
            p->children[p->child_count++] = i;
        }
}

/* Takes the edges from nodes that come later: they would close a cycle. True: there were some. */
static bool cut_cycles(struct draw *d)
{
    bool cut = false;
    for (uint32_t i = 0; i < d->count; i++) {
        struct draw_node *n = &d->nodes[i];
        uint32_t kept = 0;
        for (uint32_t k = 0; k < n->parent_count; k++)
            if (d->nodes[n->parents[k]].at < n->at)
                n->parents[kept++] = n->parents[k];
        cut |= kept != n->parent_count;
        n->parent_count = kept;
    }
    return cut;
}

/* Depth first: a child follows the last of its parents, so chains stay together. */
void draw_order(struct draw *d)
{
    uint32_t *stack = arena_alloc(&d->arena, (d->count + 1) * sizeof *stack), depth = 0, done = 0;
    uint32_t *waits = arena_alloc(&d->arena, (d->count + 1) * sizeof *waits);
    d->order = arena_alloc(&d->arena, (d->count + 1) * sizeof *d->order);
    remove_doubles(d);
    add_children(d);
    for (uint32_t i = d->count; i-- > 0;) {
        d->nodes[i].at = UINT32_MAX;
        waits[i] = d->nodes[i].parent_count;
        if (!waits[i])
            stack[depth++] = i;
    }
    for (uint32_t next = 0; done < d->count;) {
        while (!depth && d->nodes[next].at != UINT32_MAX)
            next++;
        if (!depth)
            stack[depth++] = next; /* in a cycle */
        struct draw_node *n = &d->nodes[stack[--depth]];
        if (n->at != UINT32_MAX)
            continue;
        n->at = done;
        d->order[done++] = (uint32_t)(n - d->nodes);
        for (uint32_t k = n->child_count; k-- > 0;)
            if (!--waits[n->children[k]])
                stack[depth++] = n->children[k];
    }
    if (cut_cycles(d))
        add_children(d);
}

/* Choosing. */

/* Keeps the nodes that are marked. */
static void keep(struct draw *d, const uint8_t *mark)
{
    uint32_t *to = arena_alloc(&d->arena, (d->count + 1) * sizeof *to), kept = 0;
    for (uint32_t i = 0; i < d->count; i++)
        to[i] = mark[i] ? kept++ : UINT32_MAX;
    for (uint32_t i = 0; i < d->count; i++) {
        struct draw_node *n = &d->nodes[i];
        uint32_t parents = 0;
        for (uint32_t k = 0; k < n->parent_count; k++)
            if (mark[n->parents[k]])
                n->parents[parents++] = to[n->parents[k]];
        n->parent_count = parents;
        if (mark[i])
            d->nodes[to[i]] = *n;
    }
    d->count = kept;
    draw_order(d);
}

void draw_cut(struct draw *d, uint32_t limit)
{
    if (d->count <= limit)
        return;
    uint8_t *mark = arena_zalloc(&d->arena, d->count + 1);
    memset(mark, 1, limit);
    d->left_out += d->count - limit;
    keep(d, mark);
}

/* The order has parents first: marks what is below going forwards, what is above backwards. */
bool draw_select(struct draw *d, const struct str *ids, size_t count)
{
    enum { BELOW = 1, ABOVE = 2 };
    uint8_t *mark = arena_zalloc(&d->arena, d->count + 1);
    for (size_t i = 0; i < count; i++) {
        uint32_t n = 0;
        while (n < d->count && !str_eq(d->nodes[n].id, ids[i]))
            n++;
        if (n == d->count)
            return false;
        mark[n] = BELOW | ABOVE;
    }
    for (uint32_t i = 0; i < d->count; i++)
        for (uint32_t k = 0; k < d->nodes[d->order[i]].parent_count; k++)
            mark[d->order[i]] |= mark[d->nodes[d->order[i]].parents[k]] & BELOW;
    for (uint32_t i = d->count; i-- > 0;)
        for (uint32_t k = 0; k < d->nodes[d->order[i]].child_count; k++)
            mark[d->order[i]] |= mark[d->nodes[d->order[i]].children[k]] & ABOVE;
    keep(d, mark);
    return true;
}

/* Graphviz and Mermaid. */

static const struct state_style {
    const char *state, *fill;
} STYLES[] = {
    {"finished", "#b7e1b0"}, {"running", "#ffe08a"}, {"failed", "#f4a6a0"},
    {"killed", "#d8a0c8"},   {"skipped", "#dddddd"},
};

const char *draw_fill(struct str state)
{
    for (size_t i = 0; i < sizeof STYLES / sizeof *STYLES; i++)
        if (str_eq(state, str_of(STYLES[i].state)))
            return STYLES[i].fill;
    return "#ffffff";
}

/* Between quotes: by a backslash in Graphviz, by entities in Mermaid. */
static void put_quoted(struct buf *b, struct str text, bool dot)
{
    CLEANUP(buf_release) struct buf safe = {0};
    escape_put(&safe, text, ESCAPE_LINE);
    buf_put(b, "\"", 1);
    for (size_t i = 0; i < safe.len; i++) {
        char c = safe.p[i];
        if (dot && (c == '"' || c == '\\'))
            buf_printf(b, "\\%c", c);
        else if (!dot && strchr("\"#<>&`;", c))
            buf_printf(b, "#%d;", c);
        else
            buf_put(b, &c, 1);
    }
    buf_put(b, "\"", 1);
}

static const char *shape_of(const struct draw_node *n)
{
    return str_eq(n->type, STR("if"))          ? ", shape=diamond"
           : str_eq(n->type, STR("condition")) ? ", shape=hexagon"
           : str_eq(n->type, STR("group"))     ? ", shape=folder"
                                               : "";
}

static void put_note(const struct draw *d, struct buf *b, const char *before, const char *after)
{
    if (d->left_out)
        buf_printf(b, "%s%" PRIu32 " more nodes%s", before, d->left_out, after);
}

void draw_put_dot(const struct draw *d, struct buf *b)
{
    buf_printf(b, "digraph ");
    put_quoted(b, d->title, true);
    buf_printf(b, " {\n");
    for (uint32_t i = 0; i < d->count; i++) {
        const struct draw_node *n = &d->nodes[i];
        buf_printf(b, "  n%" PRIu32 " [label=", i);
        put_quoted(b, n->name, true);
        buf_printf(b, "%s", shape_of(n));
        if (n->state.len) {
            buf_printf(b, ", style=filled, fillcolor=\"%s\", tooltip=", draw_fill(n->state));
            put_quoted(b, n->state, true);
        }
        buf_printf(b, "];\n");
    }
    for (uint32_t i = 0; i < d->count; i++)
        for (uint32_t k = 0; k < d->nodes[i].parent_count; k++) {
            buf_printf(b, "  n%" PRIu32 " -> n%" PRIu32, d->nodes[i].parents[k], i);
            if (d->nodes[i].branch.len) {
                buf_printf(b, " [label=");
                put_quoted(b, d->nodes[i].branch, true);
                buf_printf(b, "]");
            }
            buf_printf(b, ";\n");
        }
    put_note(d, b, "  more [shape=plaintext, label=\"", "\"];\n");
    buf_printf(b, "}\n");
}

void draw_put_mermaid(const struct draw *d, struct buf *b)
{
    bool used[sizeof STYLES / sizeof *STYLES] = {false};
    buf_printf(b, "flowchart TD\n");
    for (uint32_t i = 0; i < d->count; i++) {
        buf_printf(b, "    n%" PRIu32 "[", i);
        put_quoted(b, d->nodes[i].name, false);
        buf_printf(b, "]");
        for (size_t s = 0; s < sizeof STYLES / sizeof *STYLES; s++)
            if (str_eq(d->nodes[i].state, str_of(STYLES[s].state))) {
                buf_printf(b, ":::%s", STYLES[s].state);
                used[s] = true;
            }
        buf_printf(b, "\n");
    }
    for (uint32_t i = 0; i < d->count; i++)
        for (uint32_t k = 0; k < d->nodes[i].parent_count; k++) {
            buf_printf(b, "    n%" PRIu32 " --> ", d->nodes[i].parents[k]);
            if (d->nodes[i].branch.len)
                buf_printf(b, "|%.*s| ", STR_ARGS(d->nodes[i].branch));
            buf_printf(b, "n%" PRIu32 "\n", i);
        }
    put_note(d, b, "    more[\"", "\"]\n");
    for (size_t s = 0; s < sizeof STYLES / sizeof *STYLES; s++)
        if (used[s])
            buf_printf(b, "    classDef %s fill:%s\n", STYLES[s].state, STYLES[s].fill);
}
