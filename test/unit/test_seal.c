/* What checksums do not detect: invalid entries, and entries that do not form a tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "check.h"

static const char PASSWORD[] = "0123456789abcdef";

enum { SESSION = 5 };

static int set_up(void **state)
{
    static struct tree t;

    tree_init(&t);
    *state = &t;
    return 0;
}

static int tear_down(void **state)
{
    tree_release(*state);
    return 0;
}

static void node(struct tree *t, const char *path, int64_t owner)
{
    struct tree_node_state s = {
        .path = str_of(path), .czxid = 1, .mzxid = 1, .pzxid = 1, .owner = owner};
    struct err_info why;

    assert_int_equal(tree_restore_node(t, &s, &why), 0);
}

static int change(struct tree *t, struct tree_change change, struct err_info *ret_error)
{
    struct tree_changes c = {.zxid = 9, .list = &change, .count = 1};

    return tree_restore_changes(t, &c, ret_error);
}

static void expect_sealed(struct tree *t)
{
    struct err_info why;
    const char *wrong;

    if (tree_seal(t, &why))
        fail_msg("%s", why.text);
    wrong = check_tree(t);
    if (wrong)
        fail_msg("%s", wrong);
}

/* The message names the node and the problem. */
static void expect_refused(struct tree *t, const char *path, const char *what)
{
    struct err_info why = {""};

    assert_int_equal(tree_seal(t, &why), DROVER_DAMAGED);
    assert_non_null(strstr(why.text, path));
    assert_non_null(strstr(why.text, what));
}

static void a_tree_is_sealed(void **state)
{
    struct tree *t = *state;

    node(t, "/a/b", 0);
    node(t, "/a", 0);
    node(t, "/e", SESSION);
    node(t, "/a/f", SESSION);
    sessions_put(&t->sessions, SESSION, 1000, PASSWORD);
    expect_sealed(t);
    assert_int_equal(t->ephemerals, 2);
}

static void a_parent_that_never_comes(void **state)
{
    node(*state, "/a/b/c", 0);
    node(*state, "/a", 0);
    expect_refused(*state, "/a/b ", "missing");
}

static void a_set_of_what_is_not_there(void **state)
{
    struct err_info why;

    assert_int_equal(
        change(*state, (struct tree_change){.kind = CHANGE_SET, .path = STR("/x")}, &why), 0);
    expect_refused(*state, "/x ", "missing");
}

static void a_deletion_that_leaves_children(void **state)
{
    struct err_info why;

    node(*state, "/a", 0);
    node(*state, "/a/b", 0);
    assert_int_equal(
        change(*state, (struct tree_change){.kind = CHANGE_DELETE, .path = STR("/a")}, &why), 0);
    expect_refused(*state, "/a ", "missing");
}

static void an_ephemeral_without_a_session(void **state)
{
    node(*state, "/e", SESSION);
    sessions_put(&((struct tree *)*state)->sessions, SESSION + 1, 1000, PASSWORD);
    expect_refused(*state, "/e ", "session is missing");
}

static void an_ephemeral_whose_session_was_closed(void **state)
{
    struct err_info why;

    node(*state, "/e", SESSION);
    sessions_put(&((struct tree *)*state)->sessions, SESSION, 1000, PASSWORD);
    assert_int_equal(change(*state,
                            (struct tree_change){.kind = CHANGE_SESSION_CLOSE, .session = SESSION},
                            &why),
                     0);
    expect_refused(*state, "/e ", "session is missing");
}

static void an_ephemeral_with_children(void **state)
{
    node(*state, "/e", SESSION);
    node(*state, "/e/child", 0);
    sessions_put(&((struct tree *)*state)->sessions, SESSION, 1000, PASSWORD);
    expect_refused(*state, "/e ", "has children");
}

static void changes_that_make_no_sense(void **state)
{
    static const struct str password = {PASSWORD, KEEPER_PASSWORD_LEN}, bad = STR("not a list");
    const struct tree_change rows[] = {
        {.kind = CHANGE_CREATE, .path = STR("no slash"), .number = 1},
        {.kind = CHANGE_CREATE, .path = STR("/"), .number = 1},
        {.kind = CHANGE_CREATE, .path = STR("/a"), .number = 1, .acl = bad},
        {.kind = CHANGE_SET, .path = STR("/a//b")},
        {.kind = CHANGE_SET_ACL, .path = STR("/a/"), .acl = STR("")},
        {.kind = CHANGE_SET_ACL, .path = STR("/"), .acl = bad},
        {.kind = CHANGE_DELETE, .path = STR("")},
        {.kind = CHANGE_DELETE, .path = STR("/")},
        {.kind = CHANGE_DELETE, .path = STR("/zookeeper/quota")},
        {.kind = CHANGE_SESSION_OPEN, .data = password, .number = 1000},
        {.kind = CHANGE_SESSION_OPEN, .data = password, .session = SESSION},
        {.kind = CHANGE_SESSION_OPEN, .data = STR("short"), .session = SESSION, .number = 1000},
        {.kind = 99},
    };
    struct tree *t = *state;
    uint32_t count = t->nodes.count;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err_info why = {""};

        if (change(t, rows[i], &why) != DROVER_DAMAGED || !why.text[0])
            fail_msg("row %zu", i);
        assert_int_equal(t->zxid, 0);
    }
    assert_int_equal(t->nodes.count, count);
    expect_sealed(t);
}

static void nodes_that_make_no_sense(void **state)
{
    static const struct tree_node_state rows[] = {
        {.path = STR("")},
        {.path = STR("/a/../b")},
        {.path = STR("/a"), .czxid = -1},
        {.path = STR("/a"), .czxid = INT64_MIN}, /* what a placeholder has */
        {.path = STR("/a"), .acl = STR("\0\0\0\1")},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err_info why = {""};

        if (tree_restore_node(*state, &rows[i], &why) != DROVER_DAMAGED || !why.text[0])
            fail_msg("row %zu", i);
    }
    expect_sealed(*state);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_tree_is_sealed),
        CASE(a_parent_that_never_comes),
        CASE(a_set_of_what_is_not_there),
        CASE(a_deletion_that_leaves_children),
        CASE(an_ephemeral_without_a_session),
        CASE(an_ephemeral_whose_session_was_closed),
        CASE(an_ephemeral_with_children),
        CASE(changes_that_make_no_sense),
        CASE(nodes_that_make_no_sense),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
