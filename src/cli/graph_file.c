/* Parses a file of named nodes, and writes it for the API, Graphviz and Mermaid. */
#include "cli/graph_file.h"

#include <inttypes.h>
#include <string.h>

#include "base/map.h"
#include "dag/node.h"

void graph_file_release(struct graph_file *f)
{
    arena_release(&f->arena);
    *f = (struct graph_file){0};
}

/* For %.*s in a message. */
#define CUT(s) (int)((s).len < 80 ? (s).len : 80), (s).p

/* Names. */

static uint32_t find_node(const struct graph_file *f, const struct map *by_name, struct str name)
{
    uint32_t hash = map_hash_str(name);
    for (uint32_t at, r = map_first(by_name, hash, &at); r; r = map_next(by_name, hash, &at))
        if (str_eq(f->nodes[r - 1].name, name))
            return r - 1;
    return UINT32_MAX;
}

static int add_after(struct graph_file *f, const struct map *by_name, struct graph_node *n,
                     const struct json *v, struct err_info *e)
{
    uint32_t i = v->kind == JSON_TEXT ? find_node(f, by_name, v->text) : UINT32_MAX;
    if (v->kind != JSON_TEXT)
        return err_set(e, DROVER_BAD_ARGUMENT,
                       "node '%.*s': after must be a name or a list of names", CUT(n->name));
    if (i == UINT32_MAX)
        return err_set(e, DROVER_BAD_ARGUMENT, "node '%.*s': after: there is no node '%.*s'",
                       CUT(n->name), CUT(v->text));
    n->after[n->after_count++] = i;
    return 0;
}

static int read_after(struct graph_file *f, const struct map *by_name, struct graph_node *n,
                      struct err_info *e)
{
    const struct json *after = json_get(n->spec, "after");
    n->after = arena_alloc(&f->arena, ((after ? after->count : 0) + 1) * sizeof *n->after);
    if (!after || after->kind == JSON_NULL)
        return 0;
    if (after->kind != JSON_LIST)
        return add_after(f, by_name, n, after, e);
    json_each(v, after)
        TRY(add_after(f, by_name, n, v, e));
    return 0;
}

/* One node. */

static int read_node(struct graph_file *f, struct graph_node *n, const struct json *v,
                     struct err_info *e)
{
    static const char *const names[] = {
        "type", "when",    "branch", "priority", "group", "after", "command", "args", "env",
        "cwd",  "timeout", "retry",  "interval", "data",  "user",  "limits",  NULL};
    const struct json *command = json_get(v, "command");
    struct str type = {0};
    struct err_info why;

    n->name = v->key;
    n->spec = v;
    if (v->kind != JSON_OBJECT)
        return err_set(e, DROVER_BAD_ARGUMENT, "node '%.*s' must be an object, not %s", CUT(v->key),
                       json_kind_name(v));
    if (json_only(v, names, &why) || json_get_text(v, "type", &type, &why) < 0)
        return err_set(e, DROVER_BAD_ARGUMENT, "node '%.*s': %s", CUT(v->key), why.text);
    n->type = type.p                                   ? arena_text(&f->arena, type)
              : !command || command->kind == JSON_NULL ? "group"
              : command->kind == JSON_LIST             ? "command"
                                                       : "shell command";
    if (node_type_of(str_of(n->type)) < 0)
        return err_set(e, DROVER_BAD_ARGUMENT, "node '%.*s': there is no type '%s'", CUT(v->key),
                       n->type);
    if (command && command->kind == JSON_TEXT)
        n->command = command->text;
    else if (command && command->kind == JSON_LIST)
        n->command = command->raw;
    return 0;
}

static int reject_cycle(struct graph_file *f, const struct plan_changes *cycle, struct err_info *e)
{
    CLEANUP(buf_release) struct buf text = {0};
    for (size_t k = 0; k <= cycle->count; k++) {
        struct str name = f->nodes[cycle->refs[k % cycle->count]].name;
        buf_printf(&text, "%s%.*s", k ? " → " : "", CUT(name));
    }
    return err_set(e, DROVER_BAD_ARGUMENT, "cycle: %s", buf_text(&text));
}

/* Sorts parents before children; where several nodes could come next, in the order of the file. */
static int sort(struct graph_file *f, struct err_info *e)
{
    CLEANUP(plan_changes_release) struct plan_changes cycle = {0};
    CLEANUP(arena_release) struct arena scratch = {0};
    struct plan_spec *specs = arena_zalloc(&scratch, (f->count + 1) * sizeof *specs);
    bool *out = arena_zalloc(&scratch, f->count + 1);
    uint32_t done = 0;

    for (uint32_t i = 0; i < f->count; i++) {
        const struct graph_node *n = &f->nodes[i];
        uint32_t *parents = arena_alloc(&scratch, (n->after_count + 1) * sizeof *parents);
        for (uint32_t k = 0; k < n->after_count; k++)
            parents[k] = plan_in_batch(n->after[k]);
        specs[i].parents = parents;
        specs[i].parent_count = n->after_count;
    }
    if (plan_has_cycle(specs, f->count, &cycle))
        return reject_cycle(f, &cycle, e);
    f->order = arena_alloc(&f->arena, (f->count + 1) * sizeof *f->order);
    while (done < f->count)
        for (uint32_t i = 0; i < f->count; i++) {
            uint32_t k = 0;
            while (k < f->nodes[i].after_count && out[f->nodes[i].after[k]])
                k++;
            if (out[i] || k < f->nodes[i].after_count)
                continue;
            out[i] = true;
            f->order[done++] = i;
        }
    return 0;
}

static int read_nodes(struct graph_file *f, const struct json *nodes, struct err_info *e)
{
    CLEANUP(map_release) struct map by_name = {0};
    f->nodes = arena_zalloc(&f->arena, (nodes->count + 1) * sizeof *f->nodes);
    json_each(v, nodes) {
        TRY(read_node(f, &f->nodes[f->count], v, e));
        map_add(&by_name, map_hash_str(v->key), ++f->count);
    }
    for (uint32_t i = 0; i < f->count; i++)
        TRY(read_after(f, &by_name, &f->nodes[i], e));
    return sort(f, e);
}

int graph_file_parse(struct graph_file *f, struct str text, bool is_yaml, const char *default_name,
                     struct err_info *ret_error)
{
    static const char *const names[] = {"name", "nodes", NULL};
    CLEANUP(buf_release) struct buf json = {0};
    const struct json *v = NULL, *nodes = NULL;

    if (is_yaml) {
        TRY(graph_yaml_to_json(text, &json, ret_error));
        text = arena_take(&f->arena, &json);
    }
    if (text.len && !(v = json_parse(&f->arena, text, ret_error)))
        return DROVER_BAD_ARGUMENT;
    if (!v || v->kind != JSON_OBJECT)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "the file is not an object with nodes");
    f->name = str_of(default_name);
    if (json_only(v, names, ret_error) || json_get_text(v, "name", &f->name, ret_error) < 0 ||
        json_get_object(v, "nodes", &nodes, ret_error) < 0)
        return DROVER_BAD_ARGUMENT;
    if (!nodes || !nodes->count)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "there are no nodes");
    return read_nodes(f, nodes, ret_error);
}

/* For the API. */

struct graph_node *graph_file_find(const struct graph_file *f, struct str name)
{
    if (name.len <= f->name.len || !str_starts(name, f->name) || name.p[f->name.len] != '/')
        return NULL;
    name.p += f->name.len + 1;
    name.len -= f->name.len + 1;
    for (uint32_t i = 0; i < f->count; i++)
        if (str_eq(f->nodes[i].name, name))
            return &f->nodes[i];
    return NULL;
}

static void put_ref(struct buf *b, struct graph_file *f, uint32_t i)
{
    json_put_text(b, str_of(arena_printf(&f->arena, "n%" PRIu32, i)));
}

static void put_after(struct buf *b, struct graph_file *f, const struct graph_node *n)
{
    json_member_open(b, "parents", '[');
    for (uint32_t k = 0; k < n->after_count; k++) {
        const char *done = f->nodes[n->after[k]].done;
        if (done)
            json_put_text(b, str_of(done));
        else
            put_ref(b, f, n->after[k]);
    }
    json_close(b, ']');
}

static void put_member(struct buf *b, const struct json *spec, const char *name)
{
    const struct json *v = json_get(spec, name);
    if (v && v->kind != JSON_NULL)
        json_member_raw(b, name, v->raw);
}

static void put_data(struct buf *b, const struct graph_node *n)
{
    static const char *const keys[] = {"env",      "cwd",  "timeout", "retry",
                                       "interval", "user", "limits"};
    const struct json *command = json_get(n->spec, "command"), *data = json_get(n->spec, "data");

    json_member_open(b, "data", '{');
    if (command && command->kind == JSON_LIST && command->first) {
        json_member_raw(b, "command", command->first->raw);
        json_member_open(b, "args", '[');
        for (const struct json *v = command->first->next; v; v = v->next)
            json_put_raw(b, v->raw);
        json_close(b, ']');
    } else {
        put_member(b, n->spec, "command");
        put_member(b, n->spec, "args");
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        put_member(b, n->spec, keys[i]);
    if (data && data->kind == JSON_OBJECT)
        json_each(m, data) {
            json_key_str(b, m->key);
            json_put_raw(b, m->raw);
        }
    json_close(b, '}');
}

void graph_file_put_node(struct buf *b, struct graph_file *f, uint32_t i)
{
    static const char *const keys[] = {"when", "branch", "priority", "group"};
    const struct graph_node *n = &f->nodes[i];

    json_open(b, '{');
    json_key(b, "ref");
    put_ref(b, f, i);
    json_member_open(b, "metadata", '{');
    json_member_text(b, "type", str_of(n->type));
    json_member_text(
        b, "name",
        str_of(arena_printf(&f->arena, "%.*s/%.*s", STR_ARGS(f->name), STR_ARGS(n->name))));
    put_after(b, f, n);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        put_member(b, n->spec, keys[k]);
    json_close(b, '}');
    put_data(b, n);
    json_close(b, '}');
}

/* For people. */

void graph_file_put_plan(struct buf *b, const struct graph_file *f)
{
    for (uint32_t k = 0; k < f->count; k++) {
        const struct graph_node *n = &f->nodes[f->order[k]];
        struct str what = n->command.len ? n->command : str_of(n->type);
        if (!n->done)
            buf_printf(b, "%.*s: %.*s\n", STR_ARGS(n->name), STR_ARGS(what));
    }
}

/* Quoting that both languages understand. json_put_text() would add commas between values. */
static void put_quoted(struct buf *b, struct str text)
{
    buf_put(b, "\"", 1);
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] == '"' || text.p[i] == '\\')
            buf_put(b, "\\", 1);
        buf_put(b, text.p + i, 1);
    }
    buf_put(b, "\"", 1);
}

/* The branch of an "if" that the node depends on, or NULL. */
static const char *branch_of(const struct graph_node *n)
{
    const struct json *v = json_get(n->spec, "branch");
    int branch = v && v->kind == JSON_TEXT ? node_branch_of(v->text) : -1;
    return branch > 0 ? node_branch_name((enum node_branch)branch) : NULL;
}

static const char *shape_of(const struct graph_node *n)
{
    return !strcmp(n->type, "if")          ? ", shape=diamond"
           : !strcmp(n->type, "condition") ? ", shape=hexagon"
           : !strcmp(n->type, "group")     ? ", shape=folder"
                                           : "";
}

static void put_edge(struct buf *b, uint32_t from, uint32_t to, const char *branch, bool dot)
{
    if (dot && branch)
        buf_printf(b, "  n%" PRIu32 " -> n%" PRIu32 " [label=\"%s\"];\n", from, to, branch);
    else if (dot)
        buf_printf(b, "  n%" PRIu32 " -> n%" PRIu32 ";\n", from, to);
    else if (branch)
        buf_printf(b, "    n%" PRIu32 " --> |%s| n%" PRIu32 "\n", from, branch, to);
    else
        buf_printf(b, "    n%" PRIu32 " --> n%" PRIu32 "\n", from, to);
}

void graph_file_put_picture(struct buf *b, const struct graph_file *f, bool dot)
{
    if (dot) {
        buf_printf(b, "digraph ");
        put_quoted(b, f->name);
        buf_printf(b, " {\n");
    } else {
        buf_printf(b, "flowchart TD\n");
    }
    for (uint32_t i = 0; i < f->count; i++) {
        buf_printf(b, dot ? "  n%" PRIu32 " [label=" : "    n%" PRIu32 "[", i);
        put_quoted(b, f->nodes[i].name);
        buf_printf(b, dot ? "%s];\n" : "%s]\n", dot ? shape_of(&f->nodes[i]) : "");
    }
    for (uint32_t i = 0; i < f->count; i++)
        for (uint32_t k = 0; k < f->nodes[i].after_count; k++)
            put_edge(b, f->nodes[i].after[k], i, branch_of(&f->nodes[i]), dot);
    if (dot)
        buf_printf(b, "}\n");
}
