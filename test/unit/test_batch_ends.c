/*
 * The jobs of a batch and its end, in a tree that is shared with other clients. On the embedded
 * keeper in memory, or on the ZooKeeper that DROVER_TEST_ZK names.
 */
#include "batch_scene.h"

#include "batch/tools.h"

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

#define TEST(f) cmocka_unit_test_setup_teardown(f, scene_setup, scene_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fsck_does_not_report_what_another_took_meanwhile),
        TEST(pages_of_the_jobs_of_a_batch),
        TEST(a_retry_of_others_during_the_report),
        TEST(a_locked_batch_has_not_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
