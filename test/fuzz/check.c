/*
 * The structure is walked in every direction that the code uses: by number, by path, by the lists
 * of children, by the list of free numbers and by the lists of the sessions. Each way must give the
 * same.
 */
#include "check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "keeper/path.h"

enum { LOOK_AT = 1000 }; /* of longer paths only the length: the fuzzer looks at them often */

static const char *wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static const char *wrong(const char *fmt, ...)
{
    static char line[300];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    return line;
}

static bool in_use(const struct tree_nodes *ns, uint32_t ref)
{
    return ref >= NODE_ROOT && ref < ns->top && node_at(ns, ref)->text;
}

/* The node is found by its own path, and hangs on a parent. */
static const char *check_place(const struct tree_nodes *ns, uint32_t ref, struct buf *path)
{
    uint32_t parent = node_at(ns, ref)->parent;

    path->len = 0;
    if (ref != NODE_ROOT && !in_use(ns, parent))
        return wrong("node %" PRIu32 " has no parent", ref);
    nodes_put_path(ns, ref, path);
    if (path->len > PATH_MAX_LEN ||
        (path->len < LOOK_AT && !path_is_valid((struct str){path->p, path->len}, false)))
        return wrong("node %" PRIu32 " has the impossible path %.100s", ref, buf_text(path));
    if (nodes_find(ns, (struct str){path->p, path->len}) != ref)
        return wrong("%.100s does not lead to node %" PRIu32, buf_text(path), ref);
    return NULL;
}

static const char *check_children(const struct tree_nodes *ns, uint32_t ref)
{
    const struct tree_node_more *m = node_at(ns, ref)->more;
    uint32_t count = 0, before = 0;

    for (uint32_t child = m ? m->first_child : 0; child; child = node_at(ns, child)->next) {
        if (!in_use(ns, child) || node_at(ns, child)->parent != ref)
            return wrong("node %" PRIu32 " lists %" PRIu32 ", which is not its child", ref, child);
        if (node_at(ns, child)->prev != before)
            return wrong("node %" PRIu32 " does not link back to its sibling", child);
        before = child;
        if (++count > ns->count)
            return wrong("the children of node %" PRIu32 " run in a circle", ref);
    }
    if (m && count != m->child_count)
        return wrong("node %" PRIu32 " has %" PRIu32 " children, not %" PRIu32, ref, count,
                     m->child_count);
    return NULL;
}

static const char *check_free_numbers(const struct tree_nodes *ns)
{
    uint32_t count = 0;

    for (uint32_t ref = ns->free; ref; ref = node_at(ns, ref)->next) {
        if (in_use(ns, ref) || ref >= ns->top)
            return wrong("number %" PRIu32 " is in use and free", ref);
        if (++count > ns->top)
            return wrong("the free numbers run in a circle");
    }
    if (ns->count + count != ns->top - NODE_ROOT)
        return wrong("%" PRIu32 " numbers in use and %" PRIu32 " free are not %" PRIu32, ns->count,
                     count, ns->top - NODE_ROOT);
    return NULL;
}

static const char *check_nodes(const struct tree_nodes *ns)
{
    struct buf path = {0};
    const char *line = NULL;
    uint32_t count = 0, children = 0;
    uint64_t bytes = 0;

    for (uint32_t ref = NODE_ROOT; ref < ns->top && !line; ref++) {
        if (!in_use(ns, ref))
            continue;
        count++;
        children += node_at(ns, ref)->more ? node_at(ns, ref)->more->child_count : 0;
        line = check_place(ns, ref, &path);
        bytes += path.len + node_data(node_at(ns, ref)).len;
        if (!line)
            line = check_children(ns, ref);
    }
    buf_release(&path);
    if (!line && (count != ns->count || children != count - 1 || ns->index.count != count - 1))
        line = wrong("%" PRIu32 " nodes, counted %" PRIu32 ", children %" PRIu32
                     ", in the index %" PRIu32,
                     count, ns->count, children, ns->index.count);
    if (!line && bytes != ns->bytes)
        line = wrong("%" PRIu64 " bytes, counted %" PRIu64, bytes, ns->bytes);
    return line ? line : check_free_numbers(ns);
}

/*
 * How many nodes a list holds, or -1 with a line: of a session, or, for owner 0, that of containers
 * and TTL nodes.
 */
static int64_t count_owned(const struct tree *t, uint32_t first, int64_t owner, const char **line)
{
    uint32_t before = 0;
    int64_t count = 0;

    for (uint32_t ref = first; ref; ref = node_at(&t->nodes, ref)->more->next_owned) {
        const struct tree_node *n = node_at(&t->nodes, ref);

        if (!in_use(&t->nodes, ref) || (owner ? node_owner(n) != owner : node_owner(n) >= 0) ||
            (owner && n->more->child_count))
            *line = wrong("owner %" PRId64 " lists node %" PRIu32, owner, ref);
        else if (n->more->prev_owned != before)
            *line = wrong("owned node %" PRIu32 " does not link back", ref);
        else if (++count > (int64_t)t->nodes.count)
            *line = wrong("the nodes of owner %" PRId64 " run in a circle", owner);
        if (*line)
            return -1;
        before = ref;
    }
    return count;
}

static const char *check_sessions(const struct tree *t)
{
    const struct tree_sessions *s = &t->sessions;
    const char *line = NULL;
    uint64_t listed = 0, owned = 0, reapable = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->len && !line; i++) {
        if (!s->list[i])
            continue;
        count++;
        if (sessions_find(s, s->list[i]->id) != s->list[i])
            return wrong("session %" PRId64 " is not found", s->list[i]->id);
        listed += (uint64_t)count_owned(t, s->list[i]->first_ephemeral, s->list[i]->id, &line);
    }
    int64_t reapable_listed = line ? 0 : count_owned(t, t->first_reapable, 0, &line);
    if (line)
        return line;
    for (uint32_t ref = NODE_ROOT; ref < t->nodes.top; ref++)
        if (in_use(&t->nodes, ref)) {
            owned += node_owner(node_at(&t->nodes, ref)) > 0;
            reapable += node_owner(node_at(&t->nodes, ref)) < 0;
        }
    if ((uint64_t)reapable_listed != reapable)
        return wrong("%" PRIu64 " containers and TTL nodes, listed %" PRId64, reapable,
                     reapable_listed);
    if (listed != owned || owned != t->ephemerals || count != s->count || s->by_id.count != count)
        return wrong("%" PRIu64 " ephemeral nodes, listed %" PRIu64 ", counted %" PRIu64
                     "; %" PRIu32 " sessions, counted %" PRIu32,
                     owned, listed, t->ephemerals, count, s->count);
    return NULL;
}

static const char *check_special(const struct tree_nodes *ns)
{
    static const char *const paths[] = {"/zookeeper", "/zookeeper/quota", "/zookeeper/config"};

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (!nodes_find(ns, str_of(paths[i])))
            return wrong("%s is gone", paths[i]);
    return NULL;
}

/* Every access list in the table has a node, and every node's list is in the table. */
static const char *check_acls(const struct tree_nodes *ns)
{
    bool *used = calloc(ns->acls.len + 1, sizeof *used);
    const char *line = NULL;
    uint32_t count = 0;

    for (uint32_t ref = NODE_ROOT; ref < ns->top && !line; ref++) {
        uint32_t acl = in_use(ns, ref) ? node_acl(node_at(ns, ref)) : ACL_OPEN;

        if (acl > ns->acls.len || !acl_list(&ns->acls, acl).p)
            line =
                wrong("node %" PRIu32 " has the access list %" PRIu32 ", which is none", ref, acl);
        else if (acl != ACL_OPEN && !used[acl])
            count += used[acl] = true;
    }
    free(used);
    if (!line && count != ns->acls.index.count)
        line = wrong("%" PRIu32 " access lists are used, %" PRIu32 " are kept", count,
                     ns->acls.index.count);
    return line;
}

const char *check_tree(const struct tree *t)
{
    const char *line = check_nodes(&t->nodes);

    if (!line)
        line = check_special(&t->nodes);
    if (!line)
        line = check_acls(&t->nodes);
    if (!line)
        line = check_sessions(t);
    if (!line && t->placeholders)
        line = wrong("%" PRIu64 " placeholders are left", t->placeholders);
    return line;
}

static const char *check_same_node(const struct tree_node_state *a, const struct tree_node_state *b)
{
    const struct {
        const char *name;
        int64_t a, b;
    } rows[] = {
        {"czxid", a->czxid, b->czxid},          {"mzxid", a->mzxid, b->mzxid},
        {"pzxid", a->pzxid, b->pzxid},          {"ctime", a->ctime_ms, b->ctime_ms},
        {"mtime", a->mtime_ms, b->mtime_ms},    {"owner", a->owner, b->owner},
        {"version", a->version, b->version},    {"creations", a->creations, b->creations},
        {"aversion", a->aversion, b->aversion}, {"ACL", 0, !str_eq(a->acl, b->acl)},
        {"data", 0, !str_eq(a->data, b->data)},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].a != rows[i].b)
            return wrong("%.*s: %s is %" PRId64 " here and %" PRId64 " there",
                         (int)(a->path.len < 100 ? a->path.len : 100), a->path.p, rows[i].name,
                         rows[i].a, rows[i].b);
    return NULL;
}

static const char *check_same_nodes(const struct tree *a, const struct tree *b)
{
    struct buf path_a = {0}, path_b = {0};
    struct tree_node_state state_a, state_b;
    const char *line = NULL;
    uint32_t cursor = 0, other;

    if (a->nodes.count != b->nodes.count)
        line = wrong("%" PRIu32 " nodes here, %" PRIu32 " there", a->nodes.count, b->nodes.count);
    while (!line && tree_walk(a, &cursor, &path_a, &state_a)) {
        other = nodes_find(&b->nodes, state_a.path);
        if (!other)
            line = wrong("%.100s is only here", buf_text(&path_a));
        else if (tree_walk(b, &other, &path_b, &state_b))
            line = check_same_node(&state_a, &state_b);
    }
    buf_release(&path_a);
    buf_release(&path_b);
    return line;
}

const char *check_same(const struct tree *a, const struct tree *b)
{
    if (a->zxid != b->zxid)
        return wrong("zxid %" PRId64 " here and %" PRId64 " there", a->zxid, b->zxid);
    if (a->sessions.count != b->sessions.count)
        return wrong("%" PRIu32 " sessions here, %" PRIu32 " there", a->sessions.count,
                     b->sessions.count);
    for (uint32_t i = 0; i < a->sessions.len; i++) {
        const struct tree_session *s = a->sessions.list[i];
        const struct tree_session *other = s ? sessions_find(&b->sessions, s->id) : NULL;

        if (s && (!other || other->timeout_ms != s->timeout_ms ||
                  memcmp(other->password, s->password, KEEPER_PASSWORD_LEN) != 0))
            return wrong("session %" PRId64 " is another one there, or none", s->id);
    }
    return check_same_nodes(a, b);
}
