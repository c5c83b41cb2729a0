#include "batch_ops.h"

#include "batch/item.h"
#include "batch/tools.h"

static const struct json *parse(struct scene *s, const char *text)
{
    return json_parse(&s->a, str_of(text), &s->why);
}

void ok(struct scene *s, int err)
{
    if (err < 0)
        fail_msg("%s (%s)", drover_err_name(err), s->why.text);
}

static void put(struct scene *s, const char *path, const char *data)
{
    assert_int_equal(keeper_create(s->k, path, str_of(data), 0, NULL), 0);
}

/* A batch with three jobs, and an access item. */
void begin(struct scene *s)
{
    struct local_options lo = {.mode = LOCAL_NONE};
    struct batch_store_options o = {.machines = NULL};
    struct batch_job_spec specs[3];

    memset(s, 0, sizeof *s);
    assert_int_equal(local_open(&lo, &s->local, &s->why), 0);
    assert_int_equal(local_connect(s->local, NULL, &s->k), 0);
    assert_int_equal(local_connect(s->local, NULL, &s->victim), 0);
    s->store = batch_store_open(&o);
    s->c = (struct batch_call){s->store, s->k, &s->a, &s->why};
    ok(s, batch_store_init(&s->c));
    ok(s, batch_item_new(&s->c, BATCH_KIND_BATCH, parse(s, "{\"batchID\":\"u\"}"), s->bid));
    for (int i = 0; i < 3; i++)
        ok(s, batch_job_read_spec(&s->c, parse(s, "{\"configuration\":{\"profile_name\":\"p\"}}"),
                                  &specs[i]));
    ok(s, batch_job_create(&s->c, str_of(s->bid), specs, 3, NULL, s->jids));
    ok(s, batch_item_new(&s->c, BATCH_KIND_SMALL, parse(s, "{}"), s->qid));
}

void end(struct scene *s)
{
    if (s->victim)
        keeper_close(s->victim);
    keeper_close(s->k);
    batch_store_close(s->store);
    local_close(s->local);
    arena_release(&s->a);
}

static int move_on(struct batch_call *c, const char *jid, const char *state, int64_t token)
{
    struct batch_move m = {.state = str_of(state), .priority = -1, .token = token};
    int to;

    return batch_item_move(c, BATCH_KIND_JOB, str_of(jid), &m, &to);
}

static void drive(struct scene *s, int job)
{
    for (int i = 0; i < 7; i++)
        ok(s, move_on(&s->c, s->jids[job], "next", 0));
}

int move_batch(struct batch_call *c, const char *bid, const char *state, int64_t token)
{
    struct batch_move m = {.state = str_of(state), .token = token};
    int to;

    return batch_item_move(c, BATCH_KIND_BATCH, str_of(bid), &m, &to);
}

/* The state before each operation, set up by another session. */

static void nothing(struct scene *s)
{
    (void)s;
}

static void almost_done(struct scene *s)
{
    drive(s, 0);
    drive(s, 1);
    for (int i = 0; i < 6; i++)
        ok(s, move_on(&s->c, s->jids[2], "next", 0));
}

static void one_failed(struct scene *s)
{
    ok(s, move_on(&s->c, s->jids[0], "fail", 0));
}

static void held(struct scene *s)
{
    ok(s, batch_job_hold(&s->c, str_of(s->jids[0]), STR("wait")));
}

void due(struct scene *s)
{
    one_failed(s);
    drive(s, 1);
    drive(s, 2);
}

static void completed(struct scene *s)
{
    for (int i = 0; i < 3; i++)
        drive(s, i);
    ok(s, move_batch(&s->c, s->bid, "next", 0));
}

/* The operations. c is the call of the victim, which already holds its locks. */

static int do_create_batch(struct scene *s, struct batch_call *c)
{
    char bid[BATCH_ID_LEN + 1];

    return batch_item_new(c, BATCH_KIND_BATCH, parse(s, "{\"batchID\":\"v\"}"), bid);
}

static int do_create_jobs(struct scene *s, struct batch_call *c)
{
    struct batch_job_spec specs[2];
    char jids[2][BATCH_ID_LEN + 1];

    for (int i = 0; i < 2; i++)
        ok(s, batch_job_read_spec(&s->c, parse(s, "{\"configuration\":{}}"), &specs[i]));
    return batch_job_create(c, str_of(s->bid), specs, 2, NULL, jids);
}

static int do_acquire(struct scene *s, struct batch_call *c)
{
    struct batch_item j;
    int got = batch_item_acquire(c, BATCH_KIND_JOB, s->store->machines.job.first, &j);

    return got < 0 ? got : 0;
}

static void take_job(struct scene *s, struct batch_call *c)
{
    struct batch_item j;

    assert_int_equal(batch_item_acquire(c, BATCH_KIND_JOB, s->store->machines.job.first, &j), 1);
    s->token = j.token;
}

static int do_move(struct scene *s, struct batch_call *c)
{
    struct batch_move m = {
        .state = STR("next"), .message = STR("m"), .priority = 1, .token = s->token};
    int to;

    return batch_item_move(c, BATCH_KIND_JOB, str_of(s->jids[0]), &m, &to);
}

static int do_fail(struct scene *s, struct batch_call *c)
{
    return move_on(c, s->jids[0], "fail", s->token);
}

static int do_last_move(struct scene *s, struct batch_call *c)
{
    return move_on(c, s->jids[2], "next", 0);
}

static int do_hold(struct scene *s, struct batch_call *c)
{
    return batch_job_hold(c, str_of(s->jids[0]), STR("wait"));
}

static int do_release(struct scene *s, struct batch_call *c)
{
    return batch_job_release(c, str_of(s->jids[0]));
}

static int do_requeue(struct scene *s, struct batch_call *c)
{
    return batch_job_requeue(c, str_of(s->jids[0]), (struct str){0}, (struct str){0});
}

static int do_priority(struct scene *s, struct batch_call *c)
{
    return batch_job_set_priority(c, str_of(s->jids[0]), 3, 0);
}

static int do_field(struct scene *s, struct batch_call *c)
{
    return batch_job_set_field(c, str_of(s->jids[0]), "inventory", STR("{}"), 0);
}

static int do_acquire_batch(struct scene *s, struct batch_call *c)
{
    char bid[BATCH_ID_LEN + 1];
    int64_t token;
    int got = acquire_batch(c, s->store->batch.pending, bid, &token);

    return got < 0 ? got : 0;
}

void take_batch(struct scene *s, struct batch_call *c)
{
    char bid[BATCH_ID_LEN + 1];

    assert_int_equal(acquire_batch(c, s->store->batch.reporting, bid, &s->token), 1);
}

static int do_report(struct scene *s, struct batch_call *c)
{
    return move_batch(c, s->bid, "next", s->token);
}

static int do_hold_batch(struct scene *s, struct batch_call *c)
{
    return move_batch(c, s->bid, "Held", 0);
}

static int do_delete_batch(struct scene *s, struct batch_call *c)
{
    return batch_item_delete(c, BATCH_KIND_BATCH, str_of(s->bid));
}

static int do_delete_job(struct scene *s, struct batch_call *c)
{
    return batch_item_delete(c, BATCH_KIND_JOB, str_of(s->jids[0]));
}

static int do_lock(struct scene *s, struct batch_call *c)
{
    struct batch_lock lock;

    (void)s;
    return batch_lock_take(c, BATCH_LOCK_STORAGE, STR("ark:/1/2"), STR("me"), &lock);
}

/* Locks of another session, which do not end with that of the victim. */

static void collection_locked(struct scene *s)
{
    struct batch_lock lock;

    ok(s, batch_lock_take(&s->c, BATCH_LOCK_COLLECTIONS, STR("p"), STR("admin"), &lock));
    s->token = lock.token;
}

static int do_release_lock(struct scene *s, struct batch_call *c)
{
    return batch_lock_release(c, BATCH_LOCK_COLLECTIONS, STR("p"), s->token);
}

static void storage_locked(struct scene *s)
{
    struct batch_lock lock;

    ok(s, batch_lock_take(&s->c, BATCH_LOCK_STORAGE, STR("ark:/1/2"), STR("me"), &lock));
}

static int do_break_lock(struct scene *s, struct batch_call *c)
{
    (void)s;
    return batch_lock_release(c, BATCH_LOCK_STORAGE, STR("ark:/1/2"), 0);
}

static void job_locked(struct scene *s)
{
    take_job(s, &s->c);
}

static int do_break_job(struct scene *s, struct batch_call *c)
{
    return batch_item_unlock(c, BATCH_KIND_JOB, str_of(s->jids[0]), 0);
}

static void all_held(struct scene *s)
{
    for (int i = 0; i < 3; i++)
        ok(s, batch_job_hold(&s->c, str_of(s->jids[i]), (struct str){0}));
}

static int do_release_profile(struct scene *s, struct batch_call *c)
{
    int64_t count;

    (void)s;
    return batch_job_release_profile(c, STR("p"), &count);
}

static void access_done(struct scene *s)
{
    int to;

    for (int i = 0; i < 2; i++)
        ok(s, batch_item_move(&s->c, BATCH_KIND_SMALL, str_of(s->qid),
                              &(struct batch_move){STR("next"), (struct str){0}, 0}, &to));
}

static int do_delete_access(struct scene *s, struct batch_call *c)
{
    return batch_item_delete(c, BATCH_KIND_SMALL, str_of(s->qid));
}

static void records(struct scene *s)
{
    static const char *const NAMES[] = {"mrtQ-02100000000003", "mrtQ-01000000000004"};

    put(s, "/ingest", "");
    for (int i = 0; i < 2; i++)
        assert_int_equal(keeper_create(s->k, arena_printf(&s->a, "/ingest/%s", NAMES[i]),
                                       STR("\0\0\0\0\0\0\0\0\1a=b"), 0, NULL),
                         0);
}

static void count_job(void *arg, const char *jid)
{
    (void)arg, (void)jid;
}

static int do_import(struct scene *s, struct batch_call *c)
{
    struct batch_legacy_import in = {
        .path = STR("/ingest"), .batch = str_of(s->bid), .remove = true};

    return batch_legacy_import(c, &in, count_job, NULL);
}

/* Every sort of half-done work of a foreign client that can be repaired. */
static void half_done(struct scene *s)
{
    const char *status = "{\"status\":\"Estimating\",\"last_successful_status\":\"Pending\","
                         "\"last_modification_date\":\"2026-01-01T00:00:00.000Z\","
                         "\"retry_count\":0}";

    assert_int_equal(keeper_set(s->k, arena_printf(&s->a, "/jobs/%s/status", s->jids[0]),
                                str_of(status), KEEPER_ANY_VERSION, NULL),
                     0);
    assert_int_equal(
        keeper_delete(s->k, arena_printf(&s->a, "/jobs/states/pending/05-%s", s->jids[1]), -1), 0);
    put(s, arena_printf(&s->a, "/jobs/states/notify/05-%s", s->jids[2]), "");
    put(s, arena_printf(&s->a, "/batches/%s/states/batch-failed", s->bid), "");
    put(s, arena_printf(&s->a, "/batches/%s/states/batch-failed/%s", s->bid, s->jids[2]), "");
    put(s, "/jobs/states/pending/00-jid0000000099", "");
    put(s, arena_printf(&s->a, "/batches/%s/states/batch-completed", s->bid), "");
    put(s, arena_printf(&s->a, "/batches/%s/states/batch-completed/jid0000000098", s->bid), "");
    put(s, "/batch-uuids/nobody", "bid0000000077");
    put(s, "/jobs/jid0000000050", ""); /* created, but for its status; in no batch; in steps */
    put(s, "/jobs/jid0000000051", "");
    put(s, "/jobs/jid0000000051/bid", s->bid);
    put(s, "/batches/bid0000000050", "");
    put(s, "/batches/bid0000000051", "");
    put(s, "/batches/bid0000000051/submission", "{}");
    put(s, "/batches/bid0000000052", ""); /* taken by one who died */
    put(s, "/batches/bid0000000052/submission", "{}");
    put(s, "/batches/bid0000000052/status", "{\"status\":\"Processing\"}");
    put(s, "/batches/bid0000000052/states", "");
    put(s, "/access/small/qid0000000050", "");
    put(s, "/access/small/qid0000000050/token", "{}");
    assert_int_equal(
        keeper_delete(s->k, arena_printf(&s->a, "/drover/batch/pending/%s", s->bid), -1), 0);
}

static void no_finding(void *arg, const char *id, const char *problem, bool repaired)
{
    (void)arg, (void)id, (void)problem, (void)repaired;
}

static int do_repair(struct scene *s, struct batch_call *c)
{
    struct batch_repair_totals totals;

    (void)s;
    return batch_repair_run(c, &(struct batch_repair_options){true, .fn = no_finding}, &totals);
}

/* The number of findings: an interrupted repair does not add any. */
int64_t findings(struct scene *s)
{
    struct batch_repair_totals totals;

    ok(s,
       batch_repair_run(&s->c, &(struct batch_repair_options){false, .fn = no_finding}, &totals));
    return totals.findings;
}

static int do_create_access(struct scene *s, struct batch_call *c)
{
    char id[BATCH_ID_LEN + 1];

    return batch_item_new(c, BATCH_KIND_LARGE, parse(s, "{}"), id);
}

static int do_acquire_access(struct scene *s, struct batch_call *c)
{
    struct batch_item a;
    int got = batch_item_acquire(c, BATCH_KIND_SMALL, BATCH_NO_STATE, &a);

    (void)s;
    return got < 0 ? got : 0;
}

static int do_move_access(struct scene *s, struct batch_call *c)
{
    int to;

    return batch_item_move(c, BATCH_KIND_SMALL, str_of(s->qid),
                           &(struct batch_move){STR("next"), (struct str){0}, 0}, &to);
}

static int purge(struct batch_call *c, enum batch_kind_id kind)
{
    struct batch_purge o = {.state = BATCH_NO_STATE, .before_ms = INT64_MAX, .limit = 100};
    struct batch_purged purged;

    return batch_purge(c, kind, &o, &purged);
}

static int do_purge_batches(struct scene *s, struct batch_call *c)
{
    (void)s;
    return purge(c, BATCH_KIND_BATCH);
}

static int do_purge_jobs(struct scene *s, struct batch_call *c)
{
    (void)s;
    return purge(c, BATCH_KIND_JOB);
}

static int do_set_token(struct scene *s, struct batch_call *c)
{
    return batch_access_set(c, BATCH_KIND_SMALL, str_of(s->qid), parse(s, "{\"url\": \"u\"}"), 0);
}

const struct batch_op OPS[] = {
    {"create batch", nothing, NULL, do_create_batch, WHOLE},
    {"create jobs", nothing, NULL, do_create_jobs, WHOLE},
    {"acquire job", nothing, NULL, do_acquire, WHOLE},
    {"move job", nothing, take_job, do_move, WHOLE},
    {"fail job", nothing, take_job, do_fail, WHOLE},
    {"last move", almost_done, NULL, do_last_move, WHOLE},
    {"hold job", nothing, NULL, do_hold, WHOLE},
    {"release job", held, NULL, do_release, WHOLE},
    {"requeue job", one_failed, NULL, do_requeue, WHOLE},
    {"requeue after report", due, NULL, do_requeue, WHOLE},
    {"set priority", nothing, NULL, do_priority, WHOLE},
    {"set field", nothing, NULL, do_field, WHOLE},
    {"acquire batch", nothing, NULL, do_acquire_batch, WHOLE},
    {"report", due, take_batch, do_report, WHOLE},
    {"hold batch", nothing, NULL, do_hold_batch, WHOLE},
    {"delete batch", completed, NULL, do_delete_batch, STEPS},
    {"delete job", completed, NULL, do_delete_job, WHOLE},
    {"lock", nothing, NULL, do_lock, WHOLE},
    {"release lock", collection_locked, NULL, do_release_lock, WHOLE},
    {"break lock", storage_locked, NULL, do_break_lock, WHOLE},
    {"break lock of a job", job_locked, NULL, do_break_job, WHOLE},
    {"release profile", all_held, NULL, do_release_profile, STEPS},
    {"import", records, NULL, do_import, STEPS},
    {"repair", half_done, NULL, do_repair, REPAIR},
    {"delete access", access_done, NULL, do_delete_access, WHOLE},
    {"create access", nothing, NULL, do_create_access, WHOLE},
    {"acquire access", nothing, NULL, do_acquire_access, WHOLE},
    {"move access", nothing, NULL, do_move_access, WHOLE},
    {"set token", nothing, NULL, do_set_token, WHOLE},
    {"purge batches", completed, NULL, do_purge_batches, STEPS},
    {"purge jobs", completed, NULL, do_purge_jobs, STEPS},
};

const int OP_COUNT = sizeof OPS / sizeof *OPS;
