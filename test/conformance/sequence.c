/*
 * Cases about sequence numbers. The number is the count of creations under the parent so far, in
 * ten digits: deletions do not change it, ordinary creations do, and it belongs to the parent and
 * not to the name.
 */
#include "fixture.h"

/* The next sequential child of rel's parent must be called `want`. */
static void expect_next(struct fixture *f, const char *rel, const char *want)
{
    assert_string_equal(mk_flags(f, f->k, rel, KEEPER_SEQUENTIAL), at(f, "%s", want));
}

static void sequence_starts_at_zero(struct fixture *f)
{
    expect_next(f, "s-", "s-0000000000");
    expect_data(f, at(f, "s-0000000000"), "x");
}

static void sequence_rises_by_one(struct fixture *f)
{
    for (int i = 0; i < 12; i++)
        assert_string_equal(mk_flags(f, f->k, "s-", KEEPER_SEQUENTIAL), at(f, "s-%010d", i));
    assert_int_equal(must_children(f, f->root).count, 12);
}

static void sequence_is_not_changed_by_deletions(struct fixture *f)
{
    expect_next(f, "s", "s0000000000");
    expect_next(f, "s", "s0000000001");
    must(keeper_delete(f->k, at(f, "s0000000001"), 0));
    must(keeper_delete(f->k, at(f, "s0000000000"), 0));
    expect_next(f, "s", "s0000000002");
}

static void sequence_counts_ordinary_creations(struct fixture *f)
{
    mk(f, "a", "");
    must(keeper_delete(f->k, mk(f, "b", ""), 0));
    mk_flags(f, f->k, "e", KEEPER_EPHEMERAL);
    expect_next(f, "s", "s0000000003");
}

static void sequence_is_independent_of_the_name(struct fixture *f)
{
    expect_next(f, "s", "s0000000000");
    expect_next(f, "other", "other0000000001");
    expect_next(f, "s", "s0000000002");
}

static void sequence_is_of_each_parent(struct fixture *f)
{
    mk(f, "a", "");
    mk(f, "b", "");
    expect_next(f, "a/s", "a/s0000000000");
    expect_next(f, "a/s", "a/s0000000001");
    expect_next(f, "b/s", "b/s0000000000");
    expect_next(f, "s", "s0000000002");
}

static void sequence_ignores_sets_and_grandchildren(struct fixture *f)
{
    mk(f, "a", "");
    mk(f, "a/b", "");
    mk(f, "a/b/c", "");
    must(keeper_set(f->k, f->root, STR("x"), 0, NULL));
    must(keeper_set(f->k, at(f, "a"), STR("x"), 0, NULL));
    expect_next(f, "s", "s0000000001");
}

static void sequence_ignores_failed_creations(struct fixture *f)
{
    mk(f, "a", "");
    expect_err(DROVER_EXISTS, keeper_create(f->k, at(f, "a"), STR(""), 0, NULL));
    expect_err(DROVER_NO_NODE, keeper_create(f->k, at(f, "x/s"), STR(""), KEEPER_SEQUENTIAL, NULL));
    expect_next(f, "s", "s0000000001");
}

static void sequence_ignores_a_failed_multi(struct fixture *f)
{
    const struct keeper_op ops[] = {
        keeper_op_create(at(f, "s"), STR(""), KEEPER_SEQUENTIAL),
        keeper_op_create(at(f, "s"), STR(""), KEEPER_SEQUENTIAL),
        keeper_op_check(at(f, "missing"), 0),
    };

    expect_next(f, "s", "s0000000000");
    expect_err(DROVER_NO_NODE, keeper_multi(f->k, ops, 3, NULL));
    expect_next(f, "s", "s0000000001");
}

static void sequence_goes_on_within_a_multi(struct fixture *f)
{
    const struct keeper_op ops[] = {
        keeper_op_create(at(f, "s"), STR(""), KEEPER_SEQUENTIAL),
        keeper_op_create(at(f, "plain"), STR(""), 0),
        keeper_op_delete(at(f, "plain"), 0),
        keeper_op_create(at(f, "t"), STR(""), KEEPER_SEQUENTIAL),
    };
    struct keeper_result *r = results_new(f, 4);

    must(multi(f, ops, 4, r));
    assert_string_equal(r[0].path, at(f, "s0000000000"));
    assert_string_equal(r[3].path, at(f, "t0000000002"));
    expect_next(f, "s", "s0000000003");
}

static void sequence_starts_afresh_with_its_parent(struct fixture *f)
{
    mk(f, "a", "");
    expect_next(f, "a/s", "a/s0000000000");
    must(keeper_delete(f->k, at(f, "a/s0000000000"), 0));
    must(keeper_delete(f->k, at(f, "a"), 0));
    mk(f, "a", "");
    expect_next(f, "a/s", "a/s0000000000");
}

/* A name that is taken stays taken: the number does not step over it. */
static void sequence_may_meet_a_name_that_is_taken(struct fixture *f)
{
    mk(f, "s0000000001", "");
    expect_err(DROVER_EXISTS, keeper_create(f->k, at(f, "s"), STR(""), KEEPER_SEQUENTIAL, NULL));
    expect_err(DROVER_EXISTS, keeper_create(f->k, at(f, "s"), STR(""), KEEPER_SEQUENTIAL, NULL));
    expect_next(f, "t", "t0000000001");
}

static void sequence_of_a_name_that_exists(struct fixture *f)
{
    mk(f, "s", "plain");
    expect_next(f, "s", "s0000000001");
    expect_data(f, at(f, "s"), "plain");
}

/* Names are text and no formats; digits at the end of one stay where they are. */
static void sequence_keeps_the_name_as_it_is(struct fixture *f)
{
    expect_next(f, "%s%d-%n", "%s%d-%n0000000000");
    expect_next(f, "n12", "n120000000001");
    expect_next(f, "\xc3\xa9-", "\xc3\xa9-0000000002");
}

static void sequence_under_a_missing_parent(struct fixture *f)
{
    expect_err(DROVER_NO_NODE, keeper_create(f->k, at(f, "x/"), STR(""), KEEPER_SEQUENTIAL, NULL));
}

static void sequence_is_shared_by_sessions(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);

    for (int i = 0; i < 10; i++)
        assert_string_equal(mk_flags(f, i % 2 ? f->k : other, "s", KEEPER_SEQUENTIAL),
                            at(f, "s%010d", i));
}

static void sequence_of_ephemerals(struct fixture *f)
{
    int both = KEEPER_EPHEMERAL | KEEPER_SEQUENTIAL;
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const char *mine = mk_flags(f, f->k, "e", both), *theirs = mk_flags(f, other, "e", both);

    assert_string_equal(mine, at(f, "e0000000000"));
    assert_string_equal(theirs, at(f, "e0000000001"));
    session_close(f, other);
    wait_gone(f->k, theirs, PROMPT_MS);
    expect_next(f, "e", "e0000000002");
}

const struct conformance_case sequence_cases[] = {
    CASE(sequence_starts_at_zero),
    CASE(sequence_rises_by_one),
    CASE(sequence_is_not_changed_by_deletions),
    CASE(sequence_counts_ordinary_creations),
    CASE(sequence_is_independent_of_the_name),
    CASE(sequence_is_of_each_parent),
    CASE(sequence_ignores_sets_and_grandchildren),
    CASE(sequence_ignores_failed_creations),
    CASE(sequence_ignores_a_failed_multi),
    CASE(sequence_goes_on_within_a_multi),
    CASE(sequence_starts_afresh_with_its_parent),
    CASE(sequence_may_meet_a_name_that_is_taken),
    CASE(sequence_of_a_name_that_exists),
    CASE(sequence_keeps_the_name_as_it_is),
    CASE(sequence_under_a_missing_parent),
    CASE(sequence_is_shared_by_sessions),
    CASE(sequence_of_ephemerals),
    {0},
};
