/*
 * Restoring a tree from disk.
 *
 * A snapshot is fuzzy: it was written while changes went on, so each node in it is as it was at
 * some moment after the snapshot began. The journal is replayed from that beginning, onto a tree
 * that is partly newer than the records:
 *
 *  - a change of a node that the snapshot does not have, because it was deleted later;
 *  - a node whose parent is missing, because the parent was created later, at a number that the
 *    snapshot had passed;
 *  - a deletion of a node that has children, because it was created again later, with children.
 *
 * In all three cases a placeholder is used until a later record creates or deletes the node. Every
 * change has absolute values, so the last one about a node is right whatever was there before, and
 * at the end of the journal no placeholder is left. If one is left, the files are not what was
 * written: tree_seal refuses them.
 */
#include "keeper/path.h"
#include "keeper/tree/quota.h"

static const int64_t PLACEHOLDER = INT64_MIN; /* as czxid */

static bool is_placeholder(const struct tree_node *n)
{
    return n->czxid == PLACEHOLDER;
}

static uint32_t add_placeholder(struct tree *t, uint32_t parent, struct str path)
{
    uint32_t ref = nodes_add(&t->nodes, parent, path, STR(""));
    node_at(&t->nodes, ref)->czxid = PLACEHOLDER;
    t->placeholders++;
    return ref;
}

/* Finds the node; creates placeholders for it and for missing ancestors. */
static uint32_t ensure(struct tree *t, struct str path)
{
    uint32_t ref = nodes_find(&t->nodes, path);
    if (ref)
        return ref;
    uint32_t parent = nodes_find(&t->nodes, path_parent(path));
    if (parent)
        return add_placeholder(t, parent, path);
    parent = NODE_ROOT;
    for (size_t len = 2; len <= path.len; len++) {
        struct str part = {path.p, len};
        if (len < path.len && path.p[len] != '/')
            continue;
        ref = nodes_find(&t->nodes, part);
        parent = ref ? ref : add_placeholder(t, parent, part);
    }
    return parent;
}

/* Turns a placeholder into a node, or replaces a node. Its children stay. */
static void become(struct tree *t, uint32_t ref, const struct tree_node_state *s)
{
    struct tree_node *n = node_at(&t->nodes, ref);
    if (is_placeholder(n))
        t->placeholders--;
    n->czxid = s->czxid;
    n->mzxid = s->mzxid;
    n->ctime_ms = s->ctime_ms;
    n->mtime_ms = s->mtime_ms;
    n->version = s->version;
    node_set_data(&t->nodes, n, s->data);
    node_set_acl(&t->nodes, n, s->acl);
    if (n->more || s->owner || s->creations || s->aversion || s->pzxid != s->czxid) {
        node_more(n)->pzxid = s->pzxid;
        n->more->owner = s->owner;
        n->more->creations = s->creations;
        n->more->aversion = s->aversion;
    }
}

int tree_restore_node(struct tree *t, const struct tree_node_state *s, struct err_info *ret_error)
{
    if (!path_is_valid(s->path, false))
        return err_set(ret_error, DROVER_DAMAGED, "a node with an impossible path");
    if (s->czxid < 0 || (s->acl.len && !acl_list_is_valid(s->acl)))
        return err_set(ret_error, DROVER_DAMAGED, "node %.*s has impossible numbers",
                       STR_ARGS(s->path));
    become(t, ensure(t, s->path), s);
    return 0;
}

static void restore_create(struct tree *t, const struct tree_changes *c,
                           const struct tree_change *change)
{
    uint32_t parent = ensure(t, path_parent(change->path));
    struct tree_node_more *m = node_more(node_at(&t->nodes, parent));
    become(t, ensure(t, change->path),
           &(struct tree_node_state){.data = change->data,
                                     .acl = change->acl,
                                     .czxid = c->zxid,
                                     .mzxid = c->zxid,
                                     .pzxid = c->zxid,
                                     .ctime_ms = c->time_ms,
                                     .mtime_ms = c->time_ms,
                                     .owner = change->session});
    m->creations = change->number;
    m->pzxid = c->zxid;
}

static void restore_set(struct tree *t, const struct tree_changes *c,
                        const struct tree_change *change)
{
    struct tree_node *n = node_at(&t->nodes, ensure(t, change->path));
    n->mzxid = c->zxid;
    n->mtime_ms = c->time_ms;
    n->version = change->number;
    node_set_data(&t->nodes, n, change->data);
}

/* Removes a childless node, and the placeholders above it that have no other child. */
static void prune(struct tree *t, uint32_t ref, struct str path)
{
    for (;;) {
        struct tree_node *n = node_at(&t->nodes, ref);
        uint32_t parent = n->parent;

        if (is_placeholder(n))
            t->placeholders--;
        nodes_detach(&t->nodes, ref, path);
        nodes_free(&t->nodes, ref);
        ref = parent;
        path = path_parent(path);
        n = node_at(&t->nodes, ref);
        if (ref == NODE_ROOT || !is_placeholder(n) || n->more->child_count)
            return;
    }
}

static void restore_delete(struct tree *t, const struct tree_changes *c,
                           const struct tree_change *change)
{
    uint32_t ref = nodes_find(&t->nodes, change->path);
    uint32_t parent = nodes_find(&t->nodes, path_parent(change->path));
    if (parent)
        node_more(node_at(&t->nodes, parent))->pzxid = c->zxid;
    if (!ref)
        return;
    struct tree_node *n = node_at(&t->nodes, ref);
    if (!n->more || !n->more->child_count) {
        prune(t, ref, change->path);
        return;
    }
    if (!is_placeholder(n))
        t->placeholders++;
    n->czxid = PLACEHOLDER;
    n->more->owner = 0;
}

static void restore_change(struct tree *t, const struct tree_changes *c,
                           const struct tree_change *change)
{
    struct tree_node *n;

    switch (change->kind) {
    case CHANGE_CREATE:
        restore_create(t, c, change);
        break;
    case CHANGE_SET:
        restore_set(t, c, change);
        break;
    case CHANGE_DELETE:
        restore_delete(t, c, change);
        break;
    case CHANGE_SET_ACL:
        n = node_at(&t->nodes, ensure(t, change->path));
        node_set_acl(&t->nodes, n, change->acl);
        node_more(n)->aversion = change->number;
        break;
    case CHANGE_SESSION_OPEN:
        sessions_put(&t->sessions, change->session, change->number, change->data.p);
        break;
    case CHANGE_SESSION_CLOSE:
        sessions_remove(&t->sessions, change->session);
        break;
    }
}

/* Checks what a checksum does not: that the content is consistent. */
static bool is_sane(const struct tree_change *c)
{
    if (c->kind == CHANGE_SESSION_CLOSE)
        return true;
    if (c->kind == CHANGE_SESSION_OPEN)
        return c->data.len == KEEPER_PASSWORD_LEN && c->session && c->number > 0;
    return path_is_valid(c->path, false) && (!c->acl.len || acl_list_is_valid(c->acl)) &&
           !(c->kind == CHANGE_CREATE && c->path.len == 1) &&
           !(c->kind == CHANGE_DELETE && path_is_special(c->path));
}

int tree_restore_changes(struct tree *t, const struct tree_changes *c, struct err_info *ret_error)
{
    for (size_t i = 0; i < c->count; i++) {
        if (!is_sane(&c->list[i]))
            return err_set(ret_error, DROVER_DAMAGED, "change %zu makes no sense", i + 1);
        restore_change(t, c, &c->list[i]);
    }
    t->zxid = c->zxid;
    return 0;
}

/* A container, or a TTL node in whose owner only bits of a time to live are set. */
static bool is_lasting_owner(int64_t owner)
{
    return owner == KEEPER_CONTAINER ||
           (owner > keeper_ttl(0) && owner <= keeper_ttl(KEEPER_TTL_MAX_MS));
}

/* What is wrong with a node, NULL: nothing. Links one that has an owner. */
static const char *seal_node(struct tree *t, uint32_t ref)
{
    const struct tree_node *n = node_at(&t->nodes, ref);
    if (!n->text)
        return NULL;
    if (is_placeholder(n))
        return "is missing, but something below it is there";
    int64_t owner = node_owner(n);
    if (!owner)
        return NULL;
    if (owner < 0 && !is_lasting_owner(owner))
        return "has an impossible owner";
    if (owner > 0 && !sessions_find(&t->sessions, owner))
        return "is ephemeral, but its session is missing";
    if (owner > 0 && n->more->child_count)
        return "is ephemeral, but has children";
    tree_link_owned(t, ref, owner);
    return NULL;
}

int tree_seal(struct tree *t, struct err_info *ret_error)
{
    for (uint32_t ref = NODE_ROOT; ref < t->nodes.top; ref++) {
        const char *wrong = seal_node(t, ref);
        if (!wrong)
            continue;
        CLEANUP(buf_release) struct buf path = {0};
        nodes_put_path(&t->nodes, ref, &path);
        return err_set(ret_error, DROVER_DAMAGED, "node %.300s %s", buf_text(&path), wrong);
    }
    quota_count_all(t);
    return 0;
}

bool tree_walk(const struct tree *t, uint32_t *cursor, struct buf *scratch,
               struct tree_node_state *ret_state)
{
    if (*cursor < NODE_ROOT)
        *cursor = NODE_ROOT;
    while (*cursor < t->nodes.top && !node_at(&t->nodes, *cursor)->text)
        ++*cursor;
    if (*cursor >= t->nodes.top)
        return false;
    const struct tree_node *n = node_at(&t->nodes, *cursor);
    scratch->len = 0;
    nodes_put_path(&t->nodes, *cursor, scratch);
    *ret_state = (struct tree_node_state){
        .path = {scratch->p, scratch->len},
        .data = node_data(n),
        .czxid = n->czxid,
        .mzxid = n->mzxid,
        .pzxid = node_pzxid(n),
        .ctime_ms = n->ctime_ms,
        .mtime_ms = n->mtime_ms,
        .owner = node_owner(n),
        .version = n->version,
        .creations = n->more ? n->more->creations : 0,
        .aversion = n->more ? n->more->aversion : 0,
        .acl = node_acl(n) ? acl_list(&t->nodes.acls, node_acl(n)) : STR(""),
    };
    ++*cursor;
    return true;
}
