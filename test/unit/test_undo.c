/*
 * A transaction that fails leaves nothing behind: every kind of operation, in every entanglement.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* A stat without the padding behind it, which holds anything. */
#define STAT_LEN (offsetof(struct keeper_stat, child_count) + sizeof(int32_t))

enum { OPS_MAX = 8 };

struct fixture {
    struct tree t, before;
    struct tree_changes c;
    struct tree_session *session;
};

static void must(const char *wrong)
{
    if (wrong)
        fail_msg("%s", wrong);
}

static int run(struct fixture *f, const struct keeper_op *ops, size_t count,
               struct keeper_result *results)
{
    struct tree_user user = {.session = f->session};

    return tree_apply(&f->t, &user, 5000, ops, count, results, &f->c);
}

/* A second tree as the first one is, to compare with later. */
static void remember(struct fixture *f)
{
    struct buf scratch = {0};
    struct tree_node_state s;
    struct err_info why;
    uint32_t cursor = 0;

    tree_init(&f->before);
    sessions_put(&f->before.sessions, f->session->id, f->session->timeout_ms, f->session->password);
    while (tree_walk(&f->t, &cursor, &scratch, &s))
        assert_int_equal(tree_restore_node(&f->before, &s, &why), 0);
    f->before.zxid = f->t.zxid;
    assert_int_equal(tree_seal(&f->before, &why), 0);
    buf_release(&scratch);
}

static const struct str CLOSED_LIST = STR("\0\0\0\1\0\0\0\1\0\0\0\5world\0\0\0\6anyone");
static const struct str OTHER_LIST = STR("\0\0\0\1\0\0\0\2\0\0\0\5world\0\0\0\6anyone");

static struct keeper_op set_acl(const char *path, struct str acl)
{
    return (struct keeper_op){
        .kind = KEEPER_SET_ACL, .version = KEEPER_ANY_VERSION, .path = str_of(path), .acl = acl};
}

static struct keeper_op create_owned(const char *path, int64_t owner)
{
    struct keeper_op op = keeper_op_create(path, STR(""), 0);
    op.owner = owner;
    return op;
}

/*
 * /p with a child, /guarded with a list of its own, /e ephemeral, all of them set once; a container
 * and a node with a time to live.
 */
static int set_up(void **state)
{
    static struct fixture f;
    struct keeper_op ops[] = {
        create_owned("/container", KEEPER_CONTAINER),
        create_owned("/mortal", keeper_ttl(1000)),
        keeper_op_create("/p", STR("parent"), 0),
        keeper_op_create("/p/c", STR("child"), 0),
        keeper_op_create("/e", STR(""), KEEPER_EPHEMERAL),
        keeper_op_create("/guarded", STR(""), 0),
        keeper_op_set("/p", STR("set"), 0),
        set_acl("/guarded", CLOSED_LIST),
    };
    struct keeper_result results[OPS_MAX] = {0};

    f = (struct fixture){0};
    tree_init(&f.t);
    f.session = tree_session_open(&f.t, 1, 1000, "0123456789abcdef", &f.c);
    assert_int_equal(run(&f, ops, OPS_MAX, results), 0);
    keeper_results_release(results, OPS_MAX);
    remember(&f);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    changes_release(&f->c);
    tree_release(&f->t);
    tree_release(&f->before);
    return 0;
}

/* Runs the operations and one that fails; the state before them must be restored. */
static void fail_after(struct fixture *f, const struct keeper_op *wanted, size_t count)
{
    struct keeper_result results[OPS_MAX + 2] = {0};
    struct keeper_op ops[OPS_MAX + 2];

    memcpy(ops, wanted, count * sizeof *ops);
    ops[count] = keeper_op_check("/none", -1);
    ops[count + 1] = keeper_op_create("/never", STR(""), 0);
    assert_int_equal(run(f, ops, count + 2, results), DROVER_NO_NODE);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(results[i].err, 0);
    assert_int_equal(results[count].err, DROVER_NO_NODE);
    assert_int_equal(results[count + 1].err, DROVER_NOT_TRIED);
    for (size_t i = 0; i < count + 2; i++) {
        assert_null(results[i].path);
        assert_int_equal(results[i].stat.czxid, 0);
    }
    assert_int_equal(f->c.count, 0);
    must(check_tree(&f->t));
    must(check_same(&f->before, &f->t));
}

static void each_kind_alone(void **state)
{
    const struct keeper_op ops[] = {
        keeper_op_create("/a", STR("x"), 0),
        keeper_op_create("/p/a", STR("x"), KEEPER_SEQUENTIAL),
        keeper_op_create("/p/a", STR("x"), KEEPER_EPHEMERAL),
        keeper_op_create("/p/c/a", STR("x"), 0), /* the first child ever */
        keeper_op_set("/p", STR("new"), 1),
        keeper_op_set("/p", STR("of another length"), -1),
        keeper_op_set("/", STR("the root too"), -1),
        keeper_op_delete("/p/c", 0),
        keeper_op_delete("/e", 0),
        keeper_op_delete("/guarded", -1),
        create_owned("/p/container", KEEPER_CONTAINER),
        create_owned("/p/mortal", keeper_ttl(5)),
        keeper_op_create("/container/child", STR(""), 0),
        keeper_op_delete("/container", -1),
        keeper_op_delete("/mortal", -1),
        keeper_op_check("/p", 1),
        set_acl("/guarded", OTHER_LIST),
        set_acl("/guarded", STR("")),
        set_acl("/p", OTHER_LIST),
    };

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        fail_after(*state, &ops[i], 1);
}

static void entangled(void **state)
{
    const struct {
        const char *what;
        size_t count;
        struct keeper_op ops[OPS_MAX];
    } rows[] = {
        {"created, set, deleted",
         3,
         {keeper_op_create("/a", STR("1"), 0), keeper_op_set("/a", STR("22"), 0),
          keeper_op_delete("/a", 1)}},
        {"deleted and made again",
         3,
         {keeper_op_delete("/p/c", -1), keeper_op_create("/p/c", STR("other"), 0),
          keeper_op_set("/p/c", STR("again"), 0)}},
        {"a whole branch deleted and made again",
         4,
         {keeper_op_delete("/p/c", -1), keeper_op_delete("/p", -1),
          keeper_op_create("/p", STR(""), 0), keeper_op_create("/p/c", STR(""), KEEPER_EPHEMERAL)}},
        {"an ephemeral one becomes a plain one",
         3,
         {keeper_op_delete("/e", -1), keeper_op_create("/e", STR(""), 0),
          keeper_op_create("/e/child", STR(""), 0)}},
        {"set again and again",
         4,
         {keeper_op_set("/p", STR("a"), 1), keeper_op_set("/p", STR("bb"), 2),
          keeper_op_set("/p", STR("cc"), 3), keeper_op_set("/p", STR(""), 4)}},
        {"a row of children",
         5,
         {keeper_op_create("/p/n", STR(""), KEEPER_SEQUENTIAL),
          keeper_op_create("/p/n", STR(""), KEEPER_SEQUENTIAL),
          keeper_op_create("/p/n", STR(""), KEEPER_SEQUENTIAL | KEEPER_EPHEMERAL),
          keeper_op_delete("/p/c", -1), keeper_op_create("/p/n", STR(""), KEEPER_SEQUENTIAL)}},
        {"a container becomes an ephemeral node, and the other way round",
         4,
         {keeper_op_delete("/container", -1),
          keeper_op_create("/container", STR(""), KEEPER_EPHEMERAL), keeper_op_delete("/e", -1),
          create_owned("/e", KEEPER_CONTAINER)}},
        {"access lists that nobody else has",
         4,
         {set_acl("/p", OTHER_LIST), set_acl("/p", CLOSED_LIST), set_acl("/guarded", STR("")),
          keeper_op_delete("/guarded", -1)}},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_message("# %s\n", rows[i].what);
        fail_after(*state, rows[i].ops, rows[i].count);
    }
}

/* The same ones succeed without the operation that fails, so the rows above test something. */
static void afterwards_work_goes_on(void **state)
{
    struct fixture *f = *state;
    struct keeper_op ops[] = {
        keeper_op_create("/p/n", STR(""), KEEPER_SEQUENTIAL),
        keeper_op_delete("/p/c", 0),
        keeper_op_set("/p", STR("x"), 1),
        keeper_op_delete("/e", 0),
        set_acl("/guarded", OTHER_LIST),
    };
    struct keeper_result results[5] = {{0}};
    int64_t zxid = f->t.zxid;

    fail_after(f, ops, 5);
    assert_int_equal(run(f, ops, 5, results), 0);
    assert_string_equal(results[0].path, "/p/n0000000001");
    assert_int_equal(f->t.zxid, zxid + 1);
    assert_int_equal(f->c.count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(results[i].err, 0);
    must(check_tree(&f->t));
    keeper_results_release(results, 5);
}

/* Numbers of nodes that were taken back are free again. */
static void numbers_are_given_back(void **state)
{
    struct fixture *f = *state;
    struct keeper_op op = keeper_op_create("/a", STR(""), 0);
    uint32_t top;

    fail_after(f, &op, 1);
    top = f->t.nodes.top;
    for (int i = 0; i < 100; i++)
        fail_after(f, &op, 1);
    assert_int_equal(f->t.nodes.top, top);
}

/* A lone set takes a shorter way, which must not be another one. */
static void a_lone_set_is_as_any_other(void **state)
{
    struct fixture *f = *state;
    struct keeper_op ops[] = {keeper_op_set("/p", STR("lone"), 1), keeper_op_check("/p", 2)};
    struct keeper_result alone = {0}, both[2] = {{0}};
    struct tree_view v;

    assert_int_equal(run(f, ops, 1, &alone), 0);
    assert_int_equal(tree_look(&f->t, STR("/p"), &v), 0);
    assert_true(str_eq(v.data, STR("lone")));
    assert_int_equal(v.stat.version, 2);
    assert_int_equal(v.stat.mzxid, f->t.zxid);
    assert_int_equal(v.stat.mtime_ms, 5000);
    assert_memory_equal(&v.stat, &alone.stat, STAT_LEN);
    assert_int_equal(f->c.count, 1);
    ops[0].version = 2;
    ops[1].version = 3;
    assert_int_equal(run(f, ops, 2, both), 0);
    alone.stat.version++;
    alone.stat.mzxid++;
    assert_memory_equal(&both[0].stat, &alone.stat, STAT_LEN);
    assert_int_equal(run(f, ops, 1, &alone), DROVER_BAD_VERSION);
    assert_int_equal(alone.err, DROVER_BAD_VERSION);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(each_kind_alone),
        CASE(entangled),
        CASE(afterwards_work_goes_on),
        CASE(numbers_are_given_back),
        CASE(a_lone_set_is_as_any_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
