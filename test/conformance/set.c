/*
 * Cases about setting data.
 */
#include "fixture.h"

static void set_with_the_right_version(struct fixture *f)
{
    const char *a = mk(f, "a", "0");

    must(keeper_set(f->k, a, STR("1"), 0, NULL));
    must(keeper_set(f->k, a, STR("2"), 1, NULL));
    expect_data(f, a, "2");
}

static void set_with_a_wrong_version(struct fixture *f)
{
    const char *before, *a = mk(f, "a", "0");

    must(keeper_set(f->k, a, STR("1"), 0, NULL));
    before = tree_dump(f);
    expect_err(DROVER_BAD_VERSION, keeper_set(f->k, a, STR("x"), 0, NULL));
    expect_err(DROVER_BAD_VERSION, keeper_set(f->k, a, STR("x"), 2, NULL));
    assert_string_equal(tree_dump(f), before);
}

static void set_with_any_version(struct fixture *f)
{
    const char *a = mk(f, "a", "0");

    must(keeper_set(f->k, a, STR("1"), KEEPER_ANY_VERSION, NULL));
    must(keeper_set(f->k, a, STR("2"), KEEPER_ANY_VERSION, NULL));
    assert_int_equal(must_stat(f->k, a).version, 2);
}

/* Only -1 means any: other negative numbers are versions that no node has. */
static void set_with_another_negative_version(struct fixture *f)
{
    const char *a = mk(f, "a", "0");

    expect_err(DROVER_BAD_VERSION, keeper_set(f->k, a, STR("x"), -2, NULL));
    expect_err(DROVER_BAD_VERSION, keeper_set(f->k, a, STR("x"), INT32_MIN, NULL));
    expect_data(f, a, "0");
}

static void set_missing(struct fixture *f)
{
    expect_err(DROVER_NO_NODE, keeper_set(f->k, at(f, "x"), STR(""), KEEPER_ANY_VERSION, NULL));
    expect_err(DROVER_NO_NODE, keeper_set(f->k, at(f, "x"), STR(""), 0, NULL));
    expect_err(DROVER_NO_NODE, keeper_exists(f->k, at(f, "x"), NULL));
}

static void set_failing_leaves_the_stat_alone(struct fixture *f)
{
    struct keeper_stat stat, same;

    memset(&stat, 0x5a, sizeof stat);
    memset(&same, 0x5a, sizeof same);
    expect_err(DROVER_NO_NODE, keeper_set(f->k, at(f, "x"), STR(""), 0, &stat));
    assert_memory_equal(&stat, &same, STAT_LEN);
}

static void set_to_the_same_data_is_a_change(struct fixture *f)
{
    const char *a = mk(f, "a", "same");
    struct keeper_stat before = must_stat(f->k, a), after;

    must(keeper_set(f->k, a, STR("same"), 0, &after));
    assert_int_equal(after.version, 1);
    assert_true(after.mzxid > before.mzxid);
}

static void set_to_nothing_and_back(struct fixture *f)
{
    const char *a = mk(f, "a", "some data");

    must(keeper_set(f->k, a, STR(""), 0, NULL));
    assert_int_equal(must_get(f, a).len, 0);
    must(keeper_set(f->k, a, STR("longer than it was before"), 1, NULL));
    expect_data(f, a, "longer than it was before");
    must(keeper_set(f->k, a, STR("s"), 2, NULL));
    expect_data(f, a, "s");
}

static void set_tells_the_new_stat(struct fixture *f)
{
    const char *a = mk(f, "a", "0");
    struct keeper_stat told;

    mk(f, "a/b", "");
    must(keeper_set(f->k, a, STR("four"), 0, &told));
    expect_stat_equal(told, must_stat(f->k, a));
}

static void set_of_a_version_that_another_took(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const char *a = mk(f, "a", "0");

    must(keeper_set(other, a, STR("theirs"), 0, NULL));
    expect_err(DROVER_BAD_VERSION, keeper_set(f->k, a, STR("mine"), 0, NULL));
    catch_up(f->k);
    expect_data(f, a, "theirs");
}

static void set_of_a_node_with_children(struct fixture *f)
{
    const char *a = mk(f, "a", "0");

    mk(f, "a/b", "b");
    must(keeper_set(f->k, a, STR("1"), 0, NULL));
    assert_string_equal(children_text(f, a), "b");
    expect_data(f, at(f, "a/b"), "b");
}

const struct conformance_case set_cases[] = {
    CASE(set_with_the_right_version),
    CASE(set_with_a_wrong_version),
    CASE(set_with_any_version),
    CASE(set_with_another_negative_version),
    CASE(set_missing),
    CASE(set_failing_leaves_the_stat_alone),
    CASE(set_to_the_same_data_is_a_change),
    CASE(set_to_nothing_and_back),
    CASE(set_tells_the_new_stat),
    CASE(set_of_a_version_that_another_took),
    CASE(set_of_a_node_with_children),
    {0},
};
