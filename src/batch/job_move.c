/*
 * Moving jobs, and changing what they have.
 *
 * Where does a job stand? In the list of its state, under its priority. But the priority may have been
 * set since (the document lets a state alter it), and then the entry still has the old one: it is
 * looked for under all hundred, which happens seldom.
 */
#include "batch/batch.h"
#include "batch/job.h"
#include "batch/lock.h"

/* 1, 0 or an error. */
static int stands_at(struct batch_call *c, const char *jid, const char *dir, int priority)
{
    int err = batch_node_exists(c, NULL, "/jobs/states/%s/%02d-%s", dir, priority, jid);

    return err == DROVER_NO_NODE ? 0 : err ? err : 1;
}

int batch_job_locate(struct batch_call *c, const char *jid, int state, int expected, int *ret_entry)
{
    const char *dir = c->store->machines.job.states[state].dir;
    int at = stands_at(c, jid, dir, expected), entry = expected;

    for (int i = 0; i <= BATCH_PRIORITY_MAX && !at; i++) {
        at = stands_at(c, jid, dir, i);
        entry = i;
    }
    if (at < 0)
        return batch_fail(c, at);
    *ret_entry = at ? entry : -1;
    return 0;
}

static int64_t session_of(struct batch_call *c, int64_t token)
{
    struct keeper_session session = {.id = 0};

    if (token)
        keeper_session(c->k, &session);
    return session.id;
}

/* Who moves a job says what its message is, but who acquires it leaves it as it is. */
void batch_job_remember(struct batch_call *c, const struct batch_job *job)
{
    const struct batch_status *s = &job->status;
    struct batch_cached_job claim = {
        .job = batch_id_number(BATCH_ID_JOB, str_of(job->id)),
        .token = job->token,
        .session = session_of(c, job->token),
        .batch = batch_id_number(BATCH_ID_BATCH, str_of(job->bid)),
        .state = s->state,
        .last_successful = s->last_successful,
        .priority = job->priority,
        .retry_count = s->retry_count,
        .version = job->version,
        .priority_version = job->priority_version,
        .batch_version = job->batch_version,
        .known = true,
    };

    if (!batch_status_is_plain(s) || s->modified.len > BATCH_DATE_LEN ||
        (!job->token && s->message.p)) {
        batch_job_cache_forget(&c->store->job_cache, claim.job);
        return;
    }
    if (s->modified.len) /* a foreign client may have left it out */
        memcpy(claim.modified, s->modified.p, s->modified.len);
    batch_job_cache_put(&c->store->job_cache, &claim);
}

bool batch_job_recall(struct batch_call *c, int64_t number, int64_t token,
                      struct batch_job *ret_job)
{
    struct batch_cached_job claim;

    if (!batch_job_cache_get(&c->store->job_cache, number, token, session_of(c, token), &claim))
        return false;
    *ret_job =
        (struct batch_job){.version = claim.version,
                           .priority = claim.priority,
                           .priority_version = claim.priority_version,
                           .batch_version = claim.batch_version,
                           .token = token,
                           .status = {.state = claim.state,
                                      .last_successful = claim.last_successful,
                                      .retry_count = claim.retry_count,
                                      .modified = str_of(arena_printf(c->a, "%s", claim.modified)),
                                      .is_job = true}};
    batch_id(BATCH_ID_JOB, number, ret_job->id);
    batch_id(BATCH_ID_BATCH, claim.batch, ret_job->bid);
    return true;
}

struct batch_job_transition {
    struct batch_job job;
    bool recalled, slow;        /* known from a claim; known to have to be read */
    int to, batch_to;           /* states; batch_to: BATCH_NO_STATE: the batch stays as it is */
    int entry;                  /* the priority of its entry, -1: that of the job */
    int first_list;             /* the operation that takes it out of its list */
    struct batch_status status; /* the new one */
    int from_only; /* a state, a list, or BATCH_NO_STATE: any, see batch_job_hold and its like */
    bool failed_only;
};

/* The new status. */
static struct batch_status next_status(struct batch_call *c, const struct batch_job_transition *g,
                                       const struct batch_job_move *m)
{
    const struct batch_machine *machine = &c->store->machines.job;
    struct batch_status s = g->job.status;
    const struct batch_machine_state *from = &machine->states[s.state],
                                     *to = &machine->states[g->to];

    if (s.state != machine->held && from->success == g->to)
        s.last_successful = s.state;
    if (from->list == BATCH_LIST_FAILED && to->list == BATCH_LIST_PROCESSING)
        s.retry_count++;
    s.state = g->to;
    s.modified = batch_now(c);
    s.message = m->message;
    return s;
}

/* The lists of the batch, where the new state belongs to another. */
static int move_in_batch(struct batch_call *c, struct batch_change *t,
                         struct batch_job_transition *g)
{
    const struct batch_machine *machine = &c->store->machines.job;
    enum batch_list from = machine->states[g->job.status.state].list,
                    to = machine->states[g->to].list;

    g->batch_to = BATCH_NO_STATE;
    if (from == to)
        return 0;
    batch_change_delete(t, "/batches/%s/states/%s/%s", g->job.bid, BATCH_LISTS[from], g->job.id);
    batch_change_create(t, NO_BYTES, 0, "/batches/%s/states/%s/%s", g->job.bid, BATCH_LISTS[to],
                        g->job.id);
    return batch_count_change(c, t, g->job.bid, from == BATCH_LIST_PROCESSING,
                              to == BATCH_LIST_PROCESSING, &g->batch_to);
}

/* What is wrong when a node of the lists is not where it belongs. */
static int misplaced(struct batch_call *c, struct batch_job_transition *g)
{
    int state = g->job.status.state, err;

    err = batch_job_locate(c, g->job.id, state, g->job.priority, &g->entry);
    if (err || g->entry >= 0)
        return err;
    return BATCH_FAIL(c, DROVER_DAMAGED,
                      "job %s is %s but does not stand in that list; see 'drover batch fsck'",
                      g->job.id, c->store->machines.job.states[state].name);
}

static int check_from(struct batch_call *c, const struct batch_job_transition *g)
{
    const struct batch_machine *machine = &c->store->machines.job;
    int state = g->job.status.state;

    if (g->from_only != BATCH_NO_STATE && state != g->from_only)
        return BATCH_FAIL(c, DROVER_NOT_ALLOWED, "job %s is %s, not %s", g->job.id,
                          machine->states[state].name, machine->states[g->from_only].name);
    if (g->failed_only && machine->states[state].list != BATCH_LIST_FAILED)
        return BATCH_FAIL(c, DROVER_NOT_ALLOWED, "job %s is %s; only what failed is tried again",
                          g->job.id, machine->states[state].name);
    return 0;
}

static bool recall(struct batch_call *c, struct str id, struct batch_job_transition *g,
                   int64_t token)
{
    int64_t number = batch_id_number(BATCH_ID_JOB, id);

    return token && !g->slow && number >= 0 && batch_job_recall(c, number, token, &g->job);
}

/* What is known of it after a move: the same as would be read. */
static void remember_moved(struct batch_call *c, struct batch_job_transition *g,
                           const struct batch_job_move *m, bool keep)
{
    struct batch_job j = g->job;

    if (m->priority >= 0 && m->priority != j.priority) {
        batch_job_cache_forget(&c->store->job_cache, batch_id_number(BATCH_ID_JOB, str_of(j.id)));
        return;
    }
    j.status = g->status;
    j.token = keep ? m->token : 0;
    j.version++;
    batch_job_remember(c, &j);
}

static int build(struct batch_call *c, struct batch_change *t, struct batch_job_transition *g,
                 const struct batch_job_move *m, int64_t number)
{
    const struct batch_machine *machine = &c->store->machines.job;
    int old = g->entry >= 0 ? g->entry : g->job.priority,
        new = m->priority >= 0 ? (int)m->priority : g->job.priority;

    g->status = next_status(c, g, m);
    batch_change_set(t, batch_status_write(machine, &g->status, c->a), g->job.version,
                     "/jobs/%s/status", g->job.id);
    g->first_list =
        batch_change_list_remove(t, &c->store->jobs[g->job.status.state], batch_key(old, number));
    batch_change_list_add(t, &c->store->jobs[g->to], batch_key(new, number));
    if (new != g->job.priority)
        batch_change_set(t, str_of(arena_printf(c->a, "%d", new)), g->job.priority_version,
                         "/jobs/%s/priority", g->job.id);
    else if (g->recalled)
        batch_change_check(t, g->job.priority_version, "/jobs/%s/priority", g->job.id);
    return move_in_batch(c, t, g);
}

static int try_move(struct batch_call *c, struct str id, struct batch_job_transition *g,
                    const struct batch_job_move *m, bool *ret_again)
{
    struct batch_change t = {.a = c->a};
    const char *dir;
    int err, refused;
    bool keep;

    *ret_again = false;
    g->recalled = recall(c, id, g, m->token);
    if ((!g->recalled && (err = batch_job_brief(c, id, &g->job))) || (err = check_from(c, g)))
        return err;
    g->to = batch_machine_resolve(&c->store->machines.job, g->job.status.state, m->state, c->why);
    if (g->to < 0) {
        g->slow = *ret_again = g->recalled; /* refused only by what the tree says */
        return g->to;
    }
    keep = m->keep || c->store->machines.job.states[g->to].keeps;
    dir = arena_printf(c->a, "/jobs/%s", g->job.id);
    if (g->recalled)
        batch_lock_hold(&t, dir, LOCK_VERSION, keep);
    else if ((err = batch_lock_guard(c, &t, dir, m->token, keep)) < 0)
        return err;
    err = build(c, &t, g, m, batch_id_number(BATCH_ID_JOB, id));
    if (err)
        return batch_fail(c, err);
    err = batch_change_commit(&t, c->k, m->token ? 1 : 2);
    if (!err) {
        remember_moved(c, g, m, keep);
        return 0;
    }
    if (g->recalled && batch_is_conflict(err)) { /* what the tree says now, it says best */
        g->slow = *ret_again = true;
        return batch_fail(c, err);
    }
    refused = batch_lock_refused(c, &t, 0, err, m->token);
    if (refused == DROVER_FENCED || refused == DROVER_LOCKED)
        return refused;
    *ret_again = batch_is_conflict(err);
    if (err == DROVER_NO_NODE && t.failed == g->first_list && (refused = misplaced(c, g)) < 0) {
        *ret_again = false;
        return refused;
    }
    if (t.failed > g->first_list && (err == DROVER_NO_NODE || err == DROVER_EXISTS))
        return BATCH_FAIL(c, DROVER_DAMAGED,
                          "the lists of job %s do not agree: see 'drover batch fsck'", g->job.id);
    return batch_fail(c, err);
}

static int move_job(struct batch_call *c, struct str id, struct batch_job_transition *g,
                    const struct batch_job_move *m)
{
    const struct batch_machine *jobs = &c->store->machines.job,
                               *batches = &c->store->machines.batch;
    bool again = true;
    int err = 0;

    if (m->priority < -1 || m->priority > BATCH_PRIORITY_MAX)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "a priority is 0 to %d", BATCH_PRIORITY_MAX);
    g->entry = -1;
    for (int i = 0; i < BATCH_TRIES && again; i++)
        err = try_move(c, id, g, m, &again);
    if (err)
        return err;
    batch_publish(c, &(struct batch_event){"job", g->job.id, g->job.bid,
                                           jobs->states[g->job.status.state].name,
                                           jobs->states[g->to].name});
    if (g->batch_to != BATCH_NO_STATE)
        batch_publish(c, &(struct batch_event){"batch", g->job.bid, NULL, NULL,
                                               batches->states[g->batch_to].name});
    return 0;
}

int batch_job_move(struct batch_call *c, struct str id, const struct batch_job_move *m,
                   int *ret_state)
{
    struct batch_job_transition g = {.from_only = BATCH_NO_STATE};
    int err = move_job(c, id, &g, m);

    if (!err)
        *ret_state = g.to;
    return err;
}

int batch_job_hold(struct batch_call *c, struct str id, struct str message)
{
    const struct batch_machine *machine = &c->store->machines.job;
    struct batch_job_transition g = {.from_only = BATCH_NO_STATE};
    struct batch_job_move m = {.priority = -1, .message = message};

    if (machine->held == BATCH_NO_STATE)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "jobs of this pipeline cannot be held");
    m.state = str_of(machine->states[machine->held].name);
    return move_job(c, id, &g, &m);
}

int batch_job_release(struct batch_call *c, struct str id)
{
    const struct batch_machine *machine = &c->store->machines.job;
    struct batch_job_transition g = {.from_only = machine->held};
    struct batch_job_move m = {.priority = -1, .state = STR("next")};

    if (machine->held == BATCH_NO_STATE)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "jobs of this pipeline cannot be held");
    return move_job(c, id, &g, &m);
}

int batch_job_requeue(struct batch_call *c, struct str id, struct str state, struct str message)
{
    const struct batch_machine *machine = &c->store->machines.job;
    struct batch_job_transition g = {.from_only = BATCH_NO_STATE, .failed_only = true};
    struct batch_job_move m = {.priority = -1, .state = state, .message = message};

    if (!state.p)
        m.state = str_of(machine->states[machine->first].name);
    return move_job(c, id, &g, &m);
}

int batch_job_release_profile(struct batch_call *c, struct str profile, int64_t *ret_count)
{
    struct batch_job_filter f = {
        .state = c->store->machines.job.held, .profile = profile, .limit = SIZE_MAX};
    struct batch_job *jobs;
    size_t count;
    int64_t released = 0;
    int err;

    if (f.state == BATCH_NO_STATE)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "jobs of this pipeline cannot be held");
    err = batch_job_list(c, &f, &jobs, &count);
    for (size_t i = 0; i < count && !err; i++) {
        err = batch_job_release(c, str_of(jobs[i].id));
        if (!err)
            released++;
        else if (err == DROVER_NOT_ALLOWED || err == DROVER_NO_NODE)
            err = 0; /* somebody else was faster */
    }
    if (!err)
        *ret_count = released;
    return err;
}

/* One try at a new priority. The entry moves with it. */
static int try_priority(struct batch_call *c, struct str id, int priority, int64_t token,
                        bool *ret_again)
{
    struct batch_change t = {.a = c->a};
    int64_t number = batch_id_number(BATCH_ID_JOB, id);
    struct batch_job j;
    int entry, err = batch_job_brief(c, id, &j);

    *ret_again = false;
    if (!err && token)
        err = batch_lock_guard(c, &t, arena_printf(c->a, "/jobs/%s", j.id), token, true);
    if (err)
        return err;
    err = batch_job_locate(c, j.id, j.status.state, j.priority, &entry);
    if (err)
        return err;
    if (entry < 0)
        return BATCH_FAIL(c, DROVER_DAMAGED,
                          "job %s is %s but does not stand in that list; see 'drover batch fsck'",
                          j.id, c->store->machines.job.states[j.status.state].name);
    batch_change_check(&t, j.version, "/jobs/%s/status", j.id);
    batch_change_set(&t, str_of(arena_printf(c->a, "%d", priority)), j.priority_version,
                     "/jobs/%s/priority", j.id);
    if (entry != priority) {
        batch_change_list_remove(&t, &c->store->jobs[j.status.state], batch_key(entry, number));
        batch_change_list_add(&t, &c->store->jobs[j.status.state], batch_key(priority, number));
    }
    err = batch_change_commit(&t, c->k, token ? 2 : 1);
    *ret_again = batch_is_conflict(err);
    return err ? batch_fail(c, err) : 0;
}

int batch_job_set_priority(struct batch_call *c, struct str id, int64_t priority, int64_t token)
{
    bool again = true;
    int err = 0;

    if (priority < 0 || priority > BATCH_PRIORITY_MAX)
        return BATCH_FAIL(c, DROVER_BAD_ARGUMENT, "a priority is 0 to %d", BATCH_PRIORITY_MAX);
    for (int i = 0; i < BATCH_TRIES && again; i++)
        err = try_priority(c, id, (int)priority, token, &again);
    return err;
}

int batch_job_set_field(struct batch_call *c, struct str id, const char *field, struct str text,
                        int64_t token)
{
    for (int i = 0; i < BATCH_TRIES; i++) {
        struct batch_change t = {.a = c->a};
        struct batch_job j;
        int err = batch_job_brief(c, id, &j);

        if (!err && token)
            err = batch_lock_guard(c, &t, arena_printf(c->a, "/jobs/%s", j.id), token, true);
        if (err)
            return err;
        err = batch_node_exists(c, NULL, "/jobs/%s/%s", j.id, field);
        if (err && err != DROVER_NO_NODE)
            return batch_fail(c, err);
        if (token)
            batch_change_check(&t, j.version, "/jobs/%s/status", j.id);
        if (err == DROVER_NO_NODE)
            batch_change_create(&t, text, 0, "/jobs/%s/%s", j.id, field);
        else
            batch_change_set(&t, text, KEEPER_ANY_VERSION, "/jobs/%s/%s", j.id, field);
        err = batch_change_commit(&t, c->k, -1);
        if (!batch_is_conflict(err))
            return err ? batch_fail(c, err) : 0;
    }
    return batch_fail(c, DROVER_BAD_VERSION);
}
