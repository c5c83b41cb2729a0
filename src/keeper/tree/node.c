/*
 * Nodes are in chunks that never move; free ones form a list. Siblings form a list, newest first.
 */
#include "keeper/tree/node.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "keeper/path.h"

_Static_assert(sizeof(struct tree_node) == 64, "a node is one cache line");

static size_t len_size(uint32_t len)
{
    size_t size = 1;
    while (len >>= 7)
        size++;
    return size;
}

static unsigned char *put_len(unsigned char *p, uint32_t len)
{
    for (; len > 127; len >>= 7)
        *p++ = (unsigned char)(len | 128);
    *p++ = (unsigned char)len;
    return p;
}

static struct tree_node_text *text_new(struct str name, struct str data)
{
    uint32_t name_len = (uint32_t)name.len, data_len = data.p ? (uint32_t)data.len + 1 : 0;
    struct tree_node_text *text =
        mem_alloc(len_size(name_len) + len_size(data_len) + name.len + data.len);
    unsigned char *p = put_len(put_len(text->bytes, name_len), data_len);
    if (name.len)
        memcpy(p, name.p, name.len);
    if (data.len)
        memcpy(p + name.len, data.p, data.len);
    return text;
}

struct tree_node_text *node_text_with(const struct tree_node_text *old, struct str data)
{
    return text_new(node_parts(old).name, data);
}

void node_put_text(struct tree_nodes *ns, struct tree_node *n, struct tree_node_text *text)
{
    ns->bytes += node_parts(text).data.len - node_data(n).len;
    n->text = text;
}

void node_set_data(struct tree_nodes *ns, struct tree_node *n, struct str data)
{
    struct tree_node_text *old = n->text;
    struct str is = node_parts(old).data;
    if (is.len == data.len && !is.p == !data.p) {
        if (data.len)
            memcpy((char *)is.p, data.p, data.len);
        return;
    }
    node_put_text(ns, n, node_text_with(old, data));
    free(old);
}

struct tree_node_more *node_more(struct tree_node *n)
{
    if (!n->more) {
        n->more = mem_zalloc(sizeof *n->more);
        n->more->pzxid = n->czxid;
    }
    return n->more;
}

static uint32_t take_number(struct tree_nodes *ns)
{
    uint32_t ref = ns->free;
    if (ref) {
        ns->free = node_at(ns, ref)->next;
        return ref;
    }
    assert(ns->top < UINT32_MAX - NODE_CHUNK_LEN);
    ref = ns->top++;
    if (ref >> NODE_CHUNK_BITS == ns->chunk_count) {
        size_t size = NODE_CHUNK_LEN * sizeof(struct tree_node);
        struct tree_node *chunk = mem_aligned_alloc(sizeof(struct tree_node), size);
        ns->chunks = mem_realloc(ns->chunks, (ns->chunk_count + 1) * sizeof *ns->chunks);
        ns->chunks[ns->chunk_count++] = chunk;
        memset(chunk, 0, size);
    }
    return ref;
}

void nodes_init(struct tree_nodes *ns)
{
    *ns = (struct tree_nodes){.top = NODE_ROOT};
    uint32_t root = take_number(ns);

    assert(root == NODE_ROOT);
    node_at(ns, root)->text = text_new(STR(""), STR(""));
    ns->count = ns->bytes = 1;
}

void nodes_release(struct tree_nodes *ns)
{
    for (uint32_t ref = NODE_ROOT; ref < ns->top; ref++) {
        free(node_at(ns, ref)->text);
        free(node_at(ns, ref)->more);
    }
    for (uint32_t i = 0; i < ns->chunk_count; i++)
        free(ns->chunks[i]);
    free(ns->chunks);
    map_release(&ns->index);
    acl_table_release(&ns->acls);
    *ns = (struct tree_nodes){0};
}

/* Whether the names from this node up to the root make the path. */
static bool has_path(const struct tree_nodes *ns, uint32_t ref, struct str path)
{
    while (ref != NODE_ROOT) {
        const struct tree_node *n = node_at(ns, ref);
        struct str name = node_name(n);
        if (path.len <= name.len || path.p[path.len - name.len - 1] != '/' ||
            memcmp(path.p + path.len - name.len, name.p, name.len) != 0)
            return false;
        path.len -= name.len + 1;
        ref = n->parent;
    }
    return path.len == 0;
}

uint32_t nodes_find(const struct tree_nodes *ns, struct str path)
{
    if (path.len == 1)
        return NODE_ROOT;
    uint32_t hash = map_hash_str(path);
    for (uint32_t at, ref = map_first(&ns->index, hash, &at); ref;
         ref = map_next(&ns->index, hash, &at))
        if (has_path(ns, ref, path))
            return ref;
    return 0;
}

void nodes_attach(struct tree_nodes *ns, uint32_t ref, struct str path)
{
    struct tree_node *n = node_at(ns, ref);
    struct tree_node_more *parent = node_more(node_at(ns, n->parent));
    n->prev = 0;
    n->next = parent->first_child;
    if (n->next)
        node_at(ns, n->next)->prev = ref;
    parent->first_child = ref;
    parent->child_count++;
    map_add(&ns->index, map_hash_str(path), ref);
    ns->count++;
    ns->bytes += path.len + node_data(n).len;
}

void nodes_detach(struct tree_nodes *ns, uint32_t ref, struct str path)
{
    struct tree_node *n = node_at(ns, ref);
    struct tree_node_more *parent = node_at(ns, n->parent)->more;
    assert(ref != NODE_ROOT && !(n->more && n->more->child_count));
    if (n->prev)
        node_at(ns, n->prev)->next = n->next;
    else
        parent->first_child = n->next;
    if (n->next)
        node_at(ns, n->next)->prev = n->prev;
    parent->child_count--;
    map_remove(&ns->index, map_hash_str(path), ref);
    ns->count--;
    ns->bytes -= path.len + node_data(n).len;
}

uint32_t nodes_add(struct tree_nodes *ns, uint32_t parent, struct str path, struct str data)
{
    uint32_t ref = take_number(ns);
    struct tree_node *n = node_at(ns, ref);
    *n = (struct tree_node){.parent = parent, .text = text_new(path_name(path), data)};
    nodes_attach(ns, ref, path);
    return ref;
}

void node_set_acl(struct tree_nodes *ns, struct tree_node *n, struct str list)
{
    uint32_t old = node_acl(n), number = acl_use(&ns->acls, list);
    if (number || n->more)
        node_more(n)->acl = number;
    acl_drop(&ns->acls, old);
}

void nodes_free(struct tree_nodes *ns, uint32_t ref)
{
    struct tree_node *n = node_at(ns, ref);
    acl_drop(&ns->acls, node_acl(n));
    free(n->text);
    free(n->more);
    *n = (struct tree_node){.next = ns->free};
    ns->free = ref;
}

uint32_t nodes_next(const struct tree_nodes *ns, uint32_t top, uint32_t ref)
{
    const struct tree_node *n = node_at(ns, ref);
    if (n->more && n->more->first_child)
        return n->more->first_child;
    while (ref != top && !node_at(ns, ref)->next)
        ref = node_at(ns, ref)->parent;
    return ref == top ? 0 : node_at(ns, ref)->next;
}

void nodes_put_path(const struct tree_nodes *ns, uint32_t ref, struct buf *b)
{
    size_t len = 0;
    if (ref == NODE_ROOT) {
        buf_put_u8(b, '/');
        return;
    }
    for (uint32_t up = ref; up != NODE_ROOT; up = node_at(ns, up)->parent)
        len += 1 + node_name(node_at(ns, up)).len;
    buf_reserve(b, len);
    b->len += len;
    char *end = b->p + b->len;
    for (uint32_t up = ref; up != NODE_ROOT; up = node_at(ns, up)->parent) {
        struct str name = node_name(node_at(ns, up));
        end -= name.len;
        memcpy(end, name.p, name.len);
        *--end = '/';
    }
}
