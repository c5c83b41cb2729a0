/*
 * Restoring from disk. A snapshot shows each node at another moment. So each case makes changes,
 * begins the snapshot, makes more changes while it records node after node, and at the end the
 * journal since its beginning must restore the same tree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "check.h"
#include "keeper/journal/record.h"

enum { SALT = 0x5a17 };

static const char PASSWORD[] = "0123456789abcdef";

struct fixture {
    struct tree live, restored;
    struct tree_changes c;
    struct tree_session *session;
    struct buf journal; /* since the snapshot began */
};

static int set_up(void **state)
{
    static struct fixture f;

    f = (struct fixture){0};
    tree_init(&f.live);
    tree_init(&f.restored);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    changes_release(&f->c);
    buf_release(&f->journal);
    tree_release(&f->live);
    tree_release(&f->restored);
    return 0;
}

static void happen(struct fixture *f, struct keeper_op op)
{
    struct tree_user user = {.session = f->session};
    struct keeper_result result = {0};
    int64_t now_ms = 1000 + f->live.zxid;

    assert_int_equal(tree_apply(&f->live, &user, now_ms, &op, 1, &result, &f->c), 0);
    record_put_changes(&f->journal, SALT, &f->c, 1);
    keeper_results_release(&result, 1);
}

static void make(struct fixture *f, const char *path)
{
    happen(f, keeper_op_create(path, str_of(path), 0));
}

static void drop(struct fixture *f, const char *path)
{
    happen(f, keeper_op_delete(path, -1));
}

static void change(struct fixture *f, const char *path)
{
    happen(f, keeper_op_set(path, STR("changed"), -1));
}

static void open_session(struct fixture *f)
{
    f->session = tree_session_open(&f->live, 1, 1000, PASSWORD, &f->c);
    record_put_changes(&f->journal, SALT, &f->c, 1);
}

static void close_session(struct fixture *f)
{
    assert_int_equal(tree_session_close(&f->live, f->session, 2, 10000, &f->c), 0);
    record_put_changes(&f->journal, SALT, &f->c, 1);
    f->session = NULL;
}

static void begin(struct fixture *f)
{
    f->journal.len = 0;
    f->restored.zxid = f->live.zxid;
}

/* The snapshot records a node. */
static void show(struct fixture *f, const char *path)
{
    uint32_t cursor = nodes_find(&f->live.nodes, str_of(path));
    struct buf scratch = {0};
    struct tree_node_state s;
    struct err_info why;

    assert_int_not_equal(cursor, 0);
    tree_walk(&f->live, &cursor, &scratch, &s);
    assert_int_equal(tree_restore_node(&f->restored, &s, &why), 0);
    buf_release(&scratch);
}

static void replay(struct fixture *f)
{
    struct tree_changes c = {0};
    struct record record;
    struct err_info why;

    for (size_t at = 0; at < f->journal.len; at += record.whole_len) {
        assert_true(record_read(f->journal.p + at, f->journal.len - at, SALT, &record));
        assert_int_equal(record_changes(&record, &c), 0);
        assert_int_equal(tree_restore_changes(&f->restored, &c, &why), 0);
    }
    changes_release(&c);
}

static void finish(struct fixture *f)
{
    struct err_info why;
    const char *wrong;

    if (tree_seal(&f->restored, &why))
        fail_msg("%s", why.text);
    wrong = check_tree(&f->restored);
    if (!wrong)
        wrong = check_same(&f->live, &f->restored);
    if (wrong)
        fail_msg("%s", wrong);
}

static void the_journal_alone(void **state)
{
    struct fixture *f = *state;

    begin(f);
    open_session(f);
    make(f, "/a");
    make(f, "/a/b");
    change(f, "/a");
    happen(f, keeper_op_create("/a/n", STR(""), KEEPER_SEQUENTIAL | KEEPER_EPHEMERAL));
    drop(f, "/a/b");
    replay(f);
    finish(f);
}

/* First situation: a change of a node that the snapshot does not have, because it was deleted. */
static void a_change_of_what_was_deleted_later(void **state)
{
    struct fixture *f = *state;

    make(f, "/p");
    make(f, "/p/a");
    make(f, "/p/a/b");
    begin(f);
    change(f, "/p/a/b");
    make(f, "/p/a/c");
    drop(f, "/p/a/c");
    drop(f, "/p/a/b");
    change(f, "/p/a");
    drop(f, "/p/a");
    show(f, "/");
    show(f, "/p");
    replay(f);
    assert_int_equal(f->restored.placeholders, 0);
    finish(f);
}

/* Second: a node whose parent is missing, because it was created behind the walk. */
static void a_parent_that_was_made_behind_the_walk(void **state)
{
    struct fixture *f = *state;

    begin(f);
    show(f, "/");
    make(f, "/a");
    make(f, "/a/b");
    make(f, "/a/b/c");
    change(f, "/a/b/c");
    show(f, "/a/b/c");
    assert_int_equal(f->restored.placeholders, 2);
    replay(f);
    finish(f);
}

/* Third: a deletion of a node that has children, because it was made again, and they were too. */
static void a_deletion_of_what_was_made_again(void **state)
{
    struct fixture *f = *state;

    make(f, "/a");
    change(f, "/a");
    begin(f);
    drop(f, "/a");
    make(f, "/x");
    make(f, "/a");
    make(f, "/a/b");
    drop(f, "/a/b");
    make(f, "/a/c");
    show(f, "/");
    show(f, "/a");
    show(f, "/a/c");
    replay(f);
    finish(f);
}

/* Both at once: the deleted node is itself only a placeholder for its child. */
static void a_deletion_of_a_placeholder(void **state)
{
    struct fixture *f = *state;

    make(f, "/a");
    begin(f);
    drop(f, "/a");
    make(f, "/a");
    make(f, "/a/b");
    show(f, "/a/b");
    assert_int_equal(f->restored.placeholders, 1);
    replay(f);
    finish(f);
}

/* The walk meets a path twice: the old node, and at another number the new one. */
static void a_path_shown_twice(void **state)
{
    struct fixture *f = *state;

    open_session(f);
    happen(f, keeper_op_create("/a", STR("first"), KEEPER_EPHEMERAL));
    begin(f);
    sessions_put(&f->restored.sessions, f->session->id, 1000, PASSWORD);
    show(f, "/a");
    drop(f, "/a");
    make(f, "/a");
    make(f, "/a/b");
    show(f, "/a");
    replay(f);
    finish(f);
}

static void sessions_that_came_and_went(void **state)
{
    struct fixture *f = *state;

    open_session(f);
    happen(f, keeper_op_create("/e", STR(""), KEEPER_EPHEMERAL));
    begin(f);
    sessions_put(&f->restored.sessions, f->session->id, 1000, PASSWORD);
    show(f, "/e");
    close_session(f);
    open_session(f); /* behind the walk, which has done the sessions */
    happen(f, keeper_op_create("/e", STR(""), KEEPER_EPHEMERAL));
    happen(f, keeper_op_create("/g", STR(""), KEEPER_EPHEMERAL));
    show(f, "/g");
    replay(f);
    finish(f);
    assert_int_equal(f->restored.ephemerals, 2);
}

static void replaying_twice_changes_nothing(void **state)
{
    struct fixture *f = *state;

    begin(f);
    make(f, "/a");
    make(f, "/a/b");
    change(f, "/a/b");
    drop(f, "/a/b");
    drop(f, "/a");
    make(f, "/a");
    make(f, "/a/b");
    change(f, "/a");
    replay(f);
    replay(f);
    finish(f);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_journal_alone),
        CASE(a_change_of_what_was_deleted_later),
        CASE(a_parent_that_was_made_behind_the_walk),
        CASE(a_deletion_of_what_was_made_again),
        CASE(a_deletion_of_a_placeholder),
        CASE(a_path_shown_twice),
        CASE(sessions_that_came_and_went),
        CASE(replaying_twice_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
