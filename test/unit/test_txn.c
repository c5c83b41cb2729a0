/*
 * Transactions by name: which operation failed, what became of a node, and a witness after UNKNOWN.
 */
#include "keeper/txn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "keeper/local/local.h"
#include "keeper_cutter.h"

enum { STATUS = 1, LOCK, OTHER };

static struct local *store;
static struct keeper *k;
static struct arena arena;

static int open_store(void **state)
{
    struct local_options o = {.mode = LOCAL_NONE};

    (void)state;
    return local_open(&o, &store, NULL) || local_connect(store, NULL, &k) ||
           keeper_create(k, "/status", STR("old"), 0, NULL);
}

static int close_store(void **state)
{
    (void)state;
    keeper_close(k);
    local_close(store);
    arena_release(&arena);
    return 0;
}

static void expect_data(const char *path, const char *wanted)
{
    struct buf data = {0};

    assert_int_equal(keeper_get(k, path, &data, NULL), 0);
    assert_string_equal(buf_text(&data), wanted);
    buf_release(&data);
}

static void fill(struct txn *t, int32_t version)
{
    *t = (struct txn){.a = &arena};
    txn_check(t, OTHER, KEEPER_ANY_VERSION, "/");
    txn_set(t, STATUS, STR("new"), version, "/%s", "status");
    txn_create(t, LOCK, STR(""), KEEPER_EPHEMERAL, "/lock%d", 7);
}

static void all_of_it_happens(void **state)
{
    struct keeper_stat stat;
    struct txn t;

    (void)state;
    fill(&t, 0);
    assert_int_equal(txn_commit(&t, k, STATUS), 0);
    assert_int_equal(t.failed, 0);
    expect_data("/status", "new");
    assert_int_equal(txn_stat(&t, STATUS)->version, 1);
    assert_int_equal(keeper_exists(k, "/lock7", &stat), 0);
    assert_int_equal(txn_stat(&t, LOCK)->czxid, stat.czxid);
}

static void the_one_that_failed_has_a_name(void **state)
{
    struct txn t;

    (void)state;
    fill(&t, 5);
    assert_int_equal(txn_commit(&t, k, STATUS), DROVER_BAD_VERSION);
    assert_int_equal(t.failed, STATUS);
    fill(&t, 0);
    txn_delete(&t, 0, KEEPER_ANY_VERSION, "/none");
    assert_int_equal(txn_commit(&t, k, 0), DROVER_NO_NODE);
    assert_int_equal(t.failed, 0);
    assert_int_equal(keeper_create(k, "/lock7", STR(""), 0, NULL), 0);
    fill(&t, 0);
    assert_int_equal(txn_commit(&t, k, 0), DROVER_EXISTS);
    assert_int_equal(t.failed, LOCK);
    expect_data("/status", "old");
    fill(&t, 0);
    txn_add(&t, OTHER, keeper_op_check("no path", 0));
    assert_int_equal(txn_commit(&t, k, 0), DROVER_BAD_ARGUMENT);
    assert_int_equal(t.failed, OTHER);
}

static void nothing_and_many(void **state)
{
    struct txn none = {.a = &arena}, many = {.a = &arena};

    (void)state;
    assert_int_equal(txn_commit(&none, k, 0), 0);
    for (int i = 0; i < 1000; i++)
        txn_create(&many, i + 1, STR(""), 0, "/n%d", i);
    assert_int_equal(txn_commit(&many, k, 0), 0);
    assert_int_equal(keeper_exists(k, "/n999", NULL), 0);
    assert_int_equal(txn_commit(&many, k, 0), DROVER_EXISTS);
    assert_int_equal(many.failed, 1);
    for (int i = 0; i < KEEPER_MULTI_MAX; i++)
        txn_check(&many, 1, KEEPER_ANY_VERSION, "/");
    assert_int_equal(txn_commit(&many, k, 0), DROVER_TOO_BIG);
    assert_int_equal(many.failed, 0);
}

/* The answer is lost, with the commit or without. The version also changes by others' hands. */
static void a_witness_tells(void **state)
{
    struct cutter cut;
    struct txn t;

    (void)state;
    for (int done = 0; done < 2; done++) {
        fill(&t, 0);
        cutter_init(&cut, k, 0, DROVER_UNKNOWN, done);
        cut.once = true;
        assert_int_equal(txn_commit(&t, &cut.base, STATUS), done ? 0 : DROVER_BAD_VERSION);
        assert_int_equal(t.failed, 0);
    }
    assert_int_equal(txn_stat(&t, STATUS)->version, 1);
    expect_data("/status", "new");

    fill(&t, 1);
    cutter_init(&cut, k, 0, DROVER_UNKNOWN, false);
    cut.once = true;
    assert_int_equal(txn_commit(&t, &cut.base, 0), DROVER_UNKNOWN);
    assert_int_equal(keeper_set(k, "/status", STR("another"), 1, NULL), 0);
    fill(&t, 1);
    cutter_init(&cut, k, 0, DROVER_UNKNOWN, false);
    cut.once = true;
    assert_int_equal(txn_commit(&t, &cut.base, STATUS), DROVER_UNKNOWN);
    cutter_init(&cut, k, 0, DROVER_SESSION_EXPIRED, false);
    assert_int_equal(txn_commit(&t, &cut.base, STATUS), DROVER_SESSION_EXPIRED);
    assert_int_equal(t.failed, 0);
}

static void what_is_missing_is_made(void **state)
{
    static const char *const paths[] = {"/status", "/a", "/a/b"};
    struct txn t = {.a = &arena};

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(txn_create_missing(&t, k, paths[i]), 0);
    assert_int_equal(t.count, 2);
    assert_int_equal(txn_commit(&t, k, 0), 0);
    expect_data("/status", "old");
    expect_data("/a/b", "");
    assert_int_equal(txn_create_missing(&t, k, "no path"), DROVER_BAD_ARGUMENT);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_store, close_store)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_of_it_happens), TEST(the_one_that_failed_has_a_name), TEST(nothing_and_many),
        TEST(a_witness_tells),   TEST(what_is_missing_is_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
