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
static int stands_at(struct call *c, const char *jid, const char *dir, int priority)
{
    int err = depot_exists(c, NULL, "/jobs/states/%s/%02d-%s", dir, priority, jid);

    return err == DROVER_NO_NODE ? 0 : err ? err : 1;
}

int job_locate(struct call *c, const char *jid, int state, int expected, int *ret_entry)
{
    const char *dir = c->depot->machines.job.states[state].dir;
    int at = stands_at(c, jid, dir, expected), entry = expected;

    for (int i = 0; i <= NAME_PRIORITY_MAX && !at; i++) {
        at = stands_at(c, jid, dir, i);
        entry = i;
    }
    if (at < 0)
        return depot_fail(c, at);
    *ret_entry = at ? entry : -1;
    return 0;
}

static int64_t session_of(struct call *c, int64_t token)
{
    struct keeper_session session = {.id = 0};

    if (token)
        keeper_session(c->k, &session);
    return session.id;
}

/* Who moves a job says what its message is, but who acquires it leaves it as it is. */
void job_remember(struct call *c, const struct job *job)
{
    const struct status *s = &job->status;
    struct claim claim = {
        .job = name_number(NAME_JOB, str_of(job->id)),
        .token = job->token,
        .session = session_of(c, job->token),
        .batch = name_number(NAME_BATCH, str_of(job->bid)),
        .state = s->state,
        .last_successful = s->last_successful,
        .priority = job->priority,
        .retry_count = s->retry_count,
        .version = job->version,
        .priority_version = job->priority_version,
        .batch_version = job->batch_version,
        .known = true,
    };

    if (!status_is_plain(s) || s->modified.len > CLAIMS_DATE_LEN || (!job->token && s->message.p)) {
        claims_forget(&c->depot->claims, claim.job);
        return;
    }
    if (s->modified.len) /* a foreign client may have left it out */
        memcpy(claim.modified, s->modified.p, s->modified.len);
    claims_put(&c->depot->claims, &claim);
}

bool job_recall(struct call *c, int64_t number, int64_t token, struct job *ret_job)
{
    struct claim claim;

    if (!claims_get(&c->depot->claims, number, token, session_of(c, token), &claim))
        return false;
    *ret_job = (struct job){.version = claim.version,
                            .priority = claim.priority,
                            .priority_version = claim.priority_version,
                            .batch_version = claim.batch_version,
                            .token = token,
                            .status = {.state = claim.state,
                                       .last_successful = claim.last_successful,
                                       .retry_count = claim.retry_count,
                                       .modified = str_of(arena_printf(c->a, "%s", claim.modified)),
                                       .is_job = true}};
    name_id(NAME_JOB, number, ret_job->id);
    name_id(NAME_BATCH, claim.batch, ret_job->bid);
    return true;
}

struct moving {
    struct job job;
    bool recalled, slow;  /* known from a claim; known to have to be read */
    int to, batch_to;     /* states; batch_to: MACHINE_NONE: the batch stays as it is */
    int entry;            /* the priority of its entry, -1: that of the job */
    int first_list;       /* the operation that takes it out of its list */
    struct status status; /* the new one */
    int from_only;        /* a state, a list, or MACHINE_NONE: any, see job_hold and its like */
    bool failed_only;
};

/* The new status. */
static struct status next_status(struct call *c, const struct moving *g, const struct job_move *m)
{
    const struct machine *machine = &c->depot->machines.job;
    struct status s = g->job.status;
    const struct machine_state *from = &machine->states[s.state], *to = &machine->states[g->to];

    if (s.state != machine->held && from->success == g->to)
        s.last_successful = s.state;
    if (from->list == MACHINE_FAILED && to->list == MACHINE_PROCESSING)
        s.retry_count++;
    s.state = g->to;
    s.modified = depot_now(c);
    s.message = m->message;
    return s;
}

/* The lists of the batch, where the new state belongs to another. */
static int move_in_batch(struct call *c, struct change *t, struct moving *g)
{
    const struct machine *machine = &c->depot->machines.job;
    enum machine_list from = machine->states[g->job.status.state].list,
                      to = machine->states[g->to].list;

    g->batch_to = MACHINE_NONE;
    if (from == to)
        return 0;
    change_delete(t, "/batches/%s/states/%s/%s", g->job.bid, MACHINE_LISTS[from], g->job.id);
    change_create(t, NO_BYTES, 0, "/batches/%s/states/%s/%s", g->job.bid, MACHINE_LISTS[to],
                  g->job.id);
    return batch_count_change(c, t, g->job.bid, from == MACHINE_PROCESSING,
                              to == MACHINE_PROCESSING, &g->batch_to);
}

/* What is wrong when a node of the lists is not where it belongs. */
static int misplaced(struct call *c, struct moving *g)
{
    int state = g->job.status.state, err;

    err = job_locate(c, g->job.id, state, g->job.priority, &g->entry);
    if (err || g->entry >= 0)
        return err;
    return DEPOT_FAIL(c, DROVER_DAMAGED,
                      "job %s is %s but does not stand in that list; see 'drover batch fsck'",
                      g->job.id, c->depot->machines.job.states[state].name);
}

static int check_from(struct call *c, const struct moving *g)
{
    const struct machine *machine = &c->depot->machines.job;
    int state = g->job.status.state;

    if (g->from_only != MACHINE_NONE && state != g->from_only)
        return DEPOT_FAIL(c, DROVER_NOT_ALLOWED, "job %s is %s, not %s", g->job.id,
                          machine->states[state].name, machine->states[g->from_only].name);
    if (g->failed_only && machine->states[state].list != MACHINE_FAILED)
        return DEPOT_FAIL(c, DROVER_NOT_ALLOWED, "job %s is %s; only what failed is tried again",
                          g->job.id, machine->states[state].name);
    return 0;
}

static bool recall(struct call *c, struct str id, struct moving *g, int64_t token)
{
    int64_t number = name_number(NAME_JOB, id);

    return token && !g->slow && number >= 0 && job_recall(c, number, token, &g->job);
}

/* What is known of it after a move: the same as would be read. */
static void remember_moved(struct call *c, struct moving *g, const struct job_move *m, bool keep)
{
    struct job j = g->job;

    if (m->priority >= 0 && m->priority != j.priority) {
        claims_forget(&c->depot->claims, name_number(NAME_JOB, str_of(j.id)));
        return;
    }
    j.status = g->status;
    j.token = keep ? m->token : 0;
    j.version++;
    job_remember(c, &j);
}

static int build(struct call *c, struct change *t, struct moving *g, const struct job_move *m,
                 int64_t number)
{
    const struct machine *machine = &c->depot->machines.job;
    int old = g->entry >= 0 ? g->entry : g->job.priority,
        new = m->priority >= 0 ? (int)m->priority : g->job.priority;

    g->status = next_status(c, g, m);
    change_set(t, status_write(machine, &g->status, c->a), g->job.version, "/jobs/%s/status",
               g->job.id);
    g->first_list =
        change_list_remove(t, &c->depot->jobs[g->job.status.state], name_key_of(old, number));
    change_list_add(t, &c->depot->jobs[g->to], name_key_of(new, number));
    if (new != g->job.priority)
        change_set(t, str_of(arena_printf(c->a, "%d", new)), g->job.priority_version,
                   "/jobs/%s/priority", g->job.id);
    else if (g->recalled)
        change_check(t, g->job.priority_version, "/jobs/%s/priority", g->job.id);
    return move_in_batch(c, t, g);
}

static int try_move(struct call *c, struct str id, struct moving *g, const struct job_move *m,
                    bool *ret_again)
{
    struct change t = {.a = c->a};
    const char *dir;
    int err, refused;
    bool keep;

    *ret_again = false;
    g->recalled = recall(c, id, g, m->token);
    if ((!g->recalled && (err = job_brief(c, id, &g->job))) || (err = check_from(c, g)))
        return err;
    g->to = machine_resolve(&c->depot->machines.job, g->job.status.state, m->state, c->why);
    if (g->to < 0) {
        g->slow = *ret_again = g->recalled; /* refused only by what the tree says */
        return g->to;
    }
    keep = m->keep || c->depot->machines.job.states[g->to].keeps;
    dir = arena_printf(c->a, "/jobs/%s", g->job.id);
    if (g->recalled)
        lock_hold(&t, dir, LOCK_VERSION, keep);
    else if ((err = lock_guard(c, &t, dir, m->token, keep)) < 0)
        return err;
    err = build(c, &t, g, m, name_number(NAME_JOB, id));
    if (err)
        return depot_fail(c, err);
    err = change_commit(&t, c->k, m->token ? 1 : 2);
    if (!err) {
        remember_moved(c, g, m, keep);
        return 0;
    }
    if (g->recalled && depot_again(err)) { /* what the tree says now, it says best */
        g->slow = *ret_again = true;
        return depot_fail(c, err);
    }
    refused = lock_refused(c, &t, 0, err, m->token);
    if (refused == DROVER_FENCED || refused == DROVER_LOCKED)
        return refused;
    *ret_again = depot_again(err);
    if (err == DROVER_NO_NODE && t.failed == g->first_list && (refused = misplaced(c, g)) < 0) {
        *ret_again = false;
        return refused;
    }
    if (t.failed > g->first_list && (err == DROVER_NO_NODE || err == DROVER_EXISTS))
        return DEPOT_FAIL(c, DROVER_DAMAGED,
                          "the lists of job %s do not agree: see 'drover batch fsck'", g->job.id);
    return depot_fail(c, err);
}

static int move_job(struct call *c, struct str id, struct moving *g, const struct job_move *m)
{
    const struct machine *jobs = &c->depot->machines.job, *batches = &c->depot->machines.batch;
    bool again = true;
    int err = 0;

    if (m->priority < -1 || m->priority > NAME_PRIORITY_MAX)
        return DEPOT_FAIL(c, DROVER_BAD_ARGUMENT, "a priority is 0 to %d", NAME_PRIORITY_MAX);
    g->entry = -1;
    for (int i = 0; i < DEPOT_TRIES && again; i++)
        err = try_move(c, id, g, m, &again);
    if (err)
        return err;
    depot_tell(c, &(struct depot_event){"job", g->job.id, g->job.bid,
                                        jobs->states[g->job.status.state].name,
                                        jobs->states[g->to].name});
    if (g->batch_to != MACHINE_NONE)
        depot_tell(c, &(struct depot_event){"batch", g->job.bid, NULL, NULL,
                                            batches->states[g->batch_to].name});
    return 0;
}

int job_move(struct call *c, struct str id, const struct job_move *m, int *ret_state)
{
    struct moving g = {.from_only = MACHINE_NONE};
    int err = move_job(c, id, &g, m);

    if (!err)
        *ret_state = g.to;
    return err;
}

int job_hold(struct call *c, struct str id, struct str message)
{
    const struct machine *machine = &c->depot->machines.job;
    struct moving g = {.from_only = MACHINE_NONE};
    struct job_move m = {.priority = -1, .message = message};

    if (machine->held == MACHINE_NONE)
        return DEPOT_FAIL(c, DROVER_BAD_ARGUMENT, "jobs of this pipeline cannot be held");
    m.state = str_of(machine->states[machine->held].name);
    return move_job(c, id, &g, &m);
}

int job_release(struct call *c, struct str id)
{
    const struct machine *machine = &c->depot->machines.job;
    struct moving g = {.from_only = machine->held};
    struct job_move m = {.priority = -1, .state = STR("next")};

    if (machine->held == MACHINE_NONE)
        return DEPOT_FAIL(c, DROVER_BAD_ARGUMENT, "jobs of this pipeline cannot be held");
    return move_job(c, id, &g, &m);
}

int job_requeue(struct call *c, struct str id, struct str state, struct str message)
{
    const struct machine *machine = &c->depot->machines.job;
    struct moving g = {.from_only = MACHINE_NONE, .failed_only = true};
    struct job_move m = {.priority = -1, .state = state, .message = message};

    if (!state.p)
        m.state = str_of(machine->states[machine->first].name);
    return move_job(c, id, &g, &m);
}

int job_release_profile(struct call *c, struct str profile, int64_t *ret_count)
{
    struct job_filter f = {
        .state = c->depot->machines.job.held, .profile = profile, .limit = SIZE_MAX};
    struct job *jobs;
    size_t count;
    int64_t released = 0;
    int err;

    if (f.state == MACHINE_NONE)
        return DEPOT_FAIL(c, DROVER_BAD_ARGUMENT, "jobs of this pipeline cannot be held");
    err = job_list(c, &f, &jobs, &count);
    for (size_t i = 0; i < count && !err; i++) {
        err = job_release(c, str_of(jobs[i].id));
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
static int try_priority(struct call *c, struct str id, int priority, int64_t token, bool *ret_again)
{
    struct change t = {.a = c->a};
    int64_t number = name_number(NAME_JOB, id);
    struct job j;
    int entry, err = job_brief(c, id, &j);

    *ret_again = false;
    if (!err && token)
        err = lock_guard(c, &t, arena_printf(c->a, "/jobs/%s", j.id), token, true);
    if (err)
        return err;
    err = job_locate(c, j.id, j.status.state, j.priority, &entry);
    if (err)
        return err;
    if (entry < 0)
        return DEPOT_FAIL(c, DROVER_DAMAGED,
                          "job %s is %s but does not stand in that list; see 'drover batch fsck'",
                          j.id, c->depot->machines.job.states[j.status.state].name);
    change_check(&t, j.version, "/jobs/%s/status", j.id);
    change_set(&t, str_of(arena_printf(c->a, "%d", priority)), j.priority_version,
               "/jobs/%s/priority", j.id);
    if (entry != priority) {
        change_list_remove(&t, &c->depot->jobs[j.status.state], name_key_of(entry, number));
        change_list_add(&t, &c->depot->jobs[j.status.state], name_key_of(priority, number));
    }
    err = change_commit(&t, c->k, token ? 2 : 1);
    *ret_again = depot_again(err);
    return err ? depot_fail(c, err) : 0;
}

int job_set_priority(struct call *c, struct str id, int64_t priority, int64_t token)
{
    bool again = true;
    int err = 0;

    if (priority < 0 || priority > NAME_PRIORITY_MAX)
        return DEPOT_FAIL(c, DROVER_BAD_ARGUMENT, "a priority is 0 to %d", NAME_PRIORITY_MAX);
    for (int i = 0; i < DEPOT_TRIES && again; i++)
        err = try_priority(c, id, (int)priority, token, &again);
    return err;
}

int job_set_field(struct call *c, struct str id, const char *field, struct str text, int64_t token)
{
    for (int i = 0; i < DEPOT_TRIES; i++) {
        struct change t = {.a = c->a};
        struct job j;
        int err = job_brief(c, id, &j);

        if (!err && token)
            err = lock_guard(c, &t, arena_printf(c->a, "/jobs/%s", j.id), token, true);
        if (err)
            return err;
        err = depot_exists(c, NULL, "/jobs/%s/%s", j.id, field);
        if (err && err != DROVER_NO_NODE)
            return depot_fail(c, err);
        if (token)
            change_check(&t, j.version, "/jobs/%s/status", j.id);
        if (err == DROVER_NO_NODE)
            change_create(&t, text, 0, "/jobs/%s/%s", j.id, field);
        else
            change_set(&t, text, KEEPER_ANY_VERSION, "/jobs/%s/%s", j.id, field);
        err = change_commit(&t, c->k, -1);
        if (!depot_again(err))
            return err ? depot_fail(c, err) : 0;
    }
    return depot_fail(c, DROVER_BAD_VERSION);
}
