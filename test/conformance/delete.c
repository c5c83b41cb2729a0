/*
 * Cases about deleting nodes.
 */
#include "fixture.h"

static void delete_a_leaf(struct fixture *f)
{
    const char *a = mk(f, "a", "");

    must(keeper_delete(f->k, a, KEEPER_ANY_VERSION));
    expect_err(DROVER_NO_NODE, keeper_exists(f->k, a, NULL));
    assert_string_equal(children_text(f, f->root), "");
}

static void delete_missing(struct fixture *f)
{
    const char *before = tree_dump(f);

    expect_err(DROVER_NO_NODE, keeper_delete(f->k, at(f, "x"), KEEPER_ANY_VERSION));
    expect_err(DROVER_NO_NODE, keeper_delete(f->k, at(f, "x"), 0));
    expect_err(DROVER_NO_NODE, keeper_delete(f->k, at(f, "x/y"), KEEPER_ANY_VERSION));
    assert_string_equal(tree_dump(f), before);
}

static void delete_twice(struct fixture *f)
{
    const char *a = mk(f, "a", "");

    must(keeper_delete(f->k, a, 0));
    expect_err(DROVER_NO_NODE, keeper_delete(f->k, a, 0));
}

static void delete_with_the_right_version(struct fixture *f)
{
    const char *a = mk(f, "a", "");

    must(keeper_set(f->k, a, STR("1"), 0, NULL));
    must(keeper_delete(f->k, a, 1));
    expect_err(DROVER_NO_NODE, keeper_exists(f->k, a, NULL));
}

static void delete_with_a_wrong_version(struct fixture *f)
{
    const char *before, *a = mk(f, "a", "");

    must(keeper_set(f->k, a, STR("1"), 0, NULL));
    before = tree_dump(f);
    expect_err(DROVER_BAD_VERSION, keeper_delete(f->k, a, 0));
    expect_err(DROVER_BAD_VERSION, keeper_delete(f->k, a, 2));
    expect_err(DROVER_BAD_VERSION, keeper_delete(f->k, a, -2));
    assert_string_equal(tree_dump(f), before);
}

static void delete_a_node_with_children(struct fixture *f)
{
    const char *before, *a = mk(f, "a", "");

    mk(f, "a/b", "");
    before = tree_dump(f);
    expect_err(DROVER_NOT_EMPTY, keeper_delete(f->k, a, KEEPER_ANY_VERSION));
    expect_err(DROVER_NOT_EMPTY, keeper_delete(f->k, a, 0));
    assert_string_equal(tree_dump(f), before);
}

static void delete_looks_at_the_version_before_the_children(struct fixture *f)
{
    const char *a = mk(f, "a", "");

    mk(f, "a/b", "");
    expect_err(DROVER_BAD_VERSION, keeper_delete(f->k, a, 7));
}

static void delete_after_the_children_went(struct fixture *f)
{
    const char *a = mk(f, "a", ""), *b = mk(f, "a/b", ""), *c = mk(f, "a/c", "");

    must(keeper_delete(f->k, b, 0));
    expect_err(DROVER_NOT_EMPTY, keeper_delete(f->k, a, 0));
    must(keeper_delete(f->k, c, 0));
    must(keeper_delete(f->k, a, 0));
}

/* The version that counts is that of the data, whatever the children did. */
static void delete_ignores_the_version_of_the_children(struct fixture *f)
{
    const char *a = mk(f, "a", "");

    must(keeper_delete(f->k, mk(f, "a/b", ""), 0));
    expect_err(DROVER_BAD_VERSION, keeper_delete(f->k, a, must_stat(f->k, a).cversion));
    must(keeper_delete(f->k, a, 0));
}

static void delete_what_is_always_there(struct fixture *f)
{
    static const char *const paths[] = {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"};

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        expect_err(DROVER_BAD_ARGUMENT, keeper_delete(f->k, paths[i], KEEPER_ANY_VERSION));
        expect_err(DROVER_BAD_ARGUMENT, keeper_delete(f->k, paths[i], 12345));
    }
}

static void delete_leaves_the_neighbours(struct fixture *f)
{
    mk(f, "a", "");
    mk(f, "aa", "");
    mk(f, "aa/b", "");
    mk(f, "b", "");
    must(keeper_delete(f->k, at(f, "a"), 0));
    assert_string_equal(tree_names(f), "aa:0 aa/b:0 b:0");
}

static void delete_by_another_session(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const char *a = mk(f, "a", "");

    must(keeper_delete(other, a, 0));
    catch_up(f->k);
    expect_err(DROVER_NO_NODE, keeper_exists(f->k, a, NULL));
}

const struct conformance_case delete_cases[] = {
    CASE(delete_a_leaf),
    CASE(delete_missing),
    CASE(delete_twice),
    CASE(delete_with_the_right_version),
    CASE(delete_with_a_wrong_version),
    CASE(delete_a_node_with_children),
    CASE(delete_looks_at_the_version_before_the_children),
    CASE(delete_after_the_children_went),
    CASE(delete_ignores_the_version_of_the_children),
    CASE(delete_what_is_always_there),
    CASE(delete_leaves_the_neighbours),
    CASE(delete_by_another_session),
    {0},
};
