/* How batches change their state: acquired and moved by people and daemons, and by their last job. */
#include "base/clock.h"
#include "batch/batch.h"
#include "batch/index.h"
#include "batch/lock.h"

int batch_set_state(struct batch_call *c, struct batch_change *t, const char *bid,
                    const struct batch_status *old, int32_t version, int state, struct str message)
{
    struct batch_status s = *old;

    s.state = state;
    s.modified = batch_now(c);
    s.message = message;
    batch_change_set(t, batch_status_write(&c->store->machines.batch, &s, c->a), version,
                     "/batches/%s/status", bid);
    return batch_index_move(c, t, &c->store->machines.batch, c->store->batches, old->state, state,
                            bid);
}

/* What a batch becomes when its last job has ended. BATCH_NO_STATE: it stays. */
static int ended_state(struct batch_call *c, const char *bid, int state, int *ret_state)
{
    const struct batch_store *r = c->store;
    int err;

    *ret_state = BATCH_NO_STATE;
    if (state == r->batch.processing)
        *ret_state = r->batch.reporting;
    else if (state == r->batch.failed)
        *ret_state = r->batch.update_reporting;
    if (state != r->batch.pending)
        return 0;
    err = batch_node_exists(c, NULL, "/batches/%s/lock",
                            bid); /* who has it in hand may add jobs yet */
    if (err == DROVER_NO_NODE)
        *ret_state = r->batch.reporting;
    return err == DROVER_NO_NODE ? 0 : err;
}

int batch_count_change(struct batch_call *c, struct batch_change *t, const char *bid, int leaving,
                       int coming, int *ret_state)
{
    struct keeper_stat stat;
    struct batch_status s;
    int32_t version;
    int err = batch_node_exists(c, &stat, "/batches/%s/states/%s", bid,
                                BATCH_LISTS[BATCH_LIST_PROCESSING]);

    *ret_state = BATCH_NO_STATE;
    if (err)
        return err;
    batch_change_set(t, NO_BYTES, stat.version, "/batches/%s/states/%s", bid,
                     BATCH_LISTS[BATCH_LIST_PROCESSING]);
    if (stat.child_count + coming != leaving || !leaving)
        return 0;
    err = batch_read_status(c, bid, &s, &version);
    if (!err)
        err = ended_state(c, bid, s.state, ret_state);
    if (err || *ret_state == BATCH_NO_STATE)
        return err;
    return batch_set_state(c, t, bid, &s, version, *ret_state, (struct str){0});
}

/* Acquiring. */

/* 1: taken. 0: not this one; it was parked or forgotten. */
static int try_acquire(struct batch_call *c, int state, int64_t number, int64_t *ret_token)
{
    struct batch_view *v = &c->store->batches[state];
    char bid[BATCH_ID_LEN + 1];
    struct batch_change t = {.a = c->a};
    struct keeper_stat stat;
    struct batch_status s;
    struct str text;
    int err;

    batch_id(BATCH_ID_BATCH, number, bid);
    err = batch_node_get(c, &text, &stat, "/batches/%s/status", bid);
    if (err == DROVER_NO_NODE ||
        (!err && (batch_status_read(&c->store->machines.batch, false, c->a, text, &s, NULL) ||
                  s.state != state))) {
        batch_view_forget(v, number);
        return 0;
    }
    if (!err) {
        batch_change_set(&t, text, stat.version, "/batches/%s/status", bid);
        batch_change_create(&t, NO_BYTES, KEEPER_EPHEMERAL, "/batches/%s/lock", bid);
        err = batch_lock_commit(c, &t, 0, 1, ret_token);
    }
    batch_view_park(v, number, clock_boot_ms());
    if (err && !batch_is_conflict(err))
        return batch_fail(c, err);
    return err ? 0 : 1;
}

int batch_acquire(struct batch_call *c, int state, char ret_bid[BATCH_ID_LEN + 1],
                  int64_t *ret_token)
{
    struct batch_view *v = &c->store->batches[state];
    struct batch_view_walk walk = {0};
    int64_t number;
    int got;

    if (state != c->store->batch.pending && state != c->store->batch.reporting &&
        state != c->store->batch.update_reporting)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT,
                          "a batch is acquired for pending, reporting or updatereporting");
    got = batch_index_refresh(c, BATCH_SOURCE_BATCHES);
    if (got < 0)
        return got;
    while ((got = batch_view_next(v, c->k, clock_boot_ms(), &walk, &number)) == 1) {
        got = try_acquire(c, state, number, ret_token);
        if (got < 0)
            return got;
        if (got)
            break;
    }
    if (got < 0)
        return batch_fail(c, got);
    if (got)
        batch_id(BATCH_ID_BATCH, number, ret_bid);
    return got;
}

/* Moving. */

struct batch_transition {
    char bid[BATCH_ID_LEN + 1];
    struct batch_status status;
    int32_t version;
    int to;
    struct keeper_stat processing;
    int64_t failed; /* jobs in batch-failed */
};

/* The report that is due: what it says, and which state it leads to. */
static int add_report(struct batch_call *c, struct batch_change *t,
                      const struct batch_transition *g, struct str told)
{
    struct keeper_names failed;
    struct buf b = {0};
    struct str text;
    int err = batch_node_children(c, &failed, NULL, "/batches/%s/states/%s", g->bid,
                                  BATCH_LISTS[BATCH_LIST_FAILED]);
    bool there;

    if (err)
        return err;
    err = batch_node_exists(c, NULL, "/batches/%s/status-report", g->bid);
    there = !err;
    if (err && err != DROVER_NO_NODE)
        return err;
    if (!there && (told.p ? str_eq(told, STR("[]")) : !failed.count))
        return 0; /* the document: it is made by a failure */
    json_open(&b, '{');
    json_key(&b, "failed_jobs");
    if (told.p) {
        json_put_raw(&b, told);
    } else {
        json_open(&b, '[');
        for (size_t i = 0; i < failed.count; i++)
            json_put_text(&b, str_of(failed.names[i]));
        json_close(&b, ']');
    }
    json_close(&b, '}');
    text = (struct str){arena_text(c->a, (struct str){b.p, b.len}), b.len};
    buf_release(&b);
    if (there)
        batch_change_set(t, text, KEEPER_ANY_VERSION, "/batches/%s/status-report", g->bid);
    else
        batch_change_create(t, text, 0, "/batches/%s/status-report", g->bid);
    return 0;
}

static int count_list(struct batch_call *c, const char *bid, enum batch_list list,
                      struct keeper_stat *ret_stat)
{
    int err = batch_node_exists(c, ret_stat, "/batches/%s/states/%s", bid, BATCH_LISTS[list]);

    return err ? BATCH_FAIL(c, DROVER_DAMAGED, "batch %s has no %s; see 'drover batch fsck'", bid,
                            BATCH_LISTS[list])
               : 0;
}

/* Where it really goes: a report depends on the jobs, and so does a batch that starts ended. */
static int decide(struct batch_call *c, struct batch_transition *g, struct str wanted,
                  int64_t token)
{
    const struct batch_store *r = c->store;
    bool reporting =
        g->status.state == r->batch.reporting || g->status.state == r->batch.update_reporting;
    struct keeper_stat stat;
    int64_t ended = 0;
    int err = count_list(c, g->bid, BATCH_LIST_PROCESSING, &g->processing);

    for (int i = BATCH_LIST_FAILED; i < BATCH_LIST_COUNT && !err; i++) {
        err = count_list(c, g->bid, (enum batch_list)i, &stat);
        ended += err ? 0 : stat.child_count;
        if (!err && i == BATCH_LIST_FAILED)
            g->failed = stat.child_count;
    }
    if (err)
        return err;
    if (reporting && str_eq(wanted, STR("next"))) {
        if (g->failed + g->processing.child_count > 0)
            g->to = r->batch.failed;
        /* Who came or went since the reporter took the lock is not in the report. */
        if (token && g->processing.mzxid > token && g->processing.child_count == 0)
            g->to = r->batch.update_reporting;
    }
    if ((g->to == r->batch.processing || g->to == r->batch.pending) && ended > 0 &&
        g->processing.child_count == 0)
        g->to = r->batch.reporting;
    return 0;
}

static int try_move(struct batch_call *c, struct batch_transition *g, const struct batch_move *m,
                    bool *ret_again)
{
    struct batch_change t = {.a = c->a};
    const char *dir = arena_printf(c->a, "/batches/%s", g->bid);
    int err;

    *ret_again = false;
    if ((err = batch_read_status(c, g->bid, &g->status, &g->version)) < 0 ||
        (err = batch_lock_guard(c, &t, dir, m->token, m->keep)) < 0)
        return err;
    g->to = batch_machine_resolve(&c->store->machines.batch, g->status.state, m->state, c->why);
    if (g->to < 0)
        return g->to;
    err = decide(c, g, m->state, m->token);
    if (err)
        return err;
    batch_change_check(&t, g->processing.version, "%s/states/%s", dir,
                       BATCH_LISTS[BATCH_LIST_PROCESSING]);
    err = batch_set_state(c, &t, g->bid, &g->status, g->version, g->to, m->message);
    if (!err && (g->status.state == c->store->batch.reporting ||
                 g->status.state == c->store->batch.update_reporting))
        err = add_report(c, &t, g, m->failed);
    if (err)
        return batch_fail(c, err);
    err = batch_change_commit(&t, c->k, m->token ? 2 : 3);
    if (!err)
        return 0;
    if (t.failed < (m->token ? 1 : 2)) {
        int refused = batch_lock_refused(c, &t, 0, err, m->token);

        if (refused == DROVER_FENCED || refused == DROVER_LOCKED)
            return refused;
    }
    *ret_again = batch_is_conflict(err);
    return batch_fail(c, err);
}

int batch_move(struct batch_call *c, struct str id, const struct batch_move *m, int *ret_state)
{
    const struct batch_machine *machine = &c->store->machines.batch;
    struct batch_transition g;
    bool again = true;
    int err = batch_check_id(c, id, g.bid);

    if (err)
        return err;
    for (int i = 0; i < BATCH_TRIES && again; i++)
        err = try_move(c, &g, m, &again);
    if (err)
        return err;
    *ret_state = g.to;
    batch_publish(c,
                  &(struct batch_event){"batch", g.bid, NULL, machine->states[g.status.state].name,
                                        machine->states[g.to].name});
    return 0;
}

/* Whether a batch in that state goes on by itself when its jobs have ended. */
static bool can_settle(const struct batch_store *r, int state)
{
    return state == r->batch.processing || state == r->batch.pending;
}

/* One that is Pending must not be in anybody's hand: jobs may be added yet. */
static int settle(struct batch_call *c, struct batch_transition *g)
{
    bool guarded = g->status.state == c->store->batch.pending;
    const char *dir = arena_printf(c->a, "/batches/%s", g->bid);
    struct batch_change t = {.a = c->a};
    int err = guarded ? batch_lock_guard(c, &t, dir, 0, false) : 0;

    if (err)
        return err;
    batch_change_check(&t, g->processing.version, "%s/states/%s", dir,
                       BATCH_LISTS[BATCH_LIST_PROCESSING]);
    err = batch_set_state(c, &t, g->bid, &g->status, g->version, g->to, (struct str){0});
    return err ? err : batch_change_commit(&t, c->k, guarded ? 3 : 1);
}

int batch_settle(struct batch_call *c, const char *bid)
{
    const struct batch_machine *machine = &c->store->machines.batch;
    struct batch_transition g = {.to = c->store->batch.processing};
    int err = batch_check_id(c, str_of(bid), g.bid);

    if (!err)
        err = count_list(c, g.bid, BATCH_LIST_PROCESSING, &g.processing);
    if (err || g.processing.child_count)
        return err;
    err = batch_read_status(c, bid, &g.status, &g.version);
    if (err || !can_settle(c->store, g.status.state))
        return err;
    err = decide(c, &g, STR("Processing"), 0);
    if (err || g.to == c->store->batch.processing)
        return err;
    err = settle(c, &g);
    if (err)
        return batch_is_conflict(err) ? 0 : batch_fail(c, err);
    batch_publish(c, &(struct batch_event){"batch", bid, NULL, machine->states[g.status.state].name,
                                           machine->states[g.to].name});
    return 1;
}

int batch_report_number(struct batch_call *c, struct str id, int state, int64_t *ret_number)
{
    struct keeper_stat stat;
    int err =
        batch_node_exists(c, &stat, "%s/%.*s", c->store->batches[state].dir, (int)id.len, id.p);

    if (err)
        return batch_fail(c, err);
    *ret_number = stat.czxid;
    return 0;
}
