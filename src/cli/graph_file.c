/* Parses a file of named nodes, and writes it for the API, Graphviz and Mermaid. */
#include "cli/graph_file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/option.h"
#include "cli/graph_draw.h"
#include "dag/node.h"

enum { ERRORS_MAX = 50 };

void graph_file_release(struct graph_file *f)
{
    arena_release(&f->arena);
    buf_release(&f->errors);
    free(f->lines.items);
    *f = (struct graph_file){0};
}

/* For %.*s in a message. */
#define CUT(s) (int)((s).len < 80 ? (s).len : 80), (s).p

/* Errors. */

static uint32_t line_of(const struct graph_file *f, const struct json *v)
{
    size_t offset = v && v->raw.p >= f->text.p ? (size_t)(v->raw.p - f->text.p) : 0, low = 0,
           high = f->lines.count;
    uint32_t line = 1;
    if (!f->is_yaml) {
        for (size_t i = 0; i < offset && i < f->text.len; i++)
            line += f->text.p[i] == '\n';
        return line;
    }
    while (low < high) { /* the last one at or before the offset: a comma may precede a value */
        size_t middle = low + (high - low) / 2;
        if (f->lines.items[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? f->lines.items[low - 1].line : 1;
}

void graph_file_wrong(struct graph_file *f, const struct json *at, const struct graph_node *node,
                      const char *fmt, ...)
{
    char text[512];
    va_list ap;
    if (f->error_count++ >= ERRORS_MAX)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_printf(&f->errors, "%s:%" PRIu32 ": ", f->path ? f->path : "graph", line_of(f, at));
    if (node)
        buf_printf(&f->errors, "node '%.*s': ", CUT(node->name));
    buf_printf(&f->errors, "%s\n", text);
}

/* Names. */

static uint32_t find_node(const struct graph_file *f, const struct map *by_name, struct str name)
{
    uint32_t hash = map_hash_str(name);
    for (uint32_t at, r = map_first(by_name, hash, &at); r; r = map_next(by_name, hash, &at))
        if (str_eq(f->nodes[r - 1].name, name))
            return r - 1;
    return UINT32_MAX;
}

static void add_after(struct graph_file *f, const struct map *by_name, struct graph_node *n,
                      const struct json *v)
{
    uint32_t i = v->kind == JSON_TEXT ? find_node(f, by_name, v->text) : UINT32_MAX;
    if (v->kind != JSON_TEXT)
        graph_file_wrong(f, v, n, "after must be a name or a list of names");
    else if (i == UINT32_MAX)
        graph_file_wrong(f, v, n, "after: there is no node '%.*s'", CUT(v->text));
    else
        n->after[n->after_count++] = i;
}

static void read_after(struct graph_file *f, const struct map *by_name, struct graph_node *n)
{
    const struct json *after = json_get(n->spec, "after");
    size_t max = after && after->kind == JSON_LIST ? after->count : 1;
    n->after = arena_alloc(&f->arena, (max + 1) * sizeof *n->after);
    if (!after || after->kind == JSON_NULL)
        return;
    if (after->kind != JSON_LIST) {
        add_after(f, by_name, n, after);
        return;
    }
    json_each(v, after)
        add_after(f, by_name, n, v);
}

/* One node. */

/* Every member that is none of these is an error; "x-..." has what anchors stand for. */
static void check_names(struct graph_file *f, const struct json *v, const struct graph_node *n,
                        const char *const *names)
{
    json_each(m, v) {
        size_t i = 0;
        while (names[i] && !str_eq(str_of(names[i]), m->key))
            i++;
        if (!names[i] && (n || !str_starts(m->key, STR("x-"))))
            graph_file_wrong(f, m, n, "there is no key '%.*s'", CUT(m->key));
    }
}

/* A word of the API: the node has it or the file has it for all; NULL: neither. */
static const struct json *find_word(const struct graph_file *f, const struct graph_node *n,
                                    const char *name)
{
    const struct json *v = json_get(n->spec, name);
    return v && v->kind != JSON_NULL ? v : json_get(f->spec, name);
}

/* YAML has texts only. */
static bool is_number(struct graph_file *f, const struct json *v, int64_t *ret_number)
{
    const char *text = v->kind == JSON_TEXT ? arena_text(&f->arena, v->text) : "";
    *ret_number = v->kind == JSON_INT ? v->number : 0;
    return v->kind == JSON_INT || option_digits(text, INT32_MIN, INT32_MAX, ret_number);
}

static void check_words(struct graph_file *f, struct graph_node *n)
{
    const struct json *when = json_get(n->spec, "when"), *branch = json_get(n->spec, "branch"),
                      *group = find_word(f, n, "group"), *priority = find_word(f, n, "priority");
    if (when && (when->kind != JSON_TEXT || node_when_of(when->text) < 0))
        graph_file_wrong(f, when, n, "when must be success, failure or always");
    if (branch && (branch->kind != JSON_TEXT || node_branch_of(branch->text) < 0))
        graph_file_wrong(f, branch, n, "branch must be then or else");
    if (group && (group->kind != JSON_TEXT || !group->text.len))
        graph_file_wrong(f, group, n, "group must be a name");
    if (priority && !is_number(f, priority, &n->priority))
        graph_file_wrong(f, priority, n, "priority must be a number");
}

static void read_node(struct graph_file *f, struct graph_node *n, const struct json *v)
{
    static const char *const names[] = {"type",     "after", "when", "branch", "priority", "group",
                                        "command",  "args",  "env",  "cwd",    "timeout",  "retry",
                                        "interval", "data",  "user", "limits", NULL};
    const struct json *command = json_get(v, "command"), *type = json_get(v, "type");

    n->name = v->key;
    n->spec = v;
    n->type = "group";
    if (v->kind == JSON_NULL)
        return;
    if (v->kind != JSON_OBJECT) {
        graph_file_wrong(f, v, n, "it must be an object, not %s", json_kind_name(v));
        return;
    }
    check_names(f, v, n, names);
    if (type && type->kind == JSON_TEXT)
        n->type = arena_text(&f->arena, type->text);
    else if (command && command->kind != JSON_NULL)
        n->type = command->kind == JSON_LIST ? "command" : "shell command";
    if ((type && type->kind != JSON_TEXT) || node_type_of(str_of(n->type)) < 0) {
        graph_file_wrong(f, type, n, "there is no type '%.80s'", type ? n->type : "");
        return;
    }
    if (command && command->kind == JSON_TEXT)
        n->command = command->text;
    else if (command && command->kind == JSON_LIST)
        n->command = command->raw;
    check_words(f, n);
    graph_file_make_data(f, n);
}

static void reject_cycle(struct graph_file *f, const struct plan_changes *cycle)
{
    CLEANUP(buf_release) struct buf text = {0};
    for (size_t k = 0; k <= cycle->count; k++) {
        struct str name = f->nodes[cycle->refs[k % cycle->count]].name;
        buf_printf(&text, "%s%.*s", k ? " → " : "", CUT(name));
    }
    graph_file_wrong(f, f->nodes[cycle->refs[0]].spec, NULL, "cycle: %s", buf_text(&text));
}

/* Sorts parents before children; where several nodes could come next, in the order of the file. */
static void sort(struct graph_file *f)
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
    if (plan_has_cycle(specs, f->count, &cycle)) {
        reject_cycle(f, &cycle);
        return;
    }
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
}

static void read_nodes(struct graph_file *f, const struct json *nodes)
{
    CLEANUP(map_release) struct map by_name = {0};
    f->nodes = arena_zalloc(&f->arena, (nodes->count + 1) * sizeof *f->nodes);
    json_each(v, nodes) {
        if (find_node(f, &by_name, v->key) != UINT32_MAX)
            graph_file_wrong(f, v, NULL, "the node '%.*s' is there twice", CUT(v->key));
        read_node(f, &f->nodes[f->count], v);
        map_add(&by_name, map_hash_str(v->key), ++f->count);
    }
    for (uint32_t i = 0; i < f->count; i++)
        read_after(f, &by_name, &f->nodes[i]);
    if (!f->error_count)
        sort(f);
}

/* The text, as JSON. */
static const struct json *read_text(struct graph_file *f, struct str text, bool is_yaml)
{
    CLEANUP(buf_release) struct buf json = {0};
    struct err_info why;
    const struct json *v = NULL;
    f->is_yaml = is_yaml;
    if (is_yaml && graph_yaml_to_json(text, &json, &f->lines, &why)) {
        buf_printf(&f->errors, "%s:%s\n", f->path ? f->path : "graph", why.text);
        f->error_count++;
        return NULL;
    }
    f->text = is_yaml ? arena_take(&f->arena, &json) : text;
    if (f->text.len && !(v = json_parse(&f->arena, f->text, &why)))
        graph_file_wrong(f, NULL, NULL, "%s", why.text);
    else if (!v || v->kind != JSON_OBJECT)
        graph_file_wrong(f, NULL, NULL, "the file is not an object with nodes");
    return v && v->kind == JSON_OBJECT ? v : NULL;
}

int graph_file_parse(struct graph_file *f, struct str text, bool is_yaml, const char *default_name)
{
    static const char *const names[] = {"name",  "nodes",    "env",    "cwd",  "timeout", "retry",
                                        "group", "priority", "limits", "user", NULL};
    const struct json *v = read_text(f, text, is_yaml), *nodes = json_get(v, "nodes"),
                      *name = json_get(v, "name");
    f->name = str_of(default_name);
    f->spec = v;
    if (v)
        check_names(f, v, NULL, names);
    if (name && name->kind != JSON_TEXT)
        graph_file_wrong(f, name, NULL, "name must be a text");
    else if (name)
        f->name = name->text;
    if (v && nodes && nodes->kind != JSON_OBJECT && nodes->kind != JSON_NULL)
        graph_file_wrong(f, nodes, NULL, "nodes must be an object, not %s", json_kind_name(nodes));
    else if (v && (!nodes || nodes->kind == JSON_NULL || !nodes->count))
        graph_file_wrong(f, nodes, NULL, "there are no nodes");
    else if (v)
        read_nodes(f, nodes);
    if (f->error_count > ERRORS_MAX)
        buf_printf(&f->errors, "%s: %" PRIu32 " more errors\n", f->path ? f->path : "graph",
                   f->error_count - ERRORS_MAX);
    return f->error_count ? DROVER_BAD_ARGUMENT : 0;
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

void graph_file_put_node(struct buf *b, struct graph_file *f, uint32_t i)
{
    const struct graph_node *n = &f->nodes[i];
    const struct json *group = find_word(f, n, "group");

    json_open(b, '{');
    json_key(b, "ref");
    put_ref(b, f, i);
    json_member_open(b, "metadata", '{');
    json_member_text(b, "type", str_of(n->type));
    json_member_text(
        b, "name",
        str_of(arena_printf(&f->arena, "%.*s/%.*s", STR_ARGS(f->name), STR_ARGS(n->name))));
    put_after(b, f, n);
    put_member(b, n->spec, "when");
    put_member(b, n->spec, "branch");
    if (n->priority)
        json_member_int(b, "priority", n->priority);
    if (group && group->kind == JSON_TEXT)
        json_member_text(b, "group", group->text);
    json_close(b, '}');
    if (n->data.len)
        json_member_raw(b, "data", n->data);
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

/* The branch of an "if" that the node depends on, or NULL. */
static const char *branch_of(const struct graph_node *n)
{
    const struct json *v = json_get(n->spec, "branch");
    int branch = v && v->kind == JSON_TEXT ? node_branch_of(v->text) : -1;
    return branch > 0 ? node_branch_name((enum node_branch)branch) : NULL;
}

void graph_file_put_picture(struct buf *b, const struct graph_file *f, bool dot)
{
    CLEANUP(draw_release) struct draw d = {.title = f->name};
    for (uint32_t i = 0; i < f->count; i++) {
        const struct graph_node *from = &f->nodes[i];
        struct draw_node *n = draw_add(&d);
        const char *branch = branch_of(from);
        n->name = from->name;
        n->type = str_of(from->type);
        n->branch = str_of(branch ? branch : "");
        n->parents = arena_alloc(&d.arena, (from->after_count + 1) * sizeof *n->parents);
        for (uint32_t k = 0; k < from->after_count; k++)
            n->parents[k] = from->after[k];
        n->parent_count = from->after_count;
    }
    draw_order(&d);
    (dot ? draw_put_dot : draw_put_mermaid)(&d, b);
}
