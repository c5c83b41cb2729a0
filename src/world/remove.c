/*
 * Removing: deletes the task's node in the tree, its pending and its completed node in one
 * transaction, and sets the world's root, whose version tells every tree index that the tree has
 * changed.
 *
 * A task with children is refused, and one that is being worked on. The transaction checks the
 * version of the pending node, which a claim changes, and of the task's node, which queueing
 * changes.
 */
#include "world/impl.h"

struct removal {
    struct world *w;
    struct keeper *k;
    struct arena a;
    struct str key;
    int64_t before_ms; /* only if completed before this time; INT64_MAX: in any state */
    struct txn t;
    bool unknown; /* the outcome of the last transaction */
    struct err_info *e;
};

#define KEY_SHOWN(r) (int)((r)->key.len < 300 ? (r)->key.len : 300), (r)->key.p

static int refuse(struct removal *r, int err, const char *why)
{
    return err_set(r->e, err, "'%.*s' %s", KEY_SHOWN(r), why);
}

/* Plans the deletion of the node in a list, if it exists and belongs to this world. */
static int plan_list(struct removal *r, const char *list, struct keeper_stat *ret_stat)
{
    const char *path = world_list_path(&r->a, list, r->key);
    struct world_record record;
    struct str data;
    int err = world_read(r->k, &r->a, path, &data, ret_stat);

    if (err)
        return err == DROVER_NO_NODE ? 0 : err;
    if (world_record_read(&r->a, data, r->key, &record) || !world_record_is_of(&record, r->w->root))
        return 0;
    txn_add(&r->t, 0, keeper_op_delete(path, ret_stat->version));
    return 1;
}

static int plan_lists(struct removal *r)
{
    struct keeper_stat stat;
    int pending = plan_list(r, WORLD_PENDING, &stat);

    if (pending < 0)
        return pending;
    int completed = plan_list(r, WORLD_COMPLETED, &stat);
    if (completed < 0 || r->before_ms == INT64_MAX)
        return completed < 0 ? completed : 0;
    return !pending && completed && stat.ctime_ms < r->before_ms
               ? 0
               : refuse(r, DROVER_NOT_ALLOWED, "was not completed that long ago");
}

/* 0, and the transaction is in t. */
static int plan(struct removal *r)
{
    const char *path = world_path(&r->a, r->w->root, r->key);
    struct keeper_stat stat;
    struct str root_data;
    int err = keeper_exists(r->k, path, &stat);

    r->t = (struct txn){.a = &r->a};
    if (err == DROVER_NO_NODE)
        return err_set(r->e, err, "there is no task '%.*s'", KEY_SHOWN(r));
    if (!err && stat.child_count)
        return refuse(r, DROVER_NOT_EMPTY, "has tasks below it");
    if (!err)
        err = keeper_exists(r->k, world_list_path(&r->a, WORLD_WORKING, r->key), NULL);
    if (!err)
        return refuse(r, DROVER_IN_USE, "is being worked on");
    if (err != DROVER_NO_NODE)
        return world_explain(r->e, err);
    txn_add(&r->t, 0, keeper_op_delete(path, stat.version));
    err = plan_lists(r);
    if (!err)
        err = world_read(r->k, &r->a, r->w->root, &root_data, NULL);
    if (err)
        return err == DROVER_NOT_ALLOWED ? err : world_explain(r->e, err);
    txn_add(&r->t, 0, keeper_op_set(r->w->root, root_data, KEEPER_ANY_VERSION));
    return 0;
}

/* After UNKNOWN, a task that is gone was removed, by this call or by another. */
static int remove_task(struct removal *r)
{
    for (int i = 0; i < WORLD_TRIES; i++) {
        int err = r->unknown ? keeper_sync(r->k, r->w->root) : 0;
        if (err)
            return world_explain(r->e, err);
        err = plan(r);
        if (err)
            return err == DROVER_NO_NODE && r->unknown ? 0 : err;
        err = world_commit(r->w, r->k, &r->t);
        r->unknown = err == DROVER_UNKNOWN;
        if (!r->unknown && !world_is_stale(err) && err != DROVER_NOT_EMPTY)
            return err ? world_explain(r->e, err) : 0;
    }
    return world_gave_up(r->e);
}

int world_remove(struct world *w, struct keeper *k, struct str key, int64_t before_ms,
                 struct err_info *ret_error)
{
    struct err_info unused;
    struct removal r = {
        .w = w, .k = k, .key = key, .before_ms = before_ms, .e = ret_error ? ret_error : &unused};
    int err = world_check_key(key, r.e);

    if (!err)
        err = remove_task(&r);
    if (!err) {
        list_view_remove(w->pending, key);
        world_tell(w, &(struct world_change){key, {0}, WORLD_IS_NONE, {0}});
    }
    arena_release(&r.a);
    return err;
}
