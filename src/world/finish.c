/*
 * Ending a claim, retrying and removing a task: each is one transaction, planned from what is read,
 * and planned again if a node changed meanwhile.
 *
 * The data of the working node names the session that claimed; only that session may end the claim.
 * (The stat's ephemeral owner is not enough: inside a server on an ensemble many sessions share
 * one.) While that session lives, nobody else deletes the node. So after UNKNOWN the node tells the
 * outcome: if it is still there, nothing happened; if it is gone, or marks a task that has failed,
 * the transaction happened.
 *
 * Removing deletes the task's node in the tree, its pending and its completed node, and sets the
 * world's root, whose version tells every tree index that the tree has changed. A task with
 * children is refused, and one that is being worked on. The transaction checks the version of the
 * pending node, which a claim changes, and of the task's node, which queueing changes.
 */
#include "world/impl.h"

enum { COMPLETED = 1, PENDING }; /* operations */

struct ending {
    struct world *w;
    struct keeper *k;
    struct arena *a;
    struct str key;
    struct err_info *e;
    const char *working, *pending, *completed;
    struct txn t;
    bool unknown; /* the outcome of the last transaction */

    /* Of a claim. */
    void (*plan)(struct ending *n); /* adds operations; NULL: it is a removal */
    struct world_holder holder;
    int32_t working_version;
    bool is_record; /* there is a valid pending node: */
    struct keeper_stat stat;
    struct world_record record;
    bool was_completed;
    bool may_recall;  /* the first try uses the cached claim */
    struct str error; /* of a failure */
    bool final;       /* the failure is the last one */
    bool failed;      /* and the transaction says so */

    /* Of a removal. */
    int64_t before_ms; /* only if completed before this time; INT64_MAX: in any state */
};

/*
 * Plans and commits until it has happened. plan returns 1 with a transaction; 0: the one with the
 * unknown outcome has happened.
 */
static int change(struct ending *n, int (*plan)(struct ending *n))
{
    TRY(world_check_key(n->key, n->e));
    n->working = world_list_path(n->a, WORLD_WORKING, n->key);
    n->pending = world_list_path(n->a, WORLD_PENDING, n->key);
    n->completed = world_list_path(n->a, WORLD_COMPLETED, n->key);
    for (int i = 0; i < WORLD_TRIES; i++) {
        int err = n->unknown ? keeper_sync(n->k, n->w->root) : 0;
        if (err)
            return err_explain(n->e, err);
        n->t = (struct txn){.a = n->a};
        err = plan(n);
        if (err <= 0)
            return err;
        err = world_commit(n->w, n->k, &n->t);
        n->unknown = err == DROVER_UNKNOWN;
        n->was_completed = n->t.failed == COMPLETED && err == DROVER_EXISTS;
        if (!err)
            return 0;
        if (!n->unknown && !world_is_stale(err) && (n->plan || err != DROVER_NOT_EMPTY))
            return err_explain(n->e, err);
    }
    return world_gave_up(n->e);
}

static int refuse(struct ending *n, int err, const char *why)
{
    return err_set(n->e, err, "'%.*s' %s", KEY_ARGS(n->key), why);
}

static int no_task(struct ending *n)
{
    return err_set(n->e, DROVER_NO_NODE, "there is no task '%.*s'", KEY_ARGS(n->key));
}

/* The mark. */

void world_plan_mark(struct txn *t, int name, const char *working)
{
    txn_add(t, name, keeper_op_create(working, STR(WORLD_FAILED_MARK), KEEPER_NO_STAT));
}

int world_plan_unmark(struct txn *t, struct keeper *k, struct str key, struct err_info *e)
{
    const char *working = world_list_path(t->a, WORLD_WORKING, key);
    struct keeper_stat stat;
    struct str data;
    int err = world_read(k, t->a, working, &data, &stat);
    if (err && err != DROVER_NO_NODE)
        return err_explain(e, err);
    if (err || !str_eq(data, STR(WORLD_FAILED_MARK)))
        return 0;
    txn_add(t, 0, keeper_op_delete(working, stat.version));
    return 1;
}

/* Ending a claim. */

/*
 * A claim made in this process is cached and need not be read. The transaction checks the version
 * that the claim gave to the pending node: while it has that version, nobody has claimed the task
 * since, and the working node is this session's.
 */
static bool recall(struct ending *n, int64_t session)
{
    struct list_item task;
    if (!n->may_recall || n->unknown || !list_view_find(n->w->pending, n->a, n->key, &task) ||
        task.session != session || !(task.flags & PENDING_PLAIN))
        return false;
    n->may_recall = false;
    n->is_record = true;
    n->holder.czxid = n->stat.czxid = task.order;
    n->holder.version = n->stat.version = task.version;
    n->working_version = KEEPER_ANY_VERSION;
    world_record_make(n->a, n->w->root, n->key, task.group, &n->record);
    return true;
}

/*
 * Reads the working node and the pending node. 1: it is this session's claim. 0: the transaction
 * with the unknown outcome ended it.
 */
static int read_claim(struct ending *n)
{
    struct keeper_session session;
    struct keeper_stat stat;
    struct str data;

    keeper_session(n->k, &session);
    if (recall(n, session.id))
        return 1;
    int err = world_read(n->k, n->a, n->working, &data, &stat);
    if (err == DROVER_NO_NODE || (!err && str_eq(data, STR(WORLD_FAILED_MARK))))
        return n->unknown ? 0
               : err      ? err_set(n->e, err, "nobody works on '%.*s'", KEY_ARGS(n->key))
                          : refuse(n, DROVER_NO_NODE, "has failed: nobody works on it");
    if (err)
        return err_explain(n->e, err);
    if (world_holder_read(n->a, data, &n->holder) || n->holder.session != session.id)
        return err_set(n->e, DROVER_FENCED, "another session works on '%.*s'", KEY_ARGS(n->key));
    n->working_version = stat.version;
    err = world_read(n->k, n->a, n->pending, &data, &n->stat);
    if (err && err != DROVER_NO_NODE)
        return err_explain(n->e, err);
    n->is_record = !err && !world_record_read(n->a, data, n->key, &n->record);
    if (n->is_record && !world_record_is_of(&n->record, n->w->root))
        return refuse(n, DROVER_NO_NODE, "is not a task of this world");
    return 1;
}

/* Whether the task was queued again since it was claimed. */
static bool was_queued_again(const struct ending *n)
{
    return n->stat.czxid != n->holder.czxid || n->stat.version != n->holder.version;
}

/* The deletion of the working node is added last, as the document says. */
static int plan_end(struct ending *n)
{
    int is_ours = read_claim(n);
    if (is_ours <= 0)
        return is_ours;
    n->plan(n);
    txn_add(&n->t, 0, keeper_op_delete(n->working, n->working_version));
    if (n->failed)
        world_plan_mark(&n->t, 0, n->working);
    return 1;
}

/* Publishes the new state. */
static void tell(struct ending *n, enum world_state state)
{
    if (n->is_record)
        world_tell(n->w, &(struct world_change){n->key, n->record.type, state, n->error});
}

/* It is pending and can be claimed again, after a read: its node may have changed. */
static void make_free(struct ending *n, int64_t czxid)
{
    if (n->is_record)
        list_view_release(n->w->pending, n->key,
                          &(struct list_class){.order = czxid, .group = n->record.type});
    tell(n, WORLD_IS_PENDING);
}

/* In the document's order: create in zoott_c, delete from zoott_p, delete from zoott_w. */
static void plan_complete(struct ending *n)
{
    struct world_record r = n->record;
    if (!n->is_record || was_queued_again(n))
        return;
    r.failures = r.attempts = 0;
    struct str data = world_record_write(n->a, &r);
    txn_add(&n->t, COMPLETED,
            n->was_completed ? keeper_op_set(n->completed, data, KEEPER_ANY_VERSION)
                             : keeper_op_create(n->completed, data, KEEPER_NO_STAT));
    txn_add(&n->t, 0, keeper_op_delete(n->pending, n->stat.version));
}

int world_complete(struct world *w, struct keeper *k, struct str key, bool *ret_again,
                   struct err_info *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct ending n = {w, k, &a, key, ret_error, .plan = plan_complete, .may_recall = true};
    TRY(change(&n, plan_end));
    if (!n.is_record)
        return refuse(&n, DROVER_NO_NODE, "was taken off the pending list");
    *ret_again = was_queued_again(&n);
    if (*ret_again) {
        make_free(&n, n.stat.czxid);
    } else {
        list_view_remove(w->pending, key);
        tell(&n, WORLD_IS_COMPLETED);
    }
    return 0;
}

/*
 * A cached claim is this session's as long as the pending node has that version. Where tries are
 * counted, this one was none.
 */
static void plan_release(struct ending *n)
{
    struct world_record r = n->record;
    if (n->is_record && r.attempts && r.tries && !was_queued_again(n)) {
        r.tries--;
        txn_add(&n->t, 0, keeper_op_set(n->pending, world_record_write(n->a, &r), n->stat.version));
    } else if (n->working_version == KEEPER_ANY_VERSION)
        txn_add(&n->t, 0, keeper_op_check(n->pending, n->stat.version));
}

int world_release(struct world *w, struct keeper *k, struct str key, struct err_info *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct ending n = {w, k, &a, key, ret_error, .plan = plan_release, .may_recall = true};
    TRY(change(&n, plan_end));
    make_free(&n, n.stat.czxid);
    return 0;
}

/*
 * Creates the pending node again, so that it is the youngest: other tasks are tried before it. What
 * was queued again meanwhile has not been tried, so it has all its attempts.
 */
static void plan_fail(struct ending *n)
{
    struct world_record r = n->record;
    bool again = was_queued_again(n);
    n->failed = n->is_record && !again && (n->final || (r.attempts && r.tries >= r.attempts));
    if (!n->is_record)
        return;
    r.failures += !(again && r.attempts);
    r.error = n->error;
    r.failed = n->failed;
    if (n->failed) {
        txn_add(&n->t, 0, keeper_op_set(n->pending, world_record_write(n->a, &r), n->stat.version));
        return;
    }
    txn_add(&n->t, 0, keeper_op_delete(n->pending, n->stat.version));
    txn_add(&n->t, PENDING, keeper_op_create(n->pending, world_record_write(n->a, &r), 0));
}

int world_fail(struct world *w, struct keeper *k, struct str key, struct str error, bool final,
               bool *ret_failed, struct err_info *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct ending n = {w, k, &a, key, ret_error, .plan = plan_fail, .error = error, .final = final};
    if (error.len > FAILURE_LEN_MAX)
        return err_set(ret_error, DROVER_BAD_ARGUMENT, "the error is longer than %d bytes",
                       FAILURE_LEN_MAX);
    TRY(change(&n, plan_end));
    *ret_failed = n.failed;
    if (n.failed) {
        list_view_idle(w->pending, key, 0);
        tell(&n, WORLD_IS_FAILED);
        return 0;
    }
    bool is_new = n.is_record && !n.unknown;
    make_free(&n, is_new ? txn_stat(&n.t, PENDING)->czxid : n.stat.czxid);
    return 0;
}

/* Retrying. */

/* After UNKNOWN, a task that has not failed was retried, by this call or by another. */
static int plan_retry(struct ending *n)
{
    struct str data;
    int err = world_read(n->k, n->a, n->pending, &data, &n->stat);
    if (err && err != DROVER_NO_NODE)
        return err_explain(n->e, err);
    n->is_record = !err && !world_record_read(n->a, data, n->key, &n->record) &&
                   world_record_is_of(&n->record, n->w->root);
    if (!n->is_record || !n->record.failed) {
        if (n->unknown)
            return 0;
        err = keeper_exists(n->k, world_path(n->a, n->w->root, n->key), NULL);
        return err == DROVER_NO_NODE ? no_task(n)
               : err                 ? err_explain(n->e, err)
                                     : refuse(n, DROVER_NOT_ALLOWED, "has not failed");
    }
    struct world_record r = n->record;
    r.failures = r.tries = 0;
    r.failed = false;
    int unmarked = world_plan_unmark(&n->t, n->k, n->key, n->e);
    if (unmarked < 0)
        return unmarked;
    txn_add(&n->t, 0, keeper_op_set(n->pending, world_record_write(n->a, &r), n->stat.version));
    return 1;
}

int world_retry(struct world *w, struct keeper *k, struct str key, struct err_info *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct ending n = {w, k, &a, key, ret_error};
    TRY(change(&n, plan_retry));
    make_free(&n, n.stat.czxid);
    return 0;
}

/* Removing. */

/* Plans the deletion of the node in a list, if it exists and belongs to this world. */
static int plan_list(struct ending *n, const char *path, struct keeper_stat *ret_stat)
{
    struct world_record record;
    struct str data;
    int err = world_read(n->k, n->a, path, &data, ret_stat);
    if (err)
        return err == DROVER_NO_NODE ? 0 : err_explain(n->e, err);
    if (world_record_read(n->a, data, n->key, &record) || !world_record_is_of(&record, n->w->root))
        return 0;
    txn_add(&n->t, 0, keeper_op_delete(path, ret_stat->version));
    return 1;
}

static int plan_lists(struct ending *n)
{
    struct keeper_stat stat;
    int pending = plan_list(n, n->pending, &stat);
    int completed = pending < 0 ? pending : plan_list(n, n->completed, &stat);
    if (completed < 0)
        return completed;
    if (n->before_ms != INT64_MAX && (pending || !completed || stat.ctime_ms >= n->before_ms))
        return refuse(n, DROVER_NOT_ALLOWED, "was not completed that long ago");
    return 0;
}

/* After UNKNOWN, a task that is gone was removed, by this call or by another. */
static int plan_removal(struct ending *n)
{
    const char *path = world_path(n->a, n->w->root, n->key);
    struct keeper_stat stat;
    struct str root_data;
    int err = keeper_exists(n->k, path, &stat);

    if (err == DROVER_NO_NODE)
        return n->unknown ? 0 : no_task(n);
    if (!err && stat.child_count)
        return refuse(n, DROVER_NOT_EMPTY, "has tasks below it");
    if (err)
        return err_explain(n->e, err);
    int unmarked = world_plan_unmark(&n->t, n->k, n->key, n->e);
    if (unmarked < 0)
        return unmarked;
    err = unmarked ? DROVER_NO_NODE : keeper_exists(n->k, n->working, NULL);
    if (!err)
        return refuse(n, DROVER_IN_USE, "is being worked on");
    if (err != DROVER_NO_NODE)
        return err_explain(n->e, err);
    txn_add(&n->t, 0, keeper_op_delete(path, stat.version));
    TRY(plan_lists(n));
    err = world_read(n->k, n->a, n->w->root, &root_data, NULL);
    if (err)
        return err_explain(n->e, err);
    txn_add(&n->t, 0, keeper_op_set(n->w->root, root_data, KEEPER_ANY_VERSION));
    return 1;
}

int world_remove(struct world *w, struct keeper *k, struct str key, int64_t before_ms,
                 struct err_info *ret_error)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct ending n = {w, k, &a, key, ret_error, .before_ms = before_ms};
    TRY(change(&n, plan_removal));
    list_view_remove(w->pending, key);
    world_tell(w, &(struct world_change){key, {0}, WORLD_IS_NONE, {0}});
    return 0;
}
