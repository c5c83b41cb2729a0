/* Each item is adopted by one transaction that insists on the status it saw. */
#include "batch/adopt.h"

#include "base/clock.h"
#include "batch/depot.h"
#include "batch/status.h"

struct source {
    const char *dir, *prefix; /* of the items */
    const struct machine *m;
    struct view *views;
    struct adopted *seen;
};

static struct source source_of(struct depot *r, enum adopt_source source)
{
    struct source s = {"/batches", NAME_BATCH, &r->machines.batch, r->batches, &r->adopted[source]};

    if (source != ADOPT_BATCHES) {
        s.dir = source == ADOPT_SMALL ? "/access/small" : "/access/large";
        s.prefix = NAME_ACCESS;
        s.m = &r->machines.access;
        s.views = r->access[source == ADOPT_SMALL ? ACCESS_SMALL : ACCESS_LARGE];
    }
    return s;
}

/* The state of an item. 1: it has none that can be read; NO_NODE: it is not there. */
static int read_state(struct call *c, const struct source *o, const char *id, int *ret_state,
                      int32_t *ret_version)
{
    struct keeper_stat stat;
    struct status s;
    struct str text;
    int err = depot_get(c, &text, &stat, "%s/%s/status", o->dir, id);

    if (err == DROVER_NO_NODE) {
        err = depot_exists(c, NULL, "%s/%s", o->dir, id);
        return err ? err : 1;
    }
    if (err)
        return err;
    if (status_read(o->m, false, c->a, text, &s, NULL))
        return 1; /* rubbish, which fsck names; or it is written in two steps */
    *ret_state = s.state;
    *ret_version = stat.version;
    return 0;
}

/* What this process itself made or moved is in a list already. */
static bool is_listed(const struct source *o, int64_t number)
{
    for (int i = 0; i < o->m->count; i++)
        if (!machine_is_end(o->m, i) && view_has(&o->views[i], number))
            return true;
    return false;
}

/* 0: it stands where it belongs, or is gone. 1: it is not born yet. */
static int adopt_one(struct call *c, const struct source *o, int64_t number)
{
    char id[NAME_ID_LEN + 1];
    struct change t = {.a = c->a};
    int32_t version;
    int state, err;

    if (is_listed(o, number))
        return 0;
    name_id(o->prefix, number, id);
    err = read_state(c, o, id, &state, &version);
    if (err)
        return err == DROVER_NO_NODE ? 0 : err;
    change_check(&t, version, "%s/%s/status", o->dir, id);
    err = depot_relist(c, &t, o->m, o->views, MACHINE_NONE, state, id);
    if (err || t.count == 1)
        return err;
    err = change_commit(&t, c->k, -1);
    return depot_again(err) ? 0 : err;
}

static void remember_unborn(struct depot *r, struct adopted *seen, int64_t number)
{
    pthread_mutex_lock(&r->lock);
    if (seen->unborn_count < ADOPT_UNBORN_MAX)
        seen->unborn[seen->unborn_count++] = number;
    else
        seen->missed = true;
    pthread_mutex_unlock(&r->lock);
}

static int look_at(struct call *c, const struct source *o, int64_t number)
{
    int err = adopt_one(c, o, number);

    if (err == 1)
        remember_unborn(c->depot, o->seen, number);
    return err < 0 ? err : 0;
}

/* Those with a number from `from` on, by the list of all when they may be many. */
static int adopt_from(struct call *c, const struct source *o, int64_t from, int64_t end)
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
        int64_t number = name_number(o->prefix, str_of(names.names[i]));

        if (number >= from)
            err = look_at(c, o, number);
    }
    keeper_names_release(&names);
    return err;
}

/* All of them are taken out and looked at; those that still are not born come back. */
static int adopt_unborn(struct call *c, const struct source *o)
{
    int64_t numbers[ADOPT_UNBORN_MAX], now_ms = clock_boot_ms();
    int count = 0, err = 0;

    pthread_mutex_lock(&c->depot->lock);
    if (now_ms - o->seen->looked_ms >= ADOPT_LOOK_MS) {
        count = o->seen->unborn_count;
        for (int i = 0; i < count; i++)
            numbers[i] = o->seen->unborn[i];
        o->seen->unborn_count = 0;
        o->seen->looked_ms = now_ms;
    }
    pthread_mutex_unlock(&c->depot->lock);
    for (int i = 0; i < count; i++) {
        if (!err)
            err = look_at(c, o, numbers[i]);
        if (err)
            remember_unborn(c->depot, o->seen, numbers[i]);
    }
    return err;
}

int adopt_new(struct call *c, enum adopt_source source)
{
    struct source o = source_of(c->depot, source);
    int64_t next, from;
    int32_t version;
    int err = depot_next_number(c, o.dir, &next, &version);

    if (!err)
        err = adopt_unborn(c, &o);
    if (err)
        return depot_fail(c, err);
    pthread_mutex_lock(&c->depot->lock);
    from = o.seen->next;
    o.seen->next = next > from ? next : from;
    pthread_mutex_unlock(&c->depot->lock);
    if (from >= next)
        return 0;
    err = adopt_from(c, &o, from, next);
    if (!err)
        return 0;
    pthread_mutex_lock(&c->depot->lock);
    if (o.seen->next > from)
        o.seen->next = from;
    pthread_mutex_unlock(&c->depot->lock);
    return depot_fail(c, err);
}

/* An item that stands in the list of a state which it is not in; or that is not there any more. */
static int realign(struct call *c, const struct source *o, const char *id, int listed)
{
    struct change t = {.a = c->a};
    int32_t version;
    int state, err = read_state(c, o, id, &state, &version);

    if (err == 1 || (!err && state == listed))
        return 0;
    if (!err) {
        change_check(&t, version, "%s/%s/status", o->dir, id);
        err = depot_relist(c, &t, o->m, o->views, listed, state, id);
    } else if (err == DROVER_NO_NODE) {
        change_list_remove(&t, &o->views[listed], name_number(o->prefix, str_of(id)));
        err = 0;
    }
    if (!err)
        err = change_commit(&t, c->k, -1);
    return depot_again(err) ? 0 : err;
}

int adopt_sweep(struct call *c, enum adopt_source source)
{
    struct source o = source_of(c->depot, source);
    struct keeper_names names;
    int err = 0;

    pthread_mutex_lock(&c->depot->lock);
    if (o.seen->missed)
        o.seen->next = 0;
    o.seen->missed = false;
    pthread_mutex_unlock(&c->depot->lock);
    for (int state = 0; state < o.m->count && !err; state++) {
        if (machine_is_end(o.m, state))
            continue;
        err = depot_children(c, &names, NULL, "%s", o.views[state].dir);
        for (size_t i = 0; !err && i < names.count; i++)
            if (name_number(o.prefix, str_of(names.names[i])) >= 0)
                err = realign(c, &o, names.names[i], state);
    }
    return err ? depot_fail(c, err) : adopt_new(c, source);
}
