/*
 * A job whose places do not agree with its status. The lists were read a while ago and others work on:
 * so what looks wrong is looked at again, place by place, before it is told. What came into a list in
 * between, and is wrong there, is left to the next run.
 */
#include "batch/batch.h"
#include "batch/job.h"
#include "batch/repair_impl.h"

enum { PLACES_MAX = 16 };

/* Where a job stands now. */
struct batch_placement {
    struct batch_place states[PLACES_MAX];
    int state_count;
    bool lists[BATCH_LIST_COUNT];           /* of its own batch */
    struct batch_place orphans[PLACES_MAX]; /* in lists of other batches */
    int orphan_count;
};

/* By what the lists were when they were read. */
static bool looks_right(struct batch_repair *f, const struct batch_job *j, int64_t number)
{
    const struct batch_machine *m = &f->c->store->machines.job;
    const struct batch_place *state, *list;

    return batch_repair_places(&f->states, number, &state) == 1 &&
           batch_repair_places(&f->lists, number, &list) == 1 && state->where == j->status.state &&
           list->where == (int)m->states[j->status.state].list &&
           list->key == batch_id_number(BATCH_ID_BATCH, str_of(j->bid));
}

/* Adds a place in the list of a state, if the job stands there and it is not known yet. */
static int look_in_state(struct batch_repair *f, struct batch_placement *s, struct batch_place p)
{
    struct batch_view *v = &f->c->store->jobs[p.where];
    char entry[BATCH_ENTRY_LEN + 1] = "";
    int err;

    for (int i = 0; i < s->state_count; i++)
        if (s->states[i].key == p.key && s->states[i].where == p.where)
            return 0;
    batch_entry(BATCH_ID_JOB, true, p.key, entry);
    err = batch_node_exists(f->c, NULL, "%s/%s", v->dir, entry);
    if (!err && s->state_count < PLACES_MAX)
        s->states[s->state_count++] = p;
    return err == DROVER_NO_NODE ? 0 : err;
}

static int look_in_orphan(struct batch_repair *f, struct batch_placement *s, const char *jid,
                          struct batch_place p)
{
    char bid[BATCH_ID_LEN + 1];
    int err;

    batch_id(BATCH_ID_BATCH, p.key, bid);
    err = batch_node_exists(f->c, NULL, "/batches/%s/states/%s/%s", bid, BATCH_LISTS[p.where], jid);
    if (!err && s->orphan_count < PLACES_MAX)
        s->orphans[s->orphan_count++] = p;
    return err == DROVER_NO_NODE ? 0 : err;
}

static int look_again(struct batch_repair *f, const struct batch_job *j, int64_t number,
                      struct batch_placement *ret)
{
    struct batch_placement s = {.state_count = 0};
    const struct batch_place *known;
    size_t count = batch_repair_places(&f->states, number, &known);
    int err = 0;

    for (size_t i = 0; i < count && !err; i++)
        err = look_in_state(f, &s, known[i]);
    if (!err)
        err = look_in_state(
            f, &s, (struct batch_place){number, batch_key(j->priority, number), j->status.state});
    for (int l = 0; l < BATCH_LIST_COUNT && !err; l++) {
        err = batch_node_exists(f->c, NULL, "/batches/%s/states/%s/%s", j->bid, BATCH_LISTS[l],
                                j->id);
        s.lists[l] = !err;
        err = err == DROVER_NO_NODE ? 0 : err;
    }
    count = batch_repair_places(&f->lists, number, &known);
    for (size_t i = 0; i < count && !err; i++)
        if (known[i].key != batch_id_number(BATCH_ID_BATCH, str_of(j->bid)))
            err = look_in_orphan(f, &s, j->id, known[i]);
    *ret = s;
    return err;
}

static const char *what_is_wrong(struct batch_repair *f, const struct batch_job *j,
                                 const struct batch_placement *s)
{
    int list = f->c->store->machines.job.states[j->status.state].list, lists = 0;

    for (int l = 0; l < BATCH_LIST_COUNT; l++)
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

static void leave_orphan(struct batch_repair *f, struct batch_change *t,
                         const struct batch_place *p, const char *jid)
{
    char bid[BATCH_ID_LEN + 1];
    int batch_to;

    batch_id(BATCH_ID_BATCH, p->key, bid);
    batch_change_delete(t, "/batches/%s/states/%s/%s", bid, BATCH_LISTS[p->where], jid);
    if (p->where == BATCH_LIST_PROCESSING)
        batch_count_change(f->c, t, bid, 0, 0, &batch_to);
}

/* Puts a job where its status says, in one transaction. Of two right entries the first stays. */
static bool put_right(struct batch_repair *f, const struct batch_job *j, int64_t number,
                      const struct batch_placement *s)
{
    struct batch_call *c = f->c;
    int list = c->store->machines.job.states[j->status.state].list, batch_to;
    struct batch_change t = {.a = c->a};
    bool there = false;

    batch_change_check(&t, j->version, "/jobs/%s/status", j->id);
    for (int i = 0; i < s->state_count; i++) {
        if (s->states[i].where == j->status.state && !there)
            there = true;
        else
            batch_change_list_remove(&t, &c->store->jobs[s->states[i].where], s->states[i].key);
    }
    if (!there)
        batch_change_list_add(&t, &c->store->jobs[j->status.state], batch_key(j->priority, number));
    for (int l = 0; l < BATCH_LIST_COUNT; l++) {
        if (s->lists[l] && l != list)
            batch_change_delete(&t, "/batches/%s/states/%s/%s", j->bid, BATCH_LISTS[l], j->id);
        else if (!s->lists[l] && l == list)
            batch_change_create(&t, NO_BYTES, 0, "/batches/%s/states/%s/%s", j->bid, BATCH_LISTS[l],
                                j->id);
    }
    for (int i = 0; i < s->orphan_count; i++)
        leave_orphan(f, &t, &s->orphans[i], j->id);
    if (batch_count_change(c, &t, j->bid, 0, 0, &batch_to))
        return false;
    return batch_repair_commit(f, &t);
}

/* It has been read, and its places; when it was moved between the two, both are read again. */
static int check_places(struct batch_repair *f, struct batch_job *j, int64_t number)
{
    struct batch_call *c = f->c;
    struct batch_placement s;
    const char *wrong = NULL;
    bool locked;

    for (int i = 0; i < BATCH_TRIES; i++) {
        int32_t version = j->version;
        int err = look_again(f, j, number, &s);

        wrong = what_is_wrong(f, j, &s);
        if (err || !wrong)
            return err;
        err = batch_job_brief(c, str_of(j->id), j);
        if (err)
            return err == DROVER_NO_NODE || err == DROVER_DAMAGED ? 0 : err;
        if (j->version == version)
            break;
    }
    locked = batch_node_exists(c, NULL, "/jobs/%s/lock", j->id) == 0;
    batch_repair_report(f, !locked && put_right(f, j, number, &s), j->id, "it is %s, and %s%s",
                        c->store->machines.job.states[j->status.state].name, wrong,
                        locked ? " (locked: somebody works on it)" : "");
    return 0;
}

int batch_repair_job(struct batch_repair *f, const char *jid)
{
    struct batch_call *c = f->c;
    int64_t number = batch_id_number(BATCH_ID_JOB, str_of(jid));
    struct batch_job j;
    int err = batch_job_brief(c, str_of(jid), &j);

    if (err == DROVER_NO_NODE) {
        if (batch_node_exists(c, NULL, "/jobs/%s", jid) == 0)
            batch_repair_report(f, false, jid,
                                "it has no status: somebody is making it, or gave up");
        return 0;
    }
    if (err == DROVER_DAMAGED)
        batch_repair_report(f, false, jid, "%s", c->why->text);
    if (err)
        return err == DROVER_DAMAGED ? 0 : err;
    if (batch_node_exists(c, NULL, "/batches/%s", j.bid) == DROVER_NO_NODE) {
        batch_repair_report(f, false, jid, "its batch %s is not there", j.bid);
        return 0;
    }
    return looks_right(f, &j, number) ? 0 : check_places(f, &j, number);
}
