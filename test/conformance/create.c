/*
 * Cases about creating nodes.
 */
#include "fixture.h"

static void create_tells_the_path(struct fixture *f)
{
    assert_string_equal(mk_flags(f, f->k, "a", 0), at(f, "a"));
}

static void create_holds_its_data(struct fixture *f)
{
    expect_data(f, mk(f, "a", "some data"), "some data");
}

static void create_under_a_missing_parent(struct fixture *f)
{
    expect_err(DROVER_NO_NODE, keeper_create(f->k, at(f, "x/y"), STR(""), 0, NULL));
    expect_err(DROVER_NO_NODE, keeper_create(f->k, at(f, "x/y/z"), STR(""), 0, NULL));
    expect_err(DROVER_NO_NODE, keeper_exists(f->k, at(f, "x"), NULL));
}

static void create_existing(struct fixture *f)
{
    const char *before, *a = mk(f, "a", "first");

    before = tree_dump(f);
    expect_err(DROVER_EXISTS, keeper_create(f->k, a, STR("second"), 0, NULL));
    expect_err(DROVER_EXISTS, keeper_create(f->k, a, STR("second"), KEEPER_EPHEMERAL, NULL));
    assert_string_equal(tree_dump(f), before);
}

static void create_existing_of_another_session(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);

    mk_flags(f, other, "a", KEEPER_EPHEMERAL);
    expect_err(DROVER_EXISTS, keeper_create(f->k, at(f, "a"), STR(""), KEEPER_EPHEMERAL, NULL));
}

static void create_root(struct fixture *f)
{
    expect_err(DROVER_EXISTS, keeper_create(f->k, "/", STR(""), 0, NULL));
    expect_err(DROVER_EXISTS, keeper_create(f->k, "/", STR(""), KEEPER_EPHEMERAL, NULL));
}

static void create_failing_leaves_the_path_alone(struct fixture *f)
{
    char here, *path = &here;

    expect_err(DROVER_NO_NODE, keeper_create(f->k, at(f, "x/y"), STR(""), 0, &path));
    assert_ptr_equal(path, &here);
}

static void create_deep(struct fixture *f)
{
    struct buf rel = {0};

    for (int i = 0; i < 50; i++) {
        buf_printf(&rel, "%s%d", i ? "/" : "", i);
        mk(f, buf_text(&rel), "");
    }
    assert_int_equal(must_stat(f->k, at(f, "%s", buf_text(&rel))).child_count, 0);
    assert_string_equal(children_text(f, at(f, "0/1/2")), "3");
    buf_release(&rel);
}

static void create_with_unknown_flags(struct fixture *f)
{
    expect_err(DROVER_BAD_ARGUMENT, keeper_create(f->k, at(f, "a"), STR(""), 8, NULL));
    expect_err(DROVER_BAD_ARGUMENT, keeper_create(f->k, at(f, "a"), STR(""), -1, NULL));
    expect_err(DROVER_NO_NODE, keeper_exists(f->k, at(f, "a"), NULL));
}

static void create_without_asking_for_the_stat(struct fixture *f)
{
    struct keeper_op ops[] = {
        keeper_op_create(at(f, "a"), STR("x"), KEEPER_NO_STAT),
        keeper_op_create(at(f, "b"), STR(""), KEEPER_NO_STAT | KEEPER_EPHEMERAL),
        keeper_op_create(at(f, "s"), STR(""), KEEPER_NO_STAT | KEEPER_SEQUENTIAL),
    };
    struct keeper_result results[3];
    struct keeper_session session;

    must(keeper_multi(f->k, ops, 3, results));
    assert_string_equal(results[0].path, at(f, "a"));
    assert_string_equal(results[2].path, at(f, "s0000000002"));
    keeper_results_release(results, 3);
    keeper_session(f->k, &session);
    expect_data(f, at(f, "a"), "x");
    assert_true(must_stat(f->k, at(f, "b")).ephemeral_owner == session.id);
}

static void create_names_that_begin_alike(struct fixture *f)
{
    mk(f, "a", "1");
    mk(f, "aa", "2");
    mk(f, "a/a", "3");
    mk(f, "A", "4");
    expect_data(f, at(f, "a"), "1");
    expect_data(f, at(f, "aa"), "2");
    expect_data(f, at(f, "a/a"), "3");
    expect_data(f, at(f, "A"), "4");
}

static void create_is_seen_by_another_session(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const char *a = mk(f, "a", "x");

    catch_up(other);
    expect_stat_equal(must_stat(other, a), must_stat(f->k, a));
}

static void create_again_after_delete(struct fixture *f)
{
    const char *a = mk(f, "a", "first");

    must(keeper_delete(f->k, a, 0));
    mk(f, "a", "second");
    expect_data(f, a, "second");
}

const struct conformance_case create_cases[] = {
    CASE(create_tells_the_path),
    CASE(create_holds_its_data),
    CASE(create_under_a_missing_parent),
    CASE(create_existing),
    CASE(create_existing_of_another_session),
    CASE(create_root),
    CASE(create_failing_leaves_the_path_alone),
    CASE(create_deep),
    CASE(create_with_unknown_flags),
    CASE(create_without_asking_for_the_stat),
    CASE(create_names_that_begin_alike),
    CASE(create_is_seen_by_another_session),
    CASE(create_again_after_delete),
    {0},
};
