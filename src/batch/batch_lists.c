/*
 * The lists of a batch: /batches/BID/states and what is below it.
 *
 * batch-processing is the list that decides on the end of a batch. A foreign client adds jobs to it
 * one by one, and takes them out and puts them back, so an empty list need not be the end. Drover
 * therefore has to know whether others have changed it, and keeps in its data how many of the
 * changes of its members were Drover's own. The cversion counts all of them. If both agree, only
 * Drover has changed the list, and the transaction that removes the last job makes the report due.
 * Otherwise active.c does so, when the list has been still for a moment. A change that a foreign
 * client makes between the read and the transaction is noticed by the next read, because the number
 * counts what the transaction does, not what it finds.
 */
#include "base/option.h"
#include "batch/item.h"

int batch_add_states(struct batch_call *c, struct batch_txn *t, const char *bid)
{
    const char *path = arena_printf(c->a, "/batches/%s/states", bid);
    return batch_fail(c, txn_create_missing(&t->txn, c->k, path));
}

int batch_add_list(struct batch_call *c, struct batch_txn *t, const char *bid, enum batch_list list)
{
    const char *path = arena_printf(c->a, "/batches/%s/states/%s", bid, BATCH_LISTS[list]);
    TRY(batch_add_states(c, t, bid));
    return batch_fail(c, txn_create_missing(&t->txn, c->k, path));
}

int batch_add_untaken(struct batch_call *c, struct batch_txn *t, const char *bid)
{
    struct keeper_names lists = {0};
    struct keeper_stat stat;
    int err = batch_node_children(c, &lists, NULL, "/batches/%s/states", bid);
    if (err)
        return batch_optional(err);
    for (size_t i = 0; i < lists.count; i++) {
        TRY(batch_node_stat(c, &stat, "/batches/%s/states/%s", bid, lists.names[i]));
        if (stat.child_count)
            return 0;
    }
    for (size_t i = 0; i < lists.count; i++)
        txn_delete(&t->txn, OP_ANY, KEEPER_ANY_VERSION, "/batches/%s/states/%s", bid,
                   lists.names[i]);
    txn_delete(&t->txn, OP_ANY, KEEPER_ANY_VERSION, "/batches/%s/states", bid);
    return 1;
}

/*
 * Reads batch-processing. ret_own: how many of the changes of its members Drover has made. A list
 * without a number was made by a foreign client, or by Drover, whose transactions set it together
 * with each change.
 */
static int read_processing(struct batch_call *c, const char *path, struct keeper_stat *ret_stat,
                           int64_t *ret_own)
{
    struct str data = {0};
    *ret_stat = (struct keeper_stat){0};
    TRY(batch_optional(batch_node_get(c, &data, ret_stat, "%s", path)));
    if (!data.len)
        *ret_own = ret_stat->mzxid == ret_stat->pzxid ? ret_stat->cversion : 0;
    else if (!option_digits(data.p, 0, INT32_MAX, ret_own))
        *ret_own = 0;
    return 0;
}

/* The state of a batch whose last job ends; its own one if the report is not due by that alone. */
static int state_after_last(struct batch_call *c, const struct batch_item *b, int *ret_state)
{
    const struct batch_store *r = c->store;
    int state = *ret_state = b->status.state;
    struct keeper_stat lock;
    if (state == r->batch.failed)
        *ret_state = r->batch.update_reporting;
    if (state != r->batch.processing && state != r->batch.pending)
        return 0;
    TRY(batch_node_stat(c, &lock, "%s/lock", b->path));
    if (!lock.czxid)
        *ret_state = r->batch.reporting;
    return 0;
}

int batch_count_change(struct batch_call *c, struct batch_txn *t, const char *bid, int leaving,
                       int coming, int *ret_state)
{
    const char *processing =
        arena_printf(c->a, "/batches/%s/states/%s", bid, BATCH_LISTS[BATCH_LIST_PROCESSING]);
    struct keeper_stat stat;
    struct batch_item b;
    int64_t own;
    int state;
    *ret_state = BATCH_NO_STATE;
    TRY(read_processing(c, processing, &stat, &own));
    const char *data = arena_printf(c->a, "%lld", (long long)own + leaving + coming);
    if (stat.czxid)
        txn_set(&t->txn, OP_ANY, str_of(data), stat.version, "%s", processing);
    else if (coming)
        TRY(batch_add_list(c, t, bid, BATCH_LIST_PROCESSING));
    if (stat.child_count + coming != leaving || !leaving || own != stat.cversion)
        return 0;
    TRY(batch_item_read(c, BATCH_KIND_BATCH, str_of(bid), &b));
    TRY(state_after_last(c, &b, &state));
    if (state == b.status.state)
        return 0;
    *ret_state = state;
    return batch_add_status(c, t, &b, state, (struct str){0});
}

int batch_failed_jobs(struct batch_call *c, const char *bid, struct str *ret_json)
{
    struct keeper_names ids = {0};
    struct buf b = {0};
    TRY(batch_optional(batch_node_children(c, &ids, NULL, "/batches/%s/states/%s", bid,
                                           BATCH_LISTS[BATCH_LIST_FAILED])));
    json_open(&b, '[');
    for (size_t i = 0; i < ids.count; i++)
        json_put_text(&b, str_of(ids.names[i]));
    json_close(&b, ']');
    *ret_json = arena_take(c->a, &b);
    return 0;
}

int batch_census(struct batch_call *c, const char *bid, struct batch_census *ret)
{
    struct keeper_stat stat;
    for (int i = BATCH_LIST_COUNT - 1; i >= 0; i--) {
        TRY(batch_node_stat(c, &stat, "/batches/%s/states/%s", bid, BATCH_LISTS[i]));
        ret->counts[i] = stat.child_count;
    }
    ret->processing = stat;
    return 0;
}
