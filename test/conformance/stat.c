/*
 * Cases about the stat: what each change does to a node's, its parent's and its grandparent's, and
 * what it must leave alone. Zxids are only compared with each other: the tree is shared.
 */
#include "base/clock.h"
#include "fixture.h"

static void stat_of_a_new_node(struct fixture *f)
{
    struct keeper_stat s = must_stat(f->k, mk(f, "a", "four"));

    assert_true(s.czxid > 0);
    assert_int_equal(s.mzxid, s.czxid);
    assert_int_equal(s.pzxid, s.czxid);
    assert_int_equal(s.mtime_ms, s.ctime_ms);
    assert_int_equal(s.version, 0);
    assert_int_equal(s.cversion, 0);
    assert_int_equal(s.aversion, 0);
    assert_int_equal(s.ephemeral_owner, 0);
    assert_int_equal(s.data_len, 4);
    assert_int_equal(s.child_count, 0);
}

/* A day is enough to tell milliseconds since 1970 from anything else. */
static void stat_times_are_wall_time(struct fixture *f)
{
    int64_t day_ms = 24 * 3600 * 1000, now_ms = clock_wall_ms();
    struct keeper_stat s = must_stat(f->k, mk(f, "a", ""));

    assert_true(s.ctime_ms > now_ms - day_ms && s.ctime_ms < now_ms + day_ms);
}

static void stat_after_a_set(struct fixture *f)
{
    const char *a = mk(f, "a", "four");
    struct keeper_stat was = must_stat(f->k, a), is;

    must(keeper_set(f->k, a, STR("eleven long"), 0, &is));
    assert_true(is.mzxid > was.mzxid);
    assert_true(is.mtime_ms >= was.mtime_ms);
    assert_int_equal(is.version, 1);
    assert_int_equal(is.data_len, 11);
    /* And nothing else. */
    is.mzxid = was.mzxid, is.mtime_ms = was.mtime_ms, is.version = 0, is.data_len = 4;
    expect_stat_equal(is, was);
}

struct ticking {
    struct keeper *k;
    const char *path;
    int64_t since_ms;
};

static bool time_has_passed(void *arg)
{
    struct ticking *t = arg;
    struct keeper_stat stat = {0};

    return !keeper_set(t->k, t->path, STR(""), KEEPER_ANY_VERSION, &stat) &&
           stat.mtime_ms > t->since_ms;
}

/* The keeper's own clock is the one to wait for: sets until one is later than `since`. */
static void wait_for_time_to_pass(struct fixture *f, const char *path, int64_t since_ms)
{
    struct ticking t = {f->k, path, since_ms};

    wait_until(time_has_passed, &t, PATIENCE_MS);
}

static void stat_after_a_later_set(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct keeper_stat was = must_stat(f->k, a), is;

    wait_for_time_to_pass(f, a, was.mtime_ms);
    is = must_stat(f->k, a);
    assert_true(is.mtime_ms > was.mtime_ms);
    assert_int_equal(is.ctime_ms, was.ctime_ms);
}

/* Time has to pass, or an old mtime and a new one look the same. */
static void stat_after_a_set_undone_later(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    const struct keeper_op ops[] = {
        keeper_op_set(a, STR("x"), 0),
        keeper_op_check(at(f, "missing"), 0),
    };
    struct keeper_stat was = must_stat(f->k, a);

    wait_for_time_to_pass(f, mk(f, "clock", ""), was.mtime_ms);
    expect_err(DROVER_NO_NODE, keeper_multi(f->k, ops, 2, NULL));
    expect_stat_equal(must_stat(f->k, a), was);
}

static void stat_of_a_parent_after_a_creation(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct keeper_stat was = must_stat(f->k, a), is, child;

    child = must_stat(f->k, mk(f, "a/b", ""));
    is = must_stat(f->k, a);
    assert_int_equal(is.pzxid, child.czxid);
    assert_true(is.pzxid > was.pzxid);
    assert_int_equal(is.cversion, 1);
    assert_int_equal(is.child_count, 1);
    is.pzxid = was.pzxid, is.cversion = 0, is.child_count = 0;
    expect_stat_equal(is, was);
}

static void stat_of_a_parent_after_a_deletion(struct fixture *f)
{
    const char *a = mk(f, "a", ""), *b = mk(f, "a/b", "");
    struct keeper_stat was = must_stat(f->k, a), is;

    must(keeper_delete(f->k, b, 0));
    is = must_stat(f->k, a);
    assert_true(is.pzxid > was.pzxid);
    assert_int_equal(is.cversion, 2);
    assert_int_equal(is.child_count, 0);
    is.pzxid = was.pzxid, is.cversion = 1, is.child_count = 1;
    expect_stat_equal(is, was);
}

static void stat_of_a_parent_after_a_set_of_its_child(struct fixture *f)
{
    const char *a = mk(f, "a", ""), *b = mk(f, "a/b", "");
    struct keeper_stat was = must_stat(f->k, a);

    must(keeper_set(f->k, b, STR("x"), 0, NULL));
    expect_stat_equal(must_stat(f->k, a), was);
}

static void stat_of_a_grandparent(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct keeper_stat was;

    mk(f, "a/b", "");
    was = must_stat(f->k, a);
    must(keeper_delete(f->k, mk(f, "a/b/c", ""), 0));
    expect_stat_equal(must_stat(f->k, a), was);
}

static void stat_of_a_sibling(struct fixture *f)
{
    const char *a = mk(f, "a", ""), *b = mk(f, "b", "");
    struct keeper_stat was = must_stat(f->k, a);

    must(keeper_set(f->k, b, STR("x"), 0, NULL));
    must(keeper_delete(f->k, b, 1));
    mk(f, "ab", "");
    expect_stat_equal(must_stat(f->k, a), was);
}

static void stat_of_a_child_after_changes_of_its_parent(struct fixture *f)
{
    const char *a = mk(f, "a", ""), *b = mk(f, "a/b", "");
    struct keeper_stat was = must_stat(f->k, b);

    must(keeper_set(f->k, a, STR("x"), 0, NULL));
    mk(f, "a/c", "");
    expect_stat_equal(must_stat(f->k, b), was);
}

/* The visible number is 2 * creations - children: creations and deletions both count. */
static void stat_cversion_counts_creations_and_deletions(struct fixture *f)
{
    static const char script[] = "++-+--+++-----+";
    const char *a = mk(f, "a", "");
    int made = 0, deleted = 0;

    for (const char *s = script; *s; s++) {
        if (*s == '+')
            must(keeper_create(f->k, at(f, "a/%d", made++), STR(""), 0, NULL));
        else if (deleted < made)
            must(keeper_delete(f->k, at(f, "a/%d", deleted++), 0));
        assert_int_equal(must_stat(f->k, a).cversion, made + deleted);
        assert_int_equal(must_stat(f->k, a).child_count, made - deleted);
    }
}

static void stat_of_a_node_made_again(struct fixture *f)
{
    const char *a = mk(f, "a", "0");
    struct keeper_stat was, is;

    must(keeper_delete(f->k, mk(f, "a/b", ""), 0));
    must(keeper_set(f->k, a, STR("1"), 0, NULL));
    was = must_stat(f->k, a);
    must(keeper_delete(f->k, a, 1));
    mk(f, "a", "2");
    is = must_stat(f->k, a);
    assert_true(is.czxid > was.pzxid && is.czxid > was.mzxid);
    assert_int_equal(is.mzxid, is.czxid);
    assert_int_equal(is.pzxid, is.czxid);
    assert_int_equal(is.version, 0);
    assert_int_equal(is.cversion, 0);
    assert_int_equal(is.mtime_ms, is.ctime_ms);
}

static void stat_zxids_follow_the_order_of_changes(struct fixture *f)
{
    int64_t last = must_stat(f->k, f->root).czxid;
    const char *a = mk(f, "a", "");
    struct keeper_stat s;

    for (int i = 0; i < 10; i++) {
        s = must_stat(f->k, mk_flags(f, f->k, "s", KEEPER_SEQUENTIAL));
        assert_true(s.czxid > last);
        must(keeper_set(f->k, a, STR(""), i, &s));
        assert_true(s.mzxid > must_stat(f->k, f->root).pzxid);
        last = s.mzxid;
    }
}

static void stat_zxids_follow_the_order_between_sessions(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const char *a = mk(f, "a", "");
    struct keeper_stat s;
    int64_t last = 0;

    for (int i = 0; i < 10; i++) {
        must(keeper_set(i % 2 ? f->k : other, a, STR(""), i, &s));
        assert_true(s.mzxid > last);
        last = s.mzxid;
    }
}

static void stat_of_the_pzxid_is_its_own_of_each_parent(struct fixture *f)
{
    const char *a = mk(f, "a", ""), *b = mk(f, "b", "");
    int64_t a_pzxid;

    mk(f, "a/x", "");
    a_pzxid = must_stat(f->k, a).pzxid;
    mk(f, "b/x", "");
    assert_int_equal(must_stat(f->k, a).pzxid, a_pzxid);
    assert_true(must_stat(f->k, b).pzxid > a_pzxid);
}

static void stat_of_failed_changes_is_as_before(struct fixture *f)
{
    const char *before, *a = mk(f, "a", "");

    mk(f, "a/b", "");
    before = tree_dump(f);
    expect_err(DROVER_EXISTS, keeper_create(f->k, a, STR(""), 0, NULL));
    expect_err(DROVER_NO_NODE, keeper_create(f->k, at(f, "x/y"), STR(""), 0, NULL));
    expect_err(DROVER_BAD_VERSION, keeper_set(f->k, a, STR("x"), 5, NULL));
    expect_err(DROVER_NOT_EMPTY, keeper_delete(f->k, a, 0));
    assert_string_equal(tree_dump(f), before);
}

const struct conformance_case stat_cases[] = {
    CASE(stat_of_a_new_node),
    CASE(stat_times_are_wall_time),
    CASE(stat_after_a_set),
    CASE(stat_after_a_later_set),
    CASE(stat_after_a_set_undone_later),
    CASE(stat_of_a_parent_after_a_creation),
    CASE(stat_of_a_parent_after_a_deletion),
    CASE(stat_of_a_parent_after_a_set_of_its_child),
    CASE(stat_of_a_grandparent),
    CASE(stat_of_a_sibling),
    CASE(stat_of_a_child_after_changes_of_its_parent),
    CASE(stat_cversion_counts_creations_and_deletions),
    CASE(stat_of_a_node_made_again),
    CASE(stat_zxids_follow_the_order_of_changes),
    CASE(stat_zxids_follow_the_order_between_sessions),
    CASE(stat_of_the_pzxid_is_its_own_of_each_parent),
    CASE(stat_of_failed_changes_is_as_before),
    {0},
};
