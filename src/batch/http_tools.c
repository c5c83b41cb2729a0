/* Locks by name over HTTP, and tools for admins: legacy records, fsck, purge, the machines. */
#include "base/clock.h"
#include "base/human.h"
#include "batch/server.h"
#include "batch/tools.h"

/* /v1/locks */

/* The kind that the request names. */
static int find_kind(struct batch_request *d, enum batch_lock_kind *ret_kind)
{
    struct str name = d->in->kind;
    for (enum batch_lock_kind i = 0; i < BATCH_LOCK_KINDS; i++)
        if (str_eq(name, str_of(BATCH_LOCK_DIRS[i]))) {
            *ret_kind = i;
            return 0;
        }
    return err_set(&d->why, DROVER_NO_NODE,
                   "there is no kind of lock '%.*s'; the kinds are queue, storage, inventory, "
                   "collections and localid, and for breaking also jobs and batches",
                   (int)(name.len < 100 ? name.len : 100), name.p);
}

static void put_lock_json(struct buf *b, const struct batch_lock *lock)
{
    json_open(b, '{');
    json_member_text(b, "kind", str_of(BATCH_LOCK_DIRS[lock->kind]));
    json_member_text(b, "name", lock->name);
    json_member_text(b, "node", lock->node);
    json_member_text(b, "who", lock->who);
    json_member_text(b, "when", lock->when);
    json_member_int(b, "age", lock->age_ms);
    json_member_bool(b, "ephemeral", lock->ephemeral);
    json_member_int(b, "token", lock->token);
    json_close(b, '}');
}

/* Of one kind, or of all. */
BATCH_HANDLER(get_locks)
{
    enum batch_lock_kind kind = 0, last = BATCH_LOCK_KINDS - 1;
    if (d->in->kind.p) {
        TRY(find_kind(d, &kind));
        last = kind;
    }
    batch_request_open_list(d, "locks");
    for (; kind <= last; kind++) {
        struct batch_lock *locks;
        size_t count;
        TRY(batch_lock_list(&d->call, kind, &locks, &count));
        for (size_t i = 0; i < count; i++)
            put_lock_json(&d->out, &locks[i]);
    }
    return batch_request_close_list(d);
}

static int put_one(struct batch_request *d, const struct batch_lock *lock)
{
    json_open(&d->out, '{');
    json_key(&d->out, "lock");
    put_lock_json(&d->out, lock);
    json_member_int(&d->out, "token", lock->token);
    json_close(&d->out, '}');
    return 0;
}

BATCH_HANDLER(get_lock)
{
    enum batch_lock_kind kind;
    struct batch_lock lock;
    TRY(find_kind(d, &kind));
    TRY(batch_lock_get(&d->call, kind, d->in->name, &lock));
    return put_one(d, &lock);
}

BATCH_HANDLER(put_lock)
{
    enum batch_lock_kind kind;
    struct batch_lock lock;
    TRY(find_kind(d, &kind));
    if (batch_lock_is_ephemeral(kind) && !d->in->session.p)
        return err_set(&d->why, DROVER_BAD_ARGUMENT,
                       "'session' is missing: open one with POST /v1/sessions");
    TRY(batch_lock_take(&d->call, kind, d->in->name, d->in->who, &lock));
    return put_one(d, &lock);
}

/* Also for the locks of jobs and batches. */
BATCH_HANDLER(delete_lock)
{
    const struct batch_in *in = d->in;
    bool jobs = str_eq(in->kind, STR("jobs")) || str_eq(in->kind, STR("job")),
         batches = str_eq(in->kind, STR("batches")) || str_eq(in->kind, STR("batch"));
    enum batch_lock_kind kind = BATCH_LOCK_KINDS;
    if (!jobs && !batches)
        TRY(find_kind(d, &kind));
    if (!in->token && !in->force && (jobs || batches || batch_lock_is_ephemeral(kind)))
        return err_set(&d->why, DROVER_BAD_ARGUMENT,
                       "this lock belongs to a worker: give its token, or break it");
    if (!jobs && !batches)
        return batch_lock_release(&d->call, kind, in->name, in->token);
    return batch_item_unlock(&d->call, jobs ? BATCH_KIND_JOB : BATCH_KIND_BATCH, in->name,
                             in->token);
}

/* /v1/legacy */

static int put_record(void *arg, const struct batch_legacy *r, struct str imported, int err)
{
    struct batch_request *d = arg;
    struct buf *b = &d->out;
    char time[HUMAN_SIZE];
    if (err == DROVER_BAD_ARGUMENT)
        return 0; /* not a record */
    json_open(b, '{');
    json_member_text(b, "name", r->name);
    if (err) {
        json_member_text(b, "status", STR("damaged"));
        json_close(b, '}');
        return 0;
    }
    json_member_text(b, "status", str_of(batch_legacy_status(d->call.a, r->status)));
    json_member_int(b, "priority", r->priority);
    json_member_int(b, "number", r->number);
    json_member_text(b, "time",
                     str_of(arena_printf(d->call.a, "%sZ", human_utc(time, r->time_ms))));
    json_member_text(b, "payload", str_of(BATCH_LEGACY_PAYLOADS[r->kind]));
    json_member_raw(b, "configuration", batch_legacy_configuration(d->call.a, r));
    json_member_text(b, "imported", imported);
    json_close(b, '}');
    return 0;
}

BATCH_HANDLER(get_legacy)
{
    batch_request_open_list(d, "records");
    TRY(batch_legacy_list(&d->call, d->in->path.p ? d->in->path : STR("/ingest"), put_record, d));
    return batch_request_close_list(d);
}

static void put_jid(void *arg, const char *jid)
{
    json_put_text(arg, str_of(jid));
}

BATCH_HANDLER(post_legacy)
{
    const struct batch_in *in = d->in;
    struct batch_legacy_import import = {.path = in->path.p ? in->path : STR("/ingest"),
                                         .batch = in->batch,
                                         .all = in->all,
                                         .remove = in->remove};
    batch_request_open_list(d, "jobs");
    TRY(batch_legacy_import(&d->call, &import, put_jid, &d->out));
    return batch_request_close_list(d);
}

/* POST /v1/batches/fsck */

static void put_finding(void *arg, const char *id, const char *problem, bool repaired)
{
    struct buf *b = arg;
    json_open(b, '{');
    json_member_text(b, "id", str_of(id));
    json_member_text(b, "problem", str_of(problem));
    json_member_bool(b, "repaired", repaired);
    json_close(b, '}');
}

BATCH_HANDLER(post_fsck)
{
    struct batch_repair_totals totals;
    batch_request_open_list(d, "findings");
    struct batch_repair_options o = {.repair = d->in->repair,
                                     .age_ms = d->in->age_ms,
                                     .wait_ms = BATCH_REPAIR_WAIT_MS,
                                     .fn = put_finding,
                                     .arg = &d->out};
    TRY(batch_repair_run(&d->call, &o, &totals));
    json_close(&d->out, ']');
    json_member_int(&d->out, "jobs", totals.jobs);
    json_member_int(&d->out, "batches", totals.batches);
    json_member_int(&d->out, "repaired", totals.repaired);
    json_close(&d->out, '}');
    return 0;
}

/* POST .../purge */

BATCH_HANDLER(post_purge)
{
    const struct batch_in *in = d->in;
    const struct batch_machine *m = d->call.store->kinds[d->kind].machine;
    struct batch_purge p = {.state = BATCH_NO_STATE,
                            .before_ms = clock_wall_ms() - in->age_ms,
                            .limit = in->limit < BATCH_LIST_MAX ? in->limit : BATCH_LIST_MAX};
    struct batch_purged purged;
    if (in->state.p && (p.state = batch_machine_named(m, in->state, &d->why)) < 0)
        return p.state;
    if (in->state.p && !batch_machine_is_final(m, p.state))
        return err_set(&d->why, DROVER_BAD_ARGUMENT, "%s is not a final state",
                       m->states[p.state].name);
    TRY(batch_purge(&d->call, d->kind, &p, &purged));
    json_open(&d->out, '{');
    json_member_int(&d->out, "removed", purged.removed);
    if (d->kind == BATCH_KIND_BATCH)
        json_member_int(&d->out, "jobs", purged.jobs);
    json_member_int(&d->out, "locked", purged.locked);
    json_member_bool(&d->out, "more", purged.more);
    json_close(&d->out, '}');
    return 0;
}

/* GET /v1/machines: the states, for consoles and commands that do not know the site's pipeline. */

static void put_state(struct buf *b, const struct batch_machine *m, int state)
{
    const struct batch_machine_state *s = &m->states[state];
    json_open(b, '{');
    json_member_text(b, "name", str_of(s->name));
    json_member_open(b, "to", '[');
    for (int to = 0; to < m->count; to++)
        if (batch_machine_allows(m, state, to))
            json_put_text(b, str_of(m->states[to].name));
    json_close(b, ']');
    if (s->success != BATCH_NO_STATE)
        json_member_text(b, "success", str_of(m->states[s->success].name));
    if (s->fail != BATCH_NO_STATE)
        json_member_text(b, "fail", str_of(m->states[s->fail].name));
    json_member_bool(b, "end", batch_machine_is_final(m, state));
    json_member_text(b, "batch", str_of(BATCH_LISTS[s->list]));
    json_close(b, '}');
}

static void put_machine(struct buf *b, const char *key, const struct batch_machine *m)
{
    json_member_open(b, key, '{');
    json_member_text(b, "first", str_of(m->states[m->first].name));
    json_member_open(b, "states", '[');
    for (int i = 0; i < m->count; i++)
        put_state(b, m, i);
    json_close(b, ']');
    json_close(b, '}');
}

void get_machines(struct http_request *r)
{
    const struct batch_server *h = r->arg;
    CLEANUP(buf_release) struct buf b = {0};
    json_open(&b, '{');
    put_machine(&b, "batch", &h->store->machines.batch);
    put_machine(&b, "job", &h->store->machines.job);
    put_machine(&b, "access", &h->store->machines.access);
    json_close(&b, '}');
    http_reply(r, 200, buf_str(&b));
}
