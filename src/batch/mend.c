/*
 * All lists are read once and sorted by job, so that a job's places are found without asking the tree
 * again; what looks wrong is then read anew, right before it is repaired, because others work on.
 */
#include "batch/mend.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "batch/batch.h"
#include "batch/job.h"

/* A place where a job stands: in the list of a state, or in a list of a batch. */
struct place {
    int64_t job, key; /* key: of the entry, or the number of the batch */
    int where;        /* a state, or an enum machine_list */
};

struct places {
    struct place *list;
    size_t count, cap;
};

struct mend {
    struct call *c;
    bool repair;
    mend_fn *fn;
    void *arg;
    struct mend_totals totals;
    struct places states, lists;
};

static void found(struct mend *f, bool repaired, const char *id, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void found(struct mend *f, bool repaired, const char *id, const char *fmt, ...)
{
    char problem[400];
    va_list args;

    va_start(args, fmt);
    vsnprintf(problem, sizeof problem, fmt, args);
    va_end(args);
    f->totals.findings++;
    f->totals.repaired += repaired;
    f->fn(f->arg, &(struct mend_finding){id, problem, repaired});
}

/* Commits a repair. What changed meanwhile is left to the next run. */
static bool commit(struct mend *f, struct change *t)
{
    return f->repair && change_commit(t, f->c->k, -1) == 0;
}

static void add_place(struct places *p, int64_t job, int64_t key, int where)
{
    if (p->count == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 256;
        p->list = mem_realloc(p->list, p->cap * sizeof *p->list);
    }
    p->list[p->count++] = (struct place){job, key, where};
}

static int by_job(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    return x->job < y->job ? -1 : x->job > y->job;
}

static struct place *first_place(const struct places *p, int64_t job)
{
    size_t low = 0, high = p->count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (p->list[middle].job < job)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->count && p->list[low].job == job ? &p->list[low] : NULL;
}

static size_t count_places(const struct places *p, int64_t job)
{
    const struct place *at = first_place(p, job);
    size_t count = 0;

    while (at && at + count < p->list + p->count && at[count].job == job)
        count++;
    return count;
}

/* Reading. */

static int read_states(struct mend *f)
{
    const struct machine *m = &f->c->depot->machines.job;
    int err = 0;

    for (int i = 0; i < m->count && !err; i++) {
        struct keeper_names names = {0};

        err = keeper_children(f->c->k, f->c->depot->jobs[i].dir, &names, NULL);
        for (size_t n = 0; n < names.count; n++) {
            int64_t key = name_key(NAME_JOB, true, str_of(names.names[n]));

            if (key >= 0)
                add_place(&f->states, key % NAME_SEQUENCES, key, i);
            else
                found(f, false,
                      arena_printf(f->c->a, "%s/%s", f->c->depot->jobs[i].dir, names.names[n]),
                      "this is no entry of a job, PP-JID");
        }
        keeper_names_release(&names);
    }
    if (f->states.count)
        qsort(f->states.list, f->states.count, sizeof *f->states.list, by_job);
    return err;
}

/* A list of a batch that is missing is made. */
static int read_list(struct mend *f, const char *bid, int list)
{
    struct call *c = f->c;
    struct keeper_names names = {0};
    const char *path = arena_printf(c->a, "/batches/%s/states/%s", bid, MACHINE_LISTS[list]);
    int err = keeper_children(c->k, path, &names, NULL);

    if (err == DROVER_NO_NODE) {
        struct change t = {.a = c->a};

        if (depot_exists(c, NULL, "/batches/%s/states", bid) == DROVER_NO_NODE)
            change_create(&t, NO_BYTES, 0, "/batches/%s/states", bid);
        change_create(&t, NO_BYTES, 0, "%s", path);
        found(f, commit(f, &t), bid, "%s is missing", MACHINE_LISTS[list]);
        return 0;
    }
    for (size_t n = 0; n < names.count; n++) {
        int64_t job = name_number(NAME_JOB, str_of(names.names[n]));

        if (job >= 0)
            add_place(&f->lists, job, name_number(NAME_BATCH, str_of(bid)), list);
        else
            found(f, false, arena_printf(c->a, "%s/%s", path, names.names[n]), "this is no job");
    }
    keeper_names_release(&names);
    return err;
}

static int read_batches(struct mend *f)
{
    struct keeper_names names = {0};
    int err = keeper_children(f->c->k, "/batches", &names, NULL);

    for (size_t i = 0; i < names.count && !err; i++) {
        if (name_number(NAME_BATCH, str_of(names.names[i])) < 0) {
            found(f, false, arena_printf(f->c->a, "/batches/%s", names.names[i]),
                  "this is no batch");
            continue;
        }
        f->totals.batches++;
        for (int list = 0; list < MACHINE_LIST_COUNT && !err; list++)
            err = read_list(f, names.names[i], list);
    }
    keeper_names_release(&names);
    if (f->lists.count)
        qsort(f->lists.list, f->lists.count, sizeof *f->lists.list, by_job);
    return err;
}

/* Jobs. */

/* Puts a job where its status says, in one transaction, whatever its places are now. */
static bool put_right(struct mend *f, const struct job *j, int64_t number)
{
    int err;
    struct call *c = f->c;
    const struct machine *m = &c->depot->machines.job;
    enum machine_list list = m->states[j->status.state].list;
    bool there = false, listed = false;
    struct change t = {.a = c->a};
    int batch_to;

    change_check(&t, j->version, "/jobs/%s/status", j->id);
    for (int s = 0; s < m->count; s++) {
        for (int p = 0; p <= NAME_PRIORITY_MAX; p++) {
            err = depot_exists(c, NULL, "/jobs/states/%s/%02d-%s", m->states[s].dir, p, j->id);
            if (err && err != DROVER_NO_NODE)
                return false;
            if (err)
                continue;
            if (s == j->status.state && !there)
                there = true;
            else
                change_list_remove(&t, &c->depot->jobs[s], name_key_of(p, number));
        }
    }
    if (!there)
        change_list_add(&t, &c->depot->jobs[j->status.state], name_key_of(j->priority, number));
    for (int l = 0; l < MACHINE_LIST_COUNT; l++) {
        err = depot_exists(c, NULL, "/batches/%s/states/%s/%s", j->bid, MACHINE_LISTS[l], j->id);
        if (err && err != DROVER_NO_NODE)
            return false;
        if (err)
            continue;
        if (l == (int)list)
            listed = true;
        else
            change_delete(&t, "/batches/%s/states/%s/%s", j->bid, MACHINE_LISTS[l], j->id);
    }
    if (!listed)
        change_create(&t, NO_BYTES, 0, "/batches/%s/states/%s/%s", j->bid, MACHINE_LISTS[list],
                      j->id);
    if (batch_count_change(c, &t, j->bid, 0, 0, &batch_to))
        return false;
    return commit(f, &t);
}

static const char *what_is_wrong(struct mend *f, const struct job *j, int64_t number)
{
    const struct machine *m = &f->c->depot->machines.job;
    const struct place *state = first_place(&f->states, number),
                       *list = first_place(&f->lists, number);
    size_t states = count_places(&f->states, number), lists = count_places(&f->lists, number);

    if (states == 0)
        return "it stands in no list of a state";
    if (states > 1)
        return "it stands in more than one list of a state";
    if (state->where != j->status.state)
        return "it stands in the list of another state than its status says";
    if (lists == 0)
        return "its batch has it in no list";
    if (lists > 1)
        return "its batch has it in more than one list";
    if (list->where != (int)m->states[j->status.state].list)
        return "its batch has it in another list than its status says";
    if (list->key != name_number(NAME_BATCH, str_of(j->bid)))
        return "it stands in the lists of another batch than its own";
    return NULL;
}

static int check_job(struct mend *f, const char *jid)
{
    struct call *c = f->c;
    int64_t number = name_number(NAME_JOB, str_of(jid));
    struct job j;
    const char *wrong;
    bool locked;
    int err = job_brief(c, str_of(jid), &j);

    if (err == DROVER_NO_NODE) {
        if (depot_exists(c, NULL, "/jobs/%s", jid) == 0)
            found(f, false, jid, "it has no status: somebody is making it, or gave up");
        return 0;
    }
    if (err == DROVER_DAMAGED)
        found(f, false, jid, "%s", c->why->text);
    if (err)
        return err == DROVER_DAMAGED ? 0 : err;
    if (depot_exists(c, NULL, "/batches/%s", j.bid) == DROVER_NO_NODE) {
        found(f, false, jid, "its batch %s is not there", j.bid);
        return 0;
    }
    wrong = what_is_wrong(f, &j, number);
    if (!wrong)
        return 0;
    locked = depot_exists(c, NULL, "/jobs/%s/lock", jid) == 0;
    found(f, !locked && put_right(f, &j, number), jid, "it is %s, and %s%s",
          c->depot->machines.job.states[j.status.state].name, wrong,
          locked ? " (locked: somebody works on it)" : "");
    return 0;
}

static int check_jobs(struct mend *f)
{
    struct keeper_names names = {0};
    int err = keeper_children(f->c->k, "/jobs", &names, NULL);

    for (size_t i = 0; i < names.count && !err; i++) {
        if (strcmp(names.names[i], "states") == 0)
            continue;
        if (name_number(NAME_JOB, str_of(names.names[i])) < 0) {
            found(f, false, arena_printf(f->c->a, "/jobs/%s", names.names[i]), "this is no job");
            continue;
        }
        f->totals.jobs++;
        err = check_job(f, names.names[i]);
    }
    keeper_names_release(&names);
    return err;
}

/* Entries of jobs that are not there. */
static void check_entries(struct mend *f)
{
    struct call *c = f->c;
    char id[NAME_ID_LEN + 1], bid[NAME_ID_LEN + 1];

    for (size_t i = 0; i < f->states.count; i++) {
        const struct place *p = &f->states.list[i];
        struct change t = {.a = c->a};

        name_id(NAME_JOB, p->job, id);
        if (depot_exists(c, NULL, "/jobs/%s", id) != DROVER_NO_NODE)
            continue;
        change_list_remove(&t, &c->depot->jobs[p->where], p->key);
        found(f, commit(f, &t), id, "it stands in %s and is not there",
              c->depot->machines.job.states[p->where].dir);
    }
    for (size_t i = 0; i < f->lists.count; i++) {
        const struct place *p = &f->lists.list[i];
        struct change t = {.a = c->a};
        int batch_to;

        name_id(NAME_JOB, p->job, id);
        name_id(NAME_BATCH, p->key, bid);
        if (depot_exists(c, NULL, "/jobs/%s", id) != DROVER_NO_NODE)
            continue;
        change_delete(&t, "/batches/%s/states/%s/%s", bid, MACHINE_LISTS[p->where], id);
        if (p->where == MACHINE_PROCESSING)
            batch_count_change(c, &t, bid, 0, 0, &batch_to);
        found(f, commit(f, &t), id, "it stands in %s of %s and is not there",
              MACHINE_LISTS[p->where], bid);
    }
}

/* Batches. */

/* The entries of a batch in our own lists: the one of its state, and no other. */
static void check_index(struct mend *f, const char *bid, const struct status *s, int32_t version)
{
    struct call *c = f->c;
    const struct machine *m = &c->depot->machines.batch;
    int64_t number = name_number(NAME_BATCH, str_of(bid));
    struct change t = {.a = c->a};

    change_check(&t, version, "/batches/%s/status", bid);
    for (int i = 0; i < m->count; i++) {
        bool there;

        if (machine_is_end(m, i))
            continue;
        there = depot_exists(c, NULL, "%s/%s", c->depot->batches[i].dir, bid) == 0;
        if (there && i != s->state)
            change_list_remove(&t, &c->depot->batches[i], number);
        else if (!there && i == s->state)
            change_list_add(&t, &c->depot->batches[i], number);
    }
    if (t.count > 1)
        found(f, commit(f, &t), bid, "it is %s, and /drover/batch does not say so",
              m->states[s->state].name);
}

static int check_batch(struct mend *f, const char *bid)
{
    struct call *c = f->c;
    struct keeper_stat processing;
    struct batch b;
    int64_t ended;
    int err = batch_get(c, str_of(bid), &b);

    if (err == DROVER_NO_NODE || err == DROVER_DAMAGED) {
        if (depot_exists(c, NULL, "/batches/%s", bid) == 0)
            found(f, false, bid, "%s", err == DROVER_DAMAGED ? c->why->text : "it has no status");
        return 0;
    }
    if (err)
        return err;
    check_index(f, bid, &b.status, b.version);
    ended = b.counts[MACHINE_FAILED] + b.counts[MACHINE_COMPLETED] + b.counts[MACHINE_DELETED];
    if (b.status.state != c->depot->batch.processing || b.counts[MACHINE_PROCESSING] || !ended ||
        depot_exists(c, &processing, "/batches/%s/states/%s", bid, MACHINE_LISTS[0]))
        return 0;
    found(f, f->repair && batch_settle(c, bid) == 1, bid,
          "all its jobs have ended, and it is still Processing");
    return 0;
}

static int check_batches(struct mend *f)
{
    struct keeper_names names = {0};
    int err = keeper_children(f->c->k, "/batches", &names, NULL);

    for (size_t i = 0; i < names.count && !err; i++)
        if (name_number(NAME_BATCH, str_of(names.names[i])) >= 0)
            err = check_batch(f, names.names[i]);
    keeper_names_release(&names);
    return err;
}

static int check_uuids(struct mend *f)
{
    struct keeper_names names = {0};
    int err = keeper_children(f->c->k, "/batch-uuids", &names, NULL);

    for (size_t i = 0; i < names.count && !err; i++) {
        const char *path = arena_printf(f->c->a, "/batch-uuids/%s", names.names[i]);
        struct change t = {.a = f->c->a};
        struct keeper_stat stat;
        struct str bid;

        if (depot_get(f->c, &bid, &stat, "%s", path))
            continue;
        if (name_number(NAME_BATCH, bid) >= 0 &&
            depot_exists(f->c, NULL, "/batches/%.*s", (int)bid.len, bid.p) != DROVER_NO_NODE)
            continue;
        change_check(&t, stat.version, "%s", path);
        change_delete(&t, "%s", path);
        found(f, commit(f, &t), path, "its batch '%.*s' is not there",
              (int)(bid.len < 50 ? bid.len : 50), bid.p);
    }
    keeper_names_release(&names);
    return err;
}

int mend_run(struct call *c, bool repair, mend_fn *fn, void *arg, struct mend_totals *ret_totals)
{
    struct mend f = {.c = c, .repair = repair, .fn = fn, .arg = arg};
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
    free(f.states.list);
    free(f.lists.list);
    if (err)
        return depot_fail(c, err);
    *ret_totals = f.totals;
    return 0;
}
