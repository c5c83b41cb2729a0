/*
 * Cases about reading: get, exists, children.
 */
#include <stdio.h>

#include "fixture.h"

static void root_always_exists(struct fixture *f)
{
    struct keeper_stat stat = must_stat(f->k, "/");

    assert_true(stat.child_count >= 1);
    assert_int_equal(stat.ephemeral_owner, 0);
}

static void root_lists_its_children(struct fixture *f)
{
    struct keeper_names names = must_children(f, "/");
    bool found = false;

    for (size_t i = 0; i < names.count; i++)
        found |= strcmp(names.names[i], f->root + 1) == 0;
    assert_true(found);
}

static void root_can_be_set(struct fixture *f)
{
    struct str data = must_get(f, "/");
    struct keeper_stat before = must_stat(f->k, "/"), after;

    must(keeper_set(f->k, "/", data, KEEPER_ANY_VERSION, &after));
    assert_true(after.version > before.version);
    assert_true(after.mzxid > before.mzxid);
}

static void get_missing(struct fixture *f)
{
    struct buf data = {0};

    expect_err(DROVER_NO_NODE, keeper_get(f->k, at(f, "x"), &data, NULL));
    expect_err(DROVER_NO_NODE, keeper_get(f->k, at(f, "x/y"), &data, NULL));
}

static void exists_missing(struct fixture *f)
{
    expect_err(DROVER_NO_NODE, keeper_exists(f->k, at(f, "x"), NULL));
    expect_err(DROVER_NO_NODE, keeper_exists(f->k, at(f, "x/y"), NULL));
}

static void children_missing(struct fixture *f)
{
    struct keeper_names names = {0};

    expect_err(DROVER_NO_NODE, keeper_children(f->k, at(f, "x"), &names, NULL));
    expect_err(DROVER_NO_NODE, keeper_children(f->k, at(f, "x/y"), &names, NULL));
}

static void failed_read_touches_nothing(struct fixture *f)
{
    struct keeper_stat stat, same;
    struct keeper_names names = {.count = 42};
    struct buf data = {0};

    memset(&stat, 0x5a, sizeof stat);
    memset(&same, 0x5a, sizeof same);
    buf_put(&data, "old", 3);
    keep(f, data.p);
    expect_err(DROVER_NO_NODE, keeper_get(f->k, at(f, "x"), &data, &stat));
    expect_err(DROVER_NO_NODE, keeper_exists(f->k, at(f, "x"), &stat));
    expect_err(DROVER_NO_NODE, keeper_children(f->k, at(f, "x"), &names, &stat));
    assert_memory_equal(&stat, &same, STAT_LEN);
    assert_int_equal(names.count, 42);
    assert_int_equal(data.len, 3);
    assert_memory_equal(data.p, "old", 3);
}

static void get_replaces_what_the_buffer_held(struct fixture *f)
{
    const char *a = mk(f, "a", "short"), *b = mk(f, "b", "");
    struct buf data = {0};

    buf_put(&data, "something longer", 16);
    must(keeper_get(f->k, a, &data, NULL));
    assert_int_equal(data.len, 5);
    assert_memory_equal(data.p, "short", 5);
    must(keeper_get(f->k, b, &data, NULL));
    assert_int_equal(data.len, 0);
    buf_release(&data);
}

static void data_of_no_bytes(struct fixture *f)
{
    const char *a = mk(f, "a", "");

    assert_int_equal(must_get(f, a).len, 0);
    assert_int_equal(must_stat(f->k, a).data_len, 0);
}

static void data_with_every_byte(struct fixture *f)
{
    char bytes[512];
    struct str got;

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    must(keeper_create(f->k, at(f, "a"), (struct str){bytes, sizeof bytes}, 0, NULL));
    got = must_get(f, at(f, "a"));
    assert_int_equal(got.len, sizeof bytes);
    assert_memory_equal(got.p, bytes, sizeof bytes);
}

static void data_that_ends_in_zeros(struct fixture *f)
{
    const char *a = mk(f, "a", "");

    must(keeper_set(f->k, a, STR("\0x\0\0"), 0, NULL));
    assert_int_equal(must_get(f, a).len, 4);
    assert_memory_equal(must_get(f, a).p, "\0x\0\0", 4);
}

static void stat_is_the_same_from_every_call(struct fixture *f)
{
    const char *a = mk(f, "a", "data");
    struct keeper_stat by_get, by_children;
    struct keeper_names names = {0};
    struct buf data = {0};

    mk(f, "a/b", "");
    must(keeper_get(f->k, a, &data, &by_get));
    must(keeper_children(f->k, a, &names, &by_children));
    buf_release(&data);
    keeper_names_release(&names);
    expect_stat_equal(by_get, must_stat(f->k, a));
    expect_stat_equal(by_children, must_stat(f->k, a));
}

static void children_of_a_leaf(struct fixture *f)
{
    struct keeper_names names = must_children(f, mk(f, "a", "x"));

    assert_int_equal(names.count, 0);
}

static void children_are_sorted_by_bytes(struct fixture *f)
{
    static const char *const names[] = {"b", "a", "a-", "B", "\xc3\xa9", "10", "9", "a0", "Z", "~"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        mk(f, names[i], "");
    assert_string_equal(children_text(f, f->root), "10 9 B Z a a- a0 b ~ \xc3\xa9");
}

static void children_are_direct_ones(struct fixture *f)
{
    mk(f, "a", "");
    mk(f, "a/b", "");
    mk(f, "a/b/c", "");
    mk(f, "ab", "");
    mk(f, "ab/x", "");
    assert_string_equal(children_text(f, at(f, "a")), "b");
    assert_string_equal(children_text(f, f->root), "a ab");
    assert_string_equal(children_text(f, at(f, "a/b/c")), "");
}

static void children_follow_changes(struct fixture *f)
{
    mk(f, "a", "");
    mk(f, "b", "");
    mk(f, "c", "");
    must(keeper_delete(f->k, at(f, "b"), KEEPER_ANY_VERSION));
    assert_string_equal(children_text(f, f->root), "a c");
    mk(f, "b", "");
    assert_string_equal(children_text(f, f->root), "a b c");
}

static void children_by_the_thousand(struct fixture *f)
{
    struct keeper_op *ops = keep(f, mem_zalloc(1000 * sizeof *ops));
    struct keeper_names names;

    for (int i = 0; i < 1000; i++)
        ops[999 - i] = keeper_op_create(at(f, "c%04d", i), STR(""), 0);
    must(keeper_multi(f->k, ops, 1000, NULL));
    names = must_children(f, f->root);
    assert_int_equal(names.count, 1000);
    for (int i = 0; i < 1000; i++)
        assert_string_equal(names.names[i], at(f, "c%04d", i) + strlen(f->root) + 1);
}

static void sync_then_read(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const char *a = mk(f, "a", "0");
    char text[16];

    for (int i = 1; i <= 20; i++) {
        snprintf(text, sizeof text, "%d", i);
        must(keeper_set(other, a, str_of(text), KEEPER_ANY_VERSION, NULL));
        must(keeper_sync(f->k, a));
        expect_data(f, a, text);
    }
}

static void sync_of_a_missing_node(struct fixture *f)
{
    must(keeper_sync(f->k, at(f, "missing")));
}

const struct conformance_case read_cases[] = {
    CASE(root_always_exists),
    CASE(root_lists_its_children),
    CASE(root_can_be_set),
    CASE(get_missing),
    CASE(exists_missing),
    CASE(children_missing),
    CASE(failed_read_touches_nothing),
    CASE(get_replaces_what_the_buffer_held),
    CASE(data_of_no_bytes),
    CASE(data_with_every_byte),
    CASE(data_that_ends_in_zeros),
    CASE(stat_is_the_same_from_every_call),
    CASE(children_of_a_leaf),
    CASE(children_are_sorted_by_bytes),
    CASE(children_are_direct_ones),
    CASE(children_follow_changes),
    CASE(children_by_the_thousand),
    CASE(sync_then_read),
    CASE(sync_of_a_missing_node),
    {0},
};
