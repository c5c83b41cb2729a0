/*
 * Converts YAML to JSON. libyaml reads the document into a tree whose nodes know their lines. An
 * alias is the node of its anchor, so a few lines of them can stand for gigabytes: what aliases
 * repeat is limited, and so is the depth, which also ends an alias within its own anchor. A key
 * "<<" merges the members of a mapping, or of a list of them, that are not there.
 */
#include <string.h>
#include <yaml.h>

#include "base/map.h"
#include "base/mem.h"
#include "cli/graph_file.h"

enum { DEPTH_MAX = 32, ALIASED_LEN_MAX = 16 * 1024 * 1024 };

struct yaml_conversion {
    yaml_document_t *doc;
    struct buf *out;
    struct graph_lines *lines;
    size_t len_max;
    struct err_info *e;
    int depth;
};

static struct str text_of(const yaml_node_t *n)
{
    return (struct str){(const char *)n->data.scalar.value, n->data.scalar.length};
}

static int wrong(const struct yaml_conversion *c, const yaml_node_t *at, const char *what)
{
    return err_set(c->e, DROVER_BAD_ARGUMENT, "%zu: %s", at->start_mark.line + 1, what);
}

static void note_line(struct yaml_conversion *c, const yaml_node_t *n)
{
    struct graph_lines *l = c->lines;
    mem_grow(l->items, l->count, l->cap);
    l->items[l->count++] = (struct graph_line){c->out->len, (uint32_t)n->start_mark.line + 1};
}

static void put_scalar(struct yaml_conversion *c, const yaml_node_t *n)
{
    struct str s = text_of(n);
    bool plain = n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (plain && (!s.len || str_eq(s, STR("~")) || str_eq(s, STR("null"))))
        json_put_null(c->out);
    else
        json_put_text(c->out, s);
}

static int put_node(struct yaml_conversion *c, const yaml_node_t *n);

static int put_list(struct yaml_conversion *c, const yaml_node_t *n)
{
    json_open(c->out, '[');
    for (const yaml_node_item_t *i = n->data.sequence.items.start; i < n->data.sequence.items.top;
         i++)
        TRY(put_node(c, yaml_document_get_node(c->doc, *i)));
    json_close(c->out, ']');
    return 0;
}

/* The keys of one mapping, those that were merged too. */
struct keys {
    struct map map;
    struct str *items;
    uint32_t count, cap;
};

static bool has_key(const struct keys *k, struct str key)
{
    uint32_t hash = map_hash_str(key);
    for (uint32_t at, r = map_first(&k->map, hash, &at); r; r = map_next(&k->map, hash, &at))
        if (str_eq(k->items[r - 1], key))
            return true;
    return false;
}

static void add_key(struct keys *k, struct str key)
{
    mem_grow(k->items, k->count, k->cap);
    k->items[k->count++] = key;
    map_add(&k->map, map_hash_str(key), k->count);
}

static bool is_merge(const yaml_node_t *key)
{
    return key->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && str_eq(text_of(key), STR("<<"));
}

static int put_member(struct yaml_conversion *c, const yaml_node_t *key, int value)
{
    json_key_str(c->out, text_of(key));
    return put_node(c, yaml_document_get_node(c->doc, value));
}

static int merge(struct yaml_conversion *c, struct keys *k, const yaml_node_t *from)
{
    if (from->type != YAML_MAPPING_NODE)
        return wrong(c, from, "<< takes a mapping, or a list of mappings");
    for (const yaml_node_pair_t *p = from->data.mapping.pairs.start;
         p < from->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = yaml_document_get_node(c->doc, p->key);
        if (key->type != YAML_SCALAR_NODE || is_merge(key) || has_key(k, text_of(key)))
            continue;
        add_key(k, text_of(key));
        TRY(put_member(c, key, p->value));
    }
    return 0;
}

static int merge_all(struct yaml_conversion *c, struct keys *k, const yaml_node_t *from)
{
    if (from->type != YAML_SEQUENCE_NODE)
        return merge(c, k, from);
    for (const yaml_node_item_t *i = from->data.sequence.items.start;
         i < from->data.sequence.items.top; i++)
        TRY(merge(c, k, yaml_document_get_node(c->doc, *i)));
    return 0;
}

/* Its own keys first: they win over what is merged. */
static int put_members(struct yaml_conversion *c, const yaml_node_t *n, struct keys *k)
{
    const yaml_node_pair_t *start = n->data.mapping.pairs.start, *end = n->data.mapping.pairs.top;
    for (const yaml_node_pair_t *p = start; p < end; p++) {
        const yaml_node_t *key = yaml_document_get_node(c->doc, p->key);
        if (key->type != YAML_SCALAR_NODE)
            return wrong(c, key, "a key must be a text");
        if (is_merge(key))
            continue;
        if (has_key(k, text_of(key)))
            return err_set(c->e, DROVER_BAD_ARGUMENT, "%zu: the key '%.80s' is there twice",
                           key->start_mark.line + 1, (const char *)key->data.scalar.value);
        add_key(k, text_of(key));
        TRY(put_member(c, key, p->value));
    }
    for (const yaml_node_pair_t *p = start; p < end; p++)
        if (is_merge(yaml_document_get_node(c->doc, p->key)))
            TRY(merge_all(c, k, yaml_document_get_node(c->doc, p->value)));
    return 0;
}

static int put_mapping(struct yaml_conversion *c, const yaml_node_t *n)
{
    struct keys k = {0};
    json_open(c->out, '{');
    int err = put_members(c, n, &k);
    json_close(c->out, '}');
    map_release(&k.map);
    free(k.items);
    return err;
}

static int put_node(struct yaml_conversion *c, const yaml_node_t *n)
{
    int err = 0;
    if (c->depth == DEPTH_MAX)
        return wrong(c, n, "nested too deeply");
    if (c->out->len > c->len_max)
        return wrong(c, n, "aliases repeat more than 16 MiB");
    note_line(c, n);
    c->depth++;
    if (n->type == YAML_SCALAR_NODE)
        put_scalar(c, n);
    else
        err = n->type == YAML_MAPPING_NODE ? put_mapping(c, n) : put_list(c, n);
    c->depth--;
    return err;
}

/* Every byte of the text becomes at most 6 bytes of JSON; what is more comes from aliases. */
static int convert(yaml_document_t *doc, struct str yaml, struct buf *out,
                   struct graph_lines *lines, struct err_info *e)
{
    struct yaml_conversion c = {
        .doc = doc, .out = out, .lines = lines, .e = e, .len_max = yaml.len * 6 + ALIASED_LEN_MAX};
    const yaml_node_t *root = yaml_document_get_root_node(doc);
    return root ? put_node(&c, root) : 0;
}

int graph_yaml_to_json(struct str yaml, struct buf *ret_json, struct graph_lines *ret_lines,
                       struct err_info *ret_error)
{
    yaml_parser_t parser;
    yaml_document_t doc, more;
    int err = 0;

    if (!yaml_parser_initialize(&parser))
        err_fatal("out of memory (libyaml)");
    yaml_parser_set_input_string(&parser, (const unsigned char *)yaml.p, yaml.len);
    if (!yaml_parser_load(&parser, &doc)) {
        err = err_set(ret_error, DROVER_BAD_ARGUMENT, "%zu: %s", parser.problem_mark.line + 1,
                      parser.problem ? parser.problem : "it cannot be read");
    } else {
        err = convert(&doc, yaml, ret_json, ret_lines, ret_error);
        bool ended = !yaml_document_get_root_node(&doc);
        yaml_document_delete(&doc);
        if (!err && !ended && !yaml_parser_load(&parser, &more)) {
            err = err_set(ret_error, DROVER_BAD_ARGUMENT, "%zu: %s", parser.problem_mark.line + 1,
                          parser.problem ? parser.problem : "it cannot be read");
        } else if (!err && !ended) {
            if (yaml_document_get_root_node(&more))
                err = err_set(ret_error, DROVER_BAD_ARGUMENT, "%zu: more than one document",
                              more.start_mark.line + 1);
            yaml_document_delete(&more);
        }
    }
    yaml_parser_delete(&parser);
    return err;
}
