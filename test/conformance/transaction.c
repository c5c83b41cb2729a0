/*
 * A table of transactions: each operation with the error it must get, and the tree that must be
 * there afterwards. Those that fail must leave everything as it was, to the last detail of every
 * stat; the errors after the one that failed are always NOT_TRIED.
 *
 * All start from the same tree: a with x and y, b (set once, so its version is 1), e (ephemeral).
 */
#include "fixture.h"

enum { ROW_OPS_MAX = 8, ANY = KEEPER_ANY_VERSION };

#define START "a:0 a/x:0 a/y:0 b:1 e:0"

struct row_op {
    enum keeper_op_kind kind;
    const char *rel;
    int32_t version; /* create: the flags */
    int err;
};

struct row {
    const char *after; /* when it passes: see tree_names() */
    struct row_op ops[ROW_OPS_MAX];
};

static struct keeper_op op_of(struct fixture *f, const struct row_op *o)
{
    const char *path = at(f, "%s", o->rel);

    switch (o->kind) {
    case KEEPER_CREATE:
        return keeper_op_create(path, STR("new"), o->version);
    case KEEPER_SET:
        return keeper_op_set(path, STR("new"), o->version);
    case KEEPER_DELETE:
        return keeper_op_delete(path, o->version);
    default:
        return keeper_op_check(path, o->version);
    }
}

static void start(struct fixture *f)
{
    mk(f, "a", "");
    mk(f, "a/x", "");
    mk(f, "a/y", "");
    must(keeper_set(f->k, mk(f, "b", "0"), STR("1"), 0, NULL));
    mk_flags(f, f->k, "e", KEEPER_EPHEMERAL);
    assert_string_equal(tree_names(f), START);
}

static void transaction(struct fixture *f)
{
    const struct row *row = f->arg;
    struct keeper_op ops[ROW_OPS_MAX];
    struct keeper_result *r = results_new(f, ROW_OPS_MAX);
    const char *before;
    size_t count = 0;
    int err = 0;

    start(f);
    for (; count < ROW_OPS_MAX && row->ops[count].rel; count++) {
        ops[count] = op_of(f, &row->ops[count]);
        err = err ? err : row->ops[count].err;
    }
    before = tree_dump(f);
    expect_err(err, multi(f, ops, count, r));
    err = 0;
    for (size_t i = 0; i < count; i++) {
        expect_err(err ? DROVER_NOT_TRIED : row->ops[i].err, r[i].err);
        err = err ? err : row->ops[i].err;
    }
    if (err)
        assert_string_equal(tree_dump(f), before);
    else
        assert_string_equal(tree_names(f), row->after);
}

/* What was rolled back must also behave as if it had never been: watch the sessions and numbers. */
static void rollback_of_an_ephemeral_made(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const struct keeper_op ops[] = {
        keeper_op_create(at(f, "e"), STR(""), KEEPER_EPHEMERAL),
        keeper_op_check(at(f, "missing"), ANY),
    };

    expect_err(DROVER_NO_NODE, keeper_multi(other, ops, 2, NULL));
    mk(f, "e", "mine now");
    mk_flags(f, other, "last", KEEPER_EPHEMERAL);
    session_close(f, other);
    wait_gone(f->k, at(f, "last"), PROMPT_MS);
    expect_data(f, at(f, "e"), "mine now");
}

static void rollback_of_an_ephemeral_deleted(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const struct keeper_op ops[] = {
        keeper_op_delete(at(f, "e"), ANY),
        keeper_op_check(at(f, "missing"), ANY),
    };

    mk_flags(f, other, "e", KEEPER_EPHEMERAL);
    expect_err(DROVER_NO_NODE, keeper_multi(f->k, ops, 2, NULL));
    catch_up(f->k);
    assert_int_equal(must_stat(f->k, at(f, "e")).ephemeral_owner, session_of(other).id);
    session_close(f, other);
    wait_gone(f->k, at(f, "e"), PROMPT_MS);
}

static void rollback_then_the_same_again(struct fixture *f)
{
    const struct keeper_op ops[] = {
        keeper_op_create(at(f, "n"), STR(""), 0),
        keeper_op_create(at(f, "n/s"), STR(""), KEEPER_SEQUENTIAL),
        keeper_op_set(at(f, "n"), STR("1"), 0),
        keeper_op_delete(at(f, "a"), 0),
        keeper_op_check(at(f, "missing"), ANY),
    };

    mk(f, "a", "");
    for (int i = 0; i < 3; i++)
        expect_err(DROVER_NO_NODE, keeper_multi(f->k, ops, 5, NULL));
    must(keeper_multi(f->k, ops, 4, NULL));
    assert_string_equal(tree_names(f), "n:1 n/s0000000000:0");
}

/* Many operations undone, and the next transaction has a zxid above all that was seen before. */
static void rollback_of_a_thousand(struct fixture *f)
{
    struct keeper_op *ops = keep(f, mem_zalloc(1001 * sizeof *ops));
    const char *before;

    for (int i = 0; i < 500; i++) {
        ops[2 * i] = keeper_op_create(at(f, "c%d", i), STR("data"), 0);
        ops[2 * i + 1] = keeper_op_set(at(f, "c%d", i / 2), STR("more"), ANY);
    }
    ops[1000] = keeper_op_delete(f->root, ANY);
    mk(f, "kept", "");
    before = tree_dump(f);
    expect_err(DROVER_NOT_EMPTY, keeper_multi(f->k, ops, 1001, NULL));
    assert_string_equal(tree_dump(f), before);
}

#define FAILS NULL
#define ROW(name, after, ...)                                                                      \
    {                                                                                              \
        name, transaction, &(const struct row)                                                     \
        {                                                                                          \
            after,                                                                                 \
            {                                                                                      \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }                                                                                          \
    }
#define CREATE(rel, ...)                                                                           \
    {                                                                                              \
        KEEPER_CREATE, rel, 0, __VA_ARGS__                                                         \
    }
#define EPHEMERAL(rel, ...)                                                                        \
    {                                                                                              \
        KEEPER_CREATE, rel, KEEPER_EPHEMERAL, __VA_ARGS__                                          \
    }
#define SEQUENTIAL(rel, ...)                                                                       \
    {                                                                                              \
        KEEPER_CREATE, rel, KEEPER_SEQUENTIAL, __VA_ARGS__                                         \
    }
#define SET(rel, version, ...)                                                                     \
    {                                                                                              \
        KEEPER_SET, rel, version, __VA_ARGS__                                                      \
    }
#define DELETE(rel, version, ...)                                                                  \
    {                                                                                              \
        KEEPER_DELETE, rel, version, __VA_ARGS__                                                   \
    }
#define CHECK(rel, version, ...)                                                                   \
    {                                                                                              \
        KEEPER_CHECK, rel, version, __VA_ARGS__                                                    \
    }
#define MISSING CHECK("missing", ANY, DROVER_NO_NODE)

const struct conformance_case transaction_cases[] = {
    /* Later operations see what earlier ones did. */
    ROW("multi_create_set_delete", START, CREATE("n", 0), SET("n", 0, 0), DELETE("n", 1, 0)),
    ROW("multi_create_parent_and_child", "a:0 a/x:0 a/y:0 b:1 e:0 n:0 n/m:0 n/m/o:0",
        CREATE("n", 0), CREATE("n/m", 0), CREATE("n/m/o", 0)),
    ROW("multi_delete_child_and_parent", "b:1 e:0", DELETE("a/x", 0, 0), DELETE("a/y", 0, 0),
        DELETE("a", 0, 0)),
    ROW("multi_delete_and_create_again", "a:0 a/x:0 a/y:0 b:0 e:0", DELETE("b", 1, 0),
        CREATE("b", 0), CHECK("b", 0, 0)),
    ROW("multi_set_versions_in_a_chain", "a:0 a/x:0 a/y:0 b:4 e:0", SET("b", 1, 0), SET("b", 2, 0),
        SET("b", 3, 0), CHECK("b", 4, 0)),
    ROW("multi_set_twice_with_any_version", "a:2 a/x:0 a/y:0 b:1 e:0", SET("a", ANY, 0),
        SET("a", ANY, 0)),
    ROW("multi_check_sees_a_creation", "a:0 a/x:0 a/y:0 b:1 e:0 n:0", CREATE("n", 0),
        CHECK("n", 0, 0)),
    ROW("multi_replaces_a_node_by_an_ephemeral", "a:0 a/x:0 a/y:0 b:0 e:0", DELETE("b", ANY, 0),
        EPHEMERAL("b", 0)),
    ROW("multi_replaces_an_ephemeral_by_a_parent", "a:0 a/x:0 a/y:0 b:1 e:0 e/n:0",
        DELETE("e", 0, 0), CREATE("e", 0), CREATE("e/n", 0)),
    ROW("multi_of_checks_only", START, CHECK("a", 0, 0), CHECK("b", 1, 0), CHECK("e", ANY, 0)),
    ROW("multi_check_of_the_right_version", "a:1 a/x:0 a/y:0 b:1 e:0", CHECK("b", 1, 0),
        SET("a", ANY, 0)),
    ROW("multi_check_of_any_version", "a:1 a/x:0 a/y:0 b:1 e:0", CHECK("b", ANY, 0),
        SET("a", ANY, 0)),

    /* What fails, wherever it stands, undoes the rest. */
    ROW("multi_check_of_a_wrong_version", FAILS, SET("a", ANY, 0),
        CHECK("b", 0, DROVER_BAD_VERSION), SET("a/x", ANY, 0)),
    ROW("multi_check_of_a_missing_node", FAILS, SET("a", ANY, 0), MISSING),
    ROW("multi_check_of_a_negative_version", FAILS, SET("a", ANY, 0),
        CHECK("b", -2, DROVER_BAD_VERSION)),
    ROW("multi_check_of_the_version_before_a_set", FAILS, SET("b", 1, 0),
        CHECK("b", 1, DROVER_BAD_VERSION)),
    ROW("multi_check_of_a_node_deleted_in_it", FAILS, DELETE("b", 1, 0),
        CHECK("b", ANY, DROVER_NO_NODE)),
    ROW("multi_set_of_a_node_deleted_in_it", FAILS, DELETE("b", 1, 0),
        SET("b", ANY, DROVER_NO_NODE)),
    ROW("multi_create_under_a_node_deleted_in_it", FAILS, DELETE("b", 1, 0),
        CREATE("b/c", DROVER_NO_NODE)),
    ROW("multi_delete_twice", FAILS, DELETE("b", 1, 0), DELETE("b", ANY, DROVER_NO_NODE)),
    ROW("multi_create_twice", FAILS, CREATE("n", 0), CREATE("n", DROVER_EXISTS)),
    ROW("multi_delete_parent_before_child", FAILS, DELETE("a/x", 0, 0),
        DELETE("a", 0, DROVER_NOT_EMPTY), DELETE("a/y", 0, 0)),
    ROW("multi_delete_of_a_parent_made_in_it", FAILS, CREATE("n", 0), CREATE("n/m", 0),
        DELETE("n", 0, DROVER_NOT_EMPTY)),
    ROW("multi_set_of_an_old_version", FAILS, SET("b", 1, 0), SET("b", 1, DROVER_BAD_VERSION)),
    ROW("multi_create_before_its_parent", FAILS, CREATE("n/m", DROVER_NO_NODE), CREATE("n", 0)),
    ROW("multi_child_of_an_ephemeral_made_in_it", FAILS, EPHEMERAL("n", 0),
        CREATE("n/m", DROVER_NO_CHILDREN_FOR_EPHEMERALS)),
    ROW("multi_fails_at_the_first", FAILS, MISSING, SET("a", ANY, 0), CREATE("n", 0)),
    ROW("multi_fails_in_the_middle", FAILS, SET("a", ANY, 0), CREATE("n", 0), MISSING,
        DELETE("b", ANY, 0), SET("a", ANY, 0)),
    ROW("multi_fails_at_the_last", FAILS, SET("a", ANY, 0), CREATE("n", 0), DELETE("b", ANY, 0),
        MISSING),
    ROW("multi_of_one_that_fails", FAILS, CREATE("a", DROVER_EXISTS)),
    ROW("multi_would_fail_twice", FAILS, SET("b", 0, DROVER_BAD_VERSION), CREATE("a", 0)),

    /* The details of undoing, one kind each. */
    ROW("rollback_of_a_set", FAILS, SET("b", 1, 0), MISSING),
    ROW("rollback_of_many_sets", FAILS, SET("b", 1, 0), SET("b", 2, 0), SET("b", 3, 0), MISSING),
    ROW("rollback_of_a_creation", FAILS, CREATE("n", 0), MISSING),
    ROW("rollback_of_a_chain_of_creations", FAILS, CREATE("n", 0), CREATE("n/m", 0),
        CREATE("n/m/o", 0), SET("n/m", 0, 0), MISSING),
    ROW("rollback_of_a_deletion", FAILS, DELETE("a/x", 0, 0), MISSING),
    ROW("rollback_of_a_subtree_deleted", FAILS, DELETE("a/x", 0, 0), DELETE("a/y", 0, 0),
        DELETE("a", 0, 0), MISSING),
    ROW("rollback_of_a_subtree_replaced", FAILS, DELETE("a/x", 0, 0), DELETE("a/y", 0, 0),
        DELETE("a", 0, 0), CREATE("a", 0), CREATE("a/z", 0), SET("a", 0, 0), MISSING),
    ROW("rollback_of_a_deletion_after_a_set", FAILS, SET("b", 1, 0), DELETE("b", 2, 0), MISSING),
    ROW("rollback_of_a_creation_deleted_in_it", FAILS, CREATE("a/n", 0), DELETE("a/n", 0, 0),
        MISSING),
    ROW("rollback_of_sequentials", FAILS, SEQUENTIAL("a/s", 0), SEQUENTIAL("a/s", 0), MISSING),
    ROW("rollback_of_an_ephemeral_replaced", FAILS, DELETE("e", 0, 0), CREATE("e", 0),
        CREATE("e/n", 0), MISSING),
    CASE(rollback_of_an_ephemeral_made),
    CASE(rollback_of_an_ephemeral_deleted),
    CASE(rollback_then_the_same_again),
    CASE(rollback_of_a_thousand),
    {0},
};
