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
    int entry;                  /* priority of its entry in the list, -1: that of the job */
    int batch_to;               /* the state that its batch gets, or BATCH_NO_STATE */

    /* A batch. */
    struct keeper_stat processing; /* of batch-processing */
};

/* Adds a new status at the version that was read, and the change of the index. */
static int set_state(struct batch_call *c, struct batch_txn *t, const struct batch_item *i,
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

int batch_count_change(struct batch_call *c, struct batch_txn *t, const char *bid, int leaving,
                       int coming, int *ret_state)
{
    const struct batch_store *r = c->store;
    const char *processing =
        arena_printf(c->a, "/batches/%s/states/%s", bid, BATCH_LISTS[BATCH_LIST_PROCESSING]);
    struct keeper_stat stat, lock = {0};
    struct batch_item b;
    *ret_state = BATCH_NO_STATE;
    TRY(batch_node_exists(c, &stat, "%s", processing));
    txn_set(&t->txn, OP_ANY, NO_BYTES, stat.version, "%s", processing);
    if (stat.child_count + coming != leaving || !leaving)
        return 0;
    TRY(batch_item_read(c, BATCH_KIND_BATCH, str_of(bid), &b));
    int state = b.status.state;
    if (state == r->batch.pending)
        TRY(batch_node_stat(c, &lock, "%s/lock", b.path)); /* its holder may add jobs */
    if (state == r->batch.failed)
        *ret_state = r->batch.update_reporting;
    else if (state == r->batch.processing || (state == r->batch.pending && !lock.czxid))
        *ret_state = r->batch.reporting;
    else
        return 0;
    return set_state(c, t, &b, *ret_state, (struct str){0});
}

static bool is_reporting(const struct batch_store *r, int state)
{
    return state == r->batch.reporting || state == r->batch.update_reporting;
}

int batch_failed_jobs(struct batch_call *c, const char *bid, struct str *ret_json)
{
    struct keeper_names ids;
    struct buf b = {0};
    TRY(batch_node_children(c, &ids, NULL, "/batches/%s/states/%s", bid,
                            BATCH_LISTS[BATCH_LIST_FAILED]));
    json_open(&b, '[');
    for (size_t i = 0; i < ids.count; i++)
        json_put_text(&b, str_of(ids.names[i]));
    json_close(&b, ']');
    *ret_json = arena_take(c->a, &b);
    return 0;
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
    int64_t counts[BATCH_LIST_COUNT];
    struct keeper_stat stat;

    for (int i = BATCH_LIST_COUNT - 1; i >= 0; i--) {
        if (batch_node_exists(c, &stat, "/batches/%s/states/%s", b->id, BATCH_LISTS[i]))
            return BATCH_FAIL(c, DROVER_DAMAGED, "batch %s has no %s; see 'drover batch fsck'",
                              b->id, BATCH_LISTS[i]);
        counts[i] = stat.child_count;
    }
    tr->processing = stat;
    int64_t ended =
        counts[BATCH_LIST_FAILED] + counts[BATCH_LIST_COMPLETED] + counts[BATCH_LIST_DELETED];
    if (is_reporting(r, b->status.state) && str_eq(tr->move->state, STR("next"))) {
        if (counts[BATCH_LIST_FAILED] + counts[BATCH_LIST_PROCESSING] > 0)
            tr->to = r->batch.failed;
        /* Jobs that changed after the reporter took the lock are not in the report. */
        if (tr->move->token && stat.mzxid > tr->move->token && !stat.child_count)
            tr->to = r->batch.update_reporting;
    }
    if ((tr->to == r->batch.processing || tr->to == r->batch.pending) && ended > 0 &&
        !stat.child_count)
        tr->to = r->batch.reporting;
    return 0;
}

/* Adds the new state, and that batch-processing is as `decide` has read it. */
static int add_state(struct batch_call *c, struct batch_txn *t, struct batch_transition *tr)
{
    txn_check(&t->txn, OP_ANY, tr->processing.version, "/batches/%s/states/%s", tr->item.id,
              BATCH_LISTS[BATCH_LIST_PROCESSING]);
    return set_state(c, t, &tr->item, tr->to, tr->move->message);
}

static int add_batch_move(struct batch_call *c, struct batch_txn *t, struct batch_transition *tr)
{
    TRY(decide(c, tr));
    TRY(add_state(c, t, tr));
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

/* Adds the move to another list of the batch, if the new state belongs to one. */
static int add_batch_lists(struct batch_call *c, struct batch_txn *t, struct batch_transition *tr)
{
    const struct batch_item *j = &tr->item;
    const struct batch_machine_state *states = j->kind->machine->states;
    enum batch_list from = states[j->status.state].list, to = states[tr->to].list;
    tr->batch_to = BATCH_NO_STATE;
    if (from == to)
        return 0;
    batch_txn_job_list(t, OP_LISTS, j->bid, from, j->id, false);
    batch_txn_job_list(t, OP_LISTS, j->bid, to, j->id, true);
    return batch_count_change(c, t, j->bid, from == BATCH_LIST_PROCESSING,
                              to == BATCH_LIST_PROCESSING, &tr->batch_to);
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
                                    : set_state(c, t, i, tr->to, tr->move->message);
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
    if (t->txn.failed == OP_LISTS && (err == DROVER_NO_NODE || err == DROVER_EXISTS))
        return BATCH_FAIL(c, DROVER_DAMAGED,
                          "the lists of job %s do not agree; see 'drover batch fsck'", tr->item.id);
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

int batch_settle(struct batch_call *c, const char *bid)
{
    const struct batch_store *r = c->store;
    struct batch_move m = {.state = STR("Processing")};
    struct batch_transition tr = {.move = &m, .to = r->batch.processing};
    struct batch_txn t = BATCH_TXN(c);
    TRY(batch_item_read(c, BATCH_KIND_BATCH, str_of(bid), &tr.item));
    int state = tr.item.status.state;
    if (state != r->batch.processing && state != r->batch.pending)
        return 0;
    if (batch_node_exists(c, &tr.processing, "/batches/%s/states/%s", bid,
                          BATCH_LISTS[BATCH_LIST_PROCESSING]) == 0 &&
        tr.processing.child_count)
        return 0;
    int err = decide(c, &tr);
    if (err || tr.to == r->batch.processing)
        return err;
    if (state == r->batch.pending) /* the holder of its lock may add jobs */
        batch_lock_guard(c, &t, tr.item.path, 0, KEEPER_ANY_VERSION, false);
    err = add_state(c, &t, &tr);
    if (!err)
        err = batch_txn_commit(c, &t, OP_STATUS);
    if (err)
        return batch_is_conflict(err) ? 0 : err;
    batch_publish(c, &tr.item, state, tr.to);
    return 1;
}
