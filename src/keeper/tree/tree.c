/* The tree: lists of changes, sessions, its nodes from the start, reads, the owners of nodes. */
#include "keeper/tree/tree.h"

#include <stdlib.h>

#include "base/mem.h"

void changes_begin(struct tree_changes *c, int64_t zxid, int64_t time_ms)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->list[i].own_path);
        free(c->list[i].own_acl);
    }
    c->count = 0;
    c->zxid = zxid;
    c->time_ms = time_ms;
}

void changes_release(struct tree_changes *c)
{
    changes_begin(c, 0, 0);
    free(c->list);
    *c = (struct tree_changes){0};
}

void changes_add(struct tree_changes *c, struct tree_change change)
{
    mem_grow(c->list, c->count, c->cap);
    c->list[c->count++] = change;
}

/*
 * Sessions are a list with a map by id. There are few, one per client, so operations on all walk
 * the list.
 */

void sessions_release(struct tree_sessions *s)
{
    for (uint32_t i = 0; i < s->len; i++)
        free(s->list[i]);
    free(s->list);
    map_release(&s->by_id);
    *s = (struct tree_sessions){0};
}

/* The session's position in the list plus one; 0: not found. */
static uint32_t position(const struct tree_sessions *s, int64_t id)
{
    uint32_t hash = map_hash_u64((uint64_t)id);
    for (uint32_t at, ref = map_first(&s->by_id, hash, &at); ref;
         ref = map_next(&s->by_id, hash, &at))
        if (s->list[ref - 1]->id == id)
            return ref;
    return 0;
}

struct tree_session *sessions_find(const struct tree_sessions *s, int64_t id)
{
    uint32_t ref = position(s, id);
    return ref ? s->list[ref - 1] : NULL;
}

static uint32_t free_position(struct tree_sessions *s)
{
    if (s->count < s->len)
        for (uint32_t i = 0; i < s->len; i++)
            if (!s->list[i])
                return i;
    mem_grow(s->list, s->len, s->cap);
    return s->len++;
}

struct tree_session *sessions_put(struct tree_sessions *s, int64_t id, int32_t timeout_ms,
                                  const char *password)
{
    struct tree_session *session = sessions_find(s, id);
    if (!session) {
        uint32_t at = free_position(s);
        session = s->list[at] = mem_zalloc(sizeof *session);
        session->id = id;
        map_add(&s->by_id, map_hash_u64((uint64_t)id), at + 1);
        s->count++;
    }
    session->timeout_ms = timeout_ms;
    memcpy(session->password, password, KEEPER_PASSWORD_LEN);
    return session;
}

void sessions_remove(struct tree_sessions *s, int64_t id)
{
    uint32_t ref = position(s, id);
    if (!ref)
        return;
    map_remove(&s->by_id, map_hash_u64((uint64_t)id), ref);
    free(s->list[ref - 1]);
    s->list[ref - 1] = NULL;
    s->count--;
}

void session_touch(struct tree_session *s, int64_t now_ms)
{
    s->deadline_ms = now_ms + s->timeout_ms;
}

void sessions_touch_all(struct tree_sessions *s, int64_t now_ms)
{
    for (uint32_t i = 0; i < s->len; i++)
        if (s->list[i])
            session_touch(s->list[i], now_ms);
}

struct tree_session *sessions_expired(struct tree_sessions *s, int64_t now_ms)
{
    for (uint32_t i = 0; i < s->len; i++)
        if (s->list[i] && !s->list[i]->pins && s->list[i]->deadline_ms <= now_ms)
            return s->list[i];
    return NULL;
}

int64_t sessions_next_deadline(const struct tree_sessions *s)
{
    int64_t next = INT64_MAX;
    for (uint32_t i = 0; i < s->len; i++)
        if (s->list[i] && !s->list[i]->pins && s->list[i]->deadline_ms < next)
            next = s->list[i]->deadline_ms;
    return next;
}

/* The nodes that ZooKeeper starts with. Clients may read the configuration but not change it. */
void tree_init(struct tree *t)
{
    static const struct str readable = STR("\0\0\0\1\0\0\0\1\0\0\0\5world\0\0\0\6anyone");
    struct tree_nodes *ns = &t->nodes;
    *t = (struct tree){0};
    nodes_init(ns);
    uint32_t zookeeper = nodes_add(ns, NODE_ROOT, STR("/zookeeper"), STR(""));
    nodes_add(ns, zookeeper, STR("/zookeeper/quota"), STR(""));
    uint32_t ref = nodes_add(ns, zookeeper, STR("/zookeeper/config"), STR(""));
    struct tree_node *config = node_at(ns, ref);
    node_set_acl(ns, config, readable);
    config->more->aversion = -1;
}

void tree_release(struct tree *t)
{
    nodes_release(&t->nodes);
    sessions_release(&t->sessions);
    buf_release(&t->quota_path);
    buf_release(&t->quota_note);
    *t = (struct tree){0};
}

/*
 * The node counts creations of children; clients see creations and deletions, 2 * creations -
 * children.
 */
struct keeper_stat tree_stat(const struct tree_node *n)
{
    const struct tree_node_more *m = n->more;
    int32_t children = m ? (int32_t)m->child_count : 0;
    return (struct keeper_stat){
        .czxid = n->czxid,
        .mzxid = n->mzxid,
        .pzxid = node_pzxid(n),
        .ctime_ms = n->ctime_ms,
        .mtime_ms = n->mtime_ms,
        .ephemeral_owner = node_owner(n) > 0 ? node_owner(n) : 0,
        .version = n->version,
        .aversion = m ? m->aversion : 0,
        .cversion = m ? (int32_t)((uint32_t)m->creations * 2 - (uint32_t)children) : 0,
        .data_len = (int32_t)node_data(n).len,
        .child_count = children,
    };
}

int tree_look(const struct tree *t, struct str path, struct tree_view *ret_view)
{
    uint32_t ref = nodes_find(&t->nodes, path);
    if (!ref)
        return DROVER_NO_NODE;
    const struct tree_node *n = node_at(&t->nodes, ref);
    *ret_view = (struct tree_view){
        .data = node_data(n), .acl = acl_list(&t->nodes.acls, node_acl(n)), .stat = tree_stat(n)};
    return 0;
}

int tree_children(const struct tree *t, struct str path, struct buf *ret_text, size_t *ret_count,
                  struct keeper_stat *ret_stat)
{
    uint32_t ref = nodes_find(&t->nodes, path);
    if (!ref)
        return DROVER_NO_NODE;
    const struct tree_node *n = node_at(&t->nodes, ref);
    for (uint32_t child = n->more ? n->more->first_child : 0; child;
         child = node_at(&t->nodes, child)->next) {
        buf_put_str(ret_text, node_name(node_at(&t->nodes, child)));
        buf_put_u8(ret_text, 0);
    }
    *ret_stat = tree_stat(n);
    *ret_count = (size_t)ret_stat->child_count;
    return 0;
}

static uint32_t *first_owned(struct tree *t, int64_t owner)
{
    return owner < 0 ? &t->first_reapable : &sessions_find(&t->sessions, owner)->first_ephemeral;
}

void tree_link_owned(struct tree *t, uint32_t ref, int64_t owner)
{
    struct tree_node_more *m = node_more(node_at(&t->nodes, ref));
    uint32_t *first = first_owned(t, owner);
    m->owner = owner;
    m->prev_owned = 0;
    m->next_owned = *first;
    if (m->next_owned)
        node_at(&t->nodes, m->next_owned)->more->prev_owned = ref;
    *first = ref;
    t->ephemerals += owner > 0;
}

void tree_unlink_owned(struct tree *t, uint32_t ref)
{
    struct tree_node_more *m = node_at(&t->nodes, ref)->more;
    if (t->reap_at == ref)
        t->reap_at = m->next_owned;
    if (m->prev_owned)
        node_at(&t->nodes, m->prev_owned)->more->next_owned = m->next_owned;
    else
        *first_owned(t, m->owner) = m->next_owned;
    if (m->next_owned)
        node_at(&t->nodes, m->next_owned)->more->prev_owned = m->prev_owned;
    t->ephemerals -= m->owner > 0;
}

/* As in ZooKeeper, a container that never had a child stays. */
static bool is_reapable(const struct tree_node *n, int64_t now_ms)
{
    const struct tree_node_more *m = n->more;
    if (m->child_count)
        return false;
    if (m->owner == KEEPER_CONTAINER)
        return m->creations != 0;
    return now_ms - n->mtime_ms > (m->owner & KEEPER_TTL_MAX_MS);
}

void tree_reap_begin(struct tree *t)
{
    t->reap_at = t->first_reapable;
}

enum tree_reap tree_reap_next(struct tree *t, int64_t now_ms, uint32_t steps, struct buf *ret_path)
{
    while (t->reap_at && steps--) {
        uint32_t ref = t->reap_at;
        const struct tree_node *n = node_at(&t->nodes, ref);

        t->reap_at = n->more->next_owned;
        if (is_reapable(n, now_ms)) {
            ret_path->len = 0;
            nodes_put_path(&t->nodes, ref, ret_path);
            return REAP_FOUND;
        }
    }
    return t->reap_at ? REAP_MORE : REAP_END;
}

/* How large it is. */

enum { NODE_BYTES = 84, SESSION_BYTES = 28 }; /* in a snapshot, beside paths, data and lists */

uint64_t tree_size(const struct tree *t)
{
    return t->nodes.bytes + (uint64_t)t->nodes.count * NODE_BYTES +
           (uint64_t)t->sessions.count * SESSION_BYTES;
}

struct tree_growth tree_growth(const struct tree *t, const struct keeper_op *ops, size_t count)
{
    struct tree_growth g = {0};
    bool deletes = false;
    for (size_t i = 0; i < count; i++) {
        const struct keeper_op *op = &ops[i];
        uint32_t ref = nodes_find(&t->nodes, op->path);
        int64_t before = ref ? (int64_t)node_data(node_at(&t->nodes, ref)).len : 0;
        int64_t node = NODE_BYTES + (int64_t)op->path.len;
        bool is_new = !ref || deletes || op->flags & KEEPER_SEQUENTIAL;
        if (op->kind == KEEPER_CREATE && is_new) {
            g.nodes++;
            g.bytes += node + (int64_t)op->data.len;
        } else if (op->kind == KEEPER_DELETE && ref) {
            g.nodes--;
            g.bytes -= node + before;
            deletes = true;
        } else if (op->kind == KEEPER_SET && ref) {
            g.bytes += (int64_t)op->data.len - before;
        }
        g.bytes += (int64_t)op->acl.len;
    }
    return g;
}
