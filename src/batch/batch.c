/* Creating and finding batches, and the moves that depend on their jobs. */
#include "batch/item.h"

/* The UUID of a submission, checked. p NULL: it has none. */
static int read_uuid(struct batch_call *c, const struct json *submission, struct str *ret_uuid)
{
    struct str uuid = {0};
    int err = json_get_text(submission, "batchID", &uuid, c->why);
    if (err > 0)
        err = batch_name_check("batchID", uuid, c->why);
    if (!err)
        *ret_uuid = uuid;
    return err;
}

int batch_create(struct batch_call *c, const struct json *submission,
                 char ret_bid[BATCH_ID_LEN + 1])
{
    struct str uuid = {0}, bid = STR("");
    TRY(read_uuid(c, submission, &uuid));
    int err = batch_item_new(c, BATCH_KIND_BATCH, submission, uuid, ret_bid);
    if (err != DROVER_EXISTS || !uuid.p)
        return err;
    batch_node_get(c, &bid, NULL, "/batch-uuids/%.*s", STR_ARGS(uuid));
    return BATCH_FAIL(c, err, "the batch '%.*s' exists already: %.*s", STR_ARGS(uuid),
                      STR_ARGS(bid));
}

int batch_find(struct batch_call *c, struct str uuid, char ret_bid[BATCH_ID_LEN + 1])
{
    struct batch_item b;
    struct str bid;
    TRY(batch_name_check("the UUID", uuid, c->why));
    int err = batch_node_get(c, &bid, NULL, "/batch-uuids/%.*s", STR_ARGS(uuid));
    if (err == DROVER_NO_NODE)
        return BATCH_FAIL(c, err, "there is no batch with the UUID '%.*s'", STR_ARGS(uuid));
    if (err)
        return err;
    TRY(batch_item_name(c, BATCH_KIND_BATCH, bid, &b));
    memcpy(ret_bid, b.id, sizeof b.id);
    return 0;
}

int batch_add_uuid_deletion(struct batch_call *c, struct batch_txn *t, const struct batch_item *b)
{
    const struct json *v = b->nodes[0].p ? json_parse(c->a, b->nodes[0], NULL) : NULL;
    struct str uuid = {0}, holder = {0};
    if (!v || read_uuid(c, v, &uuid) || !uuid.p)
        return 0;
    TRY(batch_optional(batch_node_get(c, &holder, NULL, "/batch-uuids/%.*s", STR_ARGS(uuid))));
    if (holder.p && str_eq(holder, str_of(b->id)))
        txn_delete(&t->txn, OP_ANY, KEEPER_ANY_VERSION, "/batch-uuids/%.*s", STR_ARGS(uuid));
    return 0;
}

int batch_report_number(struct batch_call *c, struct str id, int state, int64_t *ret_number)
{
    struct keeper_stat stat;
    TRY(batch_node_exists(c, &stat, "%s/%.*s", c->store->kinds[BATCH_KIND_BATCH].views[state].dir,
                          STR_ARGS(id)));
    *ret_number = stat.czxid;
    return 0;
}

/* Completion. */

/* The state of a batch after its last job has ended; BATCH_NO_STATE: it stays. */
static int ended_state(struct batch_call *c, const struct batch_item *b, int *ret_state)
{
    const struct batch_store *r = c->store;
    int state = b->status.state;
    struct keeper_stat lock = {0};
    if (state == r->batch.pending)
        TRY(batch_node_stat(c, &lock, "%s/lock", b->path)); /* its holder may add jobs */
    *ret_state = state == r->batch.failed ? r->batch.update_reporting
                 : state == r->batch.processing || (state == r->batch.pending && !lock.czxid)
                     ? r->batch.reporting
                     : BATCH_NO_STATE;
    return 0;
}

int batch_count_change(struct batch_call *c, struct batch_txn *t, const char *bid, int leaving,
                       int coming, int *ret_state)
{
    const char *processing =
        arena_printf(c->a, "/batches/%s/states/%s", bid, BATCH_LISTS[BATCH_LIST_PROCESSING]);
    struct keeper_stat stat;
    struct batch_item b;
    *ret_state = BATCH_NO_STATE;
    TRY(batch_node_exists(c, &stat, "%s", processing));
    txn_set(&t->txn, OP_ANY, NO_BYTES, stat.version, "%s", processing);
    if (stat.child_count + coming != leaving || !leaving)
        return 0;
    TRY(batch_item_read(c, BATCH_KIND_BATCH, str_of(bid), &b));
    TRY(ended_state(c, &b, ret_state));
    return *ret_state == BATCH_NO_STATE
               ? 0
               : batch_item_set_state(c, t, &b, *ret_state, (struct str){0});
}

/* Moving. */

static bool is_reporting(const struct batch_store *r, int state)
{
    return state == r->batch.reporting || state == r->batch.update_reporting;
}

struct str batch_json_ids(struct batch_call *c, const struct keeper_names *ids)
{
    struct buf b = {0};
    json_open(&b, '[');
    for (size_t i = 0; i < ids->count; i++)
        json_put_text(&b, str_of(ids->names[i]));
    json_close(&b, ']');
    return batch_text(c->a, &b);
}

/* Adds status-report to the transaction. It is written by the first report that has failed jobs. */
static int add_report(struct batch_call *c, struct batch_txn *t, const char *bid, struct str failed)
{
    struct keeper_names names;
    struct keeper_stat stat;
    if (!failed.p) {
        TRY(batch_node_children(c, &names, NULL, "/batches/%s/states/%s", bid,
                                BATCH_LISTS[BATCH_LIST_FAILED]));
        failed = batch_json_ids(c, &names);
    }
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
    return batch_item_set_state(c, t, &tr->item, tr->to, tr->move->message);
}

int batch_add_move(struct batch_call *c, struct batch_txn *t, struct batch_transition *tr)
{
    TRY(decide(c, tr));
    TRY(add_state(c, t, tr));
    return is_reporting(c->store, tr->item.status.state)
               ? add_report(c, t, tr->item.id, tr->move->failed)
               : 0;
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
        batch_lock_guard(c, &t, tr.item.path, 0, false);
    err = add_state(c, &t, &tr);
    if (!err)
        err = batch_txn_commit(c, &t, OP_STATUS);
    if (err)
        return batch_is_conflict(err) ? 0 : err;
    batch_publish(c, &tr.item, state, tr.to);
    return 1;
}
