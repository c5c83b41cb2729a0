/* Each item is adopted by one transaction that insists on the status it saw. */
#include "batch/index.h"

#include "base/clock.h"
#include "batch/status.h"
#include "batch/store.h"

struct batch_index_source {
    const char *dir, *prefix; /* of the items */
    const struct batch_machine *m;
    struct batch_view *views;
    struct batch_index_state *seen;
};

static struct batch_index_source source_of(struct batch_store *r, enum batch_source source)
{
    struct batch_index_source s = {"/batches", BATCH_ID_BATCH, &r->machines.batch, r->batches,
                                   &r->index[source]};

    if (source != BATCH_SOURCE_BATCHES) {
        s.dir = source == BATCH_SOURCE_SMALL ? "/access/small" : "/access/large";
        s.prefix = BATCH_ID_ACCESS;
        s.m = &r->machines.access;
        s.views = r->access[source == BATCH_SOURCE_SMALL ? ACCESS_SMALL : ACCESS_LARGE];
    }
    return s;
}

/* The state of an item. 1: it has none that can be read; NO_NODE: it is not there. */
static int read_state(struct batch_call *c, const struct batch_index_source *o, const char *id,
                      int *ret_state, int32_t *ret_version)
{
    struct keeper_stat stat;
    struct batch_status s;
    struct str text;
    int err = batch_node_get(c, &text, &stat, "%s/%s/status", o->dir, id);

    if (err == DROVER_NO_NODE) {
        err = batch_node_exists(c, NULL, "%s/%s", o->dir, id);
        return err ? err : 1;
    }
    if (err)
        return err;
    if (batch_status_read(o->m, false, c->a, text, &s, NULL))
        return 1; /* rubbish, which fsck names; or it is written in two steps */
    *ret_state = s.state;
    *ret_version = stat.version;
    return 0;
}

/* What this process itself made or moved is in a list already. */
static bool is_listed(const struct batch_index_source *o, int64_t number)
{
    for (int i = 0; i < o->m->count; i++)
        if (!batch_machine_is_end(o->m, i) && batch_view_has(&o->views[i], number))
            return true;
    return false;
}

/* 0: it stands where it belongs, or is gone. 1: it is not born yet. */
static int index_one(struct batch_call *c, const struct batch_index_source *o, int64_t number)
{
    char id[BATCH_ID_LEN + 1];
    struct batch_change t = {.a = c->a};
    int32_t version;
    int state, err;

    if (is_listed(o, number))
        return 0;
    batch_id(o->prefix, number, id);
    err = read_state(c, o, id, &state, &version);
    if (err)
        return err == DROVER_NO_NODE ? 0 : err;
    batch_change_check(&t, version, "%s/%s/status", o->dir, id);
    err = batch_index_move(c, &t, o->m, o->views, BATCH_NO_STATE, state, id);
    if (err || t.count == 1)
        return err;
    err = batch_change_commit(&t, c->k, -1);
    return batch_is_conflict(err) ? 0 : err;
}

static void remember_incomplete(struct batch_store *r, struct batch_index_state *seen,
                                int64_t number)
{
    pthread_mutex_lock(&r->lock);
    if (seen->incomplete_count < BATCH_INCOMPLETE_MAX)
        seen->incomplete[seen->incomplete_count++] = number;
    else
        seen->missed = true;
    pthread_mutex_unlock(&r->lock);
}

static int look_at(struct batch_call *c, const struct batch_index_source *o, int64_t number)
{
    int err = index_one(c, o, number);

    if (err == 1)
        remember_incomplete(c->store, o->seen, number);
    return err < 0 ? err : 0;
}

/* Those with a number from `from` on, by the list of all when they may be many. */
static int index_from(struct batch_call *c, const struct batch_index_source *o, int64_t from,
                      int64_t end)
{
    enum { FEW = 1000 };
    struct keeper_names names = {0};
    int err = 0;

    if (end - from <= FEW) {
        for (int64_t n = from; n < end && !err; n++)
            err = look_at(c, o, n);
        return err;
    }
    err = keeper_children(c->k, o->dir, &names, NULL);
    for (size_t i = 0; i < names.count && !err; i++) {
        int64_t number = batch_id_number(o->prefix, str_of(names.names[i]));

        if (number >= from)
            err = look_at(c, o, number);
    }
    keeper_names_release(&names);
    return err;
}

/* All of them are taken out and looked at; those that still are not born come back. */
static int retry_incomplete(struct batch_call *c, const struct batch_index_source *o)
{
    int64_t numbers[BATCH_INCOMPLETE_MAX], now_ms = clock_boot_ms();
    int count = 0, err = 0;

    pthread_mutex_lock(&c->store->lock);
    if (now_ms - o->seen->looked_ms >= BATCH_INCOMPLETE_RETRY_MS) {
        count = o->seen->incomplete_count;
        for (int i = 0; i < count; i++)
            numbers[i] = o->seen->incomplete[i];
        o->seen->incomplete_count = 0;
        o->seen->looked_ms = now_ms;
    }
    pthread_mutex_unlock(&c->store->lock);
    for (int i = 0; i < count; i++) {
        if (!err)
            err = look_at(c, o, numbers[i]);
        if (err)
            remember_incomplete(c->store, o->seen, numbers[i]);
    }
    return err;
}

int batch_index_refresh(struct batch_call *c, enum batch_source source)
{
    struct batch_index_source o = source_of(c->store, source);
    int64_t next, from;
    int32_t version;
    int err = batch_next_number(c, o.dir, &next, &version);

    if (!err)
        err = retry_incomplete(c, &o);
    if (err)
        return batch_fail(c, err);
    pthread_mutex_lock(&c->store->lock);
    from = o.seen->next;
    o.seen->next = next > from ? next : from;
    pthread_mutex_unlock(&c->store->lock);
    if (from >= next)
        return 0;
    err = index_from(c, &o, from, next);
    if (!err)
        return 0;
    pthread_mutex_lock(&c->store->lock);
    if (o.seen->next > from)
        o.seen->next = from;
    pthread_mutex_unlock(&c->store->lock);
    return batch_fail(c, err);
}

/* An item that stands in the list of a state which it is not in; or that is not there any more. */
static int realign(struct batch_call *c, const struct batch_index_source *o, const char *id,
                   int listed)
{
    struct batch_change t = {.a = c->a};
    int32_t version;
    int state, err = read_state(c, o, id, &state, &version);

    if (err == 1 || (!err && state == listed))
        return 0;
    if (!err) {
        batch_change_check(&t, version, "%s/%s/status", o->dir, id);
        err = batch_index_move(c, &t, o->m, o->views, listed, state, id);
    } else if (err == DROVER_NO_NODE) {
        batch_change_list_remove(&t, &o->views[listed], batch_id_number(o->prefix, str_of(id)));
        err = 0;
    }
    if (!err)
        err = batch_change_commit(&t, c->k, -1);
    return batch_is_conflict(err) ? 0 : err;
}

int batch_index_sweep(struct batch_call *c, enum batch_source source)
{
    struct batch_index_source o = source_of(c->store, source);
    struct keeper_names names;
    int err = 0;

    pthread_mutex_lock(&c->store->lock);
    if (o.seen->missed)
        o.seen->next = 0;
    o.seen->missed = false;
    pthread_mutex_unlock(&c->store->lock);
    for (int state = 0; state < o.m->count && !err; state++) {
        if (batch_machine_is_end(o.m, state))
            continue;
        err = batch_node_children(c, &names, NULL, "%s", o.views[state].dir);
        for (size_t i = 0; !err && i < names.count; i++)
            if (batch_id_number(o.prefix, str_of(names.names[i])) >= 0)
                err = realign(c, &o, names.names[i], state);
    }
    return err ? batch_fail(c, err) : batch_index_refresh(c, source);
}
