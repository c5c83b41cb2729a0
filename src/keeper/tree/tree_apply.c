/*
 * Transactions.
 *
 * A transaction is applied operation by operation, and each notes in its change how to undo it. If
 * one fails, the changes are undone from the last to the first, and nothing has happened. If all
 * succeed, what they kept alive (old data, deleted nodes) is freed. Each operation checks before it
 * changes anything, so it cannot fail half-way. The order of the checks is ZooKeeper's: it decides
 * which error a client sees.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "keeper/path.h"
#include "keeper/tree/quota.h"

static void put_text_back(struct tree_nodes *ns, struct tree_node *n, struct tree_node_text *old)
{
    struct tree_node_text *failed = n->text;
    node_put_text(ns, n, old);
    free(failed);
}

static void undo_change(struct tree *t, const struct tree_change *c)
{
    const struct tree_undo *u = &c->undo;
    struct tree_node *n = node_at(&t->nodes, u->ref);
    struct tree_node_more *parent = n->parent ? node_at(&t->nodes, n->parent)->more : NULL;

    switch (c->kind) {
    case CHANGE_CREATE:
        if (node_owner(n))
            tree_unlink_owned(t, u->ref);
        nodes_detach(&t->nodes, u->ref, c->path);
        nodes_free(&t->nodes, u->ref);
        parent->creations = u->number;
        parent->pzxid = u->parent_pzxid;
        break;
    case CHANGE_SET:
        put_text_back(&t->nodes, n, u->text);
        n->mzxid = u->mzxid;
        n->mtime_ms = u->mtime_ms;
        n->version = u->number;
        break;
    case CHANGE_DELETE:
        nodes_attach(&t->nodes, u->ref, c->path);
        if (node_owner(n))
            tree_link_owned(t, u->ref, node_owner(n));
        parent->pzxid = u->parent_pzxid;
        break;
    case CHANGE_SET_ACL:
        acl_drop(&t->nodes.acls, n->more->acl);
        n->more->acl = u->acl;
        n->more->aversion = u->number;
        break;
    default:
        assert(!"this operation cannot be undone");
    }
}

/* All succeeded: counts it for the quotas, and frees what only an undo needs. */
static void settle(struct tree *t, const struct tree_changes *c)
{
    quota_count(t, c);
    for (size_t i = 0; i < c->count; i++) {
        const struct tree_change *change = &c->list[i];
        if (change->kind == CHANGE_SET)
            free(change->undo.text);
        if (change->kind == CHANGE_DELETE)
            nodes_free(&t->nodes, change->undo.ref);
        if (change->kind == CHANGE_SET_ACL)
            acl_drop(&t->nodes.acls, change->undo.acl);
    }
}

struct tree_transaction {
    struct tree *t;
    const struct tree_user *user;
    struct tree_changes *c;
    bool alone; /* one operation */
};

/* Not this process. */
static bool is_client(const struct tree_user *user)
{
    return user->who && !user->who->inside;
}

static bool allowed(const struct tree_transaction *tx, uint32_t ref, int permission)
{
    const struct tree_nodes *ns = &tx->t->nodes;
    return !tx->user->who ||
           acl_allows(acl_list(&ns->acls, node_acl(node_at(ns, ref))), permission, tx->user->who);
}

static int check_quota(const struct tree_transaction *tx, struct str path, int64_t nodes,
                       int64_t bytes)
{
    struct tree *t = tx->t;
    return t->quotas && t->enforces_quotas && is_client(tx->user)
               ? quota_check(t, path, nodes, bytes)
               : 0;
}

/*
 * Two thousand million sets of one node take only hours, so the numbers wrap around, as ZooKeeper's
 * do. A version is never -1, which means any version.
 */
static int32_t next_number(int32_t n)
{
    return (int32_t)((uint32_t)n + 1);
}

static int32_t next_version(int32_t version)
{
    int32_t next = next_number(version);
    return next == KEEPER_ANY_VERSION ? 0 : next;
}

static char *sequential_path(struct str prefix, int32_t number)
{
    size_t size = prefix.len + PATH_NUMBER_MAX_LEN + 1;
    char *path = mem_alloc(size);
    snprintf(path, size, "%.*s%010d", STR_ARGS(prefix), number);
    return path;
}

static int create(struct tree_transaction *tx, const struct keeper_op *op,
                  struct keeper_result *result)
{
    struct tree_nodes *ns = &tx->t->nodes;
    uint32_t parent = nodes_find(ns, path_parent(op->path));

    if (!parent)
        return DROVER_NO_NODE;
    if (!allowed(tx, parent, ACL_CREATE))
        return DROVER_NO_AUTH;
    if (op->bad_name)
        return op->bad_name;
    struct tree_node_more *m = node_more(node_at(ns, parent));
    result->path = op->flags & KEEPER_SEQUENTIAL ? sequential_path(op->path, m->creations)
                                                 : mem_dup(op->path.p, op->path.len);
    struct str path = str_of(result->path);
    if (nodes_find(ns, path))
        return DROVER_EXISTS;
    if (m->owner > 0)
        return DROVER_NO_CHILDREN_FOR_EPHEMERALS;
    TRY(check_quota(tx, path, 1, (int64_t)op->data.len));
    if (op->flags & KEEPER_EPHEMERAL && !tx->user->session)
        return DROVER_SESSION_EXPIRED;

    struct tree_undo undo = {.ref = nodes_add(ns, parent, path, op->data),
                             .parent_pzxid = m->pzxid,
                             .number = m->creations};
    m->creations = next_number(m->creations);
    m->pzxid = tx->c->zxid;
    struct tree_node *n = node_at(ns, undo.ref);
    n->czxid = n->mzxid = tx->c->zxid;
    n->ctime_ms = n->mtime_ms = tx->c->time_ms;
    if (op->flags & KEEPER_EPHEMERAL || op->owner)
        tree_link_owned(tx->t, undo.ref, op->owner ? op->owner : tx->user->session->id);
    if (op->acl.len)
        node_set_acl(ns, n, op->acl);
    changes_add(tx->c, (struct tree_change){.kind = CHANGE_CREATE,
                                            .number = m->creations,
                                            .session = node_owner(n),
                                            .path = path,
                                            .data = op->data,
                                            .acl = op->acl,
                                            .undo = undo});
    result->stat = tree_stat(n);
    return 0;
}

/*
 * Finds the node and checks the permission, that of the node itself or, for a deletion, that of its
 * parent, and the version, for an administrator that of the access list.
 */
static int find_version(const struct tree_transaction *tx, const struct keeper_op *op,
                        int permission, uint32_t *ret_ref)
{
    uint32_t ref = nodes_find(&tx->t->nodes, op->path), asked = ref;
    if (permission == ACL_DELETE && tx->user->who) /* even if the node does not exist */
        asked = nodes_find(&tx->t->nodes, path_parent(op->path));
    if (asked && !allowed(tx, asked, permission))
        return DROVER_NO_AUTH;
    if (!ref)
        return DROVER_NO_NODE;
    struct tree_node *n = node_at(&tx->t->nodes, ref);
    if (permission == ACL_WRITE)
        TRY(check_quota(tx, op->path, 0, (int64_t)op->data.len - (int64_t)node_data(n).len));
    int32_t version = permission == ACL_ADMIN ? node_more(n)->aversion : n->version;
    if (op->version != KEEPER_ANY_VERSION && op->version != version)
        return DROVER_BAD_VERSION;
    *ret_ref = ref;
    return 0;
}

static int set(struct tree_transaction *tx, const struct keeper_op *op,
               struct keeper_result *result)
{
    uint32_t ref;
    TRY(find_version(tx, op, ACL_WRITE, &ref));
    struct tree_node *n = node_at(&tx->t->nodes, ref);
    struct tree_undo undo = {.ref = ref,
                             .mzxid = n->mzxid,
                             .mtime_ms = n->mtime_ms,
                             .number = n->version,
                             .data_len = (int32_t)node_data(n).len};
    if (tx->alone) { /* nothing after it can fail, so the data is replaced in place */
        node_set_data(&tx->t->nodes, n, op->data);
    } else {
        undo.text = n->text;
        node_put_text(&tx->t->nodes, n, node_text_with(n->text, op->data));
    }
    n->mzxid = tx->c->zxid;
    n->mtime_ms = tx->c->time_ms;
    n->version = next_version(n->version);
    changes_add(tx->c, (struct tree_change){.kind = CHANGE_SET,
                                            .number = n->version,
                                            .path = op->path,
                                            .data = op->data,
                                            .undo = undo});
    result->stat = tree_stat(n);
    return 0;
}

/* Detaches the node, keeps it for the undo, and updates its parent. own_path: see tree_change. */
static void take_out(struct tree_transaction *tx, uint32_t ref, struct str path, char *own_path)
{
    struct tree_nodes *ns = &tx->t->nodes;
    struct tree_node *n = node_at(ns, ref);
    struct tree_node_more *parent = node_at(ns, n->parent)->more;
    struct tree_change change = {.kind = CHANGE_DELETE,
                                 .path = path,
                                 .own_path = own_path,
                                 .undo = {.ref = ref, .parent_pzxid = parent->pzxid}};
    if (node_acl(n) != ACL_OPEN) {
        change.acl = acl_list(&ns->acls, node_acl(n));
        change.acl.p = change.own_acl = mem_dup(change.acl.p, change.acl.len);
    }
    changes_add(tx->c, change);
    if (node_owner(n))
        tree_unlink_owned(tx->t, ref);
    nodes_detach(ns, ref, path);
    parent->pzxid = tx->c->zxid;
}

static int delete (struct tree_transaction *tx, const struct keeper_op *op,
                   struct keeper_result *result)
{
    uint32_t ref;
    (void)result;
    TRY(find_version(tx, op, ACL_DELETE, &ref));
    const struct tree_node *n = node_at(&tx->t->nodes, ref);
    if (n->more && n->more->child_count)
        return DROVER_NOT_EMPTY;
    if (path_is_special(op->path))
        return DROVER_BAD_ARGUMENT;
    take_out(tx, ref, op->path, NULL);
    return 0;
}

static int check(struct tree_transaction *tx, const struct keeper_op *op,
                 struct keeper_result *result)
{
    uint32_t ref;
    (void)result;
    return find_version(tx, op, ACL_READ, &ref);
}

static int set_acl(struct tree_transaction *tx, const struct keeper_op *op,
                   struct keeper_result *result)
{
    uint32_t ref;
    TRY(find_version(tx, op, ACL_ADMIN, &ref));
    struct tree_node *n = node_at(&tx->t->nodes, ref);
    struct tree_node_more *m = node_more(n);
    struct tree_undo undo = {.ref = ref, .acl = m->acl, .number = m->aversion};
    m->acl = acl_use(&tx->t->nodes.acls, op->acl);
    m->aversion = next_version(m->aversion);
    changes_add(tx->c, (struct tree_change){.kind = CHANGE_SET_ACL,
                                            .number = m->aversion,
                                            .path = op->path,
                                            .acl = op->acl,
                                            .undo = undo});
    result->stat = tree_stat(n);
    return 0;
}

static int (*const OPERATIONS[])(struct tree_transaction *, const struct keeper_op *,
                                 struct keeper_result *) = {
    [KEEPER_CREATE] = create, [KEEPER_SET] = set,         [KEEPER_DELETE] = delete,
    [KEEPER_CHECK] = check,   [KEEPER_SET_ACL] = set_acl,
};

/*
 * What clients may not change: a deletion gets the error that ZooKeeper has for its own nodes,
 * anything else that of nodes without permission.
 */
static int check_reserved(const struct tree *t, const struct keeper_op *op)
{
    for (uint32_t i = 0; i < t->reserved_count && op->kind != KEEPER_CHECK; i++) {
        struct str top = t->reserved[i];
        if (str_starts(op->path, top) && (op->path.len == top.len || op->path.p[top.len] == '/'))
            return op->kind == KEEPER_DELETE ? DROVER_BAD_ARGUMENT : DROVER_NO_AUTH;
    }
    return 0;
}

static void results_failed(struct keeper_result *results, size_t count, size_t at, int err)
{
    keeper_results_release(results, at + 1);
    for (size_t i = 0; i < count; i++)
        results[i] = (struct keeper_result){.err = i < at ? 0 : i == at ? err : DROVER_NOT_TRIED};
}

int tree_apply(struct tree *t, const struct tree_user *user, int64_t time_ms,
               const struct keeper_op *ops, size_t count, struct keeper_result *results,
               struct tree_changes *c)
{
    struct tree_transaction tx = {t, user, c, count == 1};
    changes_begin(c, t->zxid + 1, time_ms);
    for (size_t i = 0; i < count; i++) {
        int err = ops[i].refused;
        if (!err && is_client(user))
            err = check_reserved(t, &ops[i]);
        if (!err)
            err = OPERATIONS[ops[i].kind](&tx, &ops[i], &results[i]);
        if (err) {
            for (size_t n = c->count; n-- > 0;)
                undo_change(t, &c->list[n]);
            changes_begin(c, 0, 0);
            results_failed(results, count, i, err);
            return err;
        }
    }
    settle(t, c);
    if (c->count) /* checks alone get no zxid */
        t->zxid = c->zxid;
    return 0;
}

struct tree_session *tree_session_open(struct tree *t, int64_t time_ms, int32_t timeout_ms,
                                       const char *password, struct tree_changes *c)
{
    changes_begin(c, ++t->zxid, time_ms);
    struct tree_session *s = sessions_put(&t->sessions, t->zxid, timeout_ms, password);
    changes_add(c, (struct tree_change){.kind = CHANGE_SESSION_OPEN,
                                        .number = timeout_ms,
                                        .session = s->id,
                                        .data = {s->password, KEEPER_PASSWORD_LEN}});
    return s;
}

int tree_session_close(struct tree *t, struct tree_session *s, int64_t time_ms, size_t max_bytes,
                       struct tree_changes *c)
{
    struct tree_transaction tx = {.t = t, .c = c};
    size_t bytes = 0;
    changes_begin(c, ++t->zxid, time_ms);
    while (s->first_ephemeral && bytes < max_bytes) {
        uint32_t ref = s->first_ephemeral;
        struct buf path = {0};
        nodes_put_path(&t->nodes, ref, &path);
        take_out(&tx, ref, buf_str(&path), path.p);
        bytes += 64 + path.len;
    }
    settle(t, c);
    if (s->first_ephemeral)
        return 1;
    changes_add(c, (struct tree_change){.kind = CHANGE_SESSION_CLOSE, .session = s->id});
    sessions_remove(&t->sessions, s->id);
    return 0;
}
