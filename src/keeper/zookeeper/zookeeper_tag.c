/*
 * Tags: what became of a sequential create whose connection broke?
 *
 * The caller cannot find out: the name has a number that nobody told. Trying again may make a
 * second node, not trying again may leave an orphan. Other clients put a random id into the node's
 * name, but here names are fixed by documents (worker-NNNNNNNNNN), and so are data and access
 * lists.
 *
 * So the random tag goes beside it. A transaction with a sequential create carries one more
 * operation: it sets the data of a node of ours, a slot, to a new random tag. Both happen or none,
 * in one request and one round trip as before. After reconnecting, and after a sync, which brings
 * whatever the old connection had sent before this one could be opened, the slot's data tells for
 * certain: our tag, and the transaction happened, with the number that is the slot's mzxid, and the
 * child of the parent with that number as its czxid is the one; another tag, and it did not happen
 * and never will (ZooKeeper refuses what a session's older connections still send).
 *
 * A slot belongs to one transaction at a time and is then used again, so there are as many as ever
 * were on their way at once. Each is made by the first transaction that uses it. Slots are
 * ephemeral: nothing has to be cleaned up, but nothing is known any more once the session is over.
 * Their parent, /.drover-tags, is made once; where that is forbidden, transactions go without a
 * tag, and a broken connection is UNKNOWN. The first transaction of a session that needs a tag
 * waits until that is known, also in keeper_commit().
 *
 * Rejected: a marker node per create (two more transactions, and orphans of its own); an extra
 * entry in the access list as the tag (every node keeps one for ever); comparing owner and data of
 * what is found (says nothing about persistent nodes, whose data others may write as well).
 *
 * What keeper_multi() learns did not happen, it sends again. A commit is not sent again, because
 * those behind it must not overtake it: it gets UNKNOWN, which is true, and there is no orphan.
 * Commits in doubt are resolved by a thread of their own, the mender, so that this code can be read
 * downwards.
 *
 * Transactions that create but do not set carry a slot as well, for the sake of its stat (see
 * zookeeper_txn.c). They draw no tag and are not looked for.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/thread.h"
#include "keeper/path.h"
#include "keeper/zookeeper/zookeeper_impl.h"

#define TAGS_NODE "/.drover-tags"

enum {
    DIGITS = 10,
    /* Of children that are older than the one looked for: numbers rise with time, so this is slack.
     */
    OLDER_MAX = 100,
};

static struct zk_slot *slot_new(struct zk *zk)
{
    struct zk_slot *slot = mem_zalloc(sizeof *slot);
    char path[sizeof TAGS_NODE + ZK_TAG_LEN + 1] = TAGS_NODE "/";

    random_hex(path + sizeof TAGS_NODE, ZK_TAG_LEN);
    slot->path = zk_full_path(zk, str_of(path));
    return slot;
}

static void slot_free(struct zk_slot *slot)
{
    free(slot->path);
    free(slot);
}

static void slots_free(struct zk *zk)
{
    struct zk_slot *slot;

    while ((slot = SLIST_FIRST(&zk->slots))) {
        SLIST_REMOVE_HEAD(&zk->slots, link);
        slot_free(slot);
    }
}

/*
 * Makes a first slot, and the parent if that is missing. Whoever could do this can use tags: the
 * parent may belong to somebody with other credentials. A missing chroot is not our error to tell:
 * the transaction itself will meet it.
 */
static int tags_prepare(struct zk *zk)
{
    char *parent = zk_full_path(zk, STR(TAGS_NODE));
    struct zk_slot *slot = slot_new(zk);
    int64_t deadline_ms = zk_deadline(zk);
    int err = zk_make_node(zk, slot->path, deadline_ms, KEEPER_EPHEMERAL);

    if (err == DROVER_NO_NODE) {
        err = zk_make_node(zk, parent, deadline_ms, 0);
        if (!err)
            err = zk_make_node(zk, slot->path, deadline_ms, KEEPER_EPHEMERAL);
    }
    free(parent);
    if (!err) {
        zk->tags = ZK_TAGS_READY;
        slot->made = true;
        SLIST_INSERT_HEAD(&zk->slots, slot, link);
        return 0;
    }
    if (err == DROVER_NO_AUTH)
        zk->tags = ZK_TAGS_FORBIDDEN;
    slot_free(slot);
    return err == DROVER_NO_AUTH || err == DROVER_NO_NODE ? 0 : err;
}

int zk_tag_take(struct zk *zk, struct zk_txn *t)
{
    int err = 0;

    if (zk->tags == ZK_TAGS_UNTRIED)
        err = tags_prepare(zk);
    if (err || zk->tags != ZK_TAGS_READY)
        return err;
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

/* A slot of which nobody knows whether it was made is not used again. */
void zk_tag_drop(struct zk *zk, struct zk_txn *t)
{
    if (t->slot && (t->slot->made || !zk_rc_is_lost(t->call.rc)))
        SLIST_INSERT_HEAD(&zk->slots, t->slot, link);
    else if (t->slot)
        slot_free(t->slot);
    t->slot = NULL;
}

/*
 * All that failed was the tag: somebody has deleted our nodes, or made them his own. Nothing
 * happened, and no slot is worth anything any more; those that others hold fail in their turn.
 */
bool zk_tag_failed(struct zk *zk, struct zk_txn *t)
{
    if (!t->slot || t->call.rc > ZAPIERROR || t->zresults[t->count].err != t->call.rc)
        return false;
    for (size_t i = 0; i < t->count; i++) {
        if (t->zresults[i].err != ZOK)
            return false;
    }
    slot_free(t->slot);
    t->slot = NULL;
    slots_free(zk);
    zk->tags = ZK_TAGS_UNTRIED;
    return true;
}

/* Names that could be the one, by number, the latest first. */

static int by_number_down(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;

    return strcmp(y + strlen(y) - DIGITS, x + strlen(x) - DIGITS);
}

static bool is_candidate(const char *name, struct str prefix)
{
    size_t len = strlen(name);

    return len == prefix.len + DIGITS && memcmp(name, prefix.p, prefix.len) == 0 &&
           strspn(name + prefix.len, "0123456789") == DIGITS;
}

static int candidates(struct zk *zk, const struct zk_txn *t, const char *parent, struct str prefix,
                      struct buf *text, char ***ret_names, size_t *ret_count)
{
    size_t all, count = 0;
    char **names, *at;
    int err = zk_read_children(zk, parent, t->deadline_ms, text, &all, NULL);

    if (err)
        return err;
    names = mem_alloc((all + 1) * sizeof *names);
    at = text->p;
    for (size_t i = 0; i < all; i++, at += strlen(at) + 1) {
        if (is_candidate(at, prefix))
            names[count++] = at;
    }
    qsort(names, count, sizeof *names, by_number_down);
    *ret_names = names;
    *ret_count = count;
    return 0;
}

/*
 * Writes to the operation's room the full path of the child that the transaction made. Several
 * sequential creates of one transaction may share parent and prefix: `behind` of them came after
 * this one.
 */
static int child_find(struct zk *zk, const struct zk_txn *t, const zoo_op_t *z, size_t behind)
{
    struct str path = str_of(z->create_op.path);
    struct str prefix = path_name(path), parent = path_parent(path);
    char *full = z->create_op.buf, *at, **names = NULL;
    struct buf text = {0};
    size_t count = 0, older = 0;
    struct keeper_stat stat;
    int err;

    memcpy(full, parent.p, parent.len);
    full[parent.len] = '\0';
    at = full + (path.len - prefix.len);
    err = candidates(zk, t, full, prefix, &text, &names, &count);
    for (size_t i = 0; i < count && !err && older < OLDER_MAX; i++) {
        at[-1] = '/';
        memcpy(at, names[i], strlen(names[i]) + 1);
        err = zk_read_data(zk, full, t->deadline_ms, NULL, &stat);
        if (!err && stat.czxid == t->zxid && behind-- == 0)
            goto out;
        if (!err && stat.czxid < t->zxid)
            older++;
        if (err == DROVER_NO_NODE)
            err = 0;
    }
    if (!err || err == DROVER_NO_NODE)
        err = DROVER_UNKNOWN; /* it was made, and somebody has deleted it already */
out:
    free(names);
    buf_release(&text);
    return err;
}

static size_t count_behind(const struct zk_txn *t, size_t i)
{
    size_t n = 0;

    for (size_t j = i + 1; j < t->count; j++) {
        if (zk_op_is_sequential(&t->zops[j]) &&
            strcmp(t->zops[j].create_op.path, t->zops[i].create_op.path) == 0)
            n++;
    }
    return n;
}

/* It happened: what would the answer have been? */
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
            err = zk_read_data(zk, z->set_op.path, t->deadline_ms, NULL, &t->results[i].stat);
            if (err == DROVER_NO_NODE) /* deleted since: its stat is nobody's concern */
                err = 0;
        }
    }
    if (err)
        keeper_results_release(t->results, t->done ? 0 : t->count);
    return err;
}

int zk_tag_resolve(struct zk *zk, struct zk_txn *t)
{
    struct keeper_stat stat;
    struct buf data = {0};
    bool ours;
    int err;

    t->deadline_ms = clock_boot_ms() + ZK_DOUBT_TIMEOUTS * (int64_t)zk->session.timeout_ms;
    err = zk_read_sync(zk, t->slot->path, t->deadline_ms);
    if (!err)
        err = zk_read_data(zk, t->slot->path, t->deadline_ms, &data, &stat);
    ours = !err && str_eq((struct str){data.p, data.len}, (struct str){t->tag, ZK_TAG_LEN});
    buf_release(&data);
    if (err && err != DROVER_NO_NODE)
        return err == DROVER_CLOSED ? DROVER_UNKNOWN : err;
    t->slot->made = !err;
    if (!ours)
        return DROVER_NOT_TRIED;
    t->zxid = stat.mzxid;
    t->time_ms = stat.mtime_ms;
    err = results_recover(zk, t);
    return err == DROVER_CLOSED ? DROVER_UNKNOWN : err;
}

/* The mender. */

static void mend(struct zk *zk, struct zk_txn *t)
{
    int err = zk_tag_resolve(zk, t);

    if (err == DROVER_NOT_TRIED)
        err = DROVER_UNKNOWN;
    for (size_t i = 0; i < t->count; i++) {
        t->results[i].err = err;
        t->results[i].path = err ? NULL : t->results[i].path;
    }
    zk_txn_settle(t, err);
}

static void *mender_main(void *arg)
{
    struct zk *zk = arg;
    struct zk_txn *t;

    zk_lock(zk);
    for (;;) {
        t = TAILQ_FIRST(&zk->doubts);
        if (t) {
            TAILQ_REMOVE(&zk->doubts, t, in_doubt);
            mend(zk, t);
        } else if (zk->closing) {
            break;
        } else {
            zk_wake(zk);
            if (TAILQ_EMPTY(&zk->doubts) && !zk->closing)
                pthread_cond_wait(&zk->changed, &zk->lock);
        }
    }
    zk_unlock(zk);
    return NULL;
}

void zk_tag_mend(struct zk *zk, struct zk_txn *t)
{
    TAILQ_INSERT_TAIL(&zk->doubts, t, in_doubt);
    if (!zk->mender_runs) {
        thread_must_start(&zk->mender, "zk-repair", mender_main, zk);
        zk->mender_runs = true;
    }
    pthread_cond_broadcast(&zk->changed);
}

void zk_tags_close(struct zk *zk)
{
    if (zk->mender_runs)
        pthread_join(zk->mender, NULL);
    slots_free(zk);
}
