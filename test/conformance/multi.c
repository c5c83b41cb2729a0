/*
 * Cases about what a transaction of several operations shows: results, one zxid, limits of the
 * call. What passes and fails in one, and how it is undone, is the table in transaction.c.
 */
#include "fixture.h"

static void multi_of_nothing(struct fixture *f)
{
    const char *before = tree_dump(f);

    must(keeper_multi(f->k, NULL, 0, NULL));
    assert_string_equal(tree_dump(f), before);
}

static void multi_without_results(struct fixture *f)
{
    const struct keeper_op ops[] = {
        keeper_op_create(at(f, "a"), STR("1"), 0),
        keeper_op_create(at(f, "a"), STR("2"), 0),
    };

    must(keeper_multi(f->k, ops, 1, NULL));
    expect_err(DROVER_EXISTS, keeper_multi(f->k, ops, 2, NULL));
    expect_data(f, at(f, "a"), "1");
}

static void multi_results_have_the_paths_of_creates(struct fixture *f)
{
    const char *b = mk(f, "b", "");
    const struct keeper_op ops[] = {
        keeper_op_create(at(f, "a"), STR(""), 0),
        keeper_op_set(b, STR("x"), 0),
        keeper_op_create(at(f, "s"), STR(""), KEEPER_SEQUENTIAL),
        keeper_op_check(b, 1),
        keeper_op_delete(b, 1),
    };
    struct keeper_result *r = results_new(f, 5);

    must(multi(f, ops, 5, r));
    assert_string_equal(r[0].path, at(f, "a"));
    assert_string_equal(r[2].path, at(f, "s0000000002"));
    assert_null(r[1].path);
    assert_null(r[3].path);
    assert_null(r[4].path);
}

static void multi_results_have_the_stat_of_sets(struct fixture *f)
{
    const char *a = mk(f, "a", ""), *b = mk(f, "b", "");
    const struct keeper_op ops[] = {
        keeper_op_set(a, STR("one"), 0),
        keeper_op_set(b, STR("three"), 0),
    };
    struct keeper_result *r = results_new(f, 2);

    must(multi(f, ops, 2, r));
    expect_stat_equal(r[0].stat, must_stat(f->k, a));
    expect_stat_equal(r[1].stat, must_stat(f->k, b));
}

static void multi_results_have_the_stat_of_creates(struct fixture *f)
{
    const struct keeper_op ops[] = {
        keeper_op_create(at(f, "a"), STR("one"), 0),
        keeper_op_create(at(f, "e"), STR("three"), KEEPER_EPHEMERAL),
    };
    struct keeper_result *r = results_new(f, 2);

    must(multi(f, ops, 2, r));
    expect_stat_equal(r[0].stat, must_stat(f->k, at(f, "a")));
    expect_stat_equal(r[1].stat, must_stat(f->k, at(f, "e")));
}

/* Each result is of the moment after its own operation, not after the last. */
static void multi_results_are_of_their_moment(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    const struct keeper_op ops[] = {
        keeper_op_set(a, STR("1"), 0),
        keeper_op_set(a, STR("three"), 1),
        keeper_op_create(at(f, "a/b"), STR(""), 0),
    };
    struct keeper_result *r = results_new(f, 3);

    must(multi(f, ops, 3, r));
    assert_int_equal(r[0].stat.version, 1);
    assert_int_equal(r[0].stat.data_len, 1);
    assert_int_equal(r[0].stat.child_count, 0);
    assert_int_equal(r[1].stat.version, 2);
    assert_int_equal(r[1].stat.data_len, 5);
    assert_int_equal(r[1].stat.cversion, 0);
    assert_int_equal(r[0].stat.mzxid, r[1].stat.mzxid);
}

static void multi_results_of_check_and_delete_have_no_stat(struct fixture *f)
{
    const char *a = mk(f, "a", "x");
    const struct keeper_op ops[] = {keeper_op_check(a, 0), keeper_op_delete(a, 0)};
    const struct keeper_stat none = {0};
    struct keeper_result *r = results_new(f, 2);

    must(multi(f, ops, 2, r));
    expect_stat_equal(r[0].stat, none);
    expect_stat_equal(r[1].stat, none);
}

static void multi_has_one_zxid(struct fixture *f)
{
    const char *a = mk(f, "a", ""), *b = mk(f, "b", ""), *c = mk(f, "b/c", "");
    const struct keeper_op ops[] = {
        keeper_op_create(at(f, "n"), STR(""), 0),
        keeper_op_create(at(f, "n/m"), STR(""), 0),
        keeper_op_set(a, STR("x"), 0),
        keeper_op_delete(c, 0),
    };
    int64_t before = must_stat(f->k, b).pzxid, zxid;

    must(keeper_multi(f->k, ops, 4, NULL));
    zxid = must_stat(f->k, at(f, "n")).czxid;
    assert_true(zxid > before);
    assert_int_equal(must_stat(f->k, at(f, "n")).mzxid, zxid);
    assert_int_equal(must_stat(f->k, at(f, "n")).pzxid, zxid);
    assert_int_equal(must_stat(f->k, at(f, "n/m")).czxid, zxid);
    assert_int_equal(must_stat(f->k, a).mzxid, zxid);
    assert_int_equal(must_stat(f->k, b).pzxid, zxid);
    assert_int_equal(must_stat(f->k, f->root).pzxid, zxid);
    assert_true(must_stat(f->k, mk(f, "later", "")).czxid > zxid);
}

static void multi_has_one_time(struct fixture *f)
{
    const struct keeper_op ops[] = {
        keeper_op_create(at(f, "a"), STR(""), 0),
        keeper_op_create(at(f, "b"), STR(""), 0),
        keeper_op_set(at(f, "b"), STR("x"), 0),
    };
    struct keeper_stat a, b;

    must(keeper_multi(f->k, ops, 3, NULL));
    a = must_stat(f->k, at(f, "a"));
    b = must_stat(f->k, at(f, "b"));
    assert_int_equal(a.ctime_ms, b.ctime_ms);
    assert_int_equal(a.ctime_ms, b.mtime_ms);
}

static void multi_check_changes_nothing(struct fixture *f)
{
    const char *before, *a = mk(f, "a", "");
    const struct keeper_op op = keeper_op_check(a, 0);

    before = tree_dump(f);
    must(keeper_multi(f->k, &op, 1, NULL));
    assert_string_equal(tree_dump(f), before);
}

static void multi_counts_in_the_parent(struct fixture *f)
{
    const struct keeper_op ops[] = {
        keeper_op_create(at(f, "a/1"), STR(""), 0), keeper_op_create(at(f, "a/2"), STR(""), 0),
        keeper_op_delete(at(f, "a/1"), 0),          keeper_op_create(at(f, "a/3"), STR(""), 0),
        keeper_op_delete(at(f, "a/3"), 0),
    };
    struct keeper_stat s;

    mk(f, "a", "");
    must(keeper_multi(f->k, ops, 5, NULL));
    s = must_stat(f->k, at(f, "a"));
    assert_int_equal(s.cversion, 5);
    assert_int_equal(s.child_count, 1);
    assert_int_equal(s.pzxid, must_stat(f->k, at(f, "a/2")).czxid);
}

/* Created and gone in one transaction: the parent still shows that something happened. */
static void multi_create_and_delete_marks_the_parent(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    const struct keeper_op ops[] = {
        keeper_op_create(at(f, "a/b"), STR(""), 0),
        keeper_op_delete(at(f, "a/b"), 0),
    };
    struct keeper_stat was = must_stat(f->k, a), is;

    must(keeper_multi(f->k, ops, 2, NULL));
    is = must_stat(f->k, a);
    assert_true(is.pzxid > was.pzxid);
    assert_int_equal(is.cversion, 2);
    assert_int_equal(is.child_count, 0);
}

static void multi_makes_a_node_afresh(struct fixture *f)
{
    const char *a = mk(f, "a", "0");
    const struct keeper_op ops[] = {
        keeper_op_delete(a, KEEPER_ANY_VERSION),
        keeper_op_create(a, STR("again"), 0),
    };
    struct keeper_stat was, is;

    must(keeper_set(f->k, a, STR("1"), 0, NULL));
    was = must_stat(f->k, a);
    must(keeper_multi(f->k, ops, 2, NULL));
    is = must_stat(f->k, a);
    assert_true(is.czxid > was.mzxid);
    assert_int_equal(is.mzxid, is.czxid);
    assert_int_equal(is.version, 0);
    expect_data(f, a, "again");
}

static void multi_with_ephemerals(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const struct keeper_op ops[] = {
        keeper_op_create(at(f, "p"), STR(""), 0),
        keeper_op_create(at(f, "p/e"), STR(""), KEEPER_EPHEMERAL),
        keeper_op_create(at(f, "p/s"), STR(""), KEEPER_EPHEMERAL | KEEPER_SEQUENTIAL),
    };

    must(keeper_multi(other, ops, 3, NULL));
    catch_up(f->k);
    assert_int_equal(must_stat(f->k, at(f, "p/e")).ephemeral_owner, session_of(other).id);
    session_close(f, other);
    wait_gone(f->k, at(f, "p/e"), PROMPT_MS);
    assert_string_equal(tree_names(f), "p:0");
}

/* Refused as a whole, before anything of it is looked at, wherever the bad operation stands. */
static void multi_with_a_bad_operation(struct fixture *f)
{
    const struct keeper_op good = keeper_op_create(at(f, "a"), STR(""), 0);
    const struct keeper_op bad[] = {
        keeper_op_create(at(f, "x//y"), STR(""), 0),
        keeper_op_create(at(f, "x"), STR(""), 8),
        keeper_op_set("relative", STR(""), 0),
        keeper_op_delete("/", KEEPER_ANY_VERSION),
        keeper_op_delete("/zookeeper", KEEPER_ANY_VERSION),
        keeper_op_check("", 0),
    };
    struct keeper_result *r = results_new(f, 3);

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct keeper_op ops[] = {good, bad[i], good};

        expect_err(DROVER_BAD_ARGUMENT, multi(f, ops, 3, r));
        expect_err(DROVER_BAD_ARGUMENT, r[1].err);
        expect_err(DROVER_NOT_TRIED, r[2].err);
    }
    assert_int_equal(must_stat(f->k, f->root).cversion, 0);
}

static void multi_of_a_thousand(struct fixture *f)
{
    struct keeper_op *ops = keep(f, mem_zalloc(1000 * sizeof *ops));
    struct keeper_result *r = results_new(f, 1000);

    ops[0] = keeper_op_create(at(f, "p"), STR(""), 0);
    for (int i = 1; i < 1000; i++)
        ops[i] = keeper_op_create(at(f, "p/n"), STR("data"), KEEPER_SEQUENTIAL);
    must(multi(f, ops, 1000, r));
    for (int i = 1; i < 1000; i++)
        assert_string_equal(r[i].path, at(f, "p/n%010d", i - 1));
    assert_int_equal(must_stat(f->k, at(f, "p")).cversion, 999);
    assert_int_equal(must_stat(f->k, at(f, "p/n0000000998")).czxid,
                     must_stat(f->k, at(f, "p")).czxid);
}

static void multi_of_an_expired_session(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const struct keeper_op ops[] = {
        keeper_op_create(at(f, "a"), STR(""), 0),
        keeper_op_create(at(f, "b"), STR(""), 0),
    };
    struct keeper_result *r = results_new(f, 2);

    session_expire(f, other);
    wait_until(keeper_has_expired, other, PATIENCE_MS);
    expect_err(DROVER_SESSION_EXPIRED, keeper_multi(other, ops, 2, r));
    expect_err(DROVER_SESSION_EXPIRED, r[0].err);
    expect_err(DROVER_SESSION_EXPIRED, r[1].err);
    catch_up(f->k);
    assert_string_equal(tree_names(f), "");
}

const struct conformance_case multi_cases[] = {
    CASE(multi_of_nothing),
    CASE(multi_without_results),
    CASE(multi_results_have_the_paths_of_creates),
    CASE(multi_results_have_the_stat_of_sets),
    CASE(multi_results_have_the_stat_of_creates),
    CASE(multi_results_are_of_their_moment),
    CASE(multi_results_of_check_and_delete_have_no_stat),
    CASE(multi_has_one_zxid),
    CASE(multi_has_one_time),
    CASE(multi_check_changes_nothing),
    CASE(multi_counts_in_the_parent),
    CASE(multi_create_and_delete_marks_the_parent),
    CASE(multi_makes_a_node_afresh),
    CASE(multi_with_ephemerals),
    CASE(multi_with_a_bad_operation),
    CASE(multi_of_a_thousand),
    CASE(multi_of_an_expired_session),
    {0},
};
