/*
 * Removing what has ended, and changing the token of an access item. On the embedded keeper in
 * memory, or on the ZooKeeper that DROVER_TEST_ZK names.
 */
#include "batch_scene.h"

#include "batch/tools.h"

static void the_token_of_an_access_item(void **state)
{
    struct scene *s = *state;
    struct batch_item a;
    char id[BATCH_ID_LEN + 1];

    OK(s, batch_item_new(&s->c, BATCH_KIND_SMALL,
                         parse(s, "{\"token\": \"t\", \"url\": \"\", \"x\": {\"y\": 1}}"), id));
    OK(s, batch_access_set(&s->c, BATCH_KIND_SMALL, str_of(id),
                           parse(s, "{\"status\": \"ready\", \"url\": \"u\", \"none\": null}"), 0));
    expect_tree(s, "/access/small/qid0000000000/token",
                "/access/small/qid0000000000/token {\"token\":\"t\",\"url\":\"u\",\"x\":{\"y\":1},"
                "\"status\":\"ready\"}\n");
    assert_int_equal(batch_item_acquire(&s->c2, BATCH_KIND_SMALL, BATCH_NO_STATE, &a), 1);
    assert_int_equal(batch_access_set(&s->c, BATCH_KIND_SMALL, str_of(id),
                                      parse(s, "{\"x\": null}"), a.token + 1),
                     DROVER_FENCED);
    OK(s,
       batch_access_set(&s->c, BATCH_KIND_SMALL, str_of(id), parse(s, "{\"x\": null}"), a.token));
    expect_tree(s, "/access/small/qid0000000000/token",
                "/access/small/qid0000000000/token {\"token\":\"t\",\"url\":\"u\","
                "\"status\":\"ready\"}\n");
    assert_int_equal(
        keeper_set(s->k, "/access/small/qid0000000000/token", STR("no JSON"), -1, NULL), 0);
    OK(s, batch_access_set(&s->c, BATCH_KIND_SMALL, str_of(id), parse(s, "{\"x\": 1}"), 0));
    expect_tree(s, "/access/small/qid0000000000/token",
                "/access/small/qid0000000000/token {\"x\":1}\n");
    assert_int_equal(
        batch_access_set(&s->c, BATCH_KIND_LARGE, str_of(id), parse(s, "{\"x\": 1}"), 0),
        DROVER_NO_NODE);
}

/* Purge. */

static struct batch_purged purge(struct scene *s, enum batch_kind_id kind, struct batch_purge o)
{
    struct batch_purged purged;

    o.limit = o.limit ? o.limit : 1000;
    OK(s, batch_purge(&s->c, kind, &o, &purged));
    return purged;
}

static int64_t mtime_of(struct scene *s, const char *path)
{
    struct keeper_stat stat;

    assert_int_equal(keeper_exists(s->k, path, &stat), 0);
    return stat.mtime_ms;
}

static const char *ended_batch(struct scene *s, int jobs)
{
    const char *bid = new_batch(s, "{}"), *jids[50];

    for (int i = 0; i < jobs; i++)
        jids[i] = new_job(s, bid, "{\"configuration\": {}}");
    for (int i = 0; i < jobs; i++)
        all_the_way(s, jids[i]);
    OK(s, batch_to(&s->c, bid, "Completed", 0));
    return bid;
}

static void purging(void **state)
{
    struct scene *s = *state;
    struct batch_purge all = {.state = BATCH_NO_STATE, .before_ms = INT64_MAX};
    const char *open = new_batch(s, "{}"), *jid = new_job(s, open, "{\"configuration\": {}}");
    struct batch_purged p;

    new_job(s, open, "{\"configuration\": {}}");
    all_the_way(s, jid);
    const char *bid = ended_batch(s, 50); /* more than one transaction */
    int64_t ended_ms = mtime_of(s, arena_printf(&s->arena, "/batches/%s/status", bid));
    p = purge(s, BATCH_KIND_BATCH,
              (struct batch_purge){.state = BATCH_NO_STATE, .before_ms = ended_ms - 1});
    assert_int_equal(p.removed, 0);
    p = purge(s, BATCH_KIND_BATCH,
              (struct batch_purge){.state = s->store->batch.deleted, .before_ms = INT64_MAX});
    assert_int_equal(p.removed, 0);
    OK(s, keeper_create(s->other, arena_printf(&s->arena, "/batches/%s/lock", bid), NO_BYTES,
                        KEEPER_EPHEMERAL, NULL));
    p = purge(s, BATCH_KIND_BATCH, all);
    assert_true(p.removed == 0 && p.locked == 1 && !p.more);
    OK(s, keeper_delete(s->k, arena_printf(&s->arena, "/batches/%s/lock", bid), -1));
    p = purge(s, BATCH_KIND_BATCH,
              (struct batch_purge){.state = BATCH_NO_STATE, .before_ms = ended_ms});
    assert_true(p.removed == 1 && p.jobs == 50 && p.locked == 0);
    assert_int_equal(tree_count(s->k, "/batches"), 1);
    assert_int_equal(tree_count(s->k, "/jobs"), 2 + 1);

    for (int i = 0; i < 3; i++)
        ended_batch(s, 1);
    all.limit = 2;
    p = purge(s, BATCH_KIND_BATCH, all);
    assert_true(p.removed == 2 && p.more);
    p = purge(s, BATCH_KIND_BATCH, all);
    assert_true(p.removed == 1 && !p.more);

    /* A job that its batch will count in the report stays. */
    ended_batch(s, 2);
    p = purge(s, BATCH_KIND_JOB,
              (struct batch_purge){.state = BATCH_NO_STATE, .before_ms = INT64_MAX});
    assert_int_equal(p.removed, 2);
    assert_int_equal(keeper_exists(s->k, arena_printf(&s->arena, "/jobs/%s", jid), NULL), 0);
    assert_int_equal(purge(s, BATCH_KIND_BATCH, all).jobs, 0);
}

/* What others put into a batch keeps neither another batch nor its jobs from their fate. */
static void purging_what_others_changed(void **state)
{
    struct scene *s = *state;
    struct batch_purge all = {.state = BATCH_NO_STATE, .before_ms = INT64_MAX};
    const char *open = new_batch(s, "{}"), *jid = new_job(s, open, "{\"configuration\": {}}"),
               *deep = ended_batch(s, 1), *ended = ended_batch(s, 1);
    char path[200];

    OK(s, keeper_create(
              s->k, arena_printf(&s->arena, "/batches/%s/states/batch-completed/%s", ended, jid),
              NO_BYTES, 0, NULL));
    snprintf(path, sizeof path, "/batches/%s/states", deep);
    for (int i = 0; i < 30; i++) {
        strcat(path, "/x");
        OK(s, keeper_create(s->k, path, NO_BYTES, 0, NULL));
    }
    assert_int_equal(purge(s, BATCH_KIND_BATCH, all).removed, 1);
    assert_int_equal(keeper_exists(s->k, arena_printf(&s->arena, "/batches/%s", ended), NULL),
                     DROVER_NO_NODE);
    assert_int_equal(batch_item_delete(&s->c, BATCH_KIND_BATCH, str_of(deep)), DROVER_TOO_BIG);
    all_the_way(s, jid);
    assert_string_equal(batch_state(s, open), "Reporting");
}

static void purging_access_items(void **state)
{
    struct scene *s = *state;
    struct batch_purge all = {.state = BATCH_NO_STATE, .before_ms = INT64_MAX};
    char id[BATCH_ID_LEN + 1];

    for (int i = 0; i < 3; i++)
        OK(s, batch_item_new(&s->c, BATCH_KIND_LARGE, parse(s, "{}"), id));
    for (int i = 0; i < 2; i++)
        OK(s, batch_item_move(&s->c, BATCH_KIND_LARGE, str_of(id),
                              &(struct batch_move){.state = STR("next")}, NULL));
    assert_int_equal(purge(s, BATCH_KIND_SMALL, all).removed, 0);
    assert_int_equal(purge(s, BATCH_KIND_LARGE, all).removed, 1);
    assert_int_equal(tree_count(s->k, "/access/large"), 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scene_setup, scene_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_token_of_an_access_item),
        TEST(purging),
        TEST(purging_what_others_changed),
        TEST(purging_access_items),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
