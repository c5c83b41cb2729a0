/*
 * All lists are read once and sorted by job, so that the places of a job are found without reading
 * again. What looks wrong is read again right before it is repaired, because others keep working.
 */
#include "batch/repair.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "batch/item.h"

void batch_repair_report(struct batch_repair *f, bool repaired, const char *id, const char *fmt,
                         ...)
{
    char problem[400];
    va_list args;

    va_start(args, fmt);
    vsnprintf(problem, sizeof problem, fmt, args);
    va_end(args);
    f->totals.findings++;
    f->totals.repaired += repaired;
    f->fn(f->arg, &(struct batch_finding){id, problem, repaired});
}

bool batch_repair_commit(struct batch_repair *f, struct batch_txn *t)
{
    return f->repair && batch_txn_commit(f->c, t, OP_ANY) == 0;
}

static void add_place(struct batch_places *p, struct batch_place place)
{
    if (p->count == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 256;
        p->list = mem_realloc(p->list, p->cap * sizeof *p->list);
    }
    p->list[p->count++] = place;
}

static int by_job(const void *a, const void *b)
{
    const struct batch_place *x = a, *y = b;
    return x->job < y->job ? -1 : x->job > y->job;
}

static void sort(struct batch_places *p)
{
    if (p->count)
        qsort(p->list, p->count, sizeof *p->list, by_job);
}

size_t batch_repair_places(const struct batch_places *p, int64_t job,
                           const struct batch_place **ret_first)
{
    size_t low = 0, high = p->count, count = 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (p->list[middle].job < job)
            low = middle + 1;
        else
            high = middle;
    }
    while (low + count < p->count && p->list[low + count].job == job)
        count++;
    *ret_first = p->list + low;
    return count;
}

/*
 * Calls fn for each child of a node that is an entry with that prefix, until it fails, and reports
 * the others, which are not `what`.
 */
static int each_child(struct batch_repair *f, const char *dir, const char *prefix, bool priority,
                      const char *what,
                      int (*fn)(struct batch_repair *f, const char *name, int64_t key, void *arg),
                      void *arg)
{
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    int err = keeper_children(f->c->k, dir, &names, NULL);

    for (size_t i = 0; i < names.count && !err; i++) {
        int64_t key = batch_entry_key(prefix, priority, str_of(names.names[i]));
        if (key >= 0)
            err = fn(f, names.names[i], key, arg);
        else if (what && (strcmp(dir, "/jobs") != 0 || strcmp(names.names[i], "states") != 0))
            batch_repair_report(f, false, arena_printf(f->c->a, "%s/%s", dir, names.names[i]),
                                "this is not %s", what);
    }
    return err;
}

/* Reading. */

static int add_state_place(struct batch_repair *f, const char *name, int64_t key, void *arg)
{
    (void)name;
    add_place(&f->states, (struct batch_place){key % BATCH_ID_COUNT, key, *(int *)arg});
    return 0;
}

static int read_states(struct batch_repair *f)
{
    const struct batch_kind *jobs = &f->c->store->kinds[BATCH_KIND_JOB];
    int err = 0;

    for (int i = 0; i < jobs->machine->count && !err; i++)
        err = each_child(f, jobs->views[i].dir, BATCH_ID_JOB, true, "an entry of a job, PP-JID",
                         add_state_place, &i);
    sort(&f->states);
    return err;
}

static int add_list_place(struct batch_repair *f, const char *name, int64_t key, void *arg)
{
    struct batch_place place = *(struct batch_place *)arg;

    (void)name;
    place.job = key;
    add_place(&f->lists, place);
    return 0;
}

/* Creates the lists of a batch that are missing. */
static int read_lists(struct batch_repair *f, const char *bid, int64_t number, void *arg)
{
    struct batch_call *c = f->c;
    int err = 0;

    (void)arg;
    f->totals.batches++;
    for (int i = 0; i < BATCH_LIST_COUNT && !err; i++) {
        const char *path = arena_printf(c->a, "/batches/%s/states/%s", bid, BATCH_LISTS[i]);
        struct batch_place place = {.key = number, .where = i};
        struct batch_txn t = BATCH_TXN(c);

        err = each_child(f, path, BATCH_ID_JOB, false, "a job", add_list_place, &place);
        if (err != DROVER_NO_NODE)
            continue;
        if (batch_node_exists(c, NULL, "/batches/%s/states", bid) == DROVER_NO_NODE)
            txn_create(&t.txn, OP_ANY, NO_BYTES, 0, "/batches/%s/states", bid);
        txn_create(&t.txn, OP_ANY, NO_BYTES, 0, "%s", path);
        batch_repair_report(f, batch_repair_commit(f, &t), bid, "%s is missing", BATCH_LISTS[i]);
        err = 0;
    }
    return err;
}

/* Checking. */

static int check_job(struct batch_repair *f, const char *jid, int64_t number, void *arg)
{
    (void)number, (void)arg;
    f->totals.jobs++;
    return batch_repair_job(f, jid);
}

void batch_repair_leave_list(struct batch_repair *f, struct batch_txn *t,
                             const struct batch_place *p, const char *jid)
{
    char bid[BATCH_ID_LEN + 1];
    int batch_to;

    batch_id(BATCH_ID_BATCH, p->key, bid);
    txn_delete(&t->txn, OP_ANY, KEEPER_ANY_VERSION, "/batches/%s/states/%s/%s", bid,
               BATCH_LISTS[p->where], jid);
    if (p->where == BATCH_LIST_PROCESSING)
        batch_count_change(f->c, t, bid, 0, 0, &batch_to);
}

/*
 * Removes an entry of a job that does not exist: in the list of a state, or in a list of a batch.
 */
static void check_entry(struct batch_repair *f, const struct batch_place *p, bool of_state)
{
    struct batch_call *c = f->c;
    struct batch_view *v = &c->store->kinds[BATCH_KIND_JOB].views[of_state ? p->where : 0];
    struct batch_txn t = BATCH_TXN(c);
    char id[BATCH_ID_LEN + 1], bid[BATCH_ID_LEN + 1];
    const char *list = v->dir, *entry = id;
    struct batch_entry_name name;

    batch_id(BATCH_ID_JOB, p->job, id);
    if (of_state) {
        name = batch_view_entry(v, p->key);
        entry = name.text;
    } else {
        batch_id(BATCH_ID_BATCH, p->key, bid);
        list = arena_printf(c->a, "/batches/%s/states/%s", bid, BATCH_LISTS[p->where]);
    }
    if (batch_node_exists(c, NULL, "/jobs/%s", id) != DROVER_NO_NODE ||
        batch_node_exists(c, NULL, "%s/%s", list, entry))
        return;
    if (of_state)
        batch_txn_list_remove(&t, OP_ANY, v, p->key);
    else
        batch_repair_leave_list(f, &t, p, id);
    batch_repair_report(f, batch_repair_commit(f, &t), id, "it is in %s but does not exist", list);
}

static void check_entries(struct batch_repair *f)
{
    for (size_t i = 0; i < f->states.count; i++)
        check_entry(f, &f->states.list[i], true);
    for (size_t i = 0; i < f->lists.count; i++)
        check_entry(f, &f->lists.list[i], false);
}

/* Adds that an item is in the list of its state and in no other. */
static int add_index_repair(struct batch_repair *f, struct batch_txn *t,
                            const struct batch_item *item)
{
    const struct batch_machine *m = item->kind->machine;
    struct batch_view *views = item->kind->views;

    for (int i = 0; i < m->count; i++) {
        if (batch_machine_is_final(m, i))
            continue;
        int err = batch_node_exists(f->c, NULL, "%s/%s", views[i].dir, item->id);
        if (err && err != DROVER_NO_NODE)
            return err;
        if (!err && i != item->status.state)
            batch_txn_list_remove(t, OP_ANY, &views[i], item->number);
        else if (err && i == item->status.state)
            batch_txn_list_add(t, OP_ANY, &views[i], item->number);
    }
    return 0;
}

/* An item that moved between the reading of its status and of the lists is not reported. */
static int check_index(struct batch_repair *f, const struct batch_item *i)
{
    const char *status = arena_printf(f->c->a, "%s/%s/status", i->kind->dir, i->id);
    struct batch_txn t = BATCH_TXN(f->c);
    struct keeper_stat stat;

    txn_check(&t.txn, OP_ANY, i->version, "%s", status);
    int err = add_index_repair(f, &t, i);
    if (err || t.txn.count == 1)
        return err;
    if (batch_node_exists(f->c, &stat, "%s", status) == 0 && stat.version == i->version)
        batch_repair_report(f, batch_repair_commit(f, &t), i->id,
                            "it is %s but is not in that list below /drover, or also in another",
                            i->kind->machine->states[i->status.state].name);
    return 0;
}

/* A batch whose jobs have all ended, and that has not noticed. */
static void check_completion(struct batch_repair *f, const struct batch_item *b)
{
    const struct batch_store *r = f->c->store;
    int state = b->status.state;
    int64_t ended = b->counts[BATCH_LIST_FAILED] + b->counts[BATCH_LIST_COMPLETED] +
                    b->counts[BATCH_LIST_DELETED];

    if ((state != r->batch.processing && (state != r->batch.pending || b->token)) ||
        b->counts[BATCH_LIST_PROCESSING] || !ended ||
        batch_node_exists(f->c, NULL, "/batches/%s/states/%s", b->id, BATCH_LISTS[0]))
        return;
    batch_repair_report(f, f->repair && batch_settle(f->c, b->id) == 1, b->id,
                        "all its jobs have ended, but it is still %s",
                        r->machines.batch.states[state].name);
}

static int check_item(struct batch_repair *f, const char *id, int64_t number, void *arg)
{
    const struct batch_kind *kind = arg;
    struct batch_call *c = f->c;
    struct batch_item i;
    int err = batch_item_get(c, kind->id, str_of(id), &i);

    (void)number;
    if (err == DROVER_NO_NODE || err == DROVER_DAMAGED) {
        if (batch_node_exists(c, NULL, "%s/%s", kind->dir, id) == 0)
            batch_repair_report(
                f, false,
                kind->id == BATCH_KIND_BATCH ? id : arena_printf(c->a, "%s/%s", kind->dir, id),
                "%s", err == DROVER_DAMAGED ? c->why->text : "it has no status");
        return 0;
    }
    if (!err)
        err = check_index(f, &i);
    if (!err && kind->id == BATCH_KIND_BATCH)
        check_completion(f, &i);
    return err;
}

static int check_uuids(struct batch_repair *f)
{
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    int err = keeper_children(f->c->k, "/batch-uuids", &names, NULL);

    for (size_t i = 0; i < names.count && !err; i++) {
        const char *path = arena_printf(f->c->a, "/batch-uuids/%s", names.names[i]);
        struct batch_txn t = BATCH_TXN(f->c);
        struct keeper_stat stat;
        struct str bid;

        if (batch_node_get(f->c, &bid, &stat, "%s", path))
            continue;
        if (batch_id_number(BATCH_ID_BATCH, bid) >= 0 &&
            batch_node_exists(f->c, NULL, "/batches/%.*s", STR_ARGS(bid)) != DROVER_NO_NODE)
            continue;
        txn_check(&t.txn, OP_ANY, stat.version, "%s", path);
        txn_delete(&t.txn, OP_ANY, KEEPER_ANY_VERSION, "%s", path);
        batch_repair_report(f, batch_repair_commit(f, &t), path, "its batch '%.*s' does not exist",
                            (int)(bid.len < 50 ? bid.len : 50), bid.p);
    }
    return err;
}

int batch_repair_run(struct batch_call *c, bool repair, batch_finding_fn *fn, void *arg,
                     struct batch_repair_totals *ret_totals)
{
    struct batch_repair f = {.c = c, .repair = repair, .fn = fn, .arg = arg};
    struct batch_kind *kinds = c->store->kinds;
    int err = read_states(&f);

    if (!err)
        err = each_child(&f, "/batches", BATCH_ID_BATCH, false, "a batch", read_lists, NULL);
    sort(&f.lists);
    if (!err)
        err = each_child(&f, "/jobs", BATCH_ID_JOB, false, "a job", check_job, NULL);
    if (!err) {
        check_entries(&f);
        err = each_child(&f, "/batches", BATCH_ID_BATCH, false, NULL, check_item,
                         &kinds[BATCH_KIND_BATCH]);
    }
    if (!err)
        err = check_uuids(&f);
    for (int i = BATCH_KIND_SMALL; i <= BATCH_KIND_LARGE && !err; i++)
        err = each_child(&f, kinds[i].dir, BATCH_ID_ACCESS, false, "an access item", check_item,
                         &kinds[i]);
    free(f.states.list);
    free(f.lists.list);
    if (err)
        return batch_fail(c, err);
    *ret_totals = f.totals;
    return 0;
}
