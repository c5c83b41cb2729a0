/*
 * A job whose places do not agree with its status. The lists were read a while ago and others work on:
 * so what looks wrong is looked at again, place by place, before it is told. What came into a list in
 * between, and is wrong there, is left to the next run.
 */
#include "batch/batch.h"
#include "batch/job.h"
#include "batch/mend_impl.h"

enum { PLACES_MAX = 16 };

/* Where a job stands now. */
struct standing {
    struct place states[PLACES_MAX];
    int state_count;
    bool lists[MACHINE_LIST_COUNT];   /* of its own batch */
    struct place orphans[PLACES_MAX]; /* in lists of other batches */
    int orphan_count;
};

/* By what the lists were when they were read. */
static bool looks_right(struct mend *f, const struct job *j, int64_t number)
{
    const struct machine *m = &f->c->depot->machines.job;
    const struct place *state, *list;

    return mend_places(&f->states, number, &state) == 1 &&
           mend_places(&f->lists, number, &list) == 1 && state->where == j->status.state &&
           list->where == (int)m->states[j->status.state].list &&
           list->key == name_number(NAME_BATCH, str_of(j->bid));
}

/* Adds a place in the list of a state, if the job stands there and it is not known yet. */
static int look_in_state(struct mend *f, struct standing *s, struct place p)
{
    struct view *v = &f->c->depot->jobs[p.where];
    char entry[NAME_ENTRY_LEN + 1] = "";
    int err;

    for (int i = 0; i < s->state_count; i++)
        if (s->states[i].key == p.key && s->states[i].where == p.where)
            return 0;
    name_entry(NAME_JOB, true, p.key, entry);
    err = depot_exists(f->c, NULL, "%s/%s", v->dir, entry);
    if (!err && s->state_count < PLACES_MAX)
        s->states[s->state_count++] = p;
    return err == DROVER_NO_NODE ? 0 : err;
}

static int look_in_orphan(struct mend *f, struct standing *s, const char *jid, struct place p)
{
    char bid[NAME_ID_LEN + 1];
    int err;

    name_id(NAME_BATCH, p.key, bid);
    err = depot_exists(f->c, NULL, "/batches/%s/states/%s/%s", bid, MACHINE_LISTS[p.where], jid);
    if (!err && s->orphan_count < PLACES_MAX)
        s->orphans[s->orphan_count++] = p;
    return err == DROVER_NO_NODE ? 0 : err;
}

static int look_again(struct mend *f, const struct job *j, int64_t number, struct standing *ret)
{
    struct standing s = {.state_count = 0};
    const struct place *known;
    size_t count = mend_places(&f->states, number, &known);
    int err = 0;

    for (size_t i = 0; i < count && !err; i++)
        err = look_in_state(f, &s, known[i]);
    if (!err)
        err = look_in_state(
            f, &s, (struct place){number, name_key_of(j->priority, number), j->status.state});
    for (int l = 0; l < MACHINE_LIST_COUNT && !err; l++) {
        err = depot_exists(f->c, NULL, "/batches/%s/states/%s/%s", j->bid, MACHINE_LISTS[l], j->id);
        s.lists[l] = !err;
        err = err == DROVER_NO_NODE ? 0 : err;
    }
    count = mend_places(&f->lists, number, &known);
    for (size_t i = 0; i < count && !err; i++)
        if (known[i].key != name_number(NAME_BATCH, str_of(j->bid)))
            err = look_in_orphan(f, &s, j->id, known[i]);
    *ret = s;
    return err;
}

static const char *what_is_wrong(struct mend *f, const struct job *j, const struct standing *s)
{
    int list = f->c->depot->machines.job.states[j->status.state].list, lists = 0;

    for (int l = 0; l < MACHINE_LIST_COUNT; l++)
        lists += s->lists[l];
    if (s->state_count == 0)
        return "it stands in no list of a state";
    if (s->state_count > 1)
        return "it stands in more than one list of a state";
    if (s->states[0].where != j->status.state)
        return "it stands in the list of another state than its status says";
    if (lists == 0)
        return "its batch has it in no list";
    if (lists > 1)
        return "its batch has it in more than one list";
    if (!s->lists[list])
        return "its batch has it in another list than its status says";
    if (s->orphan_count)
        return "it stands in the lists of another batch than its own";
    return NULL;
}

static void leave_orphan(struct mend *f, struct change *t, const struct place *p, const char *jid)
{
    char bid[NAME_ID_LEN + 1];
    int batch_to;

    name_id(NAME_BATCH, p->key, bid);
    change_delete(t, "/batches/%s/states/%s/%s", bid, MACHINE_LISTS[p->where], jid);
    if (p->where == MACHINE_PROCESSING)
        batch_count_change(f->c, t, bid, 0, 0, &batch_to);
}

/* Puts a job where its status says, in one transaction. Of two right entries the first stays. */
static bool put_right(struct mend *f, const struct job *j, int64_t number, const struct standing *s)
{
    struct call *c = f->c;
    int list = c->depot->machines.job.states[j->status.state].list, batch_to;
    struct change t = {.a = c->a};
    bool there = false;

    change_check(&t, j->version, "/jobs/%s/status", j->id);
    for (int i = 0; i < s->state_count; i++) {
        if (s->states[i].where == j->status.state && !there)
            there = true;
        else
            change_list_remove(&t, &c->depot->jobs[s->states[i].where], s->states[i].key);
    }
    if (!there)
        change_list_add(&t, &c->depot->jobs[j->status.state], name_key_of(j->priority, number));
    for (int l = 0; l < MACHINE_LIST_COUNT; l++) {
        if (s->lists[l] && l != list)
            change_delete(&t, "/batches/%s/states/%s/%s", j->bid, MACHINE_LISTS[l], j->id);
        else if (!s->lists[l] && l == list)
            change_create(&t, NO_BYTES, 0, "/batches/%s/states/%s/%s", j->bid, MACHINE_LISTS[l],
                          j->id);
    }
    for (int i = 0; i < s->orphan_count; i++)
        leave_orphan(f, &t, &s->orphans[i], j->id);
    if (batch_count_change(c, &t, j->bid, 0, 0, &batch_to))
        return false;
    return mend_commit(f, &t);
}

/* It has been read, and its places; when it was moved between the two, both are read again. */
static int check_places(struct mend *f, struct job *j, int64_t number)
{
    struct call *c = f->c;
    struct standing s;
    const char *wrong = NULL;
    bool locked;

    for (int i = 0; i < DEPOT_TRIES; i++) {
        int32_t version = j->version;
        int err = look_again(f, j, number, &s);

        wrong = what_is_wrong(f, j, &s);
        if (err || !wrong)
            return err;
        err = job_brief(c, str_of(j->id), j);
        if (err)
            return err == DROVER_NO_NODE || err == DROVER_DAMAGED ? 0 : err;
        if (j->version == version)
            break;
    }
    locked = depot_exists(c, NULL, "/jobs/%s/lock", j->id) == 0;
    mend_found(f, !locked && put_right(f, j, number, &s), j->id, "it is %s, and %s%s",
               c->depot->machines.job.states[j->status.state].name, wrong,
               locked ? " (locked: somebody works on it)" : "");
    return 0;
}

int mend_job(struct mend *f, const char *jid)
{
    struct call *c = f->c;
    int64_t number = name_number(NAME_JOB, str_of(jid));
    struct job j;
    int err = job_brief(c, str_of(jid), &j);

    if (err == DROVER_NO_NODE) {
        if (depot_exists(c, NULL, "/jobs/%s", jid) == 0)
            mend_found(f, false, jid, "it has no status: somebody is making it, or gave up");
        return 0;
    }
    if (err == DROVER_DAMAGED)
        mend_found(f, false, jid, "%s", c->why->text);
    if (err)
        return err == DROVER_DAMAGED ? 0 : err;
    if (depot_exists(c, NULL, "/batches/%s", j.bid) == DROVER_NO_NODE) {
        mend_found(f, false, jid, "its batch %s is not there", j.bid);
        return 0;
    }
    return looks_right(f, &j, number) ? 0 : check_places(f, &j, number);
}
