/* Nodes: numbers that stay and come back, names that spell a path, lists of siblings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "keeper/path.h"

/* A tree is used only because the checks know trees. */
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

static void expect_whole(const struct tree *t)
{
    const char *wrong = check_tree(t);

    if (wrong)
        fail_msg("%s", wrong);
}

static uint32_t add(struct tree *t, const char *path, const char *data)
{
    uint32_t parent = nodes_find(&t->nodes, path_parent(str_of(path)));

    assert_int_not_equal(parent, 0);
    return nodes_add(&t->nodes, parent, str_of(path), str_of(data));
}

static uint32_t find(const struct tree *t, const char *path)
{
    return nodes_find(&t->nodes, str_of(path));
}

static void drop(struct tree *t, const char *path)
{
    uint32_t ref = find(t, path);

    nodes_detach(&t->nodes, ref, str_of(path));
    nodes_free(&t->nodes, ref);
}

static void paths_lead_to_their_nodes(void **state)
{
    static const char *const paths[] = {"/a",    "/b",     "/ab",      "/a/b",      "/b/a",
                                        "/ab/b", "/a/b/b", "/a/b/b/b", "/a/b/b/ab", "/\xc3\xa9"};
    static const char *const missing[] = {"/c", "/aa", "/a/a", "/b/b", "/a/b/a", "/ab/a", "/a/bb"};
    struct tree *t = *state;
    uint32_t refs[sizeof paths / sizeof *paths];

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        refs[i] = add(t, paths[i], paths[i]);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct buf path = {0};

        assert_int_equal(find(t, paths[i]), refs[i]);
        nodes_put_path(&t->nodes, refs[i], &path);
        assert_string_equal(buf_text(&path), paths[i]);
        assert_true(str_eq(node_data(node_at(&t->nodes, refs[i])), str_of(paths[i])));
        buf_release(&path);
    }
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        assert_int_equal(find(t, missing[i]), 0);
    expect_whole(t);
}

static void the_path_is_appended(void **state)
{
    struct tree *t = *state;
    struct buf b = {0};

    add(t, "/a", "");
    buf_put_str(&b, STR("at "));
    nodes_put_path(&t->nodes, find(t, "/a"), &b);
    buf_put_str(&b, STR(" "));
    nodes_put_path(&t->nodes, NODE_ROOT, &b);
    assert_string_equal(buf_text(&b), "at /a /");
    buf_release(&b);
}

/* Two paths of one hash: the index offers the node, and its names must decide. */
static void a_hash_is_not_a_path(void **state)
{
    static const char *const others[] =
        {
            "/bc",     "/c/bc",   "/xa/bc",   "/a/xbc", "/a/bc/bc", "/abc",
            "/x/a/bc", "/a/bc/a", "/a/bx/bc", "/a/x",   "/a/bc/",   "/a",
            "//a/bc",  "/axbc",   "xa/bc",    "bc", /* where a slash should be, or nothing */
        };
    struct tree *t = *state;
    uint32_t ref;

    add(t, "/a", "");
    ref = add(t, "/a/bc", "");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct str other = {strdup(others[i]) /* of its exact size */, strlen(others[i])};
        uint32_t expected = nodes_find(&t->nodes, other);

        nodes_detach(&t->nodes, ref, STR("/a/bc"));
        nodes_attach(&t->nodes, ref, other); /* as if it had that hash */
        if (nodes_find(&t->nodes, other) != expected)
            fail_msg("%s led to /a/bc", others[i]);
        nodes_detach(&t->nodes, ref, other);
        nodes_attach(&t->nodes, ref, STR("/a/bc"));
        free((char *)other.p);
    }
    expect_whole(t);
}

static void numbers_are_used_again(void **state)
{
    struct tree *t = *state;
    uint32_t a = add(t, "/a", ""), b = add(t, "/b", ""), c = add(t, "/c", ""), top = t->nodes.top;

    drop(t, "/a");
    drop(t, "/c");
    assert_int_equal(find(t, "/a") + find(t, "/c"), 0);
    assert_int_equal(add(t, "/d", ""), c);
    assert_int_equal(add(t, "/e", ""), a);
    assert_int_equal(t->nodes.top, top);
    assert_int_equal(find(t, "/b"), b);
    assert_int_equal(add(t, "/f", ""), top);
    expect_whole(t);
}

/* What stood at a number before must not shine through. */
static void a_number_used_again_starts_from_nothing(void **state)
{
    struct tree *t = *state;
    uint32_t ref = add(t, "/a", "old");
    struct tree_node *n = node_at(&t->nodes, ref);

    n->czxid = n->mzxid = n->ctime_ms = n->mtime_ms = 7;
    n->version = 7;
    node_more(n)->creations = 7;
    drop(t, "/a");
    assert_null(n->text);
    assert_int_equal(add(t, "/b", ""), ref);
    assert_int_equal(n->czxid + n->mzxid + n->ctime_ms + n->mtime_ms + n->version, 0);
    assert_null(n->more);
    assert_int_equal(node_data(n).len, 0);
}

static void nodes_do_not_move(void **state)
{
    struct tree *t = *state;
    struct tree_node *first = node_at(&t->nodes, add(t, "/first", "x"));
    char path[32];

    for (int i = 0; i < 3 * NODE_CHUNK_LEN; i++) {
        snprintf(path, sizeof path, "/n%d", i);
        add(t, path, path);
    }
    assert_ptr_equal(node_at(&t->nodes, find(t, "/first")), first);
    for (int i = 0; i < 3 * NODE_CHUNK_LEN; i++) {
        snprintf(path, sizeof path, "/n%d", i);
        assert_true(str_eq(node_data(node_at(&t->nodes, find(t, path))), str_of(path)));
    }
    expect_whole(t);
}

/* Siblings leave from the front, the middle and the end of their list, and come back. */
static void siblings_come_and_go(void **state)
{
    static const char *const names[] = {"/p/a", "/p/b", "/p/c", "/p/d"};
    struct tree *t = *state;

    add(t, "/p", "");
    for (size_t i = 0; i < 4; i++)
        add(t, names[i], "");
    for (size_t i = 0; i < 4; i++) {
        uint32_t ref = find(t, names[i]);

        nodes_detach(&t->nodes, ref, str_of(names[i]));
        assert_int_equal(find(t, names[i]), 0);
        assert_int_equal(node_at(&t->nodes, find(t, "/p"))->more->child_count, 3);
        nodes_attach(&t->nodes, ref, str_of(names[i]));
        assert_int_equal(find(t, names[i]), ref);
        expect_whole(t);
    }
    for (size_t i = 0; i < 4; i++) {
        drop(t, names[(i + 2) % 4]);
        expect_whole(t);
    }
    assert_int_equal(node_at(&t->nodes, find(t, "/p"))->more->first_child, 0);
}

static void data_of_the_same_length_stays_in_place(void **state)
{
    struct tree *t = *state;
    struct tree_node *n = node_at(&t->nodes, add(t, "/name", "four"));
    struct tree_node_text *text = n->text;

    node_set_data(&t->nodes, n, STR("five"));
    assert_ptr_equal(n->text, text);
    assert_true(str_eq(node_data(n), STR("five")));
    node_set_data(&t->nodes, n, STR("longer than it was"));
    assert_true(str_eq(node_data(n), STR("longer than it was")));
    node_set_data(&t->nodes, n, STR(""));
    assert_int_equal(node_data(n).len, 0);
    assert_true(str_eq(node_name(n), STR("name")));
    assert_int_not_equal(find(t, "/name"), 0);
}

/*
 * Lengths are kept in one byte and more: around each size that takes one more, for name and data.
 */
static void names_and_data_of_every_size(void **state)
{
    static const size_t sizes[] = {1, 127, 128, 129, 16382, 16383, 16384, 16385, 300000};
    struct tree *t = *state;
    char *text = malloc(300001);

    memset(text, 'n', 300001);
    text[0] = '/';
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            struct str path = {text, sizes[i] + 1}, data = {text, sizes[k] - 1};
            uint32_t ref = nodes_add(&t->nodes, NODE_ROOT, path, data);
            struct tree_node *n = node_at(&t->nodes, ref);

            assert_int_equal(nodes_find(&t->nodes, path), ref);
            assert_int_equal(node_name(n).len, sizes[i]);
            assert_true(node_data(n).p && str_eq(node_data(n), data));
            node_set_data(&t->nodes, n, (struct str){NULL, 0});
            assert_true(!node_data(n).p && str_eq(node_name(n), path_name(path)));
            node_set_data(&t->nodes, n, (struct str){"", 0});
            assert_true(node_data(n).p && !node_data(n).len);
            nodes_detach(&t->nodes, ref, path);
            nodes_free(&t->nodes, ref);
        }
    free(text);
}

/* Before there is more to say, the children were last changed when the node was made. */
static void more_begins_with_the_creation(void **state)
{
    struct tree *t = *state;
    struct tree_node *n = node_at(&t->nodes, add(t, "/a", ""));

    n->czxid = 42;
    assert_int_equal(node_pzxid(n), 42);
    assert_int_equal(node_owner(n), 0);
    assert_int_equal(node_more(n)->pzxid, 42);
    assert_ptr_equal(node_more(n), n->more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(paths_lead_to_their_nodes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_path_is_appended, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_hash_is_not_a_path, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numbers_are_used_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_number_used_again_starts_from_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nodes_do_not_move, set_up, tear_down),
        cmocka_unit_test_setup_teardown(siblings_come_and_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_and_data_of_every_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(data_of_the_same_length_stays_in_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_begins_with_the_creation, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
