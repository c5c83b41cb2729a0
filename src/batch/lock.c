/*
 * The locks of items, and the locks by name.
 *
 * Creating its node takes a lock by name, as foreign clients take it. Two arks can have the same
 * node name once their slashes are replaced. They exclude each other, but neither passes for the
 * other: the data keeps the name as it was given, and a lock answers to that name only. A lock that
 * a foreign client took has no data, so it answers to every name that its node can stand for.
 *
 * Drover 0.1 and older releases of the authors' library left the colon: "ark:_13030_x". Such a node
 * is a lock of that name as well.
 *
 * A transaction cannot insist on the czxid of a lock, its token. So taking a lock also sets its
 * parent (to the same empty data), and releasing one insists on the version of the parent: if a
 * lock was taken since it was read, the release reads it again. Acquiring items insists on the same
 * versions. A foreign client that takes a lock does not set the parent. But its lock has version 0
 * and one of ours version 1, and the release insists on the version of the lock as well.
 */
#include "base/clock.h"
#include "batch/item.h"

const char *const BATCH_LOCK_DIRS[BATCH_LOCK_KINDS] = {"queue", "storage", "inventory",
                                                       "collections", "localid"};

static int fenced(struct batch_call *c, int64_t token)
{
    return BATCH_FAIL(c, DROVER_FENCED, "the token %lld is no longer valid: the lock was lost",
                      (long long)token);
}

int batch_lock_guard(struct batch_call *c, struct batch_txn *t, const char *path, int64_t token,
                     int32_t version, bool keep)
{
    if (!token) {
        txn_create(&t->txn, OP_GUARD, NO_BYTES, KEEPER_EPHEMERAL, "%s/lock", path);
        txn_delete(&t->txn, OP_ANY, KEEPER_ANY_VERSION, "%s/lock", path);
        return 0;
    }
    if (version == KEEPER_ANY_VERSION) {
        struct keeper_stat stat;
        TRY(batch_node_stat(c, &stat, "%s/lock", path));
        if (stat.czxid != token) /* 0: there is no lock */
            return fenced(c, token);
    }
    if (keep)
        txn_check(&t->txn, OP_GUARD, version, "%s/lock", path);
    else
        txn_delete(&t->txn, OP_GUARD, version, "%s/lock", path);
    return 0;
}

int batch_lock_refused(struct batch_call *c, const struct batch_txn *t, int err, int64_t token)
{
    if (t->txn.failed == OP_GUARD && token && err == DROVER_NO_NODE)
        return fenced(c, token);
    if (t->txn.failed == OP_GUARD && !token && err == DROVER_EXISTS)
        return BATCH_FAIL(c, DROVER_LOCKED,
                          "it is locked; only a request with the token of the lock can change it");
    return err;
}

/* A batch that nobody works on and that is Pending can be taken again, also by others (item.h). */
static int add_untaken(struct batch_call *c, struct batch_txn *t, const struct batch_item *i,
                       struct str status)
{
    const struct batch_store *r = c->store;
    struct batch_status s;
    struct err_info why;
    if (i->kind->id != BATCH_KIND_BATCH ||
        batch_status_read(&r->machines.batch, c->a, status, &s, &why) ||
        s.state != r->batch.pending)
        return 0;
    int err = batch_add_untaken(c, t, i->id);
    return err < 0 ? err : 0;
}

/* A damaged status does not prevent it, so the data is written back as it was read. */
int batch_item_unlock(struct batch_call *c, enum batch_kind_id kind, struct str id, int64_t token)
{
    struct batch_item i;
    int err = DROVER_BAD_VERSION;

    TRY(batch_item_name(c, kind, id, &i));
    for (int n = 0; n < BATCH_TRIES && batch_is_conflict(err); n++) {
        struct batch_txn t = BATCH_TXN(c);
        struct keeper_stat stat, lock;
        struct str data;

        err = batch_node_get(c, &data, &stat, "%s/status", i.path);
        if (!err)
            err = batch_node_exists(c, &lock, "%s/lock", i.path);
        if (err == DROVER_NO_NODE)
            return BATCH_FAIL(c, err, "there is no lock on %s", i.id);
        if (err)
            return err;
        if (token && lock.czxid != token)
            return fenced(c, token);
        txn_set(&t.txn, OP_STATUS, data, stat.version, "%s/status", i.path);
        txn_delete(&t.txn, OP_ANY, KEEPER_ANY_VERSION, "%s/lock", i.path);
        TRY(add_untaken(c, &t, &i, data));
        err = batch_txn_commit(c, &t, OP_STATUS);
    }
    if (!err && batch_item_read(c, kind, id, &i) == 0 &&
        i.status.state != BATCH_NO_STATE) { /* it can be acquired at once */
        const struct batch_view *v = &i.kind->views[i.status.state];
        struct batch_entry_name entry = batch_view_entry(v, batch_key(i.priority, i.number));

        list_view_release(v->list, str_of(entry.text), NULL);
    }
    return err;
}

/* The name of a lock's node. */
static int node_name(struct batch_call *c, enum batch_lock_kind kind, struct str name,
                     char ret_node[BATCH_NAME_MAX + 1])
{
    if (name.len >= BATCH_NAME_MAX)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "the name of the lock is longer than %d bytes",
                          BATCH_NAME_MAX - 1);
    batch_name_flatten(name, ret_node);
    TRY(batch_name_check("the name of the lock",
                         batch_lock_is_ephemeral(kind) ? str_of(ret_node) : name, c->why));
    if (kind == BATCH_LOCK_QUEUE && strcmp(ret_node, "ingest") != 0 &&
        strcmp(ret_node, "accessSmall") != 0 && strcmp(ret_node, "accessLarge") != 0)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT,
                          "there is no queue '%s'; the queues are ingest, accessSmall and "
                          "accessLarge",
                          ret_node);
    return 0;
}

static struct str write_data(struct batch_call *c, struct str name, struct str who)
{
    struct buf b = {0};
    json_open(&b, '{');
    json_member_text(&b, "name", name);
    json_member_text(&b, "who", who);
    json_member_text(&b, "when", batch_now(c));
    json_close(&b, '}');
    return arena_take(c->a, &b);
}

/* The data may be a foreign client's: if it has no name, the name of the node is used. */
static int find(struct batch_call *c, enum batch_lock_kind kind, const char *node,
                struct batch_lock *ret_lock)
{
    struct batch_lock lock = {.kind = kind, .node = str_of(arena_text(c->a, str_of(node)))};
    struct keeper_stat stat;
    struct str data;
    TRY(batch_node_get(c, &data, &stat, "/locks/%s/%s", BATCH_LOCK_DIRS[kind], node));
    lock.name = lock.node;
    const struct json *v = data.len ? json_parse(c->a, data, NULL) : NULL;
    lock.named = json_get_text(v, "name", &lock.name, NULL) > 0;
    json_get_text(v, "who", &lock.who, NULL);
    json_get_text(v, "when", &lock.when, NULL);
    lock.token = stat.czxid;
    lock.version = stat.version;
    lock.age_ms = clock_wall_ms() - stat.ctime_ms;
    lock.ephemeral = stat.ephemeral_owner != 0;
    *ret_lock = lock;
    return 0;
}

/* Whether it is the lock of another name that has the same node. */
static bool is_of_another(const struct batch_lock *lock, struct str name)
{
    return lock->named && !str_eq(lock->name, name);
}

/* The same as find() for a node with the colon that flattening the name drops. */
static int find_old(struct batch_call *c, enum batch_lock_kind kind, struct str name,
                    const char *node, struct batch_lock *ret_lock)
{
    char old[BATCH_NAME_MAX + 1];
    if (name.len == strlen(node))
        return DROVER_NO_NODE; /* it dropped none */
    for (size_t i = 0; i < name.len; i++)
        old[i] = name.p[i] == '/' ? '_' : name.p[i];
    old[name.len] = '\0';
    TRY(find(c, kind, old, ret_lock));
    return is_of_another(ret_lock, name) ? DROVER_NO_NODE : 0;
}

static int refuse(struct batch_call *c, enum batch_lock_kind kind, struct str name,
                  const char *node)
{
    const char *dir = BATCH_LOCK_DIRS[kind];
    struct batch_lock other;
    if (find(c, kind, node, &other) && find_old(c, kind, name, node, &other))
        return BATCH_FAIL(c, DROVER_LOCKED, "%s/%s is locked", dir, node);
    if (is_of_another(&other, name))
        return BATCH_FAIL(c, DROVER_LOCKED,
                          "'%.*s' cannot be locked: its node '%s' is taken by '%.*s'",
                          STR_ARGS(name), node, STR_ARGS(other.name));
    struct str who = other.who.p ? other.who : STR(""), when = other.when.p ? other.when : STR("");
    return BATCH_FAIL(c, DROVER_LOCKED, "%s/%s is locked%s%.*s%s%.*s", dir, node,
                      who.len ? " by " : "", STR_ARGS(who), when.len ? " since " : "",
                      STR_ARGS(when));
}

int batch_lock_take(struct batch_call *c, enum batch_lock_kind kind, struct str name,
                    struct str who, struct batch_lock *ret_lock)
{
    char node[BATCH_NAME_MAX + 1];
    struct batch_txn t = BATCH_TXN(c);
    TRY(node_name(c, kind, name, node));
    int err = find_old(c, kind, name, node, ret_lock);
    if (err != DROVER_NO_NODE)
        return err ? err : refuse(c, kind, name, node);
    struct str data = write_data(c, name, who);
    txn_create(&t.txn, OP_ANY, NO_BYTES, batch_lock_is_ephemeral(kind) ? KEEPER_EPHEMERAL : 0,
               "/locks/%s/%s", BATCH_LOCK_DIRS[kind], node);
    txn_set(&t.txn, OP_ANY, data, 0, "/locks/%s/%s", BATCH_LOCK_DIRS[kind], node);
    txn_set(&t.txn, OP_ANY, NO_BYTES, KEEPER_ANY_VERSION, "/locks/%s", BATCH_LOCK_DIRS[kind]);
    err = batch_txn_commit(c, &t, OP_ANY);
    if (err == DROVER_EXISTS)
        return refuse(c, kind, name, node);
    return err ? err : find(c, kind, node, ret_lock);
}

int batch_lock_get(struct batch_call *c, enum batch_lock_kind kind, struct str name,
                   struct batch_lock *ret_lock)
{
    char node[BATCH_NAME_MAX + 1];
    struct batch_lock lock;
    TRY(node_name(c, kind, name, node));
    int err = find(c, kind, node, &lock);
    if (err == DROVER_NO_NODE)
        err = find_old(c, kind, name, node, &lock);
    if (err == DROVER_NO_NODE)
        return BATCH_FAIL(c, err, "%s/%s is not locked", BATCH_LOCK_DIRS[kind], node);
    if (!err && is_of_another(&lock, name))
        return BATCH_FAIL(c, DROVER_NO_NODE,
                          "'%.*s' is not locked; its node '%s' is taken by '%.*s'", STR_ARGS(name),
                          node, STR_ARGS(lock.name));
    if (!err)
        *ret_lock = lock;
    return err;
}

/* BAD_VERSION: a lock of that kind was taken meanwhile, perhaps this one. */
int batch_lock_release(struct batch_call *c, enum batch_lock_kind kind, struct str name,
                       int64_t token)
{
    int err = DROVER_BAD_VERSION;

    for (int i = 0; i < BATCH_TRIES && err == DROVER_BAD_VERSION; i++) {
        struct batch_txn t = BATCH_TXN(c);
        struct keeper_stat taken;
        struct batch_lock lock;

        TRY(batch_node_exists(c, &taken, "/locks/%s", BATCH_LOCK_DIRS[kind]));
        TRY(batch_lock_get(c, kind, name, &lock));
        if (token && lock.token != token)
            return fenced(c, token);
        txn_check(&t.txn, OP_ANY, taken.version, "/locks/%s", BATCH_LOCK_DIRS[kind]);
        txn_delete(&t.txn, OP_ANY, lock.version, "/locks/%s/%s", BATCH_LOCK_DIRS[kind],
                   lock.node.p);
        err = batch_txn_commit(c, &t, OP_ANY);
    }
    return err;
}

int batch_lock_list(struct batch_call *c, enum batch_lock_kind kind, struct batch_lock **ret_locks,
                    size_t *ret_count)
{
    struct keeper_names names;
    TRY(batch_node_children(c, &names, NULL, "/locks/%s", BATCH_LOCK_DIRS[kind]));
    *ret_locks = arena_zalloc(c->a, (names.count + 1) * sizeof **ret_locks);
    *ret_count = 0;
    for (size_t i = 0; i < names.count; i++) {
        int err = find(c, kind, names.names[i], &(*ret_locks)[*ret_count]);
        if (err && err != DROVER_NO_NODE) /* deleted meanwhile */
            return err;
        *ret_count += !err;
    }
    return 0;
}
