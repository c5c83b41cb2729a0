/*
 * Cases about ephemeral nodes: whose they are, what they cannot have, when they go.
 */
#include "fixture.h"

static void ephemeral_has_its_owner(struct fixture *f)
{
    struct keeper_stat s = must_stat(f->k, mk_flags(f, f->k, "e", KEEPER_EPHEMERAL));

    assert_int_equal(s.ephemeral_owner, session_of(f->k).id);
    assert_int_equal(s.version, 0);
    assert_int_equal(s.pzxid, s.czxid);
    assert_int_equal(must_stat(f->k, mk(f, "a", "")).ephemeral_owner, 0);
}

static void ephemeral_has_no_children(struct fixture *f)
{
    static const int flags[] = {0, KEEPER_EPHEMERAL, KEEPER_SEQUENTIAL,
                                KEEPER_EPHEMERAL | KEEPER_SEQUENTIAL};
    const char *before;

    mk_flags(f, f->k, "e", KEEPER_EPHEMERAL);
    before = tree_dump(f);
    for (size_t i = 0; i < 4; i++)
        expect_err(DROVER_NO_CHILDREN_FOR_EPHEMERALS,
                   keeper_create(f->k, at(f, "e/c"), STR(""), flags[i], NULL));
    assert_string_equal(tree_dump(f), before);
}

static void ephemeral_of_another_has_no_children(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);

    mk_flags(f, other, "e", KEEPER_EPHEMERAL);
    expect_err(DROVER_NO_CHILDREN_FOR_EPHEMERALS,
               keeper_create(f->k, at(f, "e/c"), STR(""), 0, NULL));
}

static void ephemerals_go_with_the_session(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);

    mk(f, "a", "");
    mk(f, "a/b", "");
    mk_flags(f, other, "e", KEEPER_EPHEMERAL);
    mk_flags(f, other, "a/e", KEEPER_EPHEMERAL);
    mk_flags(f, other, "a/b/e", KEEPER_EPHEMERAL | KEEPER_SEQUENTIAL);
    mk_flags(f, other, "stays", 0);
    session_close(f, other);
    wait_gone(f->k, at(f, "e"), PROMPT_MS);
    assert_string_equal(tree_names(f), "a:0 a/b:0 stays:0");
}

static void ephemerals_stay_when_another_closes(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);

    mk_flags(f, f->k, "mine", KEEPER_EPHEMERAL);
    mk_flags(f, other, "theirs", KEEPER_EPHEMERAL);
    session_close(f, other);
    wait_gone(f->k, at(f, "theirs"), PROMPT_MS);
    assert_string_equal(tree_names(f), "mine:0");
}

static void ephemeral_can_be_deleted_by_another(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);

    mk_flags(f, f->k, "e", KEEPER_EPHEMERAL);
    must(keeper_delete(other, at(f, "e"), 0));
    catch_up(f->k);
    expect_err(DROVER_NO_NODE, keeper_exists(f->k, at(f, "e"), NULL));
}

static void ephemeral_set_by_another_keeps_its_owner(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    struct keeper_stat s;

    mk_flags(f, f->k, "e", KEEPER_EPHEMERAL);
    must(keeper_set(other, at(f, "e"), STR("theirs"), 0, &s));
    assert_int_equal(s.ephemeral_owner, session_of(f->k).id);
    mk_flags(f, other, "last", KEEPER_EPHEMERAL);
    session_close(f, other);
    wait_gone(f->k, at(f, "last"), PROMPT_MS);
    expect_data(f, at(f, "e"), "theirs");
}

/* What the old session made is gone; what bears its name now belongs to somebody else. */
static void ephemeral_made_again_by_another(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const char *e = mk_flags(f, other, "e", KEEPER_EPHEMERAL);

    mk_flags(f, other, "last", KEEPER_EPHEMERAL);
    must(keeper_delete(f->k, e, 0));
    mk_flags(f, f->k, "e", KEEPER_EPHEMERAL);
    session_close(f, other);
    wait_gone(f->k, at(f, "last"), PROMPT_MS);
    assert_int_equal(must_stat(f->k, e).ephemeral_owner, session_of(f->k).id);
}

static void ephemeral_made_again_to_stay(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const char *e = mk_flags(f, other, "e", KEEPER_EPHEMERAL);

    mk_flags(f, other, "last", KEEPER_EPHEMERAL);
    must(keeper_delete(other, e, 0));
    mk_flags(f, other, "e", 0);
    session_close(f, other);
    wait_gone(f->k, at(f, "last"), PROMPT_MS);
    assert_int_equal(must_stat(f->k, e).ephemeral_owner, 0);
}

static void ephemeral_name_is_free_after_the_session(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const char *e = mk_flags(f, other, "e", KEEPER_EPHEMERAL);

    session_close(f, other);
    wait_gone(f->k, e, PROMPT_MS);
    mk_flags(f, f->k, "e", KEEPER_EPHEMERAL);
    assert_int_equal(must_stat(f->k, e).ephemeral_owner, session_of(f->k).id);
}

static void ephemeral_keeps_its_parent(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const char *a = mk(f, "a", "");

    mk_flags(f, other, "a/e", KEEPER_EPHEMERAL);
    expect_err(DROVER_NOT_EMPTY, keeper_delete(f->k, a, 0));
    session_close(f, other);
    wait_gone(f->k, at(f, "a/e"), PROMPT_MS);
    must(keeper_delete(f->k, a, 0));
}

/* The end of a session is a change like any other, and one change for all that go. */
static void ephemerals_go_in_one_transaction(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const char *a = mk(f, "a", ""), *b = mk(f, "b", "");
    struct keeper_stat was, is;

    mk_flags(f, other, "a/1", KEEPER_EPHEMERAL);
    mk_flags(f, other, "a/2", KEEPER_EPHEMERAL);
    mk_flags(f, other, "b/1", KEEPER_EPHEMERAL);
    catch_up(f->k);
    was = must_stat(f->k, a);
    session_close(f, other);
    wait_gone(f->k, at(f, "b/1"), PROMPT_MS);
    is = must_stat(f->k, a);
    assert_int_equal(is.cversion, 4);
    assert_int_equal(is.child_count, 0);
    assert_true(is.pzxid > was.pzxid);
    assert_int_equal(is.pzxid, must_stat(f->k, b).pzxid);
    is.cversion = was.cversion, is.child_count = 2, is.pzxid = was.pzxid;
    expect_stat_equal(is, was);
}

static void ephemerals_of_many_sessions(struct fixture *f)
{
    struct keeper *others[8];

    for (int i = 0; i < 8; i++) {
        others[i] = session_open(f, LONG_TIMEOUT_MS);
        mk_flags(f, others[i], "e", KEEPER_EPHEMERAL | KEEPER_SEQUENTIAL);
    }
    for (int i = 0; i < 8; i += 2) {
        session_close(f, others[i]);
        wait_gone(f->k, at(f, "e%010d", i), PROMPT_MS);
    }
    assert_string_equal(children_text(f, f->root),
                        "e0000000001 e0000000003 e0000000005 e0000000007");
}

static void ephemerals_by_the_hundred(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    struct keeper_op ops[300];

    for (int i = 0; i < 300; i++)
        ops[i] = keeper_op_create(at(f, "e%d", i), STR(""), KEEPER_EPHEMERAL);
    must(keeper_multi(other, ops, 300, NULL));
    for (int i = 0; i < 300; i += 3)
        must(keeper_delete(f->k, at(f, "e%d", i), 0));
    session_close(f, other);
    wait_gone(f->k, at(f, "e1"), PROMPT_MS);
    assert_string_equal(children_text(f, f->root), "");
    assert_int_equal(must_stat(f->k, f->root).cversion, 600);
}

const struct conformance_case ephemeral_cases[] = {
    CASE(ephemeral_has_its_owner),
    CASE(ephemeral_has_no_children),
    CASE(ephemeral_of_another_has_no_children),
    CASE(ephemerals_go_with_the_session),
    CASE(ephemerals_stay_when_another_closes),
    CASE(ephemeral_can_be_deleted_by_another),
    CASE(ephemeral_set_by_another_keeps_its_owner),
    CASE(ephemeral_made_again_by_another),
    CASE(ephemeral_made_again_to_stay),
    CASE(ephemeral_name_is_free_after_the_session),
    CASE(ephemeral_keeps_its_parent),
    CASE(ephemerals_go_in_one_transaction),
    CASE(ephemerals_of_many_sessions),
    CASE(ephemerals_by_the_hundred),
    {0},
};
