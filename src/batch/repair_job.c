/*
 * Checks a job whose places do not agree with its status. The lists were read a while ago and
 * others keep working, so each place is read again before anything is reported. An entry that was
 * added to a list in between, and is wrong there, is left to the next run.
 */
#include "batch/item.h"
#include "batch/repair.h"

enum { PLACES_MAX = 16 };

/* The lists that have a job now. */
struct batch_placement {
    struct batch_place states[PLACES_MAX];
    int state_count;
    bool lists[BATCH_LIST_COUNT];          /* of its own batch */
    struct batch_place others[PLACES_MAX]; /* lists of other batches */
    int other_count;
};

/* By the lists as they were read. */
static bool looks_right(struct batch_repair *f, const struct batch_item *j)
{
    const struct batch_place *state, *list;

    return batch_repair_places(&f->states, j->number, &state) == 1 &&
           batch_repair_places(&f->lists, j->number, &list) == 1 &&
           state->where == j->status.state &&
           list->where == (int)j->kind->machine->states[j->status.state].list &&
           list->key == batch_id_number(BATCH_ID_BATCH, str_of(j->bid));
}

/* Adds the place in the list of a state, if the job is there and it is not added yet. */
static int look_in_state(struct batch_repair *f, struct batch_placement *s,
                         const struct batch_item *j, struct batch_place p)
{
    char entry[BATCH_ENTRY_LEN + 1] = "";

    for (int i = 0; i < s->state_count; i++)
        if (s->states[i].key == p.key && s->states[i].where == p.where)
            return 0;
    batch_entry(BATCH_ID_JOB, true, p.key, entry);
    int err = batch_node_exists(f->c, NULL, "%s/%s", j->kind->views[p.where].dir, entry);
    if (!err && s->state_count < PLACES_MAX)
        s->states[s->state_count++] = p;
    return batch_optional(err);
}

static int look_in_other(struct batch_repair *f, struct batch_placement *s, const char *jid,
                         struct batch_place p)
{
    char bid[BATCH_ID_LEN + 1];

    batch_id(BATCH_ID_BATCH, p.key, bid);
    int err =
        batch_node_exists(f->c, NULL, "/batches/%s/states/%s/%s", bid, BATCH_LISTS[p.where], jid);
    if (!err && s->other_count < PLACES_MAX)
        s->others[s->other_count++] = p;
    return batch_optional(err);
}

static int read_placement(struct batch_repair *f, const struct batch_item *j,
                          struct batch_placement *ret)
{
    struct batch_placement s = {.state_count = 0};
    struct batch_place own = {j->number, batch_key(j->priority, j->number), j->status.state};
    const struct batch_place *known;
    size_t count = batch_repair_places(&f->states, j->number, &known);
    int err = 0;

    for (size_t i = 0; i < count && !err; i++)
        err = look_in_state(f, &s, j, known[i]);
    if (!err)
        err = look_in_state(f, &s, j, own);
    for (int l = 0; l < BATCH_LIST_COUNT && !err; l++) {
        err = batch_node_exists(f->c, NULL, "/batches/%s/states/%s/%s", j->bid, BATCH_LISTS[l],
                                j->id);
        s.lists[l] = !err;
        err = batch_optional(err);
    }
    count = batch_repair_places(&f->lists, j->number, &known);
    for (size_t i = 0; i < count && !err; i++)
        if (known[i].key != batch_id_number(BATCH_ID_BATCH, str_of(j->bid)))
            err = look_in_other(f, &s, j->id, known[i]);
    *ret = s;
    return err;
}

static const char *what_is_wrong(const struct batch_item *j, const struct batch_placement *s)
{
    int list = j->kind->machine->states[j->status.state].list, lists = 0;

    for (int l = 0; l < BATCH_LIST_COUNT; l++)
        lists += s->lists[l];
    if (s->state_count == 0)
        return "is in no list of a state";
    if (s->state_count > 1)
        return "is in more than one list of a state";
    if (s->states[0].where != j->status.state)
        return "is in the list of another state";
    if (lists == 0)
        return "is in no list of its batch";
    if (lists > 1)
        return "is in more than one list of its batch";
    if (!s->lists[list])
        return "is in the wrong list of its batch";
    if (s->other_count)
        return "is in a list of another batch";
    return NULL;
}

/* Moves a job to the lists of its status, in one transaction. Keeps the first right entry. */
static bool put_right(struct batch_repair *f, const struct batch_item *j,
                      const struct batch_placement *s)
{
    struct batch_call *c = f->c;
    int list = j->kind->machine->states[j->status.state].list, batch_to;
    struct batch_txn t = BATCH_TXN(c);
    bool there = false;

    txn_check(&t.txn, OP_ANY, j->version, "/jobs/%s/status", j->id);
    for (int i = 0; i < s->state_count; i++) {
        if (s->states[i].where == j->status.state && !there)
            there = true;
        else
            batch_txn_list_remove(&t, OP_ANY, &j->kind->views[s->states[i].where],
                                  s->states[i].key);
    }
    if (!there)
        batch_txn_list_add(&t, OP_ANY, &j->kind->views[j->status.state],
                           batch_key(j->priority, j->number));
    for (int l = 0; l < BATCH_LIST_COUNT; l++) {
        if (s->lists[l] && l != list)
            txn_delete(&t.txn, OP_ANY, KEEPER_ANY_VERSION, "/batches/%s/states/%s/%s", j->bid,
                       BATCH_LISTS[l], j->id);
        else if (!s->lists[l] && l == list)
            txn_create(&t.txn, OP_ANY, NO_BYTES, 0, "/batches/%s/states/%s/%s", j->bid,
                       BATCH_LISTS[l], j->id);
    }
    for (int i = 0; i < s->other_count; i++)
        batch_repair_leave_list(f, &t, &s->others[i], j->id);
    return batch_count_change(c, &t, j->bid, 0, 0, &batch_to) == 0 && batch_repair_commit(f, &t);
}

/* If the job moved between the reading of its status and of its places, reads both again. */
static int check_places(struct batch_repair *f, struct batch_item *j)
{
    struct batch_call *c = f->c;
    struct batch_placement s;
    const char *wrong = NULL;

    for (int i = 0; i < BATCH_TRIES; i++) {
        int32_t version = j->version;
        int err = read_placement(f, j, &s);

        wrong = what_is_wrong(j, &s);
        if (err || !wrong)
            return err;
        err = batch_item_read(c, BATCH_KIND_JOB, str_of(j->id), j);
        if (err)
            return err == DROVER_NO_NODE || err == DROVER_DAMAGED ? 0 : err;
        if (j->version == version)
            break;
    }
    bool locked = batch_node_exists(c, NULL, "/jobs/%s/lock", j->id) == 0;
    batch_repair_report(f, !locked && put_right(f, j, &s), j->id, "it is %s but %s%s",
                        j->kind->machine->states[j->status.state].name, wrong,
                        locked ? " (locked: in use)" : "");
    return 0;
}

int batch_repair_job(struct batch_repair *f, const char *jid)
{
    struct batch_call *c = f->c;
    struct batch_item j;
    int err = batch_item_read(c, BATCH_KIND_JOB, str_of(jid), &j);

    if (err == DROVER_NO_NODE) {
        if (batch_node_exists(c, NULL, "/jobs/%s", jid) == 0)
            batch_repair_report(f, false, jid,
                                "it has no status: a client is creating it, or failed to");
        return 0;
    }
    if (err == DROVER_DAMAGED)
        batch_repair_report(f, false, jid, "%s", c->why->text);
    if (err)
        return err == DROVER_DAMAGED ? 0 : err;
    if (batch_node_exists(c, NULL, "/batches/%s", j.bid) == DROVER_NO_NODE) {
        batch_repair_report(f, false, jid, "its batch %s does not exist", j.bid);
        return 0;
    }
    return looks_right(f, &j) ? 0 : check_places(f, &j);
}
