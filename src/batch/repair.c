/*
 * All lists are read once and sorted by job, so that a job's places are found without asking the tree
 * again; what looks wrong is then read anew, right before it is repaired, because others work on.
 */
#include "batch/repair_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "batch/access.h"
#include "batch/batch.h"
#include "batch/job.h"

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

bool batch_repair_commit(struct batch_repair *f, struct batch_change *t)
{
    return f->repair && batch_change_commit(t, f->c->k, -1) == 0;
}

static void add_place(struct batch_places *p, int64_t job, int64_t key, int where)
{
    if (p->count == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 256;
        p->list = mem_realloc(p->list, p->cap * sizeof *p->list);
    }
    p->list[p->count++] = (struct batch_place){job, key, where};
}

static int by_job(const void *a, const void *b)
{
    const struct batch_place *x = a, *y = b;

    return x->job < y->job ? -1 : x->job > y->job;
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

/* Reading. */

static int read_states(struct batch_repair *f)
{
    const struct batch_machine *m = &f->c->store->machines.job;
    int err = 0;

    for (int i = 0; i < m->count && !err; i++) {
        struct keeper_names names = {0};

        err = keeper_children(f->c->k, f->c->store->jobs[i].dir, &names, NULL);
        for (size_t n = 0; n < names.count; n++) {
            int64_t key = batch_entry_key(BATCH_ID_JOB, true, str_of(names.names[n]));

            if (key >= 0)
                add_place(&f->states, key % BATCH_ID_COUNT, key, i);
            else
                batch_repair_report(
                    f, false,
                    arena_printf(f->c->a, "%s/%s", f->c->store->jobs[i].dir, names.names[n]),
                    "this is no entry of a job, PP-JID");
        }
        keeper_names_release(&names);
    }
    if (f->states.count)
        qsort(f->states.list, f->states.count, sizeof *f->states.list, by_job);
    return err;
}

/* A list of a batch that is missing is made. */
static int read_list(struct batch_repair *f, const char *bid, int list)
{
    struct batch_call *c = f->c;
    struct keeper_names names = {0};
    const char *path = arena_printf(c->a, "/batches/%s/states/%s", bid, BATCH_LISTS[list]);
    int err = keeper_children(c->k, path, &names, NULL);

    if (err == DROVER_NO_NODE) {
        struct batch_change t = {.a = c->a};

        if (batch_node_exists(c, NULL, "/batches/%s/states", bid) == DROVER_NO_NODE)
            batch_change_create(&t, NO_BYTES, 0, "/batches/%s/states", bid);
        batch_change_create(&t, NO_BYTES, 0, "%s", path);
        batch_repair_report(f, batch_repair_commit(f, &t), bid, "%s is missing", BATCH_LISTS[list]);
        return 0;
    }
    for (size_t n = 0; n < names.count; n++) {
        int64_t job = batch_id_number(BATCH_ID_JOB, str_of(names.names[n]));

        if (job >= 0)
            add_place(&f->lists, job, batch_id_number(BATCH_ID_BATCH, str_of(bid)), list);
        else
            batch_repair_report(f, false, arena_printf(c->a, "%s/%s", path, names.names[n]),
                                "this is no job");
    }
    keeper_names_release(&names);
    return err;
}

static int read_batches(struct batch_repair *f)
{
    struct keeper_names names = {0};
    int err = keeper_children(f->c->k, "/batches", &names, NULL);

    for (size_t i = 0; i < names.count && !err; i++) {
        if (batch_id_number(BATCH_ID_BATCH, str_of(names.names[i])) < 0) {
            batch_repair_report(f, false, arena_printf(f->c->a, "/batches/%s", names.names[i]),
                                "this is no batch");
            continue;
        }
        f->totals.batches++;
        for (int list = 0; list < BATCH_LIST_COUNT && !err; list++)
            err = read_list(f, names.names[i], list);
    }
    keeper_names_release(&names);
    if (f->lists.count)
        qsort(f->lists.list, f->lists.count, sizeof *f->lists.list, by_job);
    return err;
}

/* Jobs. */

static int check_jobs(struct batch_repair *f)
{
    struct keeper_names names = {0};
    int err = keeper_children(f->c->k, "/jobs", &names, NULL);

    for (size_t i = 0; i < names.count && !err; i++) {
        if (strcmp(names.names[i], "states") == 0)
            continue;
        if (batch_id_number(BATCH_ID_JOB, str_of(names.names[i])) < 0) {
            batch_repair_report(f, false, arena_printf(f->c->a, "/jobs/%s", names.names[i]),
                                "this is no job");
            continue;
        }
        f->totals.jobs++;
        err = batch_repair_job(f, names.names[i]);
    }
    keeper_names_release(&names);
    return err;
}

/* Entries of jobs that are not there. */
static void check_entries(struct batch_repair *f)
{
    struct batch_call *c = f->c;
    char id[BATCH_ID_LEN + 1], bid[BATCH_ID_LEN + 1], entry[BATCH_ENTRY_LEN + 1] = "";

    for (size_t i = 0; i < f->states.count; i++) {
        const struct batch_place *p = &f->states.list[i];
        struct batch_change t = {.a = c->a};

        batch_id(BATCH_ID_JOB, p->job, id);
        batch_entry(BATCH_ID_JOB, true, p->key, entry);
        if (batch_node_exists(c, NULL, "/jobs/%s", id) != DROVER_NO_NODE ||
            batch_node_exists(c, NULL, "%s/%s", c->store->jobs[p->where].dir, entry))
            continue;
        batch_change_list_remove(&t, &c->store->jobs[p->where], p->key);
        batch_repair_report(f, batch_repair_commit(f, &t), id, "it stands in %s and is not there",
                            c->store->machines.job.states[p->where].dir);
    }
    for (size_t i = 0; i < f->lists.count; i++) {
        const struct batch_place *p = &f->lists.list[i];
        struct batch_change t = {.a = c->a};
        int batch_to;

        batch_id(BATCH_ID_JOB, p->job, id);
        batch_id(BATCH_ID_BATCH, p->key, bid);
        if (batch_node_exists(c, NULL, "/jobs/%s", id) != DROVER_NO_NODE ||
            batch_node_exists(c, NULL, "/batches/%s/states/%s/%s", bid, BATCH_LISTS[p->where], id))
            continue;
        batch_change_delete(&t, "/batches/%s/states/%s/%s", bid, BATCH_LISTS[p->where], id);
        if (p->where == BATCH_LIST_PROCESSING)
            batch_count_change(c, &t, bid, 0, 0, &batch_to);
        batch_repair_report(f, batch_repair_commit(f, &t), id,
                            "it stands in %s of %s and is not there", BATCH_LISTS[p->where], bid);
    }
}

/* Batches. */

/* What an item's entries in our own lists must become: in the one of its state, and in no other. */
static int index_change(struct batch_repair *f, struct batch_change *t,
                        const struct batch_machine *m, struct batch_view *views, const char *id,
                        int state)
{
    int64_t number = batch_id_number(views[0].prefix, str_of(id));

    for (int i = 0; i < m->count; i++) {
        int err;

        if (batch_machine_is_end(m, i))
            continue;
        err = batch_node_exists(f->c, NULL, "%s/%s", views[i].dir, id);
        if (err && err != DROVER_NO_NODE)
            return err;
        if (!err && i != state)
            batch_change_list_remove(t, &views[i], number);
        else if (err && i == state)
            batch_change_list_add(t, &views[i], number);
    }
    return 0;
}

/* dir: of the item. One that is moved between the reading of its status and the lists is right. */
static int check_index(struct batch_repair *f, const char *dir, const char *id,
                       const struct batch_machine *m, struct batch_view *views, int state,
                       int32_t version)
{
    struct batch_change t = {.a = f->c->a};
    struct keeper_stat stat;
    int err;

    batch_change_check(&t, version, "%s/%s/status", dir, id);
    err = index_change(f, &t, m, views, id, state);
    if (err || t.count == 1)
        return err;
    if (batch_node_exists(f->c, &stat, "%s/%s/status", dir, id) == 0 && stat.version == version)
        batch_repair_report(f, batch_repair_commit(f, &t), id,
                            "it is %s, and its list below /drover does not say so",
                            m->states[state].name);
    return 0;
}

static int check_batch(struct batch_repair *f, const char *bid)
{
    struct batch_call *c = f->c;
    struct keeper_stat processing;
    struct batch b;
    int64_t ended;
    bool waits;
    int err = batch_get(c, str_of(bid), &b);

    if (err == DROVER_NO_NODE || err == DROVER_DAMAGED) {
        if (batch_node_exists(c, NULL, "/batches/%s", bid) == 0)
            batch_repair_report(f, false, bid, "%s",
                                err == DROVER_DAMAGED ? c->why->text : "it has no status");
        return 0;
    }
    if (err)
        return err;
    err = check_index(f, "/batches", bid, &c->store->machines.batch, c->store->batches,
                      b.status.state, b.version);
    if (err)
        return err;
    ended =
        b.counts[BATCH_LIST_FAILED] + b.counts[BATCH_LIST_COMPLETED] + b.counts[BATCH_LIST_DELETED];
    waits = b.status.state == c->store->batch.processing ||
            (b.status.state == c->store->batch.pending && !b.token);
    if (!waits || b.counts[BATCH_LIST_PROCESSING] || !ended ||
        batch_node_exists(c, &processing, "/batches/%s/states/%s", bid, BATCH_LISTS[0]))
        return 0;
    batch_repair_report(f, f->repair && batch_settle(c, bid) == 1, bid,
                        "all its jobs have ended, and it is still %s",
                        c->store->machines.batch.states[b.status.state].name);
    return 0;
}

static int check_batches(struct batch_repair *f)
{
    struct keeper_names names = {0};
    int err = keeper_children(f->c->k, "/batches", &names, NULL);

    for (size_t i = 0; i < names.count && !err; i++)
        if (batch_id_number(BATCH_ID_BATCH, str_of(names.names[i])) >= 0)
            err = check_batch(f, names.names[i]);
    keeper_names_release(&names);
    return err;
}

/* Access items. */

static int check_access(struct batch_repair *f, enum batch_access_size size)
{
    struct batch_call *c = f->c;
    const char *dir = arena_printf(c->a, "/access/%s", ACCESS_DIRS[size]);
    struct keeper_names names = {0};
    int err = keeper_children(c->k, dir, &names, NULL);

    for (size_t i = 0; i < names.count && !err; i++) {
        const char *id = names.names[i];
        struct batch_access a;

        if (batch_id_number(BATCH_ID_ACCESS, str_of(id)) < 0) {
            batch_repair_report(f, false, arena_printf(c->a, "%s/%s", dir, id),
                                "this is no access item");
            continue;
        }
        err = batch_access_get(c, size, str_of(id), &a);
        if (!err)
            err = check_index(f, dir, id, &c->store->machines.access, c->store->access[size],
                              a.status.state, a.version);
        else if (err == DROVER_DAMAGED || err == DROVER_NO_NODE) {
            if (batch_node_exists(c, NULL, "%s/%s", dir, id) == 0)
                batch_repair_report(f, false, arena_printf(c->a, "%s/%s", dir, id), "%s",
                                    err == DROVER_DAMAGED ? c->why->text : "it has no status");
            err = 0;
        }
    }
    keeper_names_release(&names);
    return err;
}

static int check_uuids(struct batch_repair *f)
{
    struct keeper_names names = {0};
    int err = keeper_children(f->c->k, "/batch-uuids", &names, NULL);

    for (size_t i = 0; i < names.count && !err; i++) {
        const char *path = arena_printf(f->c->a, "/batch-uuids/%s", names.names[i]);
        struct batch_change t = {.a = f->c->a};
        struct keeper_stat stat;
        struct str bid;

        if (batch_node_get(f->c, &bid, &stat, "%s", path))
            continue;
        if (batch_id_number(BATCH_ID_BATCH, bid) >= 0 &&
            batch_node_exists(f->c, NULL, "/batches/%.*s", (int)bid.len, bid.p) != DROVER_NO_NODE)
            continue;
        batch_change_check(&t, stat.version, "%s", path);
        batch_change_delete(&t, "%s", path);
        batch_repair_report(f, batch_repair_commit(f, &t), path, "its batch '%.*s' is not there",
                            (int)(bid.len < 50 ? bid.len : 50), bid.p);
    }
    keeper_names_release(&names);
    return err;
}

int batch_repair_run(struct batch_call *c, bool repair, batch_finding_fn *fn, void *arg,
                     struct batch_repair_totals *ret_totals)
{
    struct batch_repair f = {.c = c, .repair = repair, .fn = fn, .arg = arg};
    int err = read_states(&f);

    if (!err)
        err = read_batches(&f);
    if (!err)
        err = check_jobs(&f);
    if (!err) {
        check_entries(&f);
        err = check_batches(&f);
    }
    if (!err)
        err = check_uuids(&f);
    for (int i = 0; i < ACCESS_SIZES && !err; i++)
        err = check_access(&f, (enum batch_access_size)i);
    free(f.states.list);
    free(f.lists.list);
    if (err)
        return batch_fail(c, err);
    *ret_totals = f.totals;
    return 0;
}
