/*
 * The jobs of a batch and its end, in a tree that is shared with other clients. On the embedded
 * keeper in memory, or on the ZooKeeper that DROVER_TEST_ZK names.
 */
#include "batch_scene.h"

#include "batch/tools.h"
#include "keeper_cutter.h"

/* A batch whose only job a foreign client has moved to the end. */
static const char *ended_batch(struct scene *s)
{
    const char *bid = new_batch(s, "{}"), *jid = new_job(s, bid, "{\"configuration\": {}}");
    const char *lists = arena_printf(&s->arena, "/batches/%s/states", bid);

    node_set(s, arena_printf(&s->arena, "/jobs/%s/status", jid), "{\"status\":\"Completed\"}");
    OK(s, keeper_delete(s->k, arena_printf(&s->arena, "/jobs/states/pending/05-%s", jid), -1));
    node_ensure(s, "/jobs/states/completed");
    node_create(s, arena_printf(&s->arena, "/jobs/states/completed/05-%s", jid));
    OK(s, keeper_delete(s->k, arena_printf(&s->arena, "%s/batch-processing/%s", lists, jid), -1));
    node_ensure(s, arena_printf(&s->arena, "%s/batch-completed", lists));
    node_create(s, arena_printf(&s->arena, "%s/batch-completed/%s", lists, jid));
    return bid;
}

struct rival {
    struct scene *s;
    const char *bid;
};

/* Locks a batch before fsck comes to it. */
static void lock_it(void *arg, const char *id, const char *problem, bool repaired)
{
    struct rival *r = arg;
    (void)problem;
    assert_string_not_equal(id, r->bid);
    assert_true(repaired);
    node_create(r->s, arena_printf(&r->s->arena, "/batches/%s/lock", r->bid));
}

static void fsck_does_not_report_what_another_took_meanwhile(void **state)
{
    struct scene *s = *state;
    struct batch_repair_totals totals;
    ended_batch(s);
    struct rival r = {s, ended_batch(s)};
    OK(s, batch_repair_run(&s->c, &(struct batch_repair_options){true, .fn = lock_it, .arg = &r},
                           &totals));
    assert_int_equal(totals.findings, 1);
    assert_int_equal(totals.repaired, 1);
}

static void pages_of_the_jobs_of_a_batch(void **state)
{
    struct scene *s = *state;
    const char *other = new_batch(s, "{}"), *bid = new_batch(s, "{}"), *jids[3];
    struct batch_filter f = {.state = BATCH_NO_STATE, .bid = str_of(bid), .start = 2, .limit = 9};
    struct batch_item *items;
    size_t count;

    new_job(s, other, "{\"configuration\": {}}");
    for (int i = 0; i < 3; i++)
        jids[i] = new_job(s, bid, "{\"configuration\": {}}");
    OK(s, batch_item_list(&s->c, BATCH_KIND_JOB, &f, &items, &count));
    assert_int_equal(count, 1);
    assert_string_equal(items[0].id, jids[2]);
    OK(s, move(&s->c, jids[0], "next", 0));
    f.state = state_no(s, "Pending");
    f.start = 1;
    OK(s, batch_item_list(&s->c, BATCH_KIND_JOB, &f, &items, &count));
    assert_int_equal(count, 1);
    assert_string_equal(items[0].id, jids[2]);
}

/* A foreign client ends the retry of a job after the reporter has read the lists. */
static void a_retry_of_others_during_the_report(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *jid = new_job(s, bid, "{\"configuration\": {}}");
    const char *entry = arena_printf(&s->arena, "/batches/%s/states/batch-processing/%s", bid, jid);
    struct batch_item b;

    OK(s, move(&s->c, jid, "fail", 0));
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_BATCH, s->store->batch.reporting, &b), 1);
    node_create(s, entry);
    OK(s, keeper_delete(s->k, entry, -1));
    OK(s, batch_to(&s->c, bid, "next", b.token));
    assert_string_equal(batch_state(s, bid), "UpdateReporting");
}

/* The one that took it, and made it Processing first, may not have added all jobs. */
static void a_locked_batch_has_not_ended(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *batch = arena_printf(&s->arena, "/batches/%s", bid);

    OK(s, move(&s->c, new_job(s, bid, "{\"configuration\": {}}"), "fail", 0));
    node_set(s, arena_printf(&s->arena, "%s/status", batch), "{\"status\":\"Processing\"}");
    OK(s, batch_index_sweep(&s->c, BATCH_KIND_BATCH));
    node_create(s, arena_printf(&s->arena, "%s/lock", batch));
    OK(s, batch_settle(&s->c, bid));
    assert_string_equal(batch_state(s, bid), "Processing");
    OK(s, keeper_delete(s->k, arena_printf(&s->arena, "%s/lock", batch), -1));
    assert_int_equal(batch_settle(&s->c, bid), 1);
    assert_string_equal(batch_state(s, bid), "Reporting");
}

/* What a foreign client makes: each node by itself. */
static const char *foreign_batch(struct scene *s)
{
    const char *bid = new_batch(s, "{}"), *path = arena_printf(&s->arena, "/batches/%s", bid);

    node_create(s, arena_printf(&s->arena, "%s/states", path));
    node_create(s, arena_printf(&s->arena, "%s/states/batch-processing", path));
    node_set(s, arena_printf(&s->arena, "%s/status", path), "{\"status\":\"Processing\"}");
    OK(s, batch_index_sweep(&s->c, BATCH_KIND_BATCH));
    return bid;
}

static const char *foreign_job(struct scene *s, const char *bid)
{
    static const char *const NODES[][2] = {{"priority", "5"},
                                           {"space_needed", "0"},
                                           {"configuration", "{}"},
                                           {"status", "{\"status\":\"Pending\"}"}};
    char *path;

    assert_int_equal(keeper_create(s->k, "/jobs/jid", NO_BYTES, KEEPER_SEQUENTIAL, &path), 0);
    const char *jid = arena_text(&s->arena, str_of(strrchr(path, '/') + 1));
    free(path);
    path = arena_printf(&s->arena, "/jobs/%s/bid", jid);
    assert_int_equal(keeper_create(s->k, path, str_of(bid), 0, NULL), 0);
    for (size_t i = 0; i < sizeof NODES / sizeof *NODES; i++)
        assert_int_equal(keeper_create(s->k,
                                       arena_printf(&s->arena, "/jobs/%s/%s", jid, NODES[i][0]),
                                       str_of(NODES[i][1]), 0, NULL),
                         0);
    node_create(s, arena_printf(&s->arena, "/jobs/states/pending/05-%s", jid));
    node_create(s, arena_printf(&s->arena, "/batches/%s/states/batch-processing/%s", bid, jid));
    return jid;
}

/* It has ended, but only the rule of active.c may say so, once. */
static void expect_open(struct scene *s, const char *bid)
{
    assert_string_equal(batch_state(s, bid), "Processing");
}

static void expect_settled_once(struct scene *s, const char *bid)
{
    assert_int_equal(batch_settle(&s->c, bid), 1);
    assert_string_equal(batch_state(s, bid), "Reporting");
    assert_int_equal(batch_settle(&s->c, bid), 0);
}

/* Ours ends each of its jobs before the next one is there. */
static void a_batch_that_others_are_filling(void **state)
{
    struct scene *s = *state;
    const char *bid = foreign_batch(s);

    for (int i = 0; i < 3; i++) {
        all_the_way(s, foreign_job(s, bid));
        expect_open(s, bid);
    }
    const char *jids[] = {foreign_job(s, bid), foreign_job(s, bid)};
    for (int i = 0; i < 2; i++) { /* the last change before the last one is ours */
        OK(s, move(&s->c, jids[i], "fail", 0));
        expect_open(s, bid);
    }
    expect_settled_once(s, bid);
}

static void a_batch_of_ours_that_others_have_filled(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *own = new_job(s, bid, "{\"configuration\": {}}");

    OK(s, batch_to(&s->c, bid, "Processing", 0));
    OK(s, move(&s->c, foreign_job(s, bid), "fail", 0));
    OK(s, move(&s->c, own, "fail", 0));
    expect_open(s, bid);
    expect_settled_once(s, bid);
}

/* A failed job of a foreign batch is retried by ours: the update waits in the same way. */
static void a_retry_in_a_batch_of_others(void **state)
{
    struct scene *s = *state;
    const char *bid = foreign_batch(s), *jid = foreign_job(s, bid);

    OK(s, move(&s->c, jid, "fail", 0));
    expect_settled_once(s, bid);
    OK(s, batch_to(&s->c, bid, "next", 0));
    OK(s, batch_job_requeue(&s->c, str_of(jid), (struct str){0}, (struct str){0}));
    OK(s, move(&s->c, jid, "fail", 0));
    assert_string_equal(batch_state(s, bid), "Failed");
    assert_int_equal(batch_settle(&s->c, bid), 1);
    assert_string_equal(batch_state(s, bid), "UpdateReporting");
}

/* A keeper before whose first transaction a foreign client adds a job to a batch. */
struct filled {
    struct cutter cutter; /* first member: the two pointers are interchangeable */
    struct keeper_ops ops;
    const struct keeper_ops *passed_on;
    struct scene *s;
    const char *bid, *jid;
};

static int fill_then_multi(struct keeper *k, const struct keeper_op *ops, size_t count,
                           struct keeper_result *results)
{
    struct filled *f = (struct filled *)k;

    if (!f->jid)
        f->jid = foreign_job(f->s, f->bid);
    return f->passed_on->multi(k, ops, count, results);
}

/* The transaction that hides the change of the other client does not make it forgotten. */
static void a_job_of_others_that_comes_during_a_move(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *jids[2];
    struct filled f = {.s = s, .bid = bid};
    struct batch_call c = {s->store, &f.cutter.base, &s->arena, &s->why};

    for (int i = 0; i < 2; i++)
        jids[i] = new_job(s, bid, "{\"configuration\": {}}");
    OK(s, batch_to(&s->c, bid, "Processing", 0));
    cutter_init(&f.cutter, s->k, 1 << 30, 0, false);
    f.passed_on = f.cutter.base.ops;
    f.ops = *f.passed_on;
    f.ops.multi = fill_then_multi;
    f.cutter.base.ops = &f.ops;
    OK(s, move(&c, jids[0], "fail", 0));
    assert_non_null(f.jid);
    OK(s, move(&s->c, f.jid, "fail", 0));
    OK(s, move(&s->c, jids[1], "fail", 0));
    expect_open(s, bid);
    expect_settled_once(s, bid);
}

/* Its holder may add jobs, whoever it is. */
static void the_last_job_of_a_locked_batch(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *jid = new_job(s, bid, "{\"configuration\": {}}"),
               *lock = arena_printf(&s->arena, "/batches/%s/lock", bid);

    OK(s, batch_to(&s->c, bid, "Processing", 0));
    node_create(s, lock);
    OK(s, move(&s->c, jid, "fail", 0));
    expect_open(s, bid);
    OK(s, keeper_delete(s->k, lock, -1));
    expect_settled_once(s, bid);
}

/* As an earlier version left it. Only ours changes it: the report is due at once. */
static void a_list_without_a_number(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *jid = new_job(s, bid, "{\"configuration\": {}}");
    const char *list = arena_printf(&s->arena, "/batches/%s/states/batch-processing", bid);

    expect_tree(s, list, arena_printf(&s->arena, "%s\n%s/%s\n", list, list, jid));
    OK(s, batch_to(&s->c, bid, "Processing", 0));
    OK(s, move(&s->c, jid, "fail", 0));
    assert_string_equal(batch_state(s, bid), "Reporting");
    expect_tree(s, list, arena_printf(&s->arena, "%s 2\n", list));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scene_setup, scene_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fsck_does_not_report_what_another_took_meanwhile),
        TEST(pages_of_the_jobs_of_a_batch),
        TEST(a_retry_of_others_during_the_report),
        TEST(a_locked_batch_has_not_ended),
        TEST(a_batch_that_others_are_filling),
        TEST(a_batch_of_ours_that_others_have_filled),
        TEST(a_retry_in_a_batch_of_others),
        TEST(a_job_of_others_that_comes_during_a_move),
        TEST(the_last_job_of_a_locked_batch),
        TEST(a_list_without_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
