/*
 * Tags: find out whether a sequential create happened when its connection broke.
 *
 * The caller cannot find out, because it does not know the number in the name. A retry may create a
 * second node; no retry may leave an orphan. Other clients put a random id into the node's name,
 * but here the documents fix the names (worker-NNNNNNNNNN), the data and the access lists.
 *
 * So the random tag goes into another node. A transaction with a sequential create carries one more
 * operation: it sets the data of a node of ours, a slot, to a new random tag. Both happen or
 * neither, in one request and one round trip as before. After a reconnection and a sync, everything
 * that the old connection sent has happened or never will (ZooKeeper refuses requests from older
 * connections of a session). Then the slot decides. If it holds our tag, the transaction happened;
 * the slot's mzxid is its zxid, and the new node is the child of the parent with that czxid. If it
 * holds another tag, the transaction did not happen.
 *
 * A slot belongs to one transaction at a time and is then reused, so there are as many as were ever
 * in flight at once. The first transaction that uses a slot creates it. Slots are ephemeral: there
 * is nothing to clean up, but the outcome is lost with the session. Their parent, /.drover-tags, is
 * created once. If that is forbidden, transactions go without a tag, and a broken connection means
 * UNKNOWN. The first transaction of a session that needs a tag waits until this is known, even in
 * keeper_commit().
 *
 * Rejected: a marker node for each create (two more transactions, and orphans of its own); an extra
 * entry in the access list as the tag (every node would keep it); comparing owner and data of the
 * children (proves nothing for persistent nodes, whose data others may write too).
 *
 * keeper_multi() sends a transaction again if it did not happen. A commit is not sent again,
 * because later commits must not overtake it: it gets UNKNOWN, and there is no orphan. A thread of
 * its own, the repair thread, resolves commits, so that this code can wait for answers in straight
 * lines.
 *
 * Transactions that create but do not set carry a slot as well, for its stat (see zookeeper_txn.c).
 * They draw no tag, and their outcome is not looked for.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "keeper/path.h"
#include "keeper/zookeeper/zookeeper_impl.h"

#define TAGS_NODE "/.drover-tags"

enum {
    DIGITS = 10,
    OLDER_MAX = 100, /* children older than the transaction, before the search ends; numbers rise */
};

static struct zk_slot *slot_new(struct zk *zk)
{
    char path[sizeof TAGS_NODE + ZK_TAG_LEN + 1] = TAGS_NODE "/";
    random_hex(path + sizeof TAGS_NODE, ZK_TAG_LEN);
    struct zk_slot *slot = mem_zalloc(sizeof *slot + zk->chroot_len + sizeof path);
    zk_full_path_put(zk, str_of(path), false, slot->path);
    return slot;
}

static void slots_free(struct zk *zk)
{
    struct zk_slot *slot;
    while ((slot = SLIST_FIRST(&zk->slots))) {
        SLIST_REMOVE_HEAD(&zk->slots, link);
        free(slot);
    }
}

/*
 * Creates a first slot, and the parent if it is missing. If that succeeds, tags can be used: the
 * parent may belong to a client with other credentials. A missing chroot is not reported here: the
 * transaction itself will fail.
 */
static int tags_prepare(struct zk *zk)
{
    CLEANUP(mem_free) char *parent = zk_full_path(zk, STR(TAGS_NODE));
    struct zk_slot *slot = slot_new(zk);
    int64_t deadline_ms = zk_deadline(zk);
    int err = zk_make_node(zk, slot->path, deadline_ms, KEEPER_EPHEMERAL);
    if (err == DROVER_NO_NODE) {
        err = zk_make_node(zk, parent, deadline_ms, 0);
        if (!err)
            err = zk_make_node(zk, slot->path, deadline_ms, KEEPER_EPHEMERAL);
    }
    if (!err) {
        zk->tags = ZK_TAGS_READY;
        slot->made = true;
        SLIST_INSERT_HEAD(&zk->slots, slot, link);
        return 0;
    }
    if (err == DROVER_NO_AUTH)
        zk->tags = ZK_TAGS_FORBIDDEN;
    free(slot);
    return err == DROVER_NO_AUTH || err == DROVER_NO_NODE ? 0 : err;
}

int zk_tag_take(struct zk *zk, struct zk_txn *t)
{
    if (!t->tagged)
        return 0;
    if (zk->tags == ZK_TAGS_UNTRIED)
        TRY(tags_prepare(zk));
    if (zk->tags != ZK_TAGS_READY)
        return 0;
    t->slot = SLIST_FIRST(&zk->slots);
    if (t->slot)
        SLIST_REMOVE_HEAD(&zk->slots, link);
    else
        t->slot = slot_new(zk);
    return 0;
}

void zk_tag_draw(struct zk_txn *t)
{
    struct zk *zk = t->call.zk;
    zoo_op_t *z = &t->zops[t->count];
    int len = t->findable ? ZK_TAG_LEN : 0;
    if (t->findable)
        random_hex(t->tag, ZK_TAG_LEN);
    if (t->slot->made)
        zoo_set_op_init(z, t->slot->path, t->tag, len, -1, &t->stats[t->count]);
    else
        zoo_create_op_init(z, t->slot->path, t->tag, len, zk->acl, ZOO_EPHEMERAL, NULL, 0);
}

/* A slot that may or may not have been created is not reused. */
void zk_tag_drop(struct zk *zk, struct zk_txn *t)
{
    if (t->slot && (t->slot->made || !zk_rc_is_lost(t->call.rc)))
        SLIST_INSERT_HEAD(&zk->slots, t->slot, link);
    else if (t->slot)
        free(t->slot);
    t->slot = NULL;
}

/*
 * Only the tag failed: another client has deleted our nodes or changed their access lists. Nothing
 * happened, and no slot can be used any more; transactions that hold one will fail in the same way.
 */
bool zk_tag_failed(struct zk *zk, struct zk_txn *t)
{
    if (!t->slot || t->call.rc > ZAPIERROR || t->zresults[t->count].err != t->call.rc)
        return false;
    for (size_t i = 0; i < t->count; i++)
        if (t->zresults[i].err != ZOK)
            return false;
    free(t->slot);
    t->slot = NULL;
    slots_free(zk);
    zk->tags = ZK_TAGS_UNTRIED;
    return true;
}

static bool is_candidate(const char *name, struct str prefix)
{
    size_t len = strlen(name);
    return len == prefix.len + DIGITS && memcmp(name, prefix.p, prefix.len) == 0 &&
           strspn(name + prefix.len, "0123456789") == DIGITS;
}

/*
 * Writes the full path of the child that the transaction created into the operation's buffer. The
 * latest numbers come first. Several sequential creates of one transaction may share parent and
 * prefix: `behind` of them came after this one. UNKNOWN: it was created, and another client has
 * deleted it already.
 */
static int child_find(struct zk *zk, const struct zk_txn *t, const zoo_op_t *z, size_t behind)
{
    struct str path = str_of(z->create_op.path);
    struct str prefix = path_name(path), parent = path_parent(path);
    char *full = z->create_op.buf, *at = full + (path.len - prefix.len);
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    CLEANUP(buf_release) struct buf text = {0};
    struct zk_request r = {
        .kind = ZK_CHILDREN, .full = full, .deadline_ms = t->deadline_ms, .data = &text};
    size_t older = 0;
    memcpy(full, parent.p, parent.len);
    full[parent.len] = '\0';
    int err = zk_request(zk, &r);
    if (!err)
        keeper_names_take(&names, &text, r.count);
    for (size_t i = names.count; i-- && older < OLDER_MAX && (!err || err == DROVER_NO_NODE);) {
        struct keeper_stat stat;
        if (!is_candidate(names.names[i], prefix))
            continue;
        at[-1] = '/';
        memcpy(at, names.names[i], strlen(names.names[i]) + 1);
        err = zk_exists(zk, full, t->deadline_ms, &stat);
        if (!err && stat.czxid == t->zxid && behind-- == 0)
            return 0;
        older += !err && stat.czxid < t->zxid;
    }
    return err && err != DROVER_NO_NODE ? err : DROVER_UNKNOWN;
}

static size_t count_behind(const struct zk_txn *t, size_t i)
{
    size_t n = 0;
    for (size_t j = i + 1; j < t->count; j++)
        n += zk_op_is_sequential(&t->zops[j]) &&
             strcmp(t->zops[j].create_op.path, t->zops[i].create_op.path) == 0;
    return n;
}

/* It happened: fills in the results that were lost. */
static int results_recover(struct zk *zk, struct zk_txn *t)
{
    int err = 0;
    for (size_t i = 0; i < t->count && !err; i++) {
        const zoo_op_t *z = &t->zops[i];
        t->results[i].err = 0;
        if (zk_op_is_sequential(z))
            err = child_find(zk, t, z, count_behind(t, i));
        if (z->type == ZOO_CREATE_OP && !err)
            zk_txn_created(t, i, zk_op_is_sequential(z) ? z->create_op.buf : z->create_op.path);
        if (z->type == ZOO_SETDATA_OP) {
            err = zk_exists(zk, z->set_op.path, t->deadline_ms, &t->results[i].stat);
            if (err == DROVER_NO_NODE) /* deleted since: no stat */
                err = 0;
        }
    }
    return err;
}

static int resolve(struct zk *zk, struct zk_txn *t)
{
    CLEANUP(buf_release) struct buf data = {0};
    struct zk_request r = {
        .kind = ZK_SYNC, .full = t->slot->path, .deadline_ms = t->deadline_ms, .data = &data};
    int err = zk_request(zk, &r);
    r.kind = ZK_GET;
    if (!err)
        err = zk_request(zk, &r);
    if (err && err != DROVER_NO_NODE)
        return err;
    t->slot->made = !err;
    if (err || !str_eq(buf_str(&data), (struct str){t->tag, ZK_TAG_LEN}))
        return DROVER_NOT_TRIED;
    t->zxid = r.stat.mzxid;
    t->time_ms = r.stat.mtime_ms;
    return results_recover(zk, t);
}

int zk_tag_resolve(struct zk *zk, struct zk_txn *t)
{
    t->deadline_ms = clock_boot_ms() + ZK_RESOLVE_TIMEOUTS * (int64_t)zk->keeper.session.timeout_ms;
    int err = resolve(zk, t);
    return err == DROVER_CLOSED ? DROVER_UNKNOWN : err;
}

/* The repair thread. */

static void repair(struct zk *zk, struct zk_txn *t)
{
    int err = zk_tag_resolve(zk, t);
    if (err == DROVER_NOT_TRIED)
        err = DROVER_UNKNOWN;
    zk_txn_settle(t, err ? zk_txn_fail(t, err) : 0);
}

static void *repairer_main(void *arg)
{
    struct zk *zk = arg;
    struct zk_txn *t;
    LOCKED(&zk->lock);
    while ((t = TAILQ_FIRST(&zk->unresolved)) || !zk->closing) {
        if (t) {
            TAILQ_REMOVE(&zk->unresolved, t, repair);
            repair(zk, t);
        } else {
            pthread_cond_wait(&zk->changed, &zk->lock);
        }
    }
    return NULL;
}

void zk_tag_repair(struct zk *zk, struct zk_txn *t)
{
    TAILQ_INSERT_TAIL(&zk->unresolved, t, repair);
    if (!zk->repairer_runs) {
        thread_must_start(&zk->repairer, "zk-repair", repairer_main, zk);
        zk->repairer_runs = true;
    }
    pthread_cond_broadcast(&zk->changed);
}

void zk_tags_close(struct zk *zk)
{
    if (zk->repairer_runs)
        pthread_join(zk->repairer, NULL);
    slots_free(zk);
}
