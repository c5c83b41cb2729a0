/*
 * Batches and jobs: the tree after each operation, node by node, as in the tables of the
 * specification. On the embedded keeper in memory, or on the ZooKeeper that DROVER_TEST_ZK names.
 */
#include "batch_scene.h"

#include "batch/item.h"

/* As if the time of parked jobs were over. */
static void release_parked(struct scene *s, const char *state)
{
    const struct batch_view *v = &s->store->kinds[BATCH_KIND_JOB].views[state_no(s, state)];
    struct keeper_names names;

    OK(s, batch_node_children(&s->c, &names, NULL, "%s", v->dir));
    for (size_t i = 0; i < names.count; i++)
        list_view_release(v->list, str_of(names.names[i]), NULL);
}

static void a_new_batch(void **state)
{
    struct scene *s = *state;
    char found[BATCH_ID_LEN + 1];
    const char *bid = new_batch(s, "{\"profile_name\": \"p\", \"batchID\": \"u-1\"}");

    assert_string_equal(bid, "bid0000000000");
    expect_tree(s, "/batches",
                "/batches\n"
                "/batches/bid0000000000\n"
                "/batches/bid0000000000/status {\"status\":\"Pending\",\"last_modified\":\"T\"}\n"
                "/batches/bid0000000000/submission {\"profile_name\":\"p\",\"batchID\":\"u-1\"}\n");
    expect_tree(s, "/batch-uuids", "/batch-uuids\n/batch-uuids/u-1 bid0000000000\n");
    OK(s, batch_find(&s->c, STR("u-1"), found));
    assert_string_equal(found, bid);
    assert_int_equal(batch_find(&s->c, STR("u-2"), found), DROVER_NO_NODE);
    assert_int_equal(
        batch_item_new(&s->c, BATCH_KIND_BATCH, parse(s, "{\"batchID\": \"u-1\"}"), found),
        DROVER_EXISTS);
    assert_non_null(strstr(s->why.text, bid));
    assert_int_equal(
        batch_item_new(&s->c, BATCH_KIND_BATCH, parse(s, "{\"batchID\": \"a/b\"}"), found),
        DROVER_BAD_ARGUMENT);
    assert_int_equal(tree_count(s->k, "/batches"), 1);
    assert_string_equal(new_batch(s, "{}"), "bid0000000001");
}

static void a_new_job(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}");

    new_job(s, bid,
            "{\"configuration\": {\"profile_name\": \"p\"}, \"priority\": 7, \"identifiers\": "
            "{\"primary_id\": \"ark:/1/2\"}, \"metadata\": {\"erc_who\": \"me\"}, "
            "\"space_needed\": 12}");
    expect_tree(
        s, "/jobs/jid0000000001",
        "/jobs/jid0000000001\n"
        "/jobs/jid0000000001/bid bid0000000000\n"
        "/jobs/jid0000000001/configuration {\"profile_name\":\"p\"}\n"
        "/jobs/jid0000000001/identifiers {\"primary_id\":\"ark:/1/2\"}\n"
        "/jobs/jid0000000001/metadata {\"erc_who\":\"me\"}\n"
        "/jobs/jid0000000001/priority 7\n"
        "/jobs/jid0000000001/space_needed 12\n"
        "/jobs/jid0000000001/status {\"status\":\"Pending\",\"last_successful_status\":null,"
        "\"last_modification_date\":\"T\",\"retry_count\":0}\n");
    expect_tree(s, "/jobs/states/pending",
                "/jobs/states/pending\n/jobs/states/pending/07-jid0000000001\n");
    expect_tree(s, "/batches/bid0000000000/states/batch-processing",
                "/batches/bid0000000000/states/batch-processing\n"
                "/batches/bid0000000000/states/batch-processing/jid0000000001\n");
    assert_string_equal(s->events, "batch bid0000000000 Pending;job jid0000000001 Pending;");
}

static void acquiring_and_moving(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *low, *high;
    struct batch_move m = {.state = STR("next"), .message = STR("big"), .priority = 3};
    struct batch_item j, j2;
    int to;

    low = new_job(s, bid, "{\"configuration\": {}, \"priority\": 60}");
    high = new_job(s, bid, "{\"configuration\": {}, \"priority\": 40}");
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_JOB, state_no(s, "Pending"), &j), 1);
    assert_string_equal(j.id, high);
    assert_int_equal(batch_item_acquire(&s->c2, BATCH_KIND_JOB, state_no(s, "Pending"), &j2), 1);
    assert_string_equal(j2.id, low);
    assert_true(j2.token > j.token);
    assert_int_equal(batch_item_acquire(&s->c2, BATCH_KIND_JOB, state_no(s, "Pending"), &j2), 0);
    expect_tree(s, "/jobs/jid0000000002/lock", "/jobs/jid0000000002/lock (ephemeral)\n");

    m.token = j.token;
    OK(s, batch_item_move(&s->c, BATCH_KIND_JOB, str_of(high), &m, &to));
    expect_tree(s, "/jobs/jid0000000002/status",
                "/jobs/jid0000000002/status {\"status\":\"Estimating\",\"last_successful_status\":"
                "\"Pending\",\"last_modification_date\":\"T\",\"retry_count\":0,\"message\":"
                "\"big\"}\n");
    expect_tree(s, "/jobs/jid0000000002/priority", "/jobs/jid0000000002/priority 3\n");
    expect_tree(s, "/jobs/states/estimating",
                "/jobs/states/estimating\n/jobs/states/estimating/03-jid0000000002\n");
    expect_tree(s, "/jobs/states/pending",
                "/jobs/states/pending\n/jobs/states/pending/60-jid0000000001\n");
    assert_int_equal(keeper_exists(s->k, "/jobs/jid0000000002/lock", NULL), DROVER_NO_NODE);

    assert_int_equal(move(&s->c, high, "next", j.token), DROVER_FENCED);
    assert_int_equal(move(&s->c, low, "next", 0), DROVER_LOCKED);
    assert_int_equal(move(&s->c, low, "next", j2.token + 1), DROVER_FENCED);
    keeper_close(s->other); /* the session of the second consumer ends, and so does its lock */
    s->other = NULL;
    assert_int_equal(move(&s->c, low, "next", j2.token), DROVER_FENCED);
    release_parked(s, "Pending");
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_JOB, state_no(s, "Pending"), &j2), 1);
    assert_string_equal(j2.id, low);
}

static void a_batch_from_beginning_to_end(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{\"batchID\": \"u\"}"), *a, *b;
    char got[BATCH_ID_LEN + 1];
    int64_t token, number;

    assert_int_equal(acquire_batch(&s->c, s->store->batch.pending, got, &token), 1);
    assert_string_equal(got, bid);
    assert_int_equal(acquire_batch(&s->c2, s->store->batch.pending, got, &token), 0);
    a = new_job(s, bid, "{\"configuration\": {}}");
    all_the_way(s, a);
    assert_string_equal(batch_state(s, bid), "Pending"); /* it is locked */
    b = new_job(s, bid, "{\"configuration\": {}}");
    OK(s, batch_to(&s->c, bid, "next", token));
    assert_string_equal(batch_state(s, bid), "Processing");
    assert_int_equal(acquire_batch(&s->c2, s->store->batch.reporting, got, &token), 0);
    all_the_way(s, b);
    assert_string_equal(batch_state(s, bid), "Reporting");
    OK(s, batch_report_number(&s->c, str_of(bid), s->store->batch.reporting, &number));
    assert_true(number > 0);
    assert_int_equal(acquire_batch(&s->c2, s->store->batch.reporting, got, &token), 1);
    assert_int_equal(batch_to(&s->c, bid, "next", 0), DROVER_LOCKED);
    OK(s, batch_to(&s->c2, bid, "next", token));
    assert_string_equal(batch_state(s, bid), "Completed");
    assert_int_equal(keeper_exists(s->k, "/batches/bid0000000000/status-report", NULL),
                     DROVER_NO_NODE);
    assert_int_equal(batch_to(&s->c2, bid, "next", 0), DROVER_NOT_ALLOWED);
    tree_check(s->k);
    OK(s, batch_item_delete(&s->c, BATCH_KIND_BATCH, str_of(bid)));
    assert_int_equal(tree_count(s->k, "/batches"), 0);
    assert_int_equal(tree_count(s->k, "/batch-uuids"), 0);
    assert_int_equal(tree_count(s->k, "/jobs"), 1);
}

static void a_failure_a_report_and_an_update(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *a, *b;
    char got[BATCH_ID_LEN + 1];
    int64_t token;

    a = new_job(s, bid, "{\"configuration\": {}}");
    b = new_job(s, bid, "{\"configuration\": {}}");
    OK(s, move(&s->c, a, "fail", 0));
    all_the_way(s, b);
    assert_string_equal(batch_state(s, bid), "Reporting");
    assert_int_equal(acquire_batch(&s->c, s->store->batch.reporting, got, &token), 1);
    OK(s, batch_to(&s->c, bid, "next", token));
    assert_string_equal(batch_state(s, bid), "Failed");
    expect_tree(s, "/batches/bid0000000000/status-report",
                "/batches/bid0000000000/status-report {\"failed_jobs\":[\"jid0000000001\"]}\n");
    assert_int_equal(batch_item_delete(&s->c, BATCH_KIND_BATCH, str_of(bid)), DROVER_NOT_ALLOWED);

    OK(s, batch_job_requeue(&s->c, str_of(a), (struct str){0}, STR("again")));
    expect_tree(
        s, "/jobs/jid0000000001/status",
        "/jobs/jid0000000001/status {\"status\":\"Pending\",\"last_successful_status\":null,"
        "\"last_modification_date\":\"T\",\"retry_count\":1,\"message\":\"again\"}\n");
    expect_tree(s, "/batches/bid0000000000/states/batch-processing",
                "/batches/bid0000000000/states/batch-processing 5\n"
                "/batches/bid0000000000/states/batch-processing/jid0000000001\n");
    assert_int_equal(batch_job_requeue(&s->c, str_of(a), (struct str){0}, (struct str){0}),
                     DROVER_NOT_ALLOWED);
    all_the_way(s, a);
    assert_string_equal(batch_state(s, bid), "UpdateReporting");
    assert_int_equal(acquire_batch(&s->c, s->store->batch.reporting, got, &token), 0);
    assert_int_equal(acquire_batch(&s->c, s->store->batch.update_reporting, got, &token), 1);
    OK(s, batch_to(&s->c, bid, "next", token));
    assert_string_equal(batch_state(s, bid), "Completed");
    expect_tree(s, "/batches/bid0000000000/status-report",
                "/batches/bid0000000000/status-report {\"failed_jobs\":[]}\n");
}

/* Jobs that change during a report are not in it: another report is due, with another number. */
static void jobs_that_change_during_a_report(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *a, *b;
    struct batch_move m = {.state = STR("next"), .failed = STR("[\"jid0000000001\"]")};
    char got[BATCH_ID_LEN + 1];
    int64_t number, first;
    int to;

    a = new_job(s, bid, "{\"configuration\": {}}");
    b = new_job(s, bid, "{\"configuration\": {}}");
    OK(s, move(&s->c, a, "fail", 0));
    all_the_way(s, b);
    OK(s, batch_report_number(&s->c, str_of(bid), s->store->batch.reporting, &first));
    assert_int_equal(acquire_batch(&s->c, s->store->batch.reporting, got, &m.token), 1);
    OK(s, batch_job_requeue(&s->c2, str_of(a), STR("Notify"), (struct str){0}));
    OK(s, move(&s->c2, a, "next", 0));
    assert_string_equal(batch_state(s, bid), "Reporting"); /* the reporter has locked it */
    OK(s, batch_item_move(&s->c, BATCH_KIND_BATCH, str_of(bid), &m, &to));
    assert_string_equal(batch_state(s, bid), "UpdateReporting");
    expect_tree(s, "/batches/bid0000000000/status-report",
                "/batches/bid0000000000/status-report {\"failed_jobs\":[\"jid0000000001\"]}\n");

    OK(s, batch_report_number(&s->c, str_of(bid), s->store->batch.update_reporting, &number));
    assert_true(number > first);
    first = number;
    assert_int_equal(acquire_batch(&s->c, s->store->batch.update_reporting, got, &m.token), 1);
    assert_int_equal(keeper_set(s->k, "/batches/bid0000000000/states/batch-processing", NO_BYTES,
                                KEEPER_ANY_VERSION, NULL),
                     0); /* as if a job had entered and left */
    m.failed = STR("[]");
    OK(s, batch_item_move(&s->c, BATCH_KIND_BATCH, str_of(bid), &m, &to));
    OK(s, batch_report_number(&s->c, str_of(bid), s->store->batch.update_reporting, &number));
    assert_true(number > first);
    assert_int_equal(acquire_batch(&s->c, s->store->batch.update_reporting, got, &m.token), 1);
    OK(s, batch_item_move(&s->c, BATCH_KIND_BATCH, str_of(bid), &m, &to));
    assert_string_equal(batch_state(s, bid), "Completed");
    expect_tree(s, "/batches/bid0000000000/status-report",
                "/batches/bid0000000000/status-report {\"failed_jobs\":[]}\n");
}

static void holding_node_by_node(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *a = new_job(s, bid, "{\"configuration\": {}}");

    OK(s, batch_job_hold(&s->c, str_of(a), STR("wait")));
    expect_tree(s, "/jobs/jid0000000001/status",
                "/jobs/jid0000000001/status {\"status\":\"Held\",\"last_successful_status\":null,"
                "\"last_modification_date\":\"T\",\"retry_count\":0,\"message\":\"wait\"}\n");
    expect_tree(s, "/jobs/states/held", "/jobs/states/held\n/jobs/states/held/05-jid0000000001\n");
    expect_tree(s, "/jobs/states/pending", "/jobs/states/pending\n");
    expect_tree(s, "/batches/bid0000000000/states/batch-processing",
                "/batches/bid0000000000/states/batch-processing\n"
                "/batches/bid0000000000/states/batch-processing/jid0000000001\n");
    OK(s, move(&s->c, a, "Deleted", 0)); /* the last job: the report is due */
    expect_tree(s, "/jobs/states/deleted",
                "/jobs/states/deleted\n/jobs/states/deleted/05-jid0000000001\n");
    expect_tree(s, "/batches/bid0000000000/states",
                "/batches/bid0000000000/states\n"
                "/batches/bid0000000000/states/batch-deleted\n"
                "/batches/bid0000000000/states/batch-deleted/jid0000000001\n"
                "/batches/bid0000000000/states/batch-processing 2\n");
    expect_tree(s, "/drover/batch/reporting",
                "/drover/batch/reporting\n/drover/batch/reporting/bid0000000000\n");

    bid = new_batch(s, "{}");
    OK(s, batch_to(&s->c, bid, "Held", 0));
    expect_tree(s, "/batches/bid0000000001/status",
                "/batches/bid0000000001/status {\"status\":\"Held\",\"last_modified\":\"T\"}\n");
    expect_tree(s, "/drover/batch/held", "/drover/batch/held\n/drover/batch/held/bid0000000001\n");
    OK(s, batch_to(&s->c, bid, "Deleted", 0));
    expect_tree(s, "/drover/batch/held", "/drover/batch/held\n");
    OK(s, batch_item_delete(&s->c, BATCH_KIND_BATCH, str_of(bid)));
    assert_int_equal(keeper_exists(s->k, "/batches/bid0000000001", NULL), DROVER_NO_NODE);
}

static void holding(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *a, *b;
    int64_t count;
    struct batch_lock lock;
    struct batch_item j;

    a = new_job(s, bid, "{\"configuration\": {\"profile_name\": \"x_content\"}, \"priority\": 1}");
    b = new_job(s, bid, "{\"configuration\": {\"profile_name\": \"y\"}, \"priority\": 2}");
    OK(s, batch_job_hold(&s->c, str_of(a), STR("wait")));
    assert_int_equal(tree_count(s->k, "/jobs/states/held"), 1);
    assert_int_equal(batch_job_release(&s->c, str_of(b)), DROVER_NOT_ALLOWED);
    OK(s, batch_job_release_profile(&s->c, STR("y"), &count));
    assert_int_equal(count, 0);
    OK(s, batch_job_release_profile(&s->c, STR("x_content"), &count));
    assert_int_equal(count, 1);

    OK(s, batch_lock_take(&s->c, BATCH_LOCK_COLLECTIONS, STR("x"), STR("admin"), &lock));
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_JOB, state_no(s, "Pending"), &j), 1);
    assert_string_equal(j.id, b);
    OK(s, batch_item_unlock(&s->c, BATCH_KIND_JOB, str_of(b), j.token));
    OK(s, batch_lock_take(&s->c, BATCH_LOCK_QUEUE, STR("ingest"), STR("admin"), &lock));
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_JOB, state_no(s, "Pending"), &j), 0);
    OK(s, batch_lock_release(&s->c, BATCH_LOCK_QUEUE, STR("ingest"), 0));
    OK(s, batch_lock_release(&s->c, BATCH_LOCK_COLLECTIONS, STR("x"), 0));
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_JOB, state_no(s, "Pending"), &j), 1);
    assert_string_equal(j.id, a);
    OK(s, batch_item_unlock(&s->c, BATCH_KIND_JOB, str_of(a), 0));

    OK(s, batch_to(&s->c, bid, "Held", 0)); /* which holds its jobs too */
    release_parked(s, "Pending");
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_JOB, state_no(s, "Pending"), &j), 0);
    OK(s, batch_to(&s->c, bid, "Pending", 0));
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_JOB, state_no(s, "Pending"), &j), 1);
}

static void fields_and_priority(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"),
               *a = new_job(s, bid, "{\"configuration\": {}, \"priority\": 50}");
    struct batch_item j;

    OK(s, batch_job_set_priority(&s->c, str_of(a), 5, 0));
    expect_tree(s, "/jobs/states/pending",
                "/jobs/states/pending\n/jobs/states/pending/05-jid0000000001\n");
    assert_int_equal(batch_job_set_priority(&s->c, str_of(a), 100, 0), DROVER_BAD_ARGUMENT);
    assert_int_equal(batch_job_set_priority(&s->c, str_of(a), -1, 0), DROVER_BAD_ARGUMENT);
    OK(s, batch_job_set_field(&s->c, str_of(a), "inventory", STR("{\"mode\":\"add\"}"), 0));
    OK(s, batch_job_set_field(&s->c, str_of(a), "space_needed", STR("99"), 0));
    expect_tree(s, "/jobs/jid0000000001/inventory",
                "/jobs/jid0000000001/inventory {\"mode\":\"add\"}\n");
    expect_tree(s, "/jobs/jid0000000001/space_needed", "/jobs/jid0000000001/space_needed 99\n");
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_JOB, state_no(s, "Pending"), &j), 1);
    assert_int_equal(batch_job_set_field(&s->c, str_of(a), "space_needed", STR("1"), j.token + 1),
                     DROVER_FENCED);
    /* A state changes the priority, and the entry in the next list has the new one. */
    assert_int_equal(keeper_set(s->k, "/jobs/jid0000000001/priority", STR("88"), -1, NULL), 0);
    OK(s, move(&s->c, a, "next", j.token));
    expect_tree(s, "/jobs/states/estimating",
                "/jobs/states/estimating\n/jobs/states/estimating/88-jid0000000001\n");
}

static void every_refused_move_changes_nothing(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *a = new_job(s, bid, "{\"configuration\": {}}");
    char *before = tree_text(s->k, "/");

    assert_int_equal(move(&s->c, a, "Notify", 0), DROVER_NOT_ALLOWED);
    assert_int_equal(move(&s->c, a, "Nowhere", 0), DROVER_BAD_ARGUMENT);
    assert_int_equal(move(&s->c, "jid0000000099", "next", 0), DROVER_NO_NODE);
    assert_int_equal(move(&s->c, "jid1", "next", 0), DROVER_NO_NODE);
    assert_int_equal(move(&s->c, "../x", "next", 0), DROVER_NO_NODE);
    assert_int_equal(move(&s->c, a, "next", 12345), DROVER_FENCED);
    assert_int_equal(batch_item_delete(&s->c, BATCH_KIND_JOB, str_of(a)), DROVER_NOT_ALLOWED);
    assert_int_equal(batch_to(&s->c, bid, "Completed", 0), DROVER_NOT_ALLOWED);
    assert_int_equal(batch_item_delete(&s->c, BATCH_KIND_BATCH, str_of(bid)), DROVER_NOT_ALLOWED);
    expect_tree(s, "/", before);
    free(before);
}

static void locks_by_name(void **state)
{
    struct scene *s = *state;
    struct batch_lock lock, *list;
    size_t count;

    OK(s,
       batch_lock_take(&s->c, BATCH_LOCK_STORAGE, STR("ark:/13030/x_y"), STR("ingest01"), &lock));
    expect_tree(s, "/locks/storage",
                "/locks/storage\n/locks/storage/ark_13030_x_y {\"name\":\"ark:/13030/x_y\","
                "\"who\":\"ingest01\",\"when\":\"T\"} (ephemeral)\n");
    assert_int_equal(
        batch_lock_take(&s->c2, BATCH_LOCK_STORAGE, STR("ark:/13030/x_y"), STR("b"), &lock),
        DROVER_LOCKED);
    assert_non_null(strstr(s->why.text, "ingest01"));
    assert_int_equal(
        batch_lock_take(&s->c2, BATCH_LOCK_STORAGE, STR("ark:/13030/x/y"), STR("b"), &lock),
        DROVER_LOCKED);
    assert_non_null(strstr(s->why.text, "is taken by 'ark:/13030/x_y'"));
    assert_int_equal(
        batch_lock_release(&s->c2, BATCH_LOCK_STORAGE, STR("ark:/13030/x_y"), lock.token + 1),
        DROVER_FENCED);
    OK(s, batch_lock_release(&s->c2, BATCH_LOCK_STORAGE, STR("ark:/13030/x_y"), lock.token));
    assert_int_equal(batch_lock_release(&s->c2, BATCH_LOCK_STORAGE, STR("ark:/13030/x_y"), 0),
                     DROVER_NO_NODE);
    assert_int_equal(batch_lock_take(&s->c, BATCH_LOCK_QUEUE, STR("egress"), STR("b"), &lock),
                     DROVER_BAD_ARGUMENT);
    assert_int_equal(batch_lock_take(&s->c, BATCH_LOCK_COLLECTIONS, STR("a/b"), STR("b"), &lock),
                     DROVER_BAD_ARGUMENT);
    OK(s, batch_lock_take(&s->c2, BATCH_LOCK_INVENTORY, STR("ark:/1/2"), (struct str){0}, &lock));
    OK(s, batch_lock_take(&s->c2, BATCH_LOCK_COLLECTIONS, STR("c"), STR("me"), &lock));
    keeper_close(s->other);
    s->other = NULL;
    OK(s, batch_lock_list(&s->c, BATCH_LOCK_INVENTORY, &list, &count));
    assert_int_equal(count, 0);
    OK(s, batch_lock_list(&s->c, BATCH_LOCK_COLLECTIONS, &list, &count));
    assert_int_equal(count, 1);
    assert_true(str_eq(list[0].who, STR("me")) && !list[0].ephemeral && list[0].age_ms >= 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scene_setup, scene_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_batch),
        TEST(a_new_job),
        TEST(acquiring_and_moving),
        TEST(a_batch_from_beginning_to_end),
        TEST(a_failure_a_report_and_an_update),
        TEST(jobs_that_change_during_a_report),
        TEST(holding_node_by_node),
        TEST(holding),
        TEST(fields_and_priority),
        TEST(every_refused_move_changes_nothing),
        TEST(locks_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
