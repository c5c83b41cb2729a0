/*
 * The access queues and the records of older queues: the tree after each operation, node by node,
 * as in the specification; and items that foreign clients create.
 */
#include "batch_scene.h"

#include "base/clock.h"
#include "batch/item.h"
#include "batch/tools.h"
#include "keeper_cutter.h"

static void put(struct scene *s, const char *path, struct str data)
{
    assert_int_equal(keeper_create(s->other, path, data, 0, NULL), 0);
}

static int move_access(struct scene *s, const char *id, const char *to, int64_t token)
{
    int state;

    return batch_item_move(&s->c, BATCH_KIND_SMALL, str_of(id),
                           &(struct batch_move){.state = str_of(to), .token = token}, &state);
}

static const char *new_access(struct scene *s, enum batch_kind_id size, const char *token)
{
    char *id = arena_alloc(&s->arena, BATCH_ID_LEN + 1);

    OK(s, batch_item_new(&s->c, size, parse(s, token), id));
    return id;
}

#define TOKEN                                                                                      \
    "{\"token\":\"t\",\"delivery-node\":7,\"cloud-content-byte\":123,\"status\":201,\"url\":"      \
    "\"u\","                                                                                       \
    "\"anticipated-availability-time\":\"2026\"}"

static void the_life_of_an_access_item(void **state)
{
    struct scene *s = *state;
    const char *id = new_access(s, BATCH_KIND_SMALL, TOKEN);
    struct batch_item a;
    int to;

    assert_string_equal(id, "qid0000000000");
    expect_tree(
        s, "/access",
        "/access\n/access/large\n/access/small\n/access/small/qid0000000000\n"
        "/access/small/qid0000000000/status {\"status\":\"Pending\",\"last_modified\":\"T\"}\n"
        "/access/small/qid0000000000/token " TOKEN "\n");
    expect_tree(s, "/drover/access/small/pending",
                "/drover/access/small/pending\n/drover/access/small/pending/qid0000000000\n");

    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_LARGE, BATCH_NO_STATE, &a), 0);
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_SMALL, BATCH_NO_STATE, &a), 1);
    expect_tree(s, "/access/small/qid0000000000/lock",
                "/access/small/qid0000000000/lock (ephemeral)\n");
    assert_int_equal(move_access(s, id, "Completed", a.token), DROVER_NOT_ALLOWED);
    assert_int_equal(move_access(s, id, "next", 0), DROVER_LOCKED);
    OK(s, batch_item_move(&s->c, BATCH_KIND_SMALL, str_of(id),
                          &(struct batch_move){STR("next"), STR("m"), a.token}, &to));
    expect_tree(s, "/access/small/qid0000000000",
                "/access/small/qid0000000000\n"
                "/access/small/qid0000000000/lock (ephemeral)\n"
                "/access/small/qid0000000000/status {\"status\":\"Processing\",\"last_modified\":"
                "\"T\",\"message\":\"m\"}\n"
                "/access/small/qid0000000000/token " TOKEN "\n");
    expect_tree(s, "/drover/access/small",
                "/drover/access/small\n/drover/access/small/failed\n"
                "/drover/access/small/pending\n/drover/access/small/processing\n"
                "/drover/access/small/processing/qid0000000000\n");

    OK(s, move_access(s, id, "fail", a.token)); /* unlocks it */
    expect_tree(s, "/access/small/qid0000000000/status",
                "/access/small/qid0000000000/status {\"status\":\"Failed\",\"last_modified\":\"T\","
                "\"message\":\"m\"}\n");
    assert_int_equal(move_access(s, id, "Processing", a.token), DROVER_FENCED);
    assert_int_equal(batch_item_delete(&s->c, BATCH_KIND_SMALL, str_of(id)), DROVER_NOT_ALLOWED);
    OK(s, move_access(s, id, "Processing", 0));
    OK(s, move_access(s, id, "next", 0));
    expect_tree(s, "/access/small/qid0000000000",
                "/access/small/qid0000000000\n"
                "/access/small/qid0000000000/status {\"status\":\"Completed\",\"last_modified\":"
                "\"T\",\"message\":\"m\"}\n"
                "/access/small/qid0000000000/token " TOKEN "\n");
    expect_tree(s, "/drover/access/small",
                "/drover/access/small\n/drover/access/small/failed\n"
                "/drover/access/small/pending\n/drover/access/small/processing\n");
    OK(s, batch_item_delete(&s->c, BATCH_KIND_SMALL, str_of(id)));
    expect_tree(s, "/access", "/access\n/access/large\n/access/small\n");
    assert_string_equal(new_access(s, BATCH_KIND_SMALL, "{}"),
                        "qid0000000001"); /* ids are not reused */
    assert_string_equal(new_access(s, BATCH_KIND_LARGE, "{}"), "qid0000000000");
}

static void a_locked_access_queue(void **state)
{
    struct scene *s = *state;
    const char *id = new_access(s, BATCH_KIND_LARGE, "{}");
    struct batch_item a;
    struct batch_lock lock;

    OK(s, batch_lock_take(&s->c, BATCH_LOCK_QUEUE, STR("accessLarge"), STR("admin"), &lock));
    expect_tree(
        s, "/locks/queue",
        "/locks/queue\n/locks/queue/accessLarge {\"name\":\"accessLarge\",\"who\":\"admin\","
        "\"when\":\"T\"}\n");
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_LARGE, BATCH_NO_STATE, &a), 0);
    OK(s, batch_lock_release(&s->c, BATCH_LOCK_QUEUE, STR("accessLarge"), lock.token));
    expect_tree(s, "/locks/queue", "/locks/queue\n");
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_LARGE, BATCH_NO_STATE, &a), 1);
    assert_string_equal(a.id, id);
}

/* Legacy records. */

static void count_job(void *arg, const char *jid)
{
    (void)jid;
    ++*(int *)arg;
}

static int import(struct scene *s, struct str batch, bool all, bool remove)
{
    struct batch_legacy_import in = {
        .path = STR("/ingest"), .batch = batch, .all = all, .remove = remove};
    int count = 0;

    OK(s, batch_legacy_import(&s->c, &in, count_job, &count));
    return count;
}

static void importing_records(void **state)
{
    struct scene *s = *state;

    put(s, "/ingest", NO_BYTES);
    put(s, "/ingest/mrtQ-02100000000003", STR("\0\0\0\0\0\0\0\0\1profile=p\nsubmitter: me\n"));
    put(s, "/ingest/mrtQ-01000000000004", STR("\4\0\0\0\0\0\0\0\1<queue/>"));
    put(s, "/ingest/mrtQ-01000000000005", STR("short"));
    assert_int_equal(import(s, (struct str){0}, false, false), 1);
    expect_tree(s, "/batches/bid0000000000/submission",
                "/batches/bid0000000000/submission {\"type\":\"legacy\",\"payload_filename\":"
                "\"/ingest\"}\n");
    expect_tree(
        s, "/jobs/jid0000000001",
        "/jobs/jid0000000001\n"
        "/jobs/jid0000000001/bid bid0000000000\n"
        "/jobs/jid0000000001/configuration {\"profile\":\"p\",\"submitter\":\"me\","
        "\"profile_name\":\"p\"}\n"
        "/jobs/jid0000000001/identifiers {\"local_id\":[]}\n"
        "/jobs/jid0000000001/metadata {}\n"
        "/jobs/jid0000000001/priority 2\n"
        "/jobs/jid0000000001/space_needed 0\n"
        "/jobs/jid0000000001/status {\"status\":\"Pending\",\"last_successful_status\":null,"
        "\"last_modification_date\":\"T\",\"retry_count\":0}\n");
    expect_tree(s, "/jobs/states/pending",
                "/jobs/states/pending\n/jobs/states/pending/02-jid0000000001\n");
    expect_tree(s, "/batches/bid0000000000/states/batch-processing",
                "/batches/bid0000000000/states/batch-processing\n"
                "/batches/bid0000000000/states/batch-processing/jid0000000001\n");
    expect_tree(s, "/drover/legacy",
                "/drover/legacy\n/drover/legacy/ingest_mrtQ-02100000000003 jid0000000001\n");
    assert_int_equal(tree_count(s->k, "/ingest"), 3); /* unchanged */

    assert_int_equal(import(s, (struct str){0}, false, false), 0); /* each is imported once */
    assert_int_equal(tree_count(s->k, "/batches"), 1);
    assert_int_equal(import(s, STR("bid0000000000"), true, true), 1);
    expect_tree(s, "/jobs/jid0000000002/configuration",
                "/jobs/jid0000000002/configuration {\"payload\":\"<queue/>\"}\n");
    assert_int_equal(keeper_exists(s->k, "/ingest/mrtQ-01000000000004", NULL), DROVER_NO_NODE);
    assert_int_equal(tree_count(s->k, "/ingest"), 2);
}

/* Foreign clients. */

static void no_finding(void *arg, const char *id, const char *problem, bool repaired)
{
    (void)arg, (void)id, (void)problem, (void)repaired;
}

static int64_t count_findings(struct scene *s, bool repair)
{
    struct batch_repair_totals totals;

    OK(s,
       batch_repair_run(&s->c, &(struct batch_repair_options){repair, .fn = no_finding}, &totals));
    return repair ? totals.repaired : totals.findings;
}

/* Acquires until there is one: incomplete items are retried after BATCH_INCOMPLETE_RETRY_MS. */
static void wait_for_batch(struct scene *s, const char *wanted)
{
    int64_t end_ms = clock_boot_ms() + 5000, token;
    char bid[BATCH_ID_LEN + 1];

    while (acquire_batch(&s->c, s->store->batch.pending, bid, &token) != 1)
        assert_true(clock_boot_ms() < end_ms);
    assert_string_equal(bid, wanted);
    OK(s, batch_item_unlock(&s->c, BATCH_KIND_BATCH, str_of(bid), token));
}

static void a_foreign_batch_is_found_when_it_is_whole(void **state)
{
    static const char *const LISTS[] = {"batch-processing", "batch-failed", "batch-completed",
                                        "batch-deleted"};
    struct scene *s = *state;
    char bid[BATCH_ID_LEN + 1];
    int64_t token;
    char *path;

    assert_int_equal(keeper_create(s->other, "/batches/bid", NO_BYTES, KEEPER_SEQUENTIAL, &path),
                     0);
    assert_string_equal(path, "/batches/bid0000000000");
    free(path);
    assert_int_equal(acquire_batch(&s->c, s->store->batch.pending, bid, &token), 0);
    put(s, "/batches/bid0000000000/submission", STR("{}"));
    put(s, "/batches/bid0000000000/states", NO_BYTES);
    for (int i = 0; i < 4; i++)
        put(s, arena_printf(&s->arena, "/batches/bid0000000000/states/%s", LISTS[i]), NO_BYTES);
    put(s, "/batches/bid0000000000/status", NO_BYTES); /* its data comes in a second step */
    assert_int_equal(acquire_batch(&s->c, s->store->batch.pending, bid, &token), 0);
    assert_int_equal(keeper_set(s->other, "/batches/bid0000000000/status",
                                STR("{\"status\":\"Pending\"}"), KEEPER_ANY_VERSION, NULL),
                     0);
    wait_for_batch(s, "bid0000000000");
    assert_string_equal(new_batch(s, "{}"), "bid0000000001");
}

/* A foreign client takes a batch while it is being indexed: it is indexed the next time. */
static void a_foreign_batch_that_changes_while_it_is_indexed(void **state)
{
    struct scene *s = *state;
    bool was_cut = true;

    for (int n = 0; was_cut; n++) {
        struct cutter cut;
        struct batch_call c = {s->store, &cut.base, &s->arena, &s->why};
        char *path = arena_printf(&s->arena, "/batches/bid%010d", n);

        put(s, path, NO_BYTES);
        put(s, arena_printf(&s->arena, "%s/submission", path), STR("{}"));
        put(s, arena_printf(&s->arena, "%s/status", path), STR("{\"status\":\"Pending\"}"));
        cutter_init(&cut, s->k, n, DROVER_BAD_VERSION, false);
        cut.once = true;
        batch_index_refresh(&c, BATCH_KIND_BATCH, true);
        was_cut = cut.cut;
        OK(s, batch_index_refresh(&s->c, BATCH_KIND_BATCH, true));
        assert_int_equal(tree_count(s->k, "/drover/batch/pending"), n + 1);
    }
}

/* The foreign client changes only the status, as the specification does; the index follows. */
static void a_batch_that_a_foreign_client_moves(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}");
    char got[BATCH_ID_LEN + 1];
    int64_t token;

    put(s, "/batches/bid0000000000/states", NO_BYTES);
    assert_int_equal(keeper_set(s->other, "/batches/bid0000000000/status",
                                STR("{\"status\":\"Held\"}"), KEEPER_ANY_VERSION, NULL),
                     0);
    assert_int_equal(acquire_batch(&s->c, s->store->batch.pending, got, &token), 0);
    assert_int_equal(count_findings(s, false), 0);
    expect_tree(s, "/drover/batch/held", "/drover/batch/held\n/drover/batch/held/bid0000000000\n");
    expect_tree(s, "/drover/batch/pending", "/drover/batch/pending\n");
    assert_int_equal(keeper_set(s->other, "/batches/bid0000000000/status",
                                STR("{\"status\":\"Pending\"}"), KEEPER_ANY_VERSION, NULL),
                     0);
    OK(s, batch_index_sweep(&s->c, BATCH_KIND_BATCH));
    wait_for_batch(s, bid);
}

/* A foreign client ends its only job, node by node; the batch is Pending, and its report is due. */
static void a_pending_batch_that_a_foreign_client_ends(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *jid = new_job(s, bid, "{\"configuration\": {}}");
    const char *to[] = {"/jobs/states/failed/05-", "/batches/bid0000000000/states/batch-failed/"},
               *from[] = {"/jobs/states/pending/05-",
                          "/batches/bid0000000000/states/batch-processing/"};
    char held[BATCH_ID_LEN + 1];
    int64_t token;

    put(s, "/batches/bid0000000000/states/batch-failed", NO_BYTES);
    OK(s, keeper_set(s->other, arena_printf(&s->arena, "/jobs/%s/status", jid),
                     STR("{\"status\":\"Failed\"}"), KEEPER_ANY_VERSION, NULL));
    for (int i = 0; i < 2; i++) {
        OK(s, keeper_delete(s->other, arena_printf(&s->arena, "%s%s", from[i], jid),
                            KEEPER_ANY_VERSION));
        OK(s,
           keeper_create(s->other, arena_printf(&s->arena, "%s%s", to[i], jid), NO_BYTES, 0, NULL));
    }
    assert_int_equal(acquire_batch(&s->c, s->store->batch.pending, held, &token), 1);
    assert_int_equal(count_findings(s, false), 0);
    assert_int_equal(batch_settle(&s->c, bid), 0); /* it is locked */
    assert_string_equal(batch_state(s, bid), "Pending");
    OK(s, batch_item_unlock(&s->c, BATCH_KIND_BATCH, str_of(bid), token));
    assert_int_equal(count_findings(s, false), 1);
    assert_int_equal(batch_settle(&s->c, bid), 1);
    assert_string_equal(batch_state(s, bid), "Reporting");
    assert_int_equal(count_findings(s, false), 0);
}

static void a_foreign_access_item(void **state)
{
    struct scene *s = *state;
    int64_t end_ms = clock_boot_ms() + 5000;
    struct batch_item a;

    put(s, "/access/small/qid0000000000", NO_BYTES);
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_SMALL, BATCH_NO_STATE, &a), 0);
    put(s, "/access/small/qid0000000000/token", STR("{}"));
    put(s, "/access/small/qid0000000000/status", STR("{\"status\":\"Pending\"}"));
    while (batch_item_acquire(&s->c, BATCH_KIND_SMALL, BATCH_NO_STATE, &a) != 1)
        assert_true(clock_boot_ms() < end_ms);
    assert_string_equal(a.id, "qid0000000000");
    put(s, "/access/large/qid0000000000", NO_BYTES);
    put(s, "/access/large/qid0000000000/status", STR("{\"status\":\"Failed\"}"));
    put(s, "/access/large/qid0000000001", NO_BYTES);
    put(s, "/access/large/junk", NO_BYTES);
    assert_int_equal(count_findings(s, false), 2);
    assert_int_equal(count_findings(s, true), 1);
    assert_int_equal(count_findings(s, false), 1);
    assert_int_equal(tree_count(s->k, "/access/large"), 2); /* one of them is not an item */
    expect_tree(s, "/drover/access/large/failed",
                "/drover/access/large/failed\n/drover/access/large/failed/qid0000000000\n");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scene_setup, scene_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_life_of_an_access_item),
        TEST(a_locked_access_queue),
        TEST(importing_records),
        TEST(a_foreign_batch_is_found_when_it_is_whole),
        TEST(a_foreign_batch_that_changes_while_it_is_indexed),
        TEST(a_batch_that_a_foreign_client_moves),
        TEST(a_pending_batch_that_a_foreign_client_ends),
        TEST(a_foreign_access_item),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
