/*
 * All lists are read once and sorted by job, so that the places of a job are found without reading
 * again. What looks wrong is read again right before it is reported or repaired, because others
 * keep working. An entry that was added to a list in between, and is wrong there, is left to the
 * next run.
 */
#include "batch/repair.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

enum { PLACES_MAX = 32 };                 /* of one job */
enum { WAITS_EACH = 10, WAITS_MAX = 50 }; /* for a job, in a run */

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
    f->o.fn(f->o.arg, id, problem, repaired);
}

bool batch_repair_commit(struct batch_repair *f, struct batch_txn *t)
{
    return f->o.repair && batch_txn_commit(f->c, t, OP_ANY) == 0;
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
    TRY(batch_fail(f->c, keeper_children(f->c->k, dir, &names, NULL)));
    for (size_t i = 0; i < names.count; i++) {
        int64_t key = batch_entry_key(prefix, priority, str_of(names.names[i]));
        if (key >= 0)
            TRY(fn(f, names.names[i], key, arg));
        else if (what && (strcmp(dir, "/jobs") != 0 || strcmp(names.names[i], "states") != 0))
            batch_repair_report(f, false, arena_printf(f->c->a, "%s/%s", dir, names.names[i]),
                                "this is not %s", what);
    }
    return 0;
}

/* Reading the places. */

/* arg: the place, without the job. The entry of a state has a key; a list of a batch has JIDs. */
static int add_place(struct batch_repair *f, const char *name, int64_t key, void *arg)
{
    struct batch_place place = *(struct batch_place *)arg;
    (void)name;
    place.job = key % BATCH_ID_COUNT;
    if (!place.of_batch)
        place.key = key;
    mem_grow(f->places, f->count, f->cap);
    f->places[f->count++] = place;
    return 0;
}

/* A list that does not exist is an empty one. */
static int read_lists(struct batch_repair *f, const char *bid, int64_t number, void *arg)
{
    (void)arg;
    arena_reset(f->c->a);
    f->totals.batches++;
    for (int i = 0; i < BATCH_LIST_COUNT; i++) {
        const char *path = arena_printf(f->c->a, "/batches/%s/states/%s", bid, BATCH_LISTS[i]);
        struct batch_place place = {.key = number, .of_batch = true, .where = i};
        TRY(batch_optional(each_child(f, path, BATCH_ID_JOB, false, "a job", add_place, &place)));
    }
    return 0;
}

static int by_job(const void *a, const void *b)
{
    const struct batch_place *x = a, *y = b;
    return x->job < y->job ? -1 : x->job > y->job;
}

size_t batch_repair_places(const struct batch_repair *f, int64_t job,
                           const struct batch_place **ret_first)
{
    size_t low = 0, high = f->count, count = 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (f->places[middle].job < job)
            low = middle + 1;
        else
            high = middle;
    }
    while (low + count < f->count && f->places[low + count].job == job)
        count++;
    *ret_first = f->places + low;
    return count;
}

/* The list of a place; ret_entry: the name in it. */
static const char *list_of(struct batch_repair *f, const struct batch_place *p, char *ret_entry)
{
    const struct batch_view *v = &f->c->store->kinds[BATCH_KIND_JOB].views[p->where];
    char bid[BATCH_ID_LEN + 1];
    if (!p->of_batch) {
        memcpy(ret_entry, batch_view_entry(v, p->key).text, BATCH_ENTRY_LEN + 1);
        return v->dir;
    }
    batch_id(BATCH_ID_JOB, p->job, ret_entry);
    batch_id(BATCH_ID_BATCH, p->key, bid);
    return arena_printf(f->c->a, "/batches/%s/states/%s", bid, BATCH_LISTS[p->where]);
}

void batch_repair_leave(struct batch_repair *f, struct batch_txn *t, const struct batch_place *p,
                        int64_t own)
{
    char bid[BATCH_ID_LEN + 1], jid[BATCH_ID_LEN + 1];
    int batch_to;
    if (!p->of_batch) {
        batch_txn_list_remove(t, OP_ANY, &f->c->store->kinds[BATCH_KIND_JOB].views[p->where],
                              p->key);
        return;
    }
    batch_id(BATCH_ID_BATCH, p->key, bid);
    batch_id(BATCH_ID_JOB, p->job, jid);
    batch_txn_job_list(t, OP_ANY, bid, (enum batch_list)p->where, jid, false);
    if (p->where == BATCH_LIST_PROCESSING && p->key != own)
        batch_count_change(f->c, t, bid, 0, 0, &batch_to);
}

/* Checking a job whose places do not agree with its status. */

struct batch_placement {
    struct batch_place right[2];          /* where it belongs: of its state, of its batch */
    struct batch_place found[PLACES_MAX]; /* that have it now */
    int count;
    int right_count[2], own_count, state_count, other_count;
};

/* In the list of its state, an entry with another priority is as good. */
static bool is_right(const struct batch_placement *s, const struct batch_place *p)
{
    return p->where == s->right[p->of_batch].where && (!p->of_batch || p->key == s->right[1].key);
}

static void expect(const struct batch_item *j, struct batch_placement *ret)
{
    *ret = (struct batch_placement){
        .right = {{j->number, batch_key(j->priority, j->number), false, j->status.state},
                  {j->number, batch_id_number(BATCH_ID_BATCH, str_of(j->bid)), true,
                   (int)j->kind->machine->states[j->status.state].list}}};
}

/* Adds a place that has the job now, unless it was added. */
static int look_in(struct batch_repair *f, struct batch_placement *s, const struct batch_place *p)
{
    char entry[BATCH_ENTRY_LEN + 1];
    struct keeper_stat stat;
    for (int i = 0; i < s->count; i++) {
        const struct batch_place *other = &s->found[i];
        if (other->of_batch == p->of_batch && other->key == p->key && other->where == p->where)
            return 0;
    }
    const char *list = list_of(f, p, entry);
    TRY(batch_node_stat(f->c, &stat, "%s/%s", list, entry));
    if (!stat.czxid || s->count == PLACES_MAX)
        return 0;
    s->found[s->count++] = *p;
    s->right_count[p->of_batch] += is_right(s, p);
    s->state_count += !p->of_batch;
    s->own_count += p->of_batch && p->key == s->right[1].key;
    s->other_count += p->of_batch && p->key != s->right[1].key;
    return 0;
}

static int read_placement(struct batch_repair *f, const struct batch_item *j,
                          struct batch_placement *ret)
{
    const struct batch_place *known;
    size_t count = batch_repair_places(f, j->number, &known);
    expect(j, ret);
    for (size_t i = 0; i < count; i++)
        TRY(look_in(f, ret, &known[i]));
    TRY(look_in(f, ret, &ret->right[0]));
    for (int l = 0; l < BATCH_LIST_COUNT; l++)
        TRY(look_in(f, ret, &(struct batch_place){j->number, ret->right[1].key, true, l}));
    return 0;
}

static const char *what_is_wrong(const struct batch_placement *s)
{
    return s->state_count == 0  ? "is in no list of a state"
           : s->state_count > 1 ? "is in more than one list of a state"
           : !s->right_count[0] ? "is in the list of another state"
           : s->own_count == 0  ? "is in no list of its batch"
           : s->own_count > 1   ? "is in more than one list of its batch"
           : !s->right_count[1] ? "is in the wrong list of its batch"
           : s->other_count     ? "is in a list of another batch"
                                : NULL;
}

/* Moves a job to the lists of its status, in one transaction. Keeps the first right entry. */
static bool put_right(struct batch_repair *f, const struct batch_item *j,
                      const struct batch_placement *s)
{
    struct batch_txn t = BATCH_TXN(f->c);
    bool kept[2] = {false, false};
    int batch_to;
    txn_check(&t.txn, OP_ANY, j->version, "/jobs/%s/status", j->id);
    for (int i = 0; i < s->count; i++) {
        const struct batch_place *p = &s->found[i];
        if (is_right(s, p) && !kept[p->of_batch])
            kept[p->of_batch] = true;
        else
            batch_repair_leave(f, &t, p, s->right[1].key);
    }
    if (!kept[0])
        batch_txn_list_add(&t, OP_ANY, &j->kind->views[s->right[0].where], s->right[0].key);
    if (!kept[1] && batch_add_list(f->c, &t, j->bid, (enum batch_list)s->right[1].where))
        return false;
    if (!kept[1])
        batch_txn_job_list(&t, OP_ANY, j->bid, (enum batch_list)s->right[1].where, j->id, true);
    return batch_count_change(f->c, &t, j->bid, 0, 0, &batch_to) == 0 && batch_repair_commit(f, &t);
}

/*
 * If the job moved between the reading of its status and of its places, reads both again. A foreign
 * client moves it in steps, which take a moment: what is wrong is looked at again after a while.
 */
static int check_places(struct batch_repair *f, struct batch_item *j)
{
    struct batch_call *c = f->c;
    struct batch_placement s;
    const char *wrong = NULL;

    for (int i = 0; i < BATCH_TRIES; i++) {
        int32_t version = j->version;

        TRY(read_placement(f, j, &s));
        wrong = what_is_wrong(&s);
        if (!wrong)
            return 0;
        int err = batch_item_read(c, BATCH_KIND_JOB, str_of(j->id), j);
        if (err || j->status.state == BATCH_NO_STATE)
            return err == DROVER_NO_NODE || err == DROVER_DAMAGED ? 0 : err;
        if (j->version == version && (!f->o.wait_ms || i >= WAITS_EACH || f->waits++ >= WAITS_MAX))
            break;
        batch_repair_wait(f->o.wait_ms / WAITS_EACH);
    }
    bool locked = batch_node_exists(c, NULL, "/jobs/%s/lock", j->id) == 0;
    batch_repair_report(f, !locked && put_right(f, j, &s), j->id, "it is %s but %s%s",
                        j->kind->machine->states[j->status.state].name, wrong,
                        locked ? " (locked: in use)" : "");
    return 0;
}

/* By the lists as they were read. */
static bool looks_right(struct batch_repair *f, const struct batch_item *j)
{
    const struct batch_place *known;
    struct batch_placement s;
    expect(j, &s);
    return batch_repair_places(f, j->number, &known) == 2 &&
           known[0].of_batch != known[1].of_batch && is_right(&s, &known[0]) &&
           is_right(&s, &known[1]);
}

/* In a state that the machine does not have: repaired by whoever knows which lists belong to it. */
static int check_unknown(struct batch_repair *f, const struct batch_item *j)
{
    struct batch_item now;
    int entry;
    TRY(batch_job_locate(f->c, j, &entry));
    if (entry < 0 && batch_item_read(f->c, BATCH_KIND_JOB, str_of(j->id), &now) == 0 &&
        now.version == j->version)
        batch_repair_report(
            f, false, j->id,
            "it is %.*s, which is not a state of this pipeline, but is not in that list",
            STR_ARGS(j->status.name));
    return 0;
}

static int check_job(struct batch_repair *f, const char *jid, int64_t number, void *arg)
{
    struct batch_call *c = f->c;
    struct batch_item j;
    arena_reset(c->a);
    int err = batch_item_read(c, BATCH_KIND_JOB, str_of(jid), &j);
    (void)number, (void)arg;
    f->totals.jobs++;
    if (err == DROVER_DAMAGED || err == DROVER_NO_NODE)
        return batch_repair_incomplete(f, &c->store->kinds[BATCH_KIND_JOB], jid, err);
    TRY(err);
    if (batch_node_exists(c, NULL, "/batches/%s", j.bid) == DROVER_NO_NODE) {
        batch_repair_report(f, false, jid, "its batch %s does not exist", j.bid);
        return 0;
    }
    if (j.status.state == BATCH_NO_STATE)
        return check_unknown(f, &j);
    return looks_right(f, &j) ? 0 : check_places(f, &j);
}

/* Checking the rest. */

/* Removes an entry of a job that does not exist. */
static void check_place(struct batch_repair *f, const struct batch_place *p)
{
    struct batch_txn t = BATCH_TXN(f->c);
    char entry[BATCH_ENTRY_LEN + 1], id[BATCH_ID_LEN + 1];
    arena_reset(f->c->a);
    batch_id(BATCH_ID_JOB, p->job, id);
    if (batch_node_exists(f->c, NULL, "/jobs/%s", id) != DROVER_NO_NODE)
        return;
    const char *list = list_of(f, p, entry);
    if (batch_node_exists(f->c, NULL, "%s/%s", list, entry))
        return;
    batch_repair_leave(f, &t, p, -1);
    batch_repair_report(f, batch_repair_commit(f, &t), id, "it is in %s but does not exist", list);
}

static int check_uuids(struct batch_repair *f)
{
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    TRY(keeper_children(f->c->k, "/batch-uuids", &names, NULL));
    for (size_t i = 0; i < names.count; i++, arena_reset(f->c->a)) {
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
    return 0;
}

static int run(struct batch_repair *f)
{
    struct batch_kind *kinds = f->c->store->kinds, *jobs = &kinds[BATCH_KIND_JOB];
    for (int i = 0; i < BATCH_KINDS; i++) /* what others moved is not a finding */
        if (i != BATCH_KIND_JOB)
            TRY(batch_index_sweep(f->c, (enum batch_kind_id)i));
    for (int i = 0; i < jobs->machine->count; i++)
        TRY(each_child(f, jobs->views[i].dir, BATCH_ID_JOB, true, "an entry of a job, PP-JID",
                       add_place, &(struct batch_place){.where = i}));
    TRY(each_child(f, "/batches", BATCH_ID_BATCH, false, "a batch", read_lists, NULL));
    if (f->count)
        qsort(f->places, f->count, sizeof *f->places, by_job);
    TRY(each_child(f, "/jobs", BATCH_ID_JOB, false, "a job", check_job, NULL));
    for (int of_batch = 0; of_batch <= 1; of_batch++)
        for (size_t i = 0; i < f->count; i++)
            if (f->places[i].of_batch == of_batch)
                check_place(f, &f->places[i]);
    TRY(each_child(f, "/batches", BATCH_ID_BATCH, false, NULL, batch_repair_item,
                   &kinds[BATCH_KIND_BATCH]));
    TRY(check_uuids(f));
    for (int i = BATCH_KIND_SMALL; i <= BATCH_KIND_LARGE; i++)
        TRY(each_child(f, kinds[i].dir, BATCH_ID_ACCESS, false, "an access item", batch_repair_item,
                       &kinds[i]));
    batch_repair_ended(f);
    return 0;
}

int batch_repair_run(struct batch_call *c, const struct batch_repair_options *o,
                     struct batch_repair_totals *ret_totals)
{
    CLEANUP(arena_release) struct arena a = {0}; /* emptied for each item */
    struct batch_call own = {c->store, c->k, &a, c->why};
    struct batch_repair f = {.c = &own, .o = *o};
    int err = run(&f);
    free(f.places);
    free(f.ended);
    if (!err)
        *ret_totals = f.totals;
    return err;
}
