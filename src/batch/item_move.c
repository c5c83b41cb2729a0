/*
 * The transition of an item from one state to another: one mechanism for every kind, driven by the
 * machine of the kind. First what batches and jobs add to the transaction, then the transition.
 */
#include "batch/item.h"

/* The transition of one item, while it is tried. */
struct batch_transition {
    struct batch_item item; /* before */
    const struct batch_move *move;
    int to;
    bool keep; /* the lock */

    /* A job. */
    struct batch_status status; /* after */
    bool cached, fresh;         /* from the cache; must be read */
    bool lists_differ;          /* the lists of its batch are not as usual: they are looked at */
    int entry;                  /* priority of its entry in the list, -1: that of the job */
    int batch_to;               /* the state that its batch gets, or BATCH_NO_STATE */

    /* A batch. */
    struct batch_census census;
};

int batch_add_status(struct batch_call *c, struct batch_txn *t, const struct batch_item *i,
                     int state, struct str message)
{
    struct batch_status s = i->status;
    s.state = state;
    s.modified = batch_now(c);
    if (message.p)
        s.message = message;
    txn_set(&t->txn, OP_STATUS, batch_status_write(i->kind->machine, &s, c->a), i->version,
            "%s/status", i->path);
    return batch_index_move(c, t, i, i->status.state, state);
}

/* Batches. */

int batch_report_number(struct batch_call *c, struct str id, int state, int64_t *ret_number)
{
    struct keeper_stat stat;
    TRY(batch_node_exists(c, &stat, "%s/%.*s", c->store->kinds[BATCH_KIND_BATCH].views[state].dir,
                          STR_ARGS(id)));
    *ret_number = stat.czxid;
    return 0;
}

static bool is_reporting(const struct batch_store *r, int state)
{
    return state == r->batch.reporting || state == r->batch.update_reporting;
}

/* Adds status-report to the transaction. It is written by the first report that has failed jobs. */
static int add_report(struct batch_call *c, struct batch_txn *t, const char *bid, struct str failed)
{
    struct keeper_stat stat;
    if (!failed.p)
        TRY(batch_failed_jobs(c, bid, &failed));
    TRY(batch_node_stat(c, &stat, "/batches/%s/status-report", bid));
    if (!stat.czxid && str_eq(failed, STR("[]")))
        return 0;
    struct str text = str_of(arena_printf(c->a, "{\"failed_jobs\":%.*s}", STR_ARGS(failed)));
    if (stat.czxid)
        txn_set(&t->txn, OP_ANY, text, KEEPER_ANY_VERSION, "/batches/%s/status-report", bid);
    else
        txn_create(&t->txn, OP_ANY, text, 0, "/batches/%s/status-report", bid);
    return 0;
}

/* Decides on the new state, which depends on the jobs. */
static int decide(struct batch_call *c, struct batch_transition *tr)
{
    const struct batch_store *r = c->store;
    const struct batch_item *b = &tr->item;
    TRY(batch_census(c, b->id, &tr->census));
    const int64_t *counts = tr->census.counts;
    struct keeper_stat stat = tr->census.processing;
    int64_t ended =
        counts[BATCH_LIST_FAILED] + counts[BATCH_LIST_COMPLETED] + counts[BATCH_LIST_DELETED];
    if (is_reporting(r, b->status.state) && str_eq(tr->move->state, STR("next"))) {
        if (counts[BATCH_LIST_FAILED] + counts[BATCH_LIST_PROCESSING] > 0)
            tr->to = r->batch.failed;
        /*
         * Jobs that changed after the reporter took the lock are not in the report. Foreign clients
         * do not set the list.
         */
        int64_t changed = stat.mzxid > stat.pzxid ? stat.mzxid : stat.pzxid;
        if (tr->move->token && changed > tr->move->token && !stat.child_count)
            tr->to = r->batch.update_reporting;
    }
    if ((tr->to == r->batch.processing || tr->to == r->batch.pending) && ended > 0 &&
        !stat.child_count)
        tr->to = r->batch.reporting;
    return 0;
}

/*
 * Adds the new state, and that batch-processing is as `decide` has read it. If there was no such
 * list, a job that comes now is in no report: the one that ends it makes the next one due.
 */
static int add_state(struct batch_call *c, struct batch_txn *t, struct batch_transition *tr)
{
    if (tr->census.processing.czxid)
        txn_check(&t->txn, OP_ANY, tr->census.processing.version, "/batches/%s/states/%s",
                  tr->item.id, BATCH_LISTS[BATCH_LIST_PROCESSING]);
    return batch_add_status(c, t, &tr->item, tr->to, tr->move->message);
}

/* Adds `states` to a batch that is no longer Pending, and removes it from one that is again. */
static int add_taken(struct batch_call *c, struct batch_txn *t, const struct batch_transition *tr)
{
    int pending = c->store->batch.pending;
    if (tr->to == pending) {
        int err = batch_add_untaken(c, t, tr->item.id);
        return err < 0 ? err : 0;
    }
    return tr->item.status.state == pending ? batch_add_states(c, t, tr->item.id) : 0;
}

static int add_batch_move(struct batch_call *c, struct batch_txn *t, struct batch_transition *tr)
{
    TRY(decide(c, tr));
    TRY(add_state(c, t, tr));
    TRY(add_taken(c, t, tr));
    return is_reporting(c->store, tr->item.status.state)
               ? add_report(c, t, tr->item.id, tr->move->failed)
               : 0;
}

/* Jobs. */

static struct batch_status next_status(struct batch_call *c, const struct batch_transition *tr)
{
    const struct batch_machine *m = tr->item.kind->machine;
    struct batch_status s = tr->item.status;
    const struct batch_machine_state *from = &m->states[s.state], *to = &m->states[tr->to];
    if (s.state != m->held && from->success == tr->to)
        s.last_successful = str_of(from->name);
    if (from->list == BATCH_LIST_FAILED && to->list == BATCH_LIST_PROCESSING)
        s.retry_count++;
    s.state = tr->to;
    s.modified = batch_now(c);
    if (tr->move->message.p)
        s.message = tr->move->message;
    return s;
}

/*
 * The lists of the batch as they are: a list is made when it is first needed, and a foreign client
 * may have stopped between two of its steps. ret_in: whether the job is in the list it leaves, and
 * in the one it enters.
 */
static int look_at_lists(struct batch_call *c, struct batch_txn *t, const struct batch_item *j,
                         const enum batch_list lists[2], bool ret_in[2])
{
    struct keeper_stat stat;
    for (int i = 0; i < 2; i++) {
        TRY(batch_node_stat(c, &stat, "/batches/%s/states/%s/%s", j->bid, BATCH_LISTS[lists[i]],
                            j->id));
        ret_in[i] = stat.czxid != 0;
    }
    return batch_add_list(c, t, j->bid, lists[1]);
}

/* Adds the move to another list of the batch, if the new state belongs to one. */
static int add_batch_lists(struct batch_call *c, struct batch_txn *t, struct batch_transition *tr)
{
    const struct batch_item *j = &tr->item;
    const struct batch_machine_state *states = j->kind->machine->states;
    enum batch_list lists[2] = {states[j->status.state].list, states[tr->to].list};
    bool in[2] = {true, false};
    tr->batch_to = BATCH_NO_STATE;
    if (lists[0] == lists[1])
        return 0;
    if (tr->lists_differ)
        TRY(look_at_lists(c, t, j, lists, in));
    TRY(batch_count_change(c, t, j->bid, in[0] && lists[0] == BATCH_LIST_PROCESSING,
                           !in[1] && lists[1] == BATCH_LIST_PROCESSING, &tr->batch_to));
    if (in[0])
        batch_txn_job_list(t, OP_LISTS, j->bid, lists[0], j->id, false);
    if (!in[1])
        batch_txn_job_list(t, OP_LISTS, j->bid, lists[1], j->id, true);
    return 0;
}

static int add_job_move(struct batch_call *c, struct batch_txn *t, struct batch_transition *tr)
{
    const struct batch_item *j = &tr->item;
    int old = tr->entry >= 0 ? tr->entry : j->priority,
        new = tr->move->priority >= 0 ? (int)tr->move->priority : j->priority;
    tr->status = next_status(c, tr);
    txn_set(&t->txn, OP_STATUS, batch_status_write(j->kind->machine, &tr->status, c->a), j->version,
            "/jobs/%s/status", j->id);
    batch_txn_list_remove(t, OP_ENTRY, &j->kind->views[j->status.state], batch_key(old, j->number));
    batch_txn_list_add(t, OP_LISTS, &j->kind->views[tr->to], batch_key(new, j->number));
    if (new != j->priority)
        txn_set(&t->txn, OP_ANY, str_of(arena_printf(c->a, "%d", new)), j->priority_version,
                "/jobs/%s/priority", j->id);
    else if (tr->cached)
        txn_check(&t->txn, OP_ANY, j->priority_version, "/jobs/%s/priority", j->id);
    return add_batch_lists(c, t, tr);
}

/* Any kind. */

static int check_from(struct batch_call *c, const struct batch_transition *tr)
{
    const struct batch_machine *m = tr->item.kind->machine;
    struct str from = tr->move->from, name = batch_status_name(m, &tr->item.status);
    int state = tr->item.status.state;
    if (state == BATCH_NO_STATE)
        return BATCH_FAIL(
            c, DROVER_NOT_ALLOWED,
            "%s %s is %.*s, which is not a state of this pipeline; only a client that "
            "knows the state can move it",
            m->noun, tr->item.id, STR_ARGS(name));
    if (from.p && state != batch_machine_find(m, from))
        return BATCH_FAIL(c, DROVER_NOT_ALLOWED, "%s %s is %.*s, not %.*s", m->noun, tr->item.id,
                          STR_ARGS(name), STR_ARGS(from));
    if (tr->move->only_failed && m->states[state].list != BATCH_LIST_FAILED)
        return BATCH_FAIL(c, DROVER_NOT_ALLOWED, "%s %s is %.*s; only a failed one can be requeued",
                          m->noun, tr->item.id, STR_ARGS(name));
    return 0;
}

/* Reads the item, decides on the new state, and builds the transaction. */
static int build(struct batch_call *c, struct batch_txn *t, struct batch_transition *tr)
{
    struct batch_item *i = &tr->item;
    enum batch_kind_id kind = i->kind->id;
    tr->cached = kind == BATCH_KIND_JOB && tr->move->token && !tr->fresh &&
                 batch_job_cache_get(c, i->number, tr->move->token, i);
    if (!tr->cached)
        TRY(batch_item_read(c, kind, str_of(i->id), i));
    TRY(check_from(c, tr));
    tr->to =
        batch_machine_resolve(i->kind->machine, i->status.state, i->id, tr->move->state, c->why);
    tr->keep = tr->move->keep || (tr->to >= 0 && i->kind->machine->states[tr->to].keeps_lock);
    TRY(batch_lock_guard(c, t, i->path, tr->move->token,
                         tr->cached ? BATCH_LOCK_VERSION : KEEPER_ANY_VERSION, tr->keep));
    if (tr->to < 0)
        return tr->to;
    return kind == BATCH_KIND_BATCH ? add_batch_move(c, t, tr)
           : kind == BATCH_KIND_JOB ? add_job_move(c, t, tr)
                                    : batch_add_status(c, t, i, tr->to, tr->move->message);
}

/* The cache after a move: the same as a read would find. */
static void update_cache(struct batch_call *c, const struct batch_transition *tr)
{
    struct batch_item j = tr->item;
    if (tr->move->priority >= 0 && tr->move->priority != j.priority) {
        batch_job_cache_drop(c, j.number);
        return;
    }
    j.status = tr->status;
    j.token = tr->keep ? tr->move->token : 0;
    j.version++;
    batch_job_cache_put(c, &j);
}

/* Why the transaction of a job failed at one of its lists. 0: retry. */
static int explain_lists(struct batch_call *c, const struct batch_txn *t,
                         struct batch_transition *tr, int err)
{
    if (err == DROVER_NO_NODE && t->txn.failed == OP_ENTRY)
        TRY(batch_job_require_entry(c, &tr->item, &tr->entry));
    if (t->txn.failed != OP_LISTS || (err != DROVER_NO_NODE && err != DROVER_EXISTS))
        return 0;
    if (tr->lists_differ)
        return BATCH_FAIL(c, DROVER_DAMAGED,
                          "the lists of job %s do not agree; see 'drover batch fsck'", tr->item.id);
    tr->lists_differ = true;
    return 0;
}

static int try_move(struct batch_call *c, struct batch_transition *tr, bool *ret_again)
{
    struct batch_txn t = BATCH_TXN(c);
    bool job = tr->item.kind->id == BATCH_KIND_JOB;

    *ret_again = false;
    int err = build(c, &t, tr);
    if (err) {
        tr->fresh = *ret_again = tr->cached && err == DROVER_NOT_ALLOWED; /* ask the tree */
        return err;
    }
    err = batch_txn_commit(c, &t, OP_STATUS);
    if (!err && job)
        update_cache(c, tr);
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

int batch_item_move(struct batch_call *c, enum batch_kind_id kind, struct str id,
                    const struct batch_move *m, int *ret_state)
{
    struct batch_transition tr = {.move = m, .entry = -1, .batch_to = BATCH_NO_STATE};
    bool again = true;
    int err = 0;
    if (kind == BATCH_KIND_JOB && (m->priority < -1 || m->priority > BATCH_PRIORITY_MAX))
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "'priority' must be 0 to %d", BATCH_PRIORITY_MAX);
    TRY(batch_item_name(c, kind, id, &tr.item));
    for (int i = 0; i < BATCH_TRIES && again; i++)
        err = try_move(c, &tr, &again);
    if (err)
        return err;
    batch_publish(c, &tr.item, tr.item.status.state, tr.to);
    if (tr.batch_to != BATCH_NO_STATE) {
        struct batch_item batch = {.kind = &c->store->kinds[BATCH_KIND_BATCH]};
        memcpy(batch.id, tr.item.bid, sizeof batch.id);
        batch_publish(c, &batch, BATCH_NO_STATE, tr.batch_to);
    }
    if (ret_state)
        *ret_state = tr.to;
    return 0;
}

/* A job that was retried has ended since the batch became Failed. */
static int decide_update(struct batch_call *c, struct batch_transition *tr)
{
    const struct keeper_stat *list = &tr->census.processing;
    struct keeper_stat status;
    TRY(batch_census(c, tr->item.id, &tr->census));
    TRY(batch_node_stat(c, &status, "%s/status", tr->item.path));
    if (list->czxid && !list->child_count && list->pzxid > status.mzxid)
        tr->to = c->store->batch.update_reporting;
    return 0;
}

int batch_settle(struct batch_call *c, const char *bid)
{
    const struct batch_store *r = c->store;
    struct batch_move m = {.state = STR("Processing")};
    struct batch_transition tr = {.move = &m, .to = r->batch.processing};
    struct batch_txn t = BATCH_TXN(c);
    TRY(batch_item_read(c, BATCH_KIND_BATCH, str_of(bid), &tr.item));
    int state = tr.item.status.state, err = 0;
    if (state == r->batch.processing || state == r->batch.pending)
        err = decide(c, &tr);
    else if (state == r->batch.failed)
        err = decide_update(c, &tr);
    if (err || tr.to == r->batch.processing)
        return err;
    if (state != r->batch.failed) /* the holder of its lock may add jobs */
        batch_lock_guard(c, &t, tr.item.path, 0, KEEPER_ANY_VERSION, false);
    err = add_state(c, &t, &tr);
    if (!err)
        err = batch_txn_commit(c, &t, OP_STATUS);
    if (err)
        return t.txn.failed == OP_GUARD && err == DROVER_EXISTS ? 0 : err;
    batch_publish(c, &tr.item, state, tr.to);
    return 1;
}

int batch_untake(struct batch_call *c, const char *bid, int state)
{
    struct batch_txn t = BATCH_TXN(c);
    int pending = c->store->batch.pending;
    struct batch_census n;
    struct batch_item b;
    TRY(batch_item_read(c, BATCH_KIND_BATCH, str_of(bid), &b));
    TRY(batch_census(c, bid, &n));
    int64_t jobs = 0;
    for (int l = 0; l < BATCH_LIST_COUNT; l++)
        jobs += n.counts[l];
    if (b.status.state != state || jobs)
        return 0;
    batch_lock_guard(c, &t, b.path, 0, KEEPER_ANY_VERSION, false);
    int err = batch_add_untaken(c, &t, bid);
    if (err < 0 || (!err && state == pending))
        return err;
    if (state == pending)
        txn_check(&t.txn, OP_ANY, b.version, "%s/status", b.path);
    else
        TRY(batch_add_status(c, &t, &b, pending,
                             STR("given back: its worker died before it had jobs")));
    err = batch_txn_commit(c, &t, OP_ANY);
    if (!err && state != pending)
        batch_publish(c, &b, state, pending);
    return batch_is_conflict(err) ? 0 : err ? err : 1;
}
