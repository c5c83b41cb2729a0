/* The tree: what each operation does to the stats, which error it gives, sessions and sequences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "keeper/journal/record.h"
#include "keeper/path.h"

enum { SALT = 0x5a17 };

struct fixture {
    struct tree t;
    struct tree_changes c;
    struct tree_session *session;
    int64_t now_ms;
};

static int set_up(void **state)
{
    static struct fixture f;

    f = (struct fixture){.now_ms = 1000};
    tree_init(&f.t);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    changes_release(&f->c);
    tree_release(&f->t);
    return 0;
}

static void expect_whole(const struct fixture *f)
{
    const char *wrong = check_tree(&f->t);

    if (wrong)
        fail_msg("%s", wrong);
}

/* One operation; ret_path, where given, gets the path of a create and is to be freed. */
static int apply(struct fixture *f, struct keeper_op op, char **ret_path)
{
    struct tree_user user = {.session = f->session};
    struct keeper_result result = {0};
    int err = tree_apply(&f->t, &user, ++f->now_ms, &op, 1, &result, &f->c);

    assert_int_equal(result.err, err);
    if (ret_path)
        *ret_path = result.path;
    else
        free(result.path);
    expect_whole(f);
    return err;
}

static int create(struct fixture *f, const char *path, int flags)
{
    return apply(f, keeper_op_create(path, STR("data"), flags), NULL);
}

static struct keeper_stat stat_at(const struct fixture *f, const char *path)
{
    struct tree_view v;

    assert_int_equal(tree_look(&f->t, str_of(path), &v), 0);
    assert_int_equal(v.stat.data_len, v.data.len);
    return v.stat;
}

static void open_session(struct fixture *f)
{
    f->session = tree_session_open(&f->t, ++f->now_ms, 5000, "0123456789abcdef", &f->c);
}

/* As a ZooKeeper that was just started shows them. */
static void a_new_tree(void **state)
{
    static const struct {
        const char *path;
        int32_t cversion, children, aversion;
    } rows[] = {
        {"/", -1, 1, 0},
        {"/zookeeper", -2, 2, 0},
        {"/zookeeper/quota", 0, 0, 0},
        {"/zookeeper/config", 0, 0, -1}, /* every client may read it, none may set it */
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct keeper_stat s = stat_at(f, rows[i].path);

        assert_int_equal(s.cversion, rows[i].cversion);
        assert_int_equal(s.child_count, rows[i].children);
        assert_int_equal(s.czxid + s.mzxid + s.pzxid + s.ctime_ms + s.mtime_ms, 0);
        assert_int_equal(s.version + s.data_len, 0);
        assert_int_equal(s.aversion, rows[i].aversion);
    }
    assert_int_equal(f->t.zxid, 0);
    expect_whole(f);
}

static void special_nodes_stay(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(apply(f, keeper_op_delete("/", -1), NULL), DROVER_NOT_EMPTY);
    assert_int_equal(apply(f, keeper_op_delete("/zookeeper", -1), NULL), DROVER_NOT_EMPTY);
    assert_int_equal(apply(f, keeper_op_delete("/zookeeper/quota", -1), NULL), DROVER_BAD_ARGUMENT);
    assert_int_equal(apply(f, keeper_op_delete("/zookeeper/config", -1), NULL),
                     DROVER_BAD_ARGUMENT);
    assert_int_equal(f->t.zxid, 0);
    assert_int_equal(apply(f, keeper_op_set("/", STR("x"), 0), NULL), 0);
    assert_int_equal(stat_at(f, "/").version, 1);
    assert_int_equal(create(f, "/zookeeper/other", 0), 0);
    assert_int_equal(apply(f, keeper_op_delete("/zookeeper/other", -1), NULL), 0);
}

static void stats_after_each_operation(void **state)
{
    struct fixture *f = *state;
    struct keeper_stat s;

    assert_int_equal(create(f, "/a", 0), 0);
    s = stat_at(f, "/a");
    assert_true(s.czxid == 1 && s.mzxid == 1 && s.pzxid == 1);
    assert_true(s.ctime_ms == 1001 && s.mtime_ms == 1001);
    assert_true(s.version == 0 && s.cversion == 0 && s.data_len == 4 && !s.ephemeral_owner);
    assert_true(stat_at(f, "/").pzxid == 1 && stat_at(f, "/").cversion == 0);

    assert_int_equal(apply(f, keeper_op_set("/a", STR("longer"), 0), NULL), 0);
    s = stat_at(f, "/a");
    assert_true(s.czxid == 1 && s.mzxid == 2 && s.pzxid == 1 && s.version == 1 && s.data_len == 6);
    assert_true(s.ctime_ms == 1001 && s.mtime_ms == 1002);
    assert_int_equal(stat_at(f, "/").pzxid, 1);

    assert_int_equal(create(f, "/a/b", 0), 0);
    s = stat_at(f, "/a");
    assert_true(s.mzxid == 2 && s.pzxid == 3 && s.cversion == 1 && s.child_count == 1);
    assert_int_equal(s.version, 1);

    assert_int_equal(apply(f, keeper_op_delete("/a/b", 0), NULL), 0);
    s = stat_at(f, "/a");
    assert_true(s.pzxid == 4 && s.cversion == 2 && s.child_count == 0);
    assert_int_equal(f->t.zxid, 4);
}

static void errors_change_nothing(void **state)
{
    const struct {
        struct keeper_op op;
        int err;
    } rows[] = {
        {keeper_op_create("/a", STR(""), 0), DROVER_EXISTS},
        {keeper_op_create("/", STR(""), 0), DROVER_EXISTS},
        {keeper_op_create("/x/y", STR(""), 0), DROVER_NO_NODE},
        {keeper_op_create("/e/y", STR(""), 0), DROVER_NO_CHILDREN_FOR_EPHEMERALS},
        {keeper_op_set("/x", STR(""), -1), DROVER_NO_NODE},
        {keeper_op_set("/a", STR(""), 1), DROVER_BAD_VERSION},
        {keeper_op_delete("/x", -1), DROVER_NO_NODE},
        {keeper_op_delete("/a", 7), DROVER_BAD_VERSION},
        {keeper_op_delete("/a", 0), DROVER_NOT_EMPTY},
        {keeper_op_check("/x", -1), DROVER_NO_NODE},
        {keeper_op_check("/a", 3), DROVER_BAD_VERSION},
    };
    struct fixture *f = *state;
    int64_t zxid;

    open_session(f);
    create(f, "/a", 0);
    create(f, "/a/b", 0);
    create(f, "/e", KEEPER_EPHEMERAL);
    zxid = f->t.zxid;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (apply(f, rows[i].op, NULL) != rows[i].err)
            fail_msg("row %zu", i);
        assert_int_equal(f->t.zxid, zxid);
        assert_int_equal(f->c.count, 0);
    }
}

static void checks_alone_are_no_transaction(void **state)
{
    struct fixture *f = *state;

    create(f, "/a", 0);
    assert_int_equal(apply(f, keeper_op_check("/a", 0), NULL), 0);
    assert_int_equal(f->t.zxid, 1);
    assert_int_equal(f->c.count, 0);
}

/* The number counts creations, whatever became of them; deleting gives none back. */
static void sequence_numbers(void **state)
{
    struct fixture *f = *state;
    char *path;

    create(f, "/q", 0);
    for (int i = 0; i < 3; i++) {
        char expected[32];

        assert_int_equal(apply(f, keeper_op_create("/q/n-", STR(""), KEEPER_SEQUENTIAL), &path), 0);
        snprintf(expected, sizeof expected, "/q/n-%010d", i);
        assert_string_equal(path, expected);
        assert_int_equal(apply(f, keeper_op_delete(path, -1), NULL), 0);
        free(path);
    }
    create(f, "/q/plain", 0);
    assert_int_equal(create(f, "/q/plain", 0), DROVER_EXISTS); /* takes no number */
    assert_int_equal(apply(f, keeper_op_create("/q/", STR(""), KEEPER_SEQUENTIAL), &path), 0);
    assert_string_equal(path, "/q/0000000004");
    free(path);
}

static void ephemerals_go_with_their_session(void **state)
{
    struct fixture *f = *state;
    int64_t id;

    assert_int_equal(create(f, "/e", KEEPER_EPHEMERAL), DROVER_SESSION_EXPIRED);
    create(f, "/p", 0);
    open_session(f);
    id = f->session->id;
    assert_int_equal(id, f->t.zxid);
    assert_int_equal(create(f, "/e", KEEPER_EPHEMERAL), 0);
    assert_int_equal(create(f, "/p/f", KEEPER_EPHEMERAL), 0);
    assert_true(stat_at(f, "/e").ephemeral_owner == id && f->t.ephemerals == 2);
    assert_int_equal(tree_session_close(&f->t, f->session, 1, 10000, &f->c), 0);
    assert_int_equal(f->c.count, 3);
    assert_int_equal(f->c.list[2].kind, CHANGE_SESSION_CLOSE);
    assert_null(sessions_find(&f->t.sessions, id));
    assert_int_equal(nodes_find(&f->t.nodes, STR("/e")) + nodes_find(&f->t.nodes, STR("/p/f")), 0);
    assert_true(stat_at(f, "/p").pzxid == f->t.zxid && f->t.ephemerals == 0);
    expect_whole(f);
}

/* Each part is a transaction of its own, and the session is there until the last. */
static void a_session_ends_in_parts(void **state)
{
    struct fixture *f = *state;
    char path[16];
    int parts = 0, more = 1;

    open_session(f);
    for (int i = 0; i < 10; i++) {
        snprintf(path, sizeof path, "/e%d", i);
        create(f, path, KEEPER_EPHEMERAL);
    }
    while (more) {
        int64_t zxid = f->t.zxid;
        uint64_t before = f->t.ephemerals;

        more = tree_session_close(&f->t, f->session, 1, 3 * 64, &f->c);
        assert_int_equal(f->t.zxid, zxid + 1);
        assert_int_equal(before - f->t.ephemerals, more ? 3 : 1);
        assert_int_equal(f->t.sessions.count, more);
        expect_whole(f);
        parts++;
    }
    assert_int_equal(parts, 4);
}

static void create_owned(struct fixture *f, const char *path, int64_t owner)
{
    struct keeper_op op = keeper_op_create(path, STR(""), 0);

    op.owner = owner;
    assert_int_equal(apply(f, op, NULL), 0);
}

/* The paths that may be deleted at a time, in the order in which they are found. */
static void expect_reapable(struct fixture *f, int64_t now_ms, const char *expected)
{
    struct buf path = {0}, found = {0};
    enum tree_reap more;

    tree_reap_begin(&f->t);
    while ((more = tree_reap_next(&f->t, now_ms, 1, &path)) != REAP_END)
        if (more == REAP_FOUND)
            buf_printf(&found, "%s ", buf_text(&path));
    assert_string_equal(found.len ? buf_text(&found) : "", expected);
    buf_release(&path);
    buf_release(&found);
}

/* Owners are no sessions: nothing shows them, and nothing ends them but a deletion. */
static void containers_and_times_to_live(void **state)
{
    struct fixture *f = *state;
    int64_t now_ms;

    create_owned(f, "/c", KEEPER_CONTAINER);
    create_owned(f, "/t", keeper_ttl(10));
    create_owned(f, "/u", keeper_ttl(KEEPER_TTL_MAX_MS));
    assert_int_equal(stat_at(f, "/c").ephemeral_owner, 0);
    assert_int_equal(stat_at(f, "/t").ephemeral_owner, 0);
    assert_int_equal(f->t.ephemerals, 0);
    now_ms = stat_at(f, "/t").mtime_ms;
    expect_reapable(f, now_ms + 10, ""); /* a container that never had a child stays */
    expect_reapable(f, now_ms + 11, "/t ");
    assert_int_equal(create(f, "/t/child", 0), 0);
    assert_int_equal(create(f, "/c/child", 0), 0);
    expect_reapable(f, now_ms + 1000000, "");
    assert_int_equal(apply(f, keeper_op_delete("/t/child", -1), NULL), 0);
    assert_int_equal(apply(f, keeper_op_delete("/c/child", -1), NULL), 0);
    expect_reapable(f, now_ms + 11, "/t /c ");
    expect_reapable(f, now_ms + KEEPER_TTL_MAX_MS + 11, "/u /t /c ");
    expect_whole(f);
}

/* The search goes on behind a node that is deleted while it stands there. */
static void a_search_survives_deletions(void **state)
{
    struct fixture *f = *state;
    struct buf path = {0};

    create_owned(f, "/a", keeper_ttl(1000));
    create_owned(f, "/b", keeper_ttl(1000));
    create_owned(f, "/c", keeper_ttl(1000));
    tree_reap_begin(&f->t);
    assert_int_equal(tree_reap_next(&f->t, 0, 1, &path), REAP_MORE); /* behind /c */
    assert_int_equal(apply(f, keeper_op_delete("/b", -1), NULL), 0);
    assert_int_equal(tree_reap_next(&f->t, INT64_MAX / 2, 9, &path), REAP_FOUND);
    assert_string_equal(buf_text(&path), "/a");
    assert_int_equal(apply(f, keeper_op_delete("/a", -1), NULL), 0);
    assert_int_equal(tree_reap_next(&f->t, INT64_MAX / 2, 9, &path), REAP_END);
    expect_whole(f);
    buf_release(&path);
}

static void set_numbers(struct fixture *f, const char *path, int32_t version, int32_t creations)
{
    struct tree_node *n = node_at(&f->t.nodes, nodes_find(&f->t.nodes, str_of(path)));

    n->version = version;
    node_more(n)->creations = creations;
}

/* What the journal will hold of the last transaction can be read back. */
static void expect_restorable(const struct fixture *f)
{
    struct buf b = {0};
    struct record record;
    struct tree_changes c = {0};
    struct tree t;
    struct err_info why;

    tree_init(&t);
    record_put_changes(&b, SALT, &f->c, 1);
    assert_true(record_read(b.p, b.len, SALT, &record));
    assert_int_equal(record_changes(&record, &c), 0);
    if (tree_restore_changes(&t, &c, &why))
        fail_msg("%s", why.text);
    changes_release(&c);
    tree_release(&t);
    buf_release(&b);
}

/* Two thousand million sets are an hour's work: the numbers go round, and -1 stays "any". */
static void versions_wrap_around(void **state)
{
    static const int32_t steps[][2] = {{INT32_MAX, INT32_MIN}, {-3, -2}, {-2, 0}};
    struct fixture *f = *state;
    struct keeper_op fails[2] = {keeper_op_set("/a", STR(""), -1), keeper_op_check("/none", 0)};
    struct keeper_result results[2] = {{0}};

    create(f, "/a", 0);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct tree_user nobody = {0};

        set_numbers(f, "/a", steps[i][0], 0);
        tree_apply(&f->t, &nobody, 1, fails, 2, results, &f->c);
        assert_int_equal(stat_at(f, "/a").version, steps[i][0]);
        assert_int_equal(apply(f, keeper_op_set("/a", STR(""), steps[i][0]), NULL), 0);
        assert_int_equal(stat_at(f, "/a").version, steps[i][1]);
        expect_restorable(f);
    }
}

static void sequence_numbers_wrap_around(void **state)
{
    static const struct {
        int32_t creations;
        const char *path;
    } rows[] = {{INT32_MAX, "/a/2147483647"}, {INT32_MIN, "/a/-2147483648"}, {-1, "/a/-000000001"}};
    struct fixture *f = *state;
    char *path;

    create(f, "/a", 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        set_numbers(f, "/a", 0, rows[i].creations);
        assert_int_equal(apply(f, keeper_op_create("/a/", STR(""), KEEPER_SEQUENTIAL), &path), 0);
        assert_string_equal(path, rows[i].path);
        expect_restorable(f);
        free(path);
    }
}

/* The longest path that a sequential create may ask for, with its number, is read back. */
static void the_longest_sequential_path(void **state)
{
    struct fixture *f = *state;
    char *text = calloc(PATH_MAX_LEN + 1, 1), *path;
    size_t len = PATH_MAX_LEN;

    memset(text, 'x', PATH_MAX_LEN);
    text[0] = '/';
    while (!path_is_valid((struct str){text, len}, true))
        len--;
    text[len] = '\0';
    assert_int_equal(apply(f, keeper_op_create(text, STR(""), KEEPER_SEQUENTIAL), &path), 0);
    expect_restorable(f);
    free(path);
    free(text);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_new_tree),
        CASE(special_nodes_stay),
        CASE(stats_after_each_operation),
        CASE(errors_change_nothing),
        CASE(checks_alone_are_no_transaction),
        CASE(sequence_numbers),
        CASE(ephemerals_go_with_their_session),
        CASE(a_session_ends_in_parts),
        CASE(containers_and_times_to_live),
        CASE(a_search_survives_deletions),
        CASE(versions_wrap_around),
        CASE(sequence_numbers_wrap_around),
        CASE(the_longest_sequential_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
