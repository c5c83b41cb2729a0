/*
 * Ending a claim. The data of the working node names the session that claimed; only that session
 * may end it. (The stat's ephemeral owner is not enough: inside a server on an ensemble many
 * sessions share one.) While that session lives, nobody else deletes the node. So after UNKNOWN the
 * node tells the outcome: if it is still there, nothing happened; if it is gone, the transaction
 * happened.
 */
#include "world/impl.h"

enum { COMPLETED = 1, PENDING }; /* operations */

struct ending {
    struct world *w;
    struct keeper *k;
    struct arena a;
    struct str key;
    const char *working, *pending, *completed;
    struct world_holder holder;
    int32_t working_version;
    bool is_pending; /* if so: */
    struct keeper_stat stat;
    struct world_record record;
    bool is_record; /* record holds the parsed data of the pending node */
    bool was_completed;
    bool may_recall, recalled; /* the first try uses the cached claim */
    struct str error;          /* of a failure */
    bool unknown;              /* the outcome of the last transaction */
    struct err_info *e;

    struct txn t;
};

static int ending_init(struct ending *n, struct world *w, struct keeper *k, struct str key,
                       struct err_info *e)
{
    int err = world_check_key(key, e);

    *n = (struct ending){.w = w, .k = k, .key = key, .e = e};
    if (err)
        return err;
    n->working = world_list_path(&n->a, WORLD_WORKING, key);
    n->pending = world_list_path(&n->a, WORLD_PENDING, key);
    n->completed = world_list_path(&n->a, WORLD_COMPLETED, key);
    return 0;
}

#define KEY_SHOWN(n) (int)((n)->key.len < 300 ? (n)->key.len : 300), (n)->key.p

/*
 * A claim made in this process is cached and need not be read. The transaction checks the version
 * that the claim gave to the pending node: while it has that version, nobody has claimed the task
 * since, and the working node is this session's.
 */
static bool recall(struct ending *n)
{
    struct keeper_session session;
    struct list_item task;

    keeper_session(n->k, &session);
    if (n->recalled || n->unknown || !list_view_find(n->w->pending, &n->a, n->key, &task) ||
        task.session != session.id || !(task.flags & PENDING_PLAIN))
        return false;
    n->recalled = n->is_pending = n->is_record = true;
    n->holder.czxid = n->stat.czxid = task.order;
    n->holder.version = n->stat.version = task.version;
    n->working_version = KEEPER_ANY_VERSION;
    world_record_make(&n->a, n->w->root, n->key, task.group, &n->record);
    return true;
}

/*
 * Reads the working node and the pending node. 1: it is this session's claim. 0: the transaction
 * with the unknown outcome ended it.
 */
static int read_all(struct ending *n)
{
    struct keeper_session session;
    struct keeper_stat stat;
    struct str data;

    if (n->may_recall && recall(n))
        return 1;
    int err = n->unknown ? keeper_sync(n->k, n->working) : 0;
    if (!err)
        err = world_read(n->k, &n->a, n->working, &data, &stat);
    if (err == DROVER_NO_NODE)
        return n->unknown ? 0 : err_set(n->e, err, "nobody works on '%.*s'", KEY_SHOWN(n));
    if (err)
        return world_explain(n->e, err);
    keeper_session(n->k, &session);
    if (world_holder_read(&n->a, data, &n->holder) || n->holder.session != session.id)
        return err_set(n->e, DROVER_FENCED, "another session works on '%.*s'", KEY_SHOWN(n));
    n->working_version = stat.version;
    err = world_read(n->k, &n->a, n->pending, &data, &n->stat);
    if (err && err != DROVER_NO_NODE)
        return world_explain(n->e, err);
    n->is_pending = !err;
    n->is_record = !err && !world_record_read(&n->a, data, n->key, &n->record);
    if (n->is_record && !world_record_is_of(&n->record, n->w->root))
        return err_set(n->e, DROVER_NO_NODE, "'%.*s' is not a task of this world", KEY_SHOWN(n));
    return 1;
}

/* Whether the task was queued again since it was claimed. */
static bool was_queued_again(const struct ending *n)
{
    return n->is_pending &&
           (n->stat.czxid != n->holder.czxid || n->stat.version != n->holder.version);
}

/*
 * Reads, plans and commits until it has happened. plan adds operations; the deletion of the working
 * node is added last, as the document says.
 */
static int end(struct ending *n, void (*plan)(struct ending *n))
{
    for (int i = 0; i < WORLD_TRIES; i++) {
        int err = read_all(n);
        if (err <= 0)
            return err;
        n->t = (struct txn){.a = &n->a};
        plan(n);
        txn_add(&n->t, 0, keeper_op_delete(n->working, n->working_version));
        err = world_commit(n->w, n->k, &n->t);
        n->unknown = err == DROVER_UNKNOWN;
        n->was_completed = n->t.failed == COMPLETED && err == DROVER_EXISTS;
        if (!n->unknown && !world_is_stale(err))
            return err ? world_explain(n->e, err) : 0;
    }
    return world_gave_up(n->e);
}

/* Publishes the new state: pending or completed. */
static void tell(struct ending *n, bool pending)
{
    if (n->is_record)
        world_tell(n->w, &(struct world_change){n->key, n->record.type,
                                                pending ? WORLD_IS_PENDING : WORLD_IS_COMPLETED,
                                                n->error});
}

/* It can be claimed again, after a read: its node may have changed. */
static void make_free(struct ending *n, int64_t czxid)
{
    if (n->is_record)
        list_view_release(n->w->pending, n->key,
                          &(struct list_class){.order = czxid, .group = n->record.type});
}

/* In the document's order: create in zoott_c, delete from zoott_p, delete from zoott_w. */
static void plan_complete(struct ending *n)
{
    struct world_record r = n->record;

    if (was_queued_again(n) || !n->is_record)
        return;
    r.failures = 0;
    struct str data = world_record_write(&n->a, &r);
    txn_add(&n->t, COMPLETED,
            n->was_completed ? keeper_op_set(n->completed, data, KEEPER_ANY_VERSION)
                             : keeper_op_create(n->completed, data, KEEPER_NO_STAT));
    txn_add(&n->t, 0, keeper_op_delete(n->pending, n->stat.version));
}

int world_complete(struct world *w, struct keeper *k, struct str key, bool *ret_again,
                   struct err_info *ret_error)
{
    struct ending n;
    int err = ending_init(&n, w, k, key, ret_error);

    n.may_recall = true;
    if (!err)
        err = end(&n, plan_complete);
    if (!err && !n.is_record)
        err = err_set(ret_error, DROVER_NO_NODE, "'%.*s' was taken off the pending list",
                      KEY_SHOWN(&n));
    else if (!err && was_queued_again(&n))
        make_free(&n, n.stat.czxid);
    else if (!err)
        list_view_remove(w->pending, key);
    if (!err) {
        *ret_again = was_queued_again(&n);
        tell(&n, *ret_again);
    }
    arena_release(&n.a);
    return err;
}

static void plan_release(struct ending *n)
{
    if (n->recalled && n->working_version == KEEPER_ANY_VERSION)
        txn_add(&n->t, 0, keeper_op_check(n->pending, n->stat.version));
}

int world_release(struct world *w, struct keeper *k, struct str key, struct err_info *ret_error)
{
    struct ending n;
    int err = ending_init(&n, w, k, key, ret_error);

    n.may_recall = true;
    if (!err)
        err = end(&n, plan_release);
    if (!err) {
        make_free(&n, n.stat.czxid);
        tell(&n, true);
    }
    arena_release(&n.a);
    return err;
}

/* Creates the pending node again, so that it is the youngest: other tasks are tried before it. */
static void plan_fail(struct ending *n)
{
    struct world_record r = n->record;

    if (!n->is_record)
        return;
    r.failures++;
    r.error = n->error;
    txn_add(&n->t, 0, keeper_op_delete(n->pending, n->stat.version));
    txn_add(&n->t, PENDING, keeper_op_create(n->pending, world_record_write(&n->a, &r), 0));
}

int world_fail(struct world *w, struct keeper *k, struct str key, struct str error,
               struct err_info *ret_error)
{
    struct ending n;
    int err = ending_init(&n, w, k, key, ret_error);

    if (!err && error.len > FAILURE_LEN_MAX)
        err = err_set(ret_error, DROVER_BAD_ARGUMENT, "the error is longer than %d bytes",
                      FAILURE_LEN_MAX);
    n.error = error;
    if (!err)
        err = end(&n, plan_fail);
    if (!err) {
        if (n.is_record)
            make_free(&n, n.unknown ? n.stat.czxid : txn_stat(&n.t, PENDING)->czxid);
        tell(&n, true);
    }
    arena_release(&n.a);
    return err;
}
