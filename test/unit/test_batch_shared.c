/*
 * A tree that is shared with clients that have states, fields and locks of their own. On the
 * embedded keeper in memory, or on the ZooKeeper that DROVER_TEST_ZK names.
 */
#include "batch_scene.h"

#include "batch/tools.h"
#include "keeper_cutter.h"

#define FOREIGN_STATUS                                                                             \
    "{\"status\":\"Storing\",\"last_modified\":\"then\",\"message\":\"\",\"colour\":\"red\","      \
    "\"last_successful_status\":\"Processing\",\"retry_count\":1}"

/* A job as a foreign client with a larger table moves it. */
static const char *storing_job(struct scene *s, const char *bid)
{
    const char *jid = new_job(s, bid, "{\"configuration\": {}}");

    node_ensure(s, "/jobs/states/storing");
    node_set(s, arena_printf(&s->arena, "/jobs/%s/status", jid), FOREIGN_STATUS);
    assert_int_equal(
        keeper_delete(s->k, arena_printf(&s->arena, "/jobs/states/pending/05-%s", jid), -1), 0);
    node_create(s, arena_printf(&s->arena, "/jobs/states/storing/05-%s", jid));
    return jid;
}

static size_t list(struct scene *s, enum batch_kind_id kind, const char *state, const char *bid)
{
    struct batch_filter f = {.state = BATCH_NO_STATE, .limit = 100};
    struct batch_item *items;
    size_t count;

    if (state && batch_filter_state(&s->c, kind, str_of(state), &f))
        return SIZE_MAX;
    if (bid)
        f.bid = str_of(bid);
    if (batch_item_list(&s->c, kind, &f, &items, &count))
        return SIZE_MAX;
    return count;
}

static void ignore(void *arg, const char *id, const char *problem, bool repaired)
{
    (void)arg, (void)id, (void)problem, (void)repaired;
}

/* Of fsck. */
static int64_t findings(struct scene *s)
{
    struct batch_repair_totals totals;

    OK(s, batch_repair_run(&s->c, &(struct batch_repair_options){true, .fn = ignore}, &totals));
    return totals.findings;
}

static void a_job_in_a_state_of_others(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *jid = storing_job(s, bid);
    struct batch_machines machines;
    struct batch_counts counts;
    struct batch_item j;

    OK(s, batch_item_get(&s->c, BATCH_KIND_JOB, str_of(jid), &j));
    assert_true(str_eq(batch_status_name(j.kind->machine, &j.status), STR("Storing")));
    assert_int_equal(list(s, BATCH_KIND_JOB, NULL, NULL), 1);
    assert_int_equal(list(s, BATCH_KIND_JOB, NULL, bid), 1);
    assert_int_equal(list(s, BATCH_KIND_JOB, "Storing", NULL), 1);
    assert_int_equal(list(s, BATCH_KIND_JOB, "storing", bid), 1);
    assert_int_equal(list(s, BATCH_KIND_JOB, "Pending", NULL), 0);
    assert_int_equal(list(s, BATCH_KIND_JOB, "Flying", NULL), SIZE_MAX);
    assert_int_equal(list(s, BATCH_KIND_JOB, "../pending", NULL), SIZE_MAX);
    OK(s, batch_item_count(&s->c, BATCH_KIND_JOB, &counts));
    assert_int_equal(counts.total, 1);
    assert_non_null(counts.unknown);
    assert_true(str_eq(counts.unknown->name, STR("Storing")) && counts.unknown->count == 1);

    assert_int_equal(findings(s), 0);
    assert_int_equal(keeper_delete(s->k, "/jobs/states/storing/05-jid0000000001", -1), 0);
    assert_int_equal(findings(s), 1);
    node_create(s, "/jobs/states/storing/05-jid0000000001");

    assert_int_equal(move(&s->c, jid, "next", 0), DROVER_NOT_ALLOWED);
    assert_non_null(strstr(s->why.text, "Storing"));
    assert_int_equal(move(&s->c, jid, "Failed", 0), DROVER_NOT_ALLOWED);
    assert_int_equal(batch_item_delete(&s->c, BATCH_KIND_JOB, str_of(jid)), DROVER_NOT_ALLOWED);
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_JOB, state_no(s, "Pending"), &j), 0);
    OK(s, batch_job_set_priority(&s->c, str_of(jid), 7, 0));
    expect_tree(s, "/jobs/states/storing",
                "/jobs/states/storing\n/jobs/states/storing/07-jid0000000001\n");
    expect_tree(s, "/jobs/jid0000000001/status", "/jobs/jid0000000001/status " FOREIGN_STATUS "\n");

    /* A process that knows the state goes on from there. */
    OK(s, batch_machines_load(&s->arena, STR("storing"), &machines, &s->why));
    struct batch_store *store = batch_store_open(&(struct batch_store_options){&machines});
    struct batch_call c = {store, s->k, &s->arena, &s->why};
    OK(s, batch_store_init(&c));
    int storing = batch_machine_find(&machines.job, STR("Storing"));
    assert_int_equal(batch_item_acquire(&c, BATCH_KIND_JOB, storing, &j), 1);
    OK(s, move(&c, jid, "next", j.token));
    expect_tree(s, "/jobs/jid0000000001/status",
                "/jobs/jid0000000001/status {\"status\":\"Recording\",\"last_modified\":\"T\","
                "\"message\":\"\",\"colour\":\"red\",\"last_successful_status\":\"Storing\","
                "\"retry_count\":1,\"last_modification_date\":\"T\"}\n");
    batch_store_close(store);
    assert_int_equal(list(s, BATCH_KIND_JOB, "Recording", NULL), 1);
    assert_int_equal(list(s, BATCH_KIND_JOB, "Storing", NULL), 0); /* its list is there */
    OK(s, move(&s->c, jid, "next", 0));
    expect_tree(s, "/jobs/jid0000000001/status",
                "/jobs/jid0000000001/status {\"status\":\"Notify\",\"last_modified\":\"T\","
                "\"message\":\"\",\"colour\":\"red\",\"last_successful_status\":\"Recording\","
                "\"retry_count\":1,\"last_modification_date\":\"T\"}\n");
}

/* A batch that ends with such a job in it goes with the job. */
static void deleting_a_batch_with_a_job_of_others(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}");

    storing_job(s, bid);
    OK(s, batch_to(&s->c, bid, "Held", 0));
    OK(s, batch_to(&s->c, bid, "Deleted", 0));
    node_ensure(s, arena_printf(&s->arena, "/batches/%s/states/batch-failed", bid));
    node_create(s, arena_printf(&s->arena, "/batches/%s/states/batch-failed/jid0000000077", bid));
    OK(s, batch_item_delete(&s->c, BATCH_KIND_BATCH, str_of(bid)));
    expect_tree(s, "/jobs/states/storing", "/jobs/states/storing\n");
    assert_int_equal(tree_count(s->k, "/batches"), 0);
}

static void a_batch_in_a_state_of_others(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *other = new_batch(s, "{}");
    struct batch_counts counts;
    struct batch_item b;

    node_set(s, arena_printf(&s->arena, "/batches/%s/status", bid), "{\"status\":\"Packing\"}");
    OK(s, batch_index_sweep(&s->c, BATCH_KIND_BATCH));
    assert_int_equal(list(s, BATCH_KIND_BATCH, NULL, NULL), 2);
    assert_int_equal(list(s, BATCH_KIND_BATCH, "packing", NULL), 1);
    assert_int_equal(list(s, BATCH_KIND_BATCH, "Pending", NULL), 1);
    assert_int_equal(list(s, BATCH_KIND_BATCH, "Flying", NULL), SIZE_MAX);
    OK(s, batch_item_count(&s->c, BATCH_KIND_BATCH, &counts));
    assert_int_equal(counts.known[s->store->batch.pending], 1);
    assert_true(str_eq(counts.unknown->name, STR("Packing")) && counts.unknown->count == 1);
    assert_int_equal(counts.total, 2);
    assert_int_equal(batch_to(&s->c, bid, "Processing", 0), DROVER_NOT_ALLOWED);
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_BATCH, s->store->batch.pending, &b), 1);
    assert_string_equal(b.id, other);
    node_set(s, arena_printf(&s->arena, "/batches/%s/status", bid), "{\"status\":\"Processing\"}");
    node_ensure(s, arena_printf(&s->arena, "/batches/%s/states", bid));
    OK(s, batch_index_sweep(&s->c, BATCH_KIND_BATCH));
    assert_int_equal(list(s, BATCH_KIND_BATCH, "Processing", NULL), 1);
}

/* A message stays until another one is given, also when the job comes from the cache. */
static void messages(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *jid = new_job(s, bid, "{\"configuration\": {}}");
    struct batch_move m = {.state = STR("next"), .message = STR("slow"), .priority = -1};
    static const char *const WANTED[] = {"\"message\":\"slow\"", "\"message\":\"slow\"",
                                         "\"message\":\"\"", "\"message\":\"\""};
    struct batch_item j;

    for (int i = 0; i < 4; i++) {
        char *text;

        assert_int_equal(
            batch_item_acquire(&s->c, BATCH_KIND_JOB, state_no(s, "Pending") + (i ? i + 1 : 0), &j),
            1);
        m.token = j.token;
        m.message = i == 0 ? STR("slow") : i == 2 ? STR("") : (struct str){0};
        OK(s, batch_item_move(&s->c, BATCH_KIND_JOB, str_of(jid), &m, NULL));
        text = tree_text(s->k, "/jobs/jid0000000001/status");
        if (!strstr(text, WANTED[i]))
            fail_msg("step %d: %s", i, text);
        free(text);
    }
}

/* A status of the library has no members that keep it out of the cache. */
static void a_status_of_others_in_the_cache(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *jid = new_job(s, bid, "{\"configuration\": {}}");
    int steps[] = {state_no(s, "Pending"), state_no(s, "Estimating"), state_no(s, "Provisioning")};
    struct batch_item j;

    node_set(s, "/jobs/jid0000000001/status",
             "{\"status\":\"Pending\",\"last_successful_status\":null,\"last_modified\":\"then\","
             "\"retry_count\":0,\"message\":\"\"}");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_JOB, steps[i], &j), 1);
        assert_true(batch_job_cache_get(&s->c, j.number, j.token, &j));
        OK(s, move(&s->c, jid, "next", j.token));
    }
    expect_tree(s, "/jobs/jid0000000001/status",
                "/jobs/jid0000000001/status {\"status\":\"Downloading\",\"last_successful_status\":"
                "\"Provisioning\",\"last_modification_date\":\"T\",\"last_modified\":\"T\","
                "\"retry_count\":0,\"message\":\"\"}\n");
}

static void defaults_and_identifiers(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}");

    new_job(s, bid, "{\"configuration\": {}}");
    new_job(s, bid, "{\"configuration\": {}, \"identifiers\": {\"primary_id\": null, \"x\": 1}}");
    expect_tree(s, "/jobs/jid0000000001/identifiers",
                "/jobs/jid0000000001/identifiers {\"local_id\":[]}\n");
    expect_tree(s, "/jobs/jid0000000002/identifiers",
                "/jobs/jid0000000002/identifiers {\"x\":1}\n");
    expect_tree(s, "/jobs/jid0000000001/priority", "/jobs/jid0000000001/priority 5\n");
}

/* Taken by plain creation, with or without a session, and by the names of earlier releases. */
static void locks_of_others(void **state)
{
    static const struct {
        enum batch_lock_kind kind;
        const char *node, *name;
    } rows[] = {
        {BATCH_LOCK_STORAGE, "/locks/storage/ark_13030_x", "ark:/13030/x"},
        {BATCH_LOCK_STORAGE, "/locks/storage/ark:_13030_x", "ark:/13030/x"},
        {BATCH_LOCK_INVENTORY, "/locks/inventory/a_b_c:d", "a/b:/c:d"},
        {BATCH_LOCK_LOCALID, "/locks/localid/me_1", "me/1"},
        {BATCH_LOCK_COLLECTIONS, "/locks/collections/demo", "demo"},
        {BATCH_LOCK_QUEUE, "/locks/queue/ingest", "ingest"},
    };
    struct scene *s = *state;
    struct batch_lock lock, again;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum batch_lock_kind kind = rows[i].kind;
        struct str name = str_of(rows[i].name);

        assert_int_equal(keeper_create(s->other, rows[i].node, NO_BYTES, i % 2, NULL), 0);
        assert_int_equal(batch_lock_take(&s->c, kind, name, STR("we"), &lock), DROVER_LOCKED);
        OK(s, batch_lock_get(&s->c, kind, name, &lock));
        assert_false(lock.named);
        OK(s, batch_lock_release(&s->c, kind, name, lock.token));
        assert_int_equal(keeper_exists(s->k, rows[i].node, NULL), DROVER_NO_NODE);
        OK(s, batch_lock_take(&s->c, kind, name, STR("we"), &again));
        assert_true(again.named && again.token > lock.token);
        if (!strchr(rows[i].node, ':') || i == 2)
            assert_int_equal(keeper_create(s->other, rows[i].node, NO_BYTES, 0, NULL),
                             DROVER_EXISTS);
        assert_int_equal(batch_lock_release(&s->c, kind, name, lock.token), DROVER_FENCED);
        OK(s, batch_lock_release(&s->c, kind, name, again.token));
    }
}

/* A keeper before whose transactions the lock is lost, and a foreign client takes it. */
struct robbed {
    struct cutter cutter; /* first member: the two pointers are interchangeable */
    struct keeper_ops ops;
    const struct keeper_ops *passed_on;
    struct scene *s;
};

static int rob_then_multi(struct keeper *k, const struct keeper_op *ops, size_t count,
                          struct keeper_result *results)
{
    struct robbed *r = (struct robbed *)k;
    struct keeper_stat stat;

    assert_int_equal(keeper_exists(r->s->k, "/locks/storage/x", &stat), 0);
    if (stat.version) { /* it is ours */
        assert_int_equal(keeper_delete(r->s->k, "/locks/storage/x", -1), 0);
        assert_int_equal(keeper_create(r->s->other, "/locks/storage/x", NO_BYTES, 0, NULL), 0);
    }
    return r->passed_on->multi(k, ops, count, results);
}

static void a_lock_that_another_took_is_not_released(void **state)
{
    struct scene *s = *state;
    struct robbed r = {.s = s};
    struct batch_call c = {s->store, &r.cutter.base, &s->arena, &s->why};
    struct batch_lock lock;

    OK(s, batch_lock_take(&s->c, BATCH_LOCK_STORAGE, STR("x"), STR("w"), &lock));
    cutter_init(&r.cutter, s->k, 1 << 30, 0, false);
    r.passed_on = r.cutter.base.ops;
    r.ops = *r.passed_on;
    r.ops.multi = rob_then_multi;
    r.cutter.base.ops = &r.ops;
    assert_int_equal(batch_lock_release(&c, BATCH_LOCK_STORAGE, STR("x"), lock.token),
                     DROVER_FENCED);
    assert_int_equal(keeper_exists(s->k, "/locks/storage/x", NULL), 0);
}

/* A name whose node looks like the old node of another one. */
static void a_name_like_an_old_node(void **state)
{
    struct str ark = STR("ark:/1/2"), like = STR("ark:_1/2");
    struct scene *s = *state;
    struct batch_lock first, second, none;

    OK(s, batch_lock_take(&s->c, BATCH_LOCK_STORAGE, ark, STR("a"), &first));
    OK(s, batch_lock_take(&s->c, BATCH_LOCK_STORAGE, like, STR("b"), &second));
    OK(s, batch_lock_get(&s->c, BATCH_LOCK_STORAGE, ark, &none));
    assert_int_equal(none.token, first.token);
    OK(s, batch_lock_release(&s->c, BATCH_LOCK_STORAGE, ark, first.token));
    assert_int_equal(batch_lock_get(&s->c, BATCH_LOCK_STORAGE, ark, &none), DROVER_NO_NODE);
    OK(s, batch_lock_take(&s->c, BATCH_LOCK_STORAGE, ark, STR("a"), &first));
    OK(s, batch_lock_release(&s->c, BATCH_LOCK_STORAGE, like, second.token));
}

/* Two names with one node: neither passes for the other. */
static void names_that_share_a_node(void **state)
{
    static const char *const NAMES[] = {"ark:/13030/x", "ark/13030/x", "ark_13030/x",
                                        "ark_13030_x"};
    struct scene *s = *state;
    struct batch_lock lock, none;

    for (int i = 0; i < 4; i++) {
        OK(s, batch_lock_take(&s->c, BATCH_LOCK_STORAGE, str_of(NAMES[i]), STR("w"), &lock));
        for (int j = 0; j < 4; j++) {
            struct str name = str_of(NAMES[j]);

            assert_int_equal(batch_lock_take(&s->c2, BATCH_LOCK_STORAGE, name, STR("w"), &none),
                             DROVER_LOCKED);
            assert_true(i == j || strstr(s->why.text, NAMES[i]));
            assert_int_equal(batch_lock_get(&s->c2, BATCH_LOCK_STORAGE, name, &none),
                             i == j ? 0 : DROVER_NO_NODE);
            if (i != j)
                assert_int_equal(batch_lock_release(&s->c2, BATCH_LOCK_STORAGE, name, lock.token),
                                 DROVER_NO_NODE);
        }
        OK(s, batch_lock_release(&s->c, BATCH_LOCK_STORAGE, str_of(NAMES[i]), lock.token));
    }
}

static void a_locked_ingest_queue_stops_batches(void **state)
{
    struct scene *s = *state;
    char got[BATCH_ID_LEN + 1];
    int64_t token;

    new_batch(s, "{}");
    node_create(s, "/locks/queue/ingest");
    assert_int_equal(acquire_batch(&s->c, s->store->batch.pending, got, &token), 0);
    assert_int_equal(keeper_delete(s->k, "/locks/queue/ingest", -1), 0);
    assert_int_equal(acquire_batch(&s->c, s->store->batch.pending, got, &token), 1);
}

/* Wherever others can put one. */
static void long_names(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *jid = new_job(s, bid, "{\"configuration\": {}}");
    const char *batch = arena_printf(&s->arena, "/batches/%s", bid);
    char name[2000] = "";
    const char *dirs[] = {"/locks/storage",
                          "/jobs/states",
                          "/batch-uuids",
                          batch,
                          arena_printf(&s->arena, "%s/states", batch),
                          arena_printf(&s->arena, "%s/states/batch-processing", batch),
                          arena_printf(&s->arena, "/jobs/%s", jid)};
    struct batch_counts counts;
    struct batch_lock *locks;
    struct batch_item b;
    size_t count;

    memset(name, 'x', sizeof name - 1);
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        node_create(s, arena_printf(&s->arena, "%s/%s", dirs[i], name));
    OK(s, batch_lock_list(&s->c, BATCH_LOCK_STORAGE, &locks, &count));
    assert_int_equal(count, 1);
    assert_int_equal(list(s, BATCH_KIND_JOB, NULL, NULL), 1);
    assert_int_equal(list(s, BATCH_KIND_JOB, NULL, bid), 1);
    OK(s, batch_item_count(&s->c, BATCH_KIND_JOB, &counts));
    assert_int_equal(counts.total, 1);
    assert_int_equal(findings(s), 2); /* the UUID, and the entry of the batch */
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_BATCH, s->store->batch.pending, &b), 1);
    OK(s, batch_item_unlock(&s->c, BATCH_KIND_BATCH, str_of(bid), b.token));
    OK(s, batch_to(&s->c, bid, "Held", 0));
    OK(s, batch_to(&s->c, bid, "Deleted", 0));
    OK(s, batch_item_delete(&s->c, BATCH_KIND_BATCH, str_of(bid)));
    assert_int_equal(tree_count(s->k, "/batches"), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scene_setup, scene_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_job_in_a_state_of_others),
        TEST(deleting_a_batch_with_a_job_of_others),
        TEST(a_batch_in_a_state_of_others),
        TEST(messages),
        TEST(a_status_of_others_in_the_cache),
        TEST(defaults_and_identifiers),
        TEST(locks_of_others),
        TEST(a_lock_that_another_took_is_not_released),
        TEST(a_name_like_an_old_node),
        TEST(names_that_share_a_node),
        TEST(a_locked_ingest_queue_stops_batches),
        TEST(long_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
