/* Each item is indexed by one transaction that insists on the version of its status. */
#include "base/clock.h"
#include "base/thread.h"
#include "batch/item.h"

int batch_index_move(struct batch_call *c, struct batch_txn *t, const struct batch_item *i,
                     int from, int to)
{
    const struct batch_machine *m = i->kind->machine;
    struct batch_view *views = i->kind->views;
    struct keeper_stat stat = {0};
    if (from != BATCH_NO_STATE && !batch_machine_is_final(m, from)) {
        TRY(batch_node_stat(c, &stat, "%s/%s", views[from].dir, i->id));
        if (stat.czxid)
            batch_txn_list_remove(t, OP_ANY, &views[from], i->number);
    }
    if (batch_machine_is_final(m, to))
        return 0;
    if (from != to)
        TRY(batch_node_stat(c, &stat, "%s/%s", views[to].dir, i->id));
    if (from == to || !stat.czxid)
        batch_txn_list_add(t, OP_ANY, &views[to], i->number);
    return 0;
}

/*
 * 1: the item has no valid status, or one with a state that the machine does not know: it stays
 * where it is listed, and is looked at again. NO_NODE: it does not exist.
 */
static int read_item(struct batch_call *c, struct batch_kind *kind, const char *id,
                     struct batch_item *ret_item)
{
    int err = batch_item_read(c, kind->id, str_of(id), ret_item);
    if (err == DROVER_NO_NODE) {
        err = batch_node_exists(c, NULL, "%s/%s", kind->dir, id);
        return err ? err : 1;
    }
    if (err == DROVER_DAMAGED) /* fsck reports it; or it is written in two steps */
        return 1;
    return err ? err : ret_item->status.state == BATCH_NO_STATE;
}

/* What this process created or moved is in a list already. */
static bool is_listed(struct batch_kind *kind, int64_t number)
{
    for (int i = 0; i < kind->machine->count; i++)
        if (!batch_machine_is_final(kind->machine, i) && batch_view_has(&kind->views[i], number))
            return true;
    return false;
}

static void remember_incomplete(struct batch_call *c, struct batch_index_state *s, int64_t number)
{
    LOCKED(&c->store->lock);
    if (s->incomplete_count < BATCH_INCOMPLETE_MAX)
        s->incomplete[s->incomplete_count++] = number;
    else
        s->missed = true;
}

int batch_index_correct(struct batch_call *c, struct batch_kind *kind, int64_t number, int listed)
{
    char id[BATCH_ID_LEN + 1];
    struct batch_txn t = BATCH_TXN(c);
    struct batch_item i;
    batch_id(kind->prefix, number, id);
    int err = read_item(c, kind, id, &i);
    if (err == 1 && listed == BATCH_NO_STATE)
        remember_incomplete(c, &kind->index, number);
    if (!err && i.status.state != listed) {
        TRY(batch_index_move(c, &t, &i, listed, i.status.state));
        if (t.txn.count)
            txn_check(&t.txn, OP_ANY, i.version, "%s/%s/status", kind->dir, id);
    } else if (err == DROVER_NO_NODE && listed != BATCH_NO_STATE) {
        batch_txn_list_remove(&t, OP_ANY, &kind->views[listed], number);
    } else {
        return err == 1 ? 0 : batch_optional(err);
    }
    bool changes = t.txn.count > 0;
    err = batch_txn_commit(c, &t, OP_ANY);
    return err ? err : changes;
}

/* A conflict is left to the next time; a new item is remembered for that. */
static int try_correct(struct batch_call *c, struct batch_kind *kind, int64_t number, int listed)
{
    CLEANUP(arena_release) struct arena a = {0}; /* there may be many items */
    int err =
        batch_index_correct(&(struct batch_call){c->store, c->k, &a, c->why}, kind, number, listed);
    if (batch_is_conflict(err) && listed == BATCH_NO_STATE)
        remember_incomplete(c, &kind->index, number);
    return err > 0 || batch_is_conflict(err) ? 0 : err;
}

static int index_one(struct batch_call *c, struct batch_kind *kind, int64_t number)
{
    return is_listed(kind, number) ? 0 : try_correct(c, kind, number, BATCH_NO_STATE);
}

/* Indexes the items from a number on; reads the list of all items if they may be many. */
static int index_from(struct batch_call *c, struct batch_kind *kind, int64_t from, int64_t end)
{
    enum { FEW = 1000 };
    struct keeper_names names;

    if (end - from <= FEW) {
        for (int64_t n = from; n < end; n++)
            TRY(index_one(c, kind, n));
        return 0;
    }
    TRY(batch_node_children(c, &names, NULL, "%s", kind->dir));
    for (size_t i = 0; i < names.count; i++) {
        int64_t number = batch_id_number(kind->prefix, str_of(names.names[i]));
        if (number >= from)
            TRY(index_one(c, kind, number));
    }
    return 0;
}

/* Removes all incomplete items and looks at them; those that still are incomplete come back. */
static int retry_incomplete(struct batch_call *c, struct batch_kind *kind, bool now)
{
    int64_t numbers[BATCH_INCOMPLETE_MAX], now_ms = clock_boot_ms();
    struct batch_index_state *s = &kind->index;
    int count = 0, err = 0;
    pthread_mutex_lock(&c->store->lock);
    if (now || now_ms - s->retried_ms >= BATCH_INCOMPLETE_RETRY_MS) {
        count = s->incomplete_count;
        memcpy(numbers, s->incomplete, (size_t)count * sizeof *numbers);
        s->incomplete_count = 0;
        s->retried_ms = now_ms;
    }
    pthread_mutex_unlock(&c->store->lock);
    for (int i = 0; i < count; i++) {
        if (!err)
            err = index_one(c, kind, numbers[i]);
        if (err)
            remember_incomplete(c, s, numbers[i]);
    }
    return err;
}

static bool has_work(struct batch_call *c, const struct batch_index_state *s, int64_t next)
{
    LOCKED(&c->store->lock);
    return next > s->next || s->incomplete_count;
}

int batch_index_refresh(struct batch_call *c, enum batch_kind_id id, bool now)
{
    struct batch_kind *kind = &c->store->kinds[id];
    struct batch_index_state *s = &kind->index;
    int64_t next;
    int32_t version;
    TRY(batch_next_number(c, kind, &next, &version));
    if (!now && !has_work(c, s, next))
        return 0;
    LOCKED(&c->store->indexing); /* what another thread is indexing is done afterwards */
    TRY(retry_incomplete(c, kind, now));
    pthread_mutex_lock(&c->store->lock);
    int64_t from = s->next;
    s->next = next > from ? next : from;
    pthread_mutex_unlock(&c->store->lock);
    int err = from < next ? index_from(c, kind, from, next) : 0;
    LOCKED(&c->store->lock);
    if (err && s->next > from)
        s->next = from;
    return err;
}

bool batch_index_is_incomplete(struct batch_call *c, enum batch_kind_id id)
{
    LOCKED(&c->store->lock);
    return c->store->kinds[id].index.incomplete_count > 0;
}

int batch_index_sweep(struct batch_call *c, enum batch_kind_id id)
{
    struct batch_kind *kind = &c->store->kinds[id];
    struct keeper_names names;
    pthread_mutex_lock(&c->store->lock);
    if (kind->index.missed)
        kind->index.next = 0;
    kind->index.missed = false;
    pthread_mutex_unlock(&c->store->lock);
    for (int state = 0; state < kind->machine->count; state++) {
        if (batch_machine_is_final(kind->machine, state))
            continue;
        TRY(batch_node_children(c, &names, NULL, "%s", kind->views[state].dir));
        for (size_t i = 0; i < names.count; i++) {
            int64_t number = batch_id_number(kind->prefix, str_of(names.names[i]));
            if (number >= 0)
                TRY(try_correct(c, kind, number, state));
        }
    }
    return batch_index_refresh(c, id, true);
}
