/*
 * The transition of an item from one state to another: one mechanism for every kind, driven by the
 * machine of the kind. What a kind adds to the transaction is in job.c and batch.c.
 */
#include "batch/item.h"

int batch_item_set_state(struct batch_call *c, struct batch_txn *t, const struct batch_item *i,
                         int state, struct str message)
{
    struct batch_status s = i->status;
    s.state = state;
    s.modified = batch_now(c);
    s.message = message;
    txn_set(&t->txn, OP_STATUS, batch_status_write(i->kind->machine, &s, c->a), i->version,
            "%s/status", i->path);
    return batch_index_move(c, t, i, i->status.state, state);
}

static int add_access_move(struct batch_call *c, struct batch_txn *t, struct batch_transition *tr)
{
    return batch_item_set_state(c, t, &tr->item, tr->to, tr->move->message);
}

/* Adds the lock of the item to the transaction. `keep` is false if the move is not allowed. */
static int add_guard(struct batch_call *c, struct batch_txn *t, struct batch_transition *tr,
                     bool keep)
{
    if (!tr->cached)
        return batch_lock_guard(c, t, tr->item.path, tr->move->token, keep);
    batch_lock_hold(t, tr->item.path, BATCH_LOCK_VERSION, keep);
    return 0;
}

static int check_from(struct batch_call *c, const struct batch_transition *tr)
{
    const struct batch_machine *m = tr->item.kind->machine;
    int state = tr->item.status.state;
    if (tr->only_from != BATCH_NO_STATE && state != tr->only_from)
        return BATCH_FAIL(c, DROVER_NOT_ALLOWED, "%s %s is %s, not %s", m->noun, tr->item.id,
                          m->states[state].name, m->states[tr->only_from].name);
    if (tr->only_failed && m->states[state].list != BATCH_LIST_FAILED)
        return BATCH_FAIL(c, DROVER_NOT_ALLOWED, "%s %s is %s; only a failed one can be requeued",
                          m->noun, tr->item.id, m->states[state].name);
    return 0;
}

/* Reads the item, decides on the new state, and builds the transaction. */
static int build(struct batch_call *c, struct batch_txn *t, struct batch_transition *tr,
                 bool *ret_keep)
{
    static int (*const ADD[BATCH_KINDS])(struct batch_call * c, struct batch_txn * t,
                                         struct batch_transition * tr) = {
        [BATCH_KIND_BATCH] = batch_add_move,
        [BATCH_KIND_JOB] = batch_job_add_move,
        [BATCH_KIND_SMALL] = add_access_move,
        [BATCH_KIND_LARGE] = add_access_move,
    };
    struct batch_item *i = &tr->item;
    enum batch_kind_id kind = i->kind->id;

    tr->cached = kind == BATCH_KIND_JOB && tr->move->token && !tr->fresh &&
                 batch_job_cache_get(c, i->number, tr->move->token, i);
    if (!tr->cached)
        TRY(batch_item_read(c, kind, str_of(i->id), i));
    TRY(check_from(c, tr));
    tr->to =
        batch_machine_resolve(i->kind->machine, i->status.state, i->id, tr->move->state, c->why);
    *ret_keep = tr->move->keep || (tr->to >= 0 && i->kind->machine->states[tr->to].keeps_lock);
    TRY(add_guard(c, t, tr, *ret_keep));
    return tr->to < 0 ? tr->to : ADD[kind](c, t, tr);
}

/* The cache after a move: the same as a read would find. */
static void update_cache(struct batch_call *c, const struct batch_transition *tr, bool keep)
{
    struct batch_item j = tr->item;
    if (tr->move->priority >= 0 && tr->move->priority != j.priority) {
        batch_job_cache_drop(c, j.number);
        return;
    }
    j.status = tr->status;
    j.token = keep ? tr->move->token : 0;
    j.version++;
    batch_job_cache_put(c, &j);
}

/* Why the transaction of a job failed at one of its lists. 0: retry. */
static int explain_lists(struct batch_call *c, const struct batch_txn *t,
                         struct batch_transition *tr, int err)
{
    if (err == DROVER_NO_NODE && t->txn.failed == OP_ENTRY)
        TRY(batch_job_require_entry(c, &tr->item, &tr->entry));
    if (t->txn.failed == OP_LISTS && (err == DROVER_NO_NODE || err == DROVER_EXISTS))
        return BATCH_FAIL(c, DROVER_DAMAGED,
                          "the lists of job %s do not agree; see 'drover batch fsck'", tr->item.id);
    return 0;
}

static int try_move(struct batch_call *c, struct batch_transition *tr, bool *ret_again)
{
    struct batch_txn t = BATCH_TXN(c);
    bool job = tr->item.kind->id == BATCH_KIND_JOB, keep;

    *ret_again = false;
    int err = build(c, &t, tr, &keep);
    if (err) {
        tr->fresh = *ret_again = tr->cached && err == DROVER_NOT_ALLOWED; /* ask the tree */
        return err;
    }
    err = batch_txn_commit(c, &t, OP_STATUS);
    if (!err && job)
        update_cache(c, tr, keep);
    if (!err)
        return 0;
    if (tr->cached && batch_is_conflict(err)) { /* the cached state was stale: read the tree */
        tr->fresh = *ret_again = true;
        return err;
    }
    int refused = batch_lock_refused(c, &t, err, tr->move->token);
    if (refused == DROVER_FENCED || refused == DROVER_LOCKED)
        return refused;
    if (job && (refused = explain_lists(c, &t, tr, err)) < 0)
        return refused;
    *ret_again = batch_is_conflict(err);
    return err;
}

int batch_item_transition(struct batch_call *c, struct batch_transition *tr)
{
    bool again = true;
    int err = 0;
    tr->entry = -1;
    tr->batch_to = BATCH_NO_STATE;
    for (int i = 0; i < BATCH_TRIES && again; i++)
        err = try_move(c, tr, &again);
    if (err)
        return err;
    batch_publish(c, &tr->item, tr->item.status.state, tr->to);
    if (tr->batch_to != BATCH_NO_STATE) {
        struct batch_item batch = {.kind = &c->store->kinds[BATCH_KIND_BATCH]};
        memcpy(batch.id, tr->item.bid, sizeof batch.id);
        batch_publish(c, &batch, BATCH_NO_STATE, tr->batch_to);
    }
    return 0;
}

int batch_item_move(struct batch_call *c, enum batch_kind_id kind, struct str id,
                    const struct batch_move *m, int *ret_state)
{
    struct batch_transition tr = {.move = m, .only_from = BATCH_NO_STATE};
    if (kind == BATCH_KIND_JOB && (m->priority < -1 || m->priority > BATCH_PRIORITY_MAX))
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "'priority' must be 0 to %d", BATCH_PRIORITY_MAX);
    TRY(batch_item_name(c, kind, id, &tr.item));
    TRY(batch_item_transition(c, &tr));
    *ret_state = tr.to;
    return 0;
}
