/* Parses a file of named nodes, and writes it for the API, Graphviz and Mermaid. */
#include "cli/graph_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "dag/node.h"

enum { FILE_LEN_MAX = 128 * 1024 * 1024 };

void graph_file_release(struct graph_file *f)
{
    arena_release(&f->arena);
    *f = (struct graph_file){0};
}

static int cut(struct str s)
{
    return (int)(s.len < 80 ? s.len : 80);
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

static int add_after(struct graph_file *f, const struct map *by_name, struct graph_node *n,
                     const struct json *v, struct err_info *e)
{
    uint32_t i = v->kind == JSON_TEXT ? find_node(f, by_name, v->text) : UINT32_MAX;

    if (v->kind != JSON_TEXT)
        return err_set(e, DROVER_BAD_ARGUMENT,
                       "node '%.*s': after must be a name or a list of names", cut(n->name),
                       n->name.p);
    if (i == UINT32_MAX)
        return err_set(e, DROVER_BAD_ARGUMENT, "node '%.*s': after: there is no node '%.*s'",
                       cut(n->name), n->name.p, cut(v->text), v->text.p);
    n->after[n->after_count++] = i;
    return 0;
}

static int read_after(struct graph_file *f, const struct map *by_name, struct graph_node *n,
                      struct err_info *e)
{
    const struct json *after = json_get(n->spec, "after");
    int err = 0;

    n->after = arena_alloc(&f->arena, ((after ? after->count : 0) + 1) * sizeof *n->after);
    if (!after || after->kind == JSON_NULL)
        return 0;
    if (after->kind != JSON_LIST)
        return add_after(f, by_name, n, after, e);
    for (const struct json *v = after->first; v && !err; v = v->next)
        err = add_after(f, by_name, n, v, e);
    return err;
}

/* One node. */

static int read_node(struct graph_file *f, struct graph_node *n, const struct json *v,
                     struct err_info *e)
{
    static const char *const names[] = {"type",    "when",    "branch",   "priority", "group",
                                        "after",   "command", "args",     "env",      "cwd",
                                        "timeout", "retry",   "interval", "data",     NULL};
    const struct json *command = json_get(v, "command");
    struct str type = {0};
    struct err_info why;

    n->name = v->key;
    n->spec = v;
    if (v->kind != JSON_OBJECT)
        return err_set(e, DROVER_BAD_ARGUMENT, "node '%.*s' must be an object, not %s", cut(v->key),
                       v->key.p, json_kind_name(v));
    if (json_only(v, names, &why) || json_get_text(v, "type", &type, &why) < 0)
        return err_set(e, DROVER_BAD_ARGUMENT, "node '%.*s': %s", cut(v->key), v->key.p, why.text);
    n->type = type.p                                   ? arena_text(&f->arena, type)
              : !command || command->kind == JSON_NULL ? "group"
              : command->kind == JSON_LIST             ? "command"
                                                       : "shell command";
    if (node_type_of(str_of(n->type)) < 0)
        return err_set(e, DROVER_BAD_ARGUMENT, "node '%.*s': there is no type '%s'", cut(v->key),
                       v->key.p, n->type);
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

        buf_printf(&text, "%s%.*s", k ? " → " : "", cut(name), name.p);
    }
    return err_set(e, DROVER_BAD_ARGUMENT, "cycle: %s", buf_text(&text));
}

/* Sorts parents before children; where several nodes could come next, in the order of the file. */
static int sort(struct graph_file *f, struct err_info *e)
{
    uint32_t done = 0;
    bool *out = mem_zalloc(f->count + 1);
    struct plan_spec *specs = mem_zalloc((f->count + 1) * sizeof *specs);
    struct plan_changes cycle = {0};

    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t *parents = mem_alloc((f->nodes[i].after_count + 1) * sizeof *parents);

        for (uint32_t k = 0; k < f->nodes[i].after_count; k++)
            parents[k] = plan_in_batch(f->nodes[i].after[k]);
        specs[i].parents = parents;
        specs[i].parent_count = f->nodes[i].after_count;
    }
    bool circular = plan_has_cycle(specs, f->count, &cycle);
    f->order = arena_alloc(&f->arena, (f->count + 1) * sizeof *f->order);
    while (!circular && done < f->count)
        for (uint32_t i = 0; i < f->count; i++) {
            uint32_t k = 0;

            while (k < f->nodes[i].after_count && out[f->nodes[i].after[k]])
                k++;
            if (out[i] || k < f->nodes[i].after_count)
                continue;
            out[i] = true;
            f->order[done++] = i;
        }
    for (uint32_t i = 0; i < f->count; i++)
        free((void *)specs[i].parents);
    free(specs);
    free(out);
    int err = circular ? reject_cycle(f, &cycle, e) : 0;
    plan_changes_release(&cycle);
    return err;
}

static int read_nodes(struct graph_file *f, const struct json *nodes, struct err_info *e)
{
    struct map by_name = {0};
    int err = 0;

    f->nodes = arena_zalloc(&f->arena, (nodes->count + 1) * sizeof *f->nodes);
    for (const struct json *v = nodes->first; v && !err; v = v->next) {
        err = read_node(f, &f->nodes[f->count], v, e);
        map_add(&by_name, map_hash_str(v->key), ++f->count);
    }
    for (uint32_t i = 0; i < f->count && !err; i++)
        err = read_after(f, &by_name, &f->nodes[i], e);
    map_release(&by_name);
    return err ? err : sort(f, e);
}

int graph_file_parse(struct graph_file *f, struct str text, bool is_yaml, const char *default_name,
                     struct err_info *ret_error)
{
    static const char *const names[] = {"name", "nodes", NULL};
    const struct json *v, *nodes = NULL;
    struct buf json = {0};
    int err = is_yaml ? graph_yaml_to_json(text, &json, ret_error) : 0;

    if (is_yaml)
        text = (struct str){arena_text(&f->arena, buf_str(&json)), json.len};
    buf_release(&json);
    if (!err && !text.len)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "the file is not an object with nodes");
    v = err ? NULL : json_parse(&f->arena, text, ret_error);
    f->name = str_of(default_name);
    if (!v)
        err = DROVER_BAD_ARGUMENT;
    else if (v->kind != JSON_OBJECT)
        err = err_set(ret_error, DROVER_BAD_ARGUMENT, "the file is not an object with nodes");
    else if (json_only(v, names, ret_error) || json_get_text(v, "name", &f->name, ret_error) < 0 ||
             json_get_object(v, "nodes", &nodes, ret_error) < 0)
        err = DROVER_BAD_ARGUMENT;
    else if (!nodes || !nodes->count)
        err = err_set(ret_error, DROVER_BAD_ARGUMENT, "there are no nodes");
    return err ? err : read_nodes(f, nodes, ret_error);
}

/* "dir/build.yaml" is "build". */
static const char *base_name(struct arena *a, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
               *dot = strrchr(name, '.');

    if (!strcmp(path, "-"))
        return "graph";
    return arena_text(a,
                      (struct str){name, dot && dot > name ? (size_t)(dot - name) : strlen(name)});
}

int graph_file_read(struct graph_file *f, const char *path, struct err_info *ret_error)
{
    FILE *in = strcmp(path, "-") ? fopen(path, "re") : stdin;
    struct buf b = {0};
    size_t got;

    if (!in)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "%s", strerror(errno));
    do {
        buf_reserve(&b, 65536);
        got = fread(b.p + b.len, 1, 65536, in);
        b.len += got;
    } while (got && b.len < FILE_LEN_MAX);
    if (in != stdin)
        fclose(in);
    const char *text = arena_text(&f->arena, buf_str(&b));
    size_t first = strspn(text, " \t\r\n");
    int err = graph_file_parse(f, (struct str){text, b.len}, text[first] != '{',
                               base_name(&f->arena, path), ret_error);
    buf_release(&b);
    return err;
}

/* For the API. */

static void put_after(struct buf *b, const struct graph_file *f, const struct graph_node *n,
                      const char *const *done)
{
    json_member_open(b, "parents", '[');
    for (uint32_t k = 0; k < n->after_count; k++) {
        uint32_t parent = n->after[k];

        if (done && done[parent])
            json_put_text(b, str_of(done[parent]));
        else
            json_put_text(b, str_of(arena_printf((struct arena *)&f->arena, "n%" PRIu32, parent)));
    }
    json_close(b, ']');
}

static void put_member(struct buf *b, const struct json *spec, const char *name)
{
    const struct json *v = json_get(spec, name);

    if (!v || v->kind == JSON_NULL)
        return;
    json_member_raw(b, name, v->raw);
}

static void put_data(struct buf *b, const struct graph_node *n)
{
    static const char *const keys[] = {"env", "cwd", "timeout", "retry", "interval"};
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

void graph_file_put_node(struct buf *b, const struct graph_file *f, uint32_t i,
                         const char *const *done)
{
    static const char *const keys[] = {"when", "branch", "priority", "group"};
    const struct graph_node *n = &f->nodes[i];
    struct arena *a = (struct arena *)&f->arena;

    json_open(b, '{');
    json_member_text(b, "ref", str_of(arena_printf(a, "n%" PRIu32, i)));
    json_member_open(b, "metadata", '{');
    json_member_text(b, "type", str_of(n->type));
    json_member_text(b, "name",
                     str_of(arena_printf(a, "%.*s/%.*s", STR_ARGS(f->name), STR_ARGS(n->name))));
    put_after(b, f, n, done);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        put_member(b, n->spec, keys[k]);
    json_close(b, '}');
    put_data(b, n);
    json_close(b, '}');
}

/* Pictures. */

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

void graph_file_put_dot(struct buf *b, const struct graph_file *f)
{
    buf_printf(b, "digraph ");
    put_quoted(b, f->name);
    buf_printf(b, " {\n");
    for (uint32_t i = 0; i < f->count; i++) {
        buf_printf(b, "  n%" PRIu32 " [label=", i);
        put_quoted(b, f->nodes[i].name);
        buf_printf(b, "%s];\n",
                   !strcmp(f->nodes[i].type, "if")          ? ", shape=diamond"
                   : !strcmp(f->nodes[i].type, "condition") ? ", shape=hexagon"
                   : !strcmp(f->nodes[i].type, "group")     ? ", shape=folder"
                                                            : "");
    }
    for (uint32_t i = 0; i < f->count; i++)
        for (uint32_t k = 0; k < f->nodes[i].after_count; k++) {
            const char *branch = branch_of(&f->nodes[i]);

            buf_printf(b, "  n%" PRIu32 " -> n%" PRIu32, f->nodes[i].after[k], i);
            if (branch)
                buf_printf(b, " [label=\"%s\"]", branch);
            buf_printf(b, ";\n");
        }
    buf_printf(b, "}\n");
}

void graph_file_put_mermaid(struct buf *b, const struct graph_file *f)
{
    buf_printf(b, "flowchart TD\n");
    for (uint32_t i = 0; i < f->count; i++) {
        buf_printf(b, "    n%" PRIu32 "[", i);
        put_quoted(b, f->nodes[i].name);
        buf_printf(b, "]\n");
    }
    for (uint32_t i = 0; i < f->count; i++)
        for (uint32_t k = 0; k < f->nodes[i].after_count; k++) {
            const char *branch = branch_of(&f->nodes[i]);

            buf_printf(b, "    n%" PRIu32 " --> ", f->nodes[i].after[k]);
            if (branch)
                buf_printf(b, "|%s| ", branch);
            buf_printf(b, "n%" PRIu32 "\n", i);
        }
}
