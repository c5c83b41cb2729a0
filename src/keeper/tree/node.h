/*
 * node - the nodes of a tree: their memory, their links, and how a path finds one.
 *
 * A million nodes are normal, so a node is one cache line. Fields that few nodes need (children, an
 * owner, an access list) are in a struct tree_node_more that is allocated on demand; name and data
 * share one allocation. Nodes refer to each other by number (ref, 0: none). A node keeps its number
 * as long as it exists, which lets a snapshot walk the numbers in slices while the tree changes.
 *
 * Paths are not stored: a hash of the whole path finds candidates, and the names up to the root
 * decide.
 */
#ifndef KEEPER_TREE_NODE_H
#define KEEPER_TREE_NODE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "keeper/acl.h"

enum { NODE_ROOT = 1 };

/*
 * Name and data in one allocation: the length of the name, the length of the data plus one (0: no
 * data, which ZooKeeper's clients distinguish from empty data), the name, the data. A length has
 * seven bits per byte, lowest first, all but the last byte with the highest bit set: for most nodes
 * it is one byte.
 */
struct tree_node_text {
    unsigned char bytes[1]; /* and the following ones */
};

struct tree_node_more {
    int64_t pzxid;
    int64_t owner; /* > 0: session of an ephemeral node; < 0: a container, a TTL node (keeper.h) */
    uint32_t first_child, child_count;
    int32_t creations;               /* of children so far: the next sequence number */
    uint32_t next_owned, prev_owned; /* of the same session; or of those without */
    uint32_t acl;                    /* number of the list in nodes.acls */
    int32_t aversion;
};

struct tree_node {
    int64_t czxid, mzxid;
    int64_t ctime_ms, mtime_ms;
    struct tree_node_text *text; /* NULL: this number is free */
    struct tree_node_more *more; /* NULL: no child ever, not ephemeral, open; pzxid is czxid */
    uint32_t parent, next, prev;
    int32_t version;
};

struct tree_nodes {
    struct tree_node **chunks;
    uint32_t chunk_count;
    uint32_t top;  /* numbers from here on are unused */
    uint32_t free; /* list of free numbers, linked by next */
    uint32_t count;
    uint64_t bytes; /* of all paths and all data */
    struct map index;
    struct acl_table acls;
};

enum { NODE_CHUNK_BITS = 12, NODE_CHUNK_LEN = 1 << NODE_CHUNK_BITS };

static inline struct tree_node *node_at(const struct tree_nodes *ns, uint32_t ref)
{
    return &ns->chunks[ref >> NODE_CHUNK_BITS][ref & (NODE_CHUNK_LEN - 1)];
}

/* Starts with the root alone. */
void nodes_init(struct tree_nodes *ns);
void nodes_release(struct tree_nodes *ns);

/* 0: not found. */
uint32_t nodes_find(const struct tree_nodes *ns, struct str path);

/* Adds a node below parent. Its name is the last part of path; other fields are zero. */
uint32_t nodes_add(struct tree_nodes *ns, uint32_t parent, struct str path, struct str data);

/*
 * Take a childless node out of the tree, so that it is not found, and put it back; path is its own.
 * A detached node may be freed. The caller updates the counters of its parent.
 */
void nodes_detach(struct tree_nodes *ns, uint32_t ref, struct str path);
void nodes_attach(struct tree_nodes *ns, uint32_t ref, struct str path);
void nodes_free(struct tree_nodes *ns, uint32_t ref);

/*
 * Walks the nodes below top, from top on, parents first: the one after ref, 0: no more. Children
 * come in no particular order.
 */
uint32_t nodes_next(const struct tree_nodes *ns, uint32_t top, uint32_t ref);

/* Appends the node's path. */
void nodes_put_path(const struct tree_nodes *ns, uint32_t ref, struct buf *b);

struct tree_node_more *node_more(struct tree_node *n);

/* The data is replaced in place when it has the same length. */
void node_set_data(struct tree_nodes *ns, struct tree_node *n, struct str data);

/* A new text with the old name. The caller keeps the old text, and may put it back. */
struct tree_node_text *node_text_with(const struct tree_node_text *old, struct str data);
void node_put_text(struct tree_nodes *ns, struct tree_node *n, struct tree_node_text *text);

static inline const unsigned char *node_text_len(const unsigned char *p, uint32_t *ret_len)
{
    uint32_t len = *p & 127;
    for (int shift = 7; *p++ & 128; shift += 7)
        len |= (uint32_t)(*p & 127) << shift;
    *ret_len = len;
    return p;
}

struct tree_node_parts {
    struct str name, data; /* data.p NULL: no data */
};

static inline struct tree_node_parts node_parts(const struct tree_node_text *t)
{
    uint32_t name_len, data_len;
    const unsigned char *p = node_text_len(t->bytes, &name_len);
    p = node_text_len(p, &data_len);
    return (struct tree_node_parts){
        {(const char *)p, name_len},
        {data_len ? (const char *)p + name_len : NULL, data_len ? data_len - 1 : 0}};
}

static inline struct str node_name(const struct tree_node *n)
{
    return node_parts(n->text).name;
}

static inline struct str node_data(const struct tree_node *n)
{
    return node_parts(n->text).data;
}

static inline int64_t node_owner(const struct tree_node *n)
{
    return n->more ? n->more->owner : 0;
}

static inline uint32_t node_acl(const struct tree_node *n)
{
    return n->more ? n->more->acl : ACL_OPEN;
}

/* Replaces the access list; the old one loses a user. */
void node_set_acl(struct tree_nodes *ns, struct tree_node *n, struct str list);

static inline int64_t node_pzxid(const struct tree_node *n)
{
    return n->more ? n->more->pzxid : n->czxid;
}

#endif
