/*
 * Transactions: keeper_multi(), which waits, and keeper_commit(), which does not.
 *
 * A transaction is kept in libzookeeper's form, with space for its answers. A single create, set or
 * delete is sent as the request of that name, anything else as a multi.
 *
 * The stat of a created node: libzookeeper's multi has no create2, so the answer to a create is
 * only its path. But all of a new node's stat is known except the zxid and the time of the
 * transaction, and the answer to any set in the same transaction has both. If the caller's
 * operations have no set and the stat is wanted, a tag is one (zookeeper_tag.c). If the slot is new
 * or tags are forbidden, an exists of a created node follows the multi: requests of a session are
 * answered in order, so this costs no round trip, but it nearly halves the rate of a pipeline. That
 * is why a tag comes first.
 *
 * libzookeeper answers commits in the order of submission, but some of these answers are not final
 * (the outcome is unknown), and some commits are never sent (there was no connection). So
 * zk->commits holds them in that order, and callbacks become due from its head only.
 *
 * libzookeeper frees an uninitialised pointer if it learns that the session has expired while it
 * packs a multi. It learns that on a new connection only, so nothing is handed to it without a
 * connection.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "keeper/zookeeper/zookeeper_impl.h"

enum {
    SEQUENCE_LEN = 12, /* ten digits, a sign should they ever overflow, and the NUL */
    TRIES_MAX = 8,     /* of a tagged transaction that did not happen */
};

static void txn_free(struct zk_txn *t)
{
    arena_release(&t->arena);
    free(t);
}

/* The paths in the results of a commit belong to its arena. */
int zk_txn_fail(struct zk_txn *t, int err)
{
    keeper_results_release(t->results, t->done ? 0 : t->count);
    for (size_t i = 0; i < t->count; i++)
        t->results[i] = (struct keeper_result){.err = err};
    return err;
}

/* The flags of a create have the same numbers in ZooKeeper. */
static void pack(const struct zk *zk, struct zk_txn *t, size_t i, const struct keeper_op *op)
{
    zoo_op_t *z = &t->zops[i];
    bool sequential = op->kind == KEEPER_CREATE && (op->flags & KEEPER_SEQUENTIAL);
    int len = op->data.p ? (int)op->data.len : -1;
    char *full = arena_alloc(&t->arena, zk->chroot_len + op->path.len + 1);
    size_t path_size = zk_full_path_put(zk, op->path, sequential, full) + SEQUENCE_LEN;
    if (op->kind == KEEPER_CREATE)
        zoo_create_op_init(z, full, op->data.p, len, zk->acl, op->flags & ~KEEPER_NO_STAT,
                           arena_alloc(&t->arena, path_size), (int)path_size);
    else if (op->kind == KEEPER_SET)
        zoo_set_op_init(z, full, op->data.p, len, op->version, &t->stats[i]);
    else if (op->kind == KEEPER_DELETE)
        zoo_delete_op_init(z, full, op->version);
    else
        zoo_check_op_init(z, full, op->version);
}

/* results is NULL for a commit, which has its own. */
static struct zk_txn *txn_new(struct zk *zk, const struct keeper_op *ops, size_t count,
                              struct keeper_result *results)
{
    struct zk_txn *t = mem_zalloc(sizeof *t);
    struct arena *a = &t->arena;
    t->count = count;
    t->results = results ? results : arena_zalloc(a, count * sizeof *results);
    t->zops = arena_alloc(a, (count + 1) * sizeof *t->zops);
    t->zresults = arena_alloc(a, (count + 1) * sizeof *t->zresults);
    t->stats = arena_alloc(a, (count + 1) * sizeof *t->stats);
    for (size_t i = 0; i < count; i++)
        pack(zk, t, i, &ops[i]);
    return t;
}

/* A transaction needs a tag to be found again, or to learn its zxid. */
static void decide_tag(struct zk_txn *t, const struct keeper_op *ops)
{
    bool sets = false;
    for (size_t i = 0; i < t->count; i++) {
        bool creates = ops[i].kind == KEEPER_CREATE;
        sets |= ops[i].kind == KEEPER_SET;
        t->stat_needed |= creates && !(ops[i].flags & KEEPER_NO_STAT);
        t->findable |= creates && (ops[i].flags & KEEPER_SEQUENTIAL);
    }
    t->stat_needed &= !sets;
    t->tagged = t->findable || (t->stat_needed && t->count > 1);
}

/* The exact limit of the wire: keeper.c has checked without the chroot and the tag. */
static bool is_too_big(const struct zk *zk, const struct keeper_op *ops, size_t count, bool tagged)
{
    size_t size = 8 + 9 + (tagged ? 128 + zk->chroot_len : 0);
    for (size_t i = 0; i < count; i++)
        size += 9 + 4 + zk->chroot_len + ops[i].path.len + 4 + ops[i].data.len + 31 + 4;
    return size > KEEPER_REQUEST_MAX;
}

/* Makes a transaction, and enters the keeper as every call of the user does. */
static int txn_begin(struct zk *zk, const struct keeper_op *ops, size_t count,
                     struct keeper_result *results, struct zk_txn **ret_txn)
{
    struct zk_txn *t = txn_new(zk, ops, count, results);
    decide_tag(t, ops);
    int err = is_too_big(zk, ops, count, t->tagged) ? DROVER_TOO_BIG : zk_enter(zk);
    if (err) {
        zk_txn_fail(t, err);
        txn_free(t);
        return err;
    }
    *ret_txn = t;
    return 0;
}

/* Answers of libzookeeper, on the reply thread. */

static void on_done(int rc, const void *arg)
{
    zk_call_answer(&((struct zk_txn *)arg)->call, rc);
}

static void created_at(struct zk_txn *t, const struct Stat *stat)
{
    t->zxid = stat->czxid;
    t->time_ms = stat->ctime;
}

/* The exists that asks for the zxid of the transaction. The transaction does not fail with it. */
static void on_node_stat(int rc, const struct Stat *stat, const void *arg)
{
    struct zk_txn *t = (struct zk_txn *)arg;
    if (rc == ZOK)
        created_at(t, stat);
    on_done(t->call.rc, t);
}

static void on_set(int rc, const struct Stat *stat, const void *arg)
{
    if (rc == ZOK)
        ((struct zk_txn *)arg)->stats[0] = *stat;
    on_done(rc, arg);
}

static void on_create(int rc, const char *path, const struct Stat *stat, const void *arg)
{
    struct zk_txn *t = (struct zk_txn *)arg;
    if (rc == ZOK) {
        snprintf(t->zops[0].create_op.buf, (size_t)t->zops[0].create_op.buflen, "%s", path);
        created_at(t, stat);
    }
    on_done(rc, arg);
}

/* A created node whose stat has the zxid; NULL if it is not needed, or if there is none. */
static const char *stat_node(const struct zk_txn *t)
{
    if (!t->stat_needed)
        return NULL;
    if (t->slot)
        return t->slot->made ? NULL : t->slot->path;
    for (size_t i = t->count; i--;)
        if (t->zops[i].type == ZOO_CREATE_OP && !zk_op_is_sequential(&t->zops[i]))
            return t->zops[i].create_op.path;
    return NULL;
}

/* Sent as the request of its name. */
static bool is_single(const struct zk_txn *t)
{
    return t->count == 1 && !t->slot && t->zops[0].type != ZOO_CHECK_OP;
}

static int send_multi(struct zk *zk, struct zk_txn *t)
{
    int n = (int)t->count + (t->slot != NULL);
    const char *node = stat_node(t);
    memset(t->zresults, 0, (size_t)n * sizeof *t->zresults);
    int rc = zoo_amulti(zk->handle, n, t->zops, t->zresults, on_done, t);
    if (rc == ZOK && node && zoo_aexists(zk->handle, node, 0, on_node_stat, t) == ZOK)
        t->call.replies++;
    return rc;
}

static int send_txn(struct zk *zk, struct zk_txn *t)
{
    const zoo_op_t *z = &t->zops[0];
    if (!is_single(t))
        return send_multi(zk, t);
    if (z->type == ZOO_CREATE_OP)
        return zoo_acreate2(zk->handle, z->create_op.path, z->create_op.data, z->create_op.datalen,
                            z->create_op.acl, z->create_op.flags, on_create, t);
    if (z->type == ZOO_SETDATA_OP)
        return zoo_aset(zk->handle, z->set_op.path, z->set_op.data, z->set_op.datalen,
                        z->set_op.version, on_set, t);
    return zoo_adelete(zk->handle, z->delete_op.path, z->delete_op.version, on_done, t);
}

/* 0: sent, and will be answered. */
static int txn_send(struct zk *zk, struct zk_txn *t)
{
    t->zxid = t->time_ms = 0;
    zk_call_start(zk, &t->call);
    if (t->slot)
        zk_tag_draw(t);
    return zk_call_sent(&t->call, send_txn(zk, t));
}

/* Results. */

void zk_txn_created(struct zk_txn *t, size_t i, const char *full)
{
    const struct zk *zk = t->call.zk;
    const zoo_op_t *z = &t->zops[i];
    const char *path = full[zk->chroot_len] ? full + zk->chroot_len : "/";
    int64_t owner = z->create_op.flags & KEEPER_EPHEMERAL ? zk->keeper.session.id : 0;
    t->results[i].path = t->done ? (char *)path : mem_dup(path, strlen(path));
    t->results[i].stat = (struct keeper_stat){
        .czxid = t->zxid,
        .mzxid = t->zxid,
        .pzxid = t->zxid,
        .ctime_ms = t->time_ms,
        .mtime_ms = t->time_ms,
        .ephemeral_owner = owner,
        .data_len = z->create_op.datalen > 0 ? z->create_op.datalen : 0,
    };
}

static void txn_happened(struct zk_txn *t)
{
    for (size_t i = 0; i < t->count + (t->slot != NULL) && !t->zxid; i++)
        if (t->zops[i].type == ZOO_SETDATA_OP) {
            t->zxid = t->stats[i].mzxid;
            t->time_ms = t->stats[i].mtime;
        }
    for (size_t i = 0; i < t->count; i++) {
        t->results[i].err = 0;
        if (t->zops[i].type == ZOO_CREATE_OP)
            zk_txn_created(t, i, t->zops[i].create_op.buf);
        else if (t->zops[i].type == ZOO_SETDATA_OP)
            t->results[i].stat = zk_stat(&t->stats[i]);
    }
    if (t->slot)
        t->slot->made = true;
}

/*
 * Turns the answer into results. A transaction that was in flight when we closed, or made the
 * server disconnect, is answered with an error about the session, but it may have happened.
 */
static int txn_collect(struct zk_txn *t)
{
    int rc = t->call.rc, err = zk_err(rc);
    if (t->call.zk->closing && (rc == ZCLOSING || rc == ZAUTHFAILED || rc == ZSESSIONEXPIRED))
        err = DROVER_UNKNOWN;
    if (!err) {
        txn_happened(t);
        return 0;
    }
    for (size_t i = 0; i < t->count; i++)
        t->results[i].err =
            err == DROVER_UNKNOWN || is_single(t) ? err : zk_err(t->zresults[i].err);
    return err;
}

static int multi_once(struct zk *zk, struct zk_txn *t)
{
    int err = zk_wait_connected(zk, zk_deadline(zk));
    if (!err)
        err = txn_send(zk, t);
    if (err)
        return zk_txn_fail(t, err);
    zk_call_wait(&t->call);
    if (t->slot && t->findable && zk_rc_is_lost(t->call.rc)) {
        err = zk_tag_resolve(zk, t);
        return err ? zk_txn_fail(t, err) : 0;
    }
    return zk_tag_failed(zk, t) ? DROVER_NOT_TRIED : txn_collect(t);
}

int zk_multi(struct keeper *k, const struct keeper_op *ops, size_t count,
             struct keeper_result *results)
{
    struct zk *zk = zk_of(k);
    struct zk_txn *t;
    TRY(txn_begin(zk, ops, count, results, &t));
    int err = DROVER_NOT_TRIED;
    for (int i = 0; i < TRIES_MAX && err == DROVER_NOT_TRIED; i++) {
        err = zk_tag_take(zk, t);
        err = err ? zk_txn_fail(t, err) : multi_once(zk, t);
        zk_tag_drop(zk, t);
    }
    if (err == DROVER_NOT_TRIED)
        err = zk_txn_fail(t, DROVER_UNKNOWN);
    zk_leave(zk);
    txn_free(t);
    return err;
}

/* Commit. */

static void commit_run(struct zk *zk, struct zk_item *item)
{
    struct zk_txn *t = (struct zk_txn *)((char *)item - offsetof(struct zk_txn, item));
    pthread_mutex_unlock(&zk->lock);
    t->done(t->arg, t->err, t->results, t->count);
    txn_free(t);
    pthread_mutex_lock(&zk->lock);
}

void zk_txn_settle(struct zk_txn *t, int err)
{
    struct zk *zk = t->call.zk;
    struct zk_txn *head;
    t->err = err;
    t->settled = true;
    zk_tag_drop(zk, t);
    while ((head = TAILQ_FIRST(&zk->commits)) && head->settled) {
        TAILQ_REMOVE(&zk->commits, head, order);
        zk_ready(zk, &head->item);
    }
}

static void commit_answered(struct zk_call *c)
{
    struct zk_txn *t = (struct zk_txn *)c;
    static_assert(offsetof(struct zk_txn, call) == 0, "a transaction is a call");
    if (t->slot && t->findable && zk_rc_is_lost(c->rc))
        zk_tag_repair(c->zk, t);
    else if (zk_tag_failed(c->zk, t))
        zk_txn_settle(t, zk_txn_fail(t, DROVER_UNKNOWN)); /* a retry would be out of order */
    else
        zk_txn_settle(t, txn_collect(t));
}

static int commit_send(struct zk *zk, struct zk_txn *t)
{
    while (!zk->ended && zk->in_flight >= ZK_IN_FLIGHT_MAX)
        pthread_cond_wait(&zk->changed, &zk->lock);
    if (zk->ended)
        return zk->ended;
    if (zoo_state(zk->handle) != ZOO_CONNECTED_STATE)
        return DROVER_UNKNOWN;
    return txn_send(zk, t);
}

int zk_commit(struct keeper *k, const struct keeper_op *ops, size_t count, keeper_done_fn *done,
              void *arg)
{
    struct zk *zk = zk_of(k);
    struct zk_txn *t;
    TRY(txn_begin(zk, ops, count, NULL, &t));
    t->done = done;
    t->arg = arg;
    t->call.zk = zk;
    t->call.finish = commit_answered;
    t->item.run = commit_run;
    int err = zk_tag_take(zk, t);
    if (!err)
        err = commit_send(zk, t);
    if (!err || err == DROVER_UNKNOWN) {
        TAILQ_INSERT_TAIL(&zk->commits, t, order);
        if (err)
            zk_txn_settle(t, zk_txn_fail(t, err));
        err = 0;
    } else {
        zk_tag_drop(zk, t);
        txn_free(t);
    }
    zk_leave(zk);
    return err;
}
