/*
 * Claiming. Candidates come from the cached pending list (list_view.h). Each is checked by reading
 * its ancestors and its data, and by one transaction: the pending node still has the version seen,
 * and the ephemeral working node is created. The pending node is set to the data it has rather than
 * checked. So every claim has a version of its own, and a completion at that version proves that
 * nobody has claimed or queued the task since.
 *
 * Where attempts are limited, the claim writes how many there were: a task that ends its handlers
 * uses them up too, and the claim after the last one marks it as failed.
 *
 * The data is read before the transaction: queueing again changes the pending node together with
 * the data, so a claim with outdated data fails.
 */
#include "base/clock.h"
#include "base/random.h"
#include "world/impl.h"

enum outcome { CLAIMED, FREE_AGAIN, TAKEN, GONE, OTHER, BLOCKED, RUBBISH, USED_UP, FAILED };

struct attempt {
    struct world *w;
    struct keeper *k;
    struct arena *a;
    const struct str *types;
    size_t type_count;
    struct list_item task;
    struct str key;
    int64_t czxid; /* of the pending node, with its version and data: */
    int32_t version;
    struct str pending_data;
    int64_t session;
    struct world_claim claim;
    int err; /* FAILED */
};

static enum outcome failed(struct attempt *t, int err)
{
    t->err = err;
    return FAILED;
}

/* After UNKNOWN: whether the working node is the one of this attempt. */
static enum outcome settle(struct attempt *t, const char *working, const struct world_holder *mine)
{
    struct world_holder h;
    struct str data;
    int err = keeper_sync(t->k, working);
    if (!err)
        err = world_read(t->k, t->a, working, &data, NULL);
    if (err == DROVER_NO_NODE)
        return FREE_AGAIN;
    if (err)
        return failed(t, err);
    return !world_holder_read(t->a, data, &h) && !strcmp(h.claim, mine->claim) ? CLAIMED : TAKEN;
}

enum { PENDING = 1, WORKING }; /* operations */

/*
 * Commits the two. A mark that nobody needs any more makes room: another client has queued a task
 * that had failed.
 */
static int commit(struct attempt *t, struct txn *x)
{
    int err = txn_commit(x, t->k, 0);
    if (err != DROVER_EXISTS || x->failed != WORKING)
        return err;
    struct txn with_mark = {.a = t->a};
    int marked = world_plan_unmark(&with_mark, t->k, t->key, NULL);
    if (marked != 1)
        return marked < 0 ? marked : err;
    txn_add(&with_mark, PENDING, x->ops[0]);
    txn_add(&with_mark, WORKING, x->ops[1]);
    *x = with_mark;
    return txn_commit(x, t->k, 0);
}

/* Nobody ended the last attempt: its handler died. */
static enum outcome give_up(struct attempt *t, const char *pending)
{
    struct txn x = {.a = t->a};
    struct world_record *r = &t->claim.record;
    r->failed = true;
    r->failures++;
    r->error = STR("its handler died in the last attempt");
    txn_add(&x, PENDING, keeper_op_set(pending, world_record_write(t->a, r), t->version));
    world_plan_mark(&x, WORKING, world_list_path(t->a, WORLD_WORKING, t->key));
    int err = commit(t, &x);
    if (err)
        return x.failed == WORKING && err == DROVER_EXISTS    ? TAKEN
               : world_is_stale(err) || err == DROVER_UNKNOWN ? FREE_AGAIN
                                                              : failed(t, err);
    world_tell(t->w, &(struct world_change){t->key, r->type, WORLD_IS_FAILED, r->error});
    list_view_idle(t->w->pending, t->key, 0);
    return USED_UP;
}

/* The data of the pending node after the claim. */
static struct str claimed_data(struct attempt *t)
{
    if (!t->claim.record.attempts)
        return t->pending_data;
    t->claim.record.tries++;
    return world_record_write(t->a, &t->claim.record);
}

static enum outcome take(struct attempt *t, const char *pending)
{
    const char *working = world_list_path(t->a, WORLD_WORKING, t->key);
    struct txn x = {.a = t->a};
    struct keeper_session session;

    keeper_session(t->k, &session);
    struct world_holder h = {.session = session.id, .czxid = t->czxid, .version = t->version + 1};
    random_hex(h.claim, sizeof h.claim - 1);
    txn_add(&x, PENDING, keeper_op_set(pending, claimed_data(t), t->version));
    txn_add(
        &x, WORKING,
        keeper_op_create(working, world_holder_write(t->a, &h), KEEPER_EPHEMERAL | KEEPER_NO_STAT));
    int err = commit(t, &x);
    t->session = h.session;
    if (!err)
        return CLAIMED;
    if (err == DROVER_UNKNOWN)
        return settle(t, working, &h);
    if (x.failed == PENDING && err == DROVER_NO_NODE)
        return GONE;
    if (x.failed == PENDING && err == DROVER_BAD_VERSION)
        return FREE_AGAIN;
    return x.failed == WORKING && err == DROVER_EXISTS ? TAKEN : failed(t, err);
}

/* Blocks the task on an ancestor that is pending. The view may not know that one yet. */
static enum outcome block_on(struct attempt *t, struct str ancestor, struct str data,
                             const struct keeper_stat *stat)
{
    struct list_class c;
    struct list_item item;
    if (!list_view_find(t->w->pending, NULL, ancestor, &item)) {
        world_classify(t->w, t->a, ancestor, data, stat, &c);
        list_view_add(t->w->pending, ancestor, &c, stat->version);
    }
    return list_view_block_on(t->w->pending, t->key, ancestor) ? BLOCKED : FREE_AGAIN;
}

static bool is_foreign(struct attempt *t, struct str key, struct str data)
{
    struct world_record r;
    return !world_record_read(t->a, data, key, &r) && !world_record_is_of(&r, t->w->root);
}

static enum outcome check_ancestors(struct attempt *t)
{
    struct str key = world_parent_key(t->key), data;
    struct keeper_stat stat;
    for (; key.len; key = world_parent_key(key)) {
        int err = world_read(t->k, t->a, world_list_path(t->a, WORLD_PENDING, key), &data, &stat);
        if (!err && !is_foreign(t, key, data))
            return block_on(t, key, data, &stat);
        if (err && err != DROVER_NO_NODE)
            return failed(t, err);
    }
    return CLAIMED;
}

/* Whether the view knows a pending ancestor, on which the task is blocked then. */
static bool is_blocked(struct attempt *t)
{
    struct list_item item;
    for (struct str key = world_parent_key(t->key); key.len; key = world_parent_key(key))
        if (list_view_find(t->w->pending, NULL, key, &item) && !(item.flags & PENDING_FOREIGN) &&
            list_view_block_on(t->w->pending, t->key, key))
            return true;
    return false;
}

static enum outcome skip(struct attempt *t, const char *why)
{
    world_warn(t->w, WORLD_PENDING, t->key, why);
    list_view_idle(t->w->pending, t->key, 0);
    return RUBBISH;
}

/* A node may have been created again for a task that divides the same name differently. */
static bool is_wanted(const struct attempt *t)
{
    for (size_t i = 0; i < t->type_count; i++)
        if (str_eq(t->claim.record.type, t->types[i]))
            return true;
    return false;
}

/* The data of the pending node: cached, or read now. CLAIMED: continue. */
static enum outcome read_pending(struct attempt *t, const char *pending)
{
    struct keeper_stat stat;
    t->czxid = t->task.order;
    t->version = t->task.version;
    if (t->task.flags & PENDING_PLAIN) {
        world_record_make(t->a, t->w->root, t->key, t->task.group, &t->claim.record);
        t->pending_data = world_record_write(t->a, &t->claim.record);
        return CLAIMED;
    }
    int err = world_read(t->k, t->a, pending, &t->pending_data, &stat);
    if (err)
        return err == DROVER_NO_NODE ? GONE : failed(t, err);
    t->czxid = stat.czxid;
    t->version = stat.version;
    if (world_record_read(t->a, t->pending_data, t->key, &t->claim.record) ||
        !world_record_is_of(&t->claim.record, t->w->root))
        return skip(t, "its data is not that of a task of this world");
    if (t->claim.record.failed) {
        list_view_idle(t->w->pending, t->key, 0);
        return USED_UP;
    }
    return is_wanted(t) ? CLAIMED : OTHER;
}

static enum outcome try_one(struct attempt *t)
{
    const char *pending = world_list_path(t->a, WORLD_PENDING, t->key);
    enum outcome outcome = read_pending(t, pending);
    if (outcome == CLAIMED)
        outcome = check_ancestors(t);
    if (outcome != CLAIMED)
        return outcome;
    int err = world_read(t->k, t->a, world_path(t->a, t->w->root, t->key), &t->claim.data, NULL);
    if (err == DROVER_NO_NODE)
        return skip(t, "the task is not in the tree");
    if (err)
        return failed(t, err);
    const struct world_record *r = &t->claim.record;
    return r->attempts && r->tries >= r->attempts ? give_up(t, pending) : take(t, pending);
}

/* Tells the view. 1: claimed; 0: try the next. */
static int settle_outcome(struct attempt *t, enum outcome outcome)
{
    struct list_view *v = t->w->pending;
    struct list_class c = {.order = t->czxid, .group = t->task.group};
    if (outcome == OTHER)
        c.group = t->claim.record.type;
    if (outcome == CLAIMED)
        list_view_lock(v, t->key, t->session, t->version + 1);
    else if (outcome == TAKEN)
        list_view_lock(v, t->key, 0, t->version);
    else if (outcome == GONE)
        list_view_remove(v, t->key);
    else if (outcome == OTHER || outcome == FREE_AGAIN || outcome == FAILED)
        list_view_release(v, t->key, &c);
    return outcome == FAILED ? t->err : outcome == CLAIMED;
}

/* Claims a task that is known; with `exact`, after an exact refresh of the list. */
static int claim_known(struct attempt *t, bool exact)
{
    struct list_view *v = t->w->pending;
    uint32_t retried = 0;
    int claimed = 0;
    if (exact)
        TRY(list_view_watch(v, t->w->k));
    TRY(list_view_refresh(v, t->k, exact));
    while (!claimed &&
           list_view_take(v, t->a, t->types, t->type_count, clock_boot_ms(), &retried, &t->task)) {
        t->key = t->task.name;
        t->claim = (struct world_claim){.key = t->key};
        if (!is_blocked(t))
            claimed = settle_outcome(t, try_one(t));
    }
    return claimed;
}

static int check_types(const struct str *types, size_t type_count, struct err_info *e)
{
    if (!type_count || type_count > WORLD_TYPES_MAX)
        return err_set(e, DROVER_BAD_ARGUMENT, "name 1 to %d types", WORLD_TYPES_MAX);
    for (size_t i = 0; i < type_count; i++)
        TRY(world_check_name(types[i], "type", e));
    return 0;
}

int world_claim(struct world *w, struct keeper *k, struct arena *a, const struct str *types,
                size_t type_count, bool look, struct world_claim *ret_claim,
                struct err_info *ret_error)
{
    struct attempt t = {.w = w, .k = k, .a = a, .types = types, .type_count = type_count};
    TRY(check_types(types, type_count, ret_error));
    int claimed = claim_known(&t, false);
    if (!claimed && (look || list_view_is_stale(w->pending)))
        claimed = claim_known(&t, true);
    if (claimed < 0)
        return err_explain(ret_error, claimed);
    if (claimed) {
        *ret_claim = t.claim;
        world_tell(w, &(struct world_change){t.key, t.claim.record.type, WORLD_IS_WORKING, {0}});
    }
    return claimed;
}
