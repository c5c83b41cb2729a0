/* Quotas: what is counted, when, and what is refused. ZooKeeper itself is asked end to end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "keeper/tree/quota.h"

#define LIMITS "/zookeeper/quota/a/zookeeper_limits"
#define STATS "/zookeeper/quota/a/zookeeper_stats"

struct fixture {
    struct tree t;
    struct tree_changes c;
    struct acl_who who;
    bool client; /* makes the changes; otherwise this process */
};

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){.client = true};
    tree_init(&f.t);
    f.t.enforces_quotas = true;
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

static int try_all(struct fixture *f, const struct keeper_op *ops, size_t count)
{
    struct tree_user user = {.who = f->client ? &f->who : NULL};
    struct keeper_result results[8] = {0};
    int err = tree_apply(&f->t, &user, 1000, ops, count, results, &f->c);
    keeper_results_release(results, count);
    return err;
}

static int try_create(struct fixture *f, const char *path, const char *data)
{
    struct keeper_op op = keeper_op_create(path, str_of(data), 0);
    return try_all(f, &op, 1);
}

static int try_set(struct fixture *f, const char *path, const char *data)
{
    struct keeper_op op = keeper_op_set(path, str_of(data), KEEPER_ANY_VERSION);
    return try_all(f, &op, 1);
}

static void limit(struct fixture *f, const char *limits)
{
    assert_int_equal(try_create(f, "/a", "12"), 0);
    assert_int_equal(try_create(f, "/zookeeper/quota/a", ""), 0);
    assert_int_equal(try_create(f, LIMITS, limits), 0);
    assert_int_equal(try_create(f, STATS, ""), 0);
}

static void assert_stats(struct fixture *f, const char *expected)
{
    struct tree_view v;
    assert_int_equal(tree_look(&f->t, STR(STATS), &v), 0);
    assert_int_equal(v.data.len, strlen(expected));
    assert_memory_equal(v.data.p, expected, v.data.len);
    assert_int_equal(v.stat.version, 0);
    assert_int_equal(v.stat.mzxid, v.stat.czxid);
}

static void test_counts(void **state)
{
    struct fixture *f = *state;
    limit(f, "count=100,bytes=100");
    assert_int_equal(f->t.quotas, 1);
    assert_stats(f, "count=1,bytes=2");
    assert_int_equal(try_create(f, "/a/b", "123"), 0);
    assert_stats(f, "count=2,bytes=5");
    assert_int_equal(try_set(f, "/a/b", "1"), 0);
    assert_stats(f, "count=2,bytes=3");
    struct keeper_op fails[] = {keeper_op_create("/a/c", STR("123"), 0),
                                keeper_op_delete("/a/b", KEEPER_ANY_VERSION),
                                keeper_op_check("/none", 0)};
    assert_int_equal(try_all(f, fails, 3), DROVER_NO_NODE);
    assert_stats(f, "count=2,bytes=3");
    assert_int_equal(try_all(f, fails, 2), 0);
    assert_stats(f, "count=2,bytes=5");
    assert_int_equal(try_create(f, "/ab", "not below it"), 0);
    assert_stats(f, "count=2,bytes=5");
}

static void test_without_limits_nothing_is_counted(void **state)
{
    struct fixture *f = *state;
    limit(f, "");
    struct keeper_op op = keeper_op_delete(LIMITS, KEEPER_ANY_VERSION);
    assert_int_equal(try_all(f, &op, 1), 0);
    assert_int_equal(f->t.quotas, 0);
    assert_int_equal(try_create(f, "/a/b", ""), 0);
    assert_stats(f, "count=1,bytes=2");
    quota_count_all(&f->t);
    assert_int_equal(f->t.quotas, 0);
}

static void test_hard_limits(void **state)
{
    struct fixture *f = *state;
    limit(f, "count=1,bytes=-1=;byteHardLimit=4;countHardLimit=2");
    assert_int_equal(try_set(f, "/a", "12345"), DROVER_QUOTA_EXCEEDED);
    assert_string_equal(buf_text(&f->t.quota_note),
                        "Quota exceeded: /a [current bytes=5, hardByteLimit=4]");
    assert_int_equal(try_set(f, "/a", "1234"), 0);
    assert_int_equal(try_create(f, "/a/b", "1"), DROVER_QUOTA_EXCEEDED);
    assert_int_equal(try_create(f, "/a/b", ""), 0);
    assert_int_equal(try_create(f, "/a/c", ""), DROVER_QUOTA_EXCEEDED);
    f->client = false;
    assert_int_equal(try_create(f, "/a/c", ""), 0); /* this process may */
    f->client = true;
    f->t.enforces_quotas = false;
    assert_int_equal(try_create(f, "/a/d", ""), 0);
    assert_stats(f, "count=4,bytes=4");
}

static void test_soft_limits(void **state)
{
    struct fixture *f = *state;
    limit(f, "count=1,bytes=2");
    assert_int_equal(try_create(f, "/a/b", ""), 0);
    assert_string_equal(buf_text(&f->t.quota_note),
                        "Quota exceeded: /a [current count=2, softCountLimit=1]");
}

static void test_the_deepest_counts(void **state)
{
    struct fixture *f = *state;
    limit(f, "countHardLimit=100");
    assert_int_equal(try_create(f, "/a/b", ""), 0);
    assert_int_equal(try_create(f, "/zookeeper/quota/a/b", ""), 0);
    assert_int_equal(try_create(f, "/zookeeper/quota/a/b/zookeeper_limits", "countHardLimit=1"), 0);
    assert_int_equal(try_create(f, "/zookeeper/quota/a/b/zookeeper_stats", ""), 0);
    assert_int_equal(try_create(f, "/a/b/c", ""), DROVER_QUOTA_EXCEEDED);
    f->client = false;
    assert_int_equal(try_create(f, "/a/b/c", ""), 0);
    assert_stats(f, "count=2,bytes=2");
    quota_count_all(&f->t);
    assert_stats(f, "count=3,bytes=2");
    assert_int_equal(f->t.quotas, 2);
}

static void test_text_that_cannot_be_read(void **state)
{
    static const char *const texts[] = {"count",   "count=",   "count=x",
                                        "count=-", "count=1x", "count=99999999999999999999"};
    struct fixture *f = *state;
    limit(f, "");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(try_set(f, LIMITS, texts[i]), 0);
        assert_int_equal(try_create(f, "/a/b", ""), DROVER_DAMAGED);
    }
    assert_int_equal(try_set(f, LIMITS, "x=1,,;count=-1;=5"), 0);
    assert_int_equal(try_create(f, "/a/b", ""), 0);
    assert_stats(f, "count=2,bytes=2");
}

/* A client may write what it likes into the counts. Java's numbers wrap around. */
static void test_counts_that_are_too_large(void **state)
{
    static const char stats[] = "count=9223372036854775807,bytes=9223372036854775807";
    struct tree_view v;
    struct fixture *f = *state;
    limit(f, "countHardLimit=5");
    assert_int_equal(try_set(f, STATS, stats), 0);
    assert_int_equal(try_create(f, "/a/b", "1"), 0);
    assert_int_equal(tree_look(&f->t, STR(STATS), &v), 0);
    assert_true(str_eq(v.data, STR("count=-9223372036854775808,bytes=-9223372036854775808")));
}

/* A quota on the root would be one on everything: ZooKeeper has none. */
static void test_no_quota_on_the_root(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(try_create(f, "/zookeeper/quota/zookeeper_limits", "countHardLimit=0"), 0);
    assert_int_equal(try_create(f, "/zookeeper/quota/zookeeper_stats", "as it is"), 0);
    assert_int_equal(f->t.quotas, 0);
    assert_int_equal(try_create(f, "/a", ""), 0);
    quota_count_all(&f->t);
    assert_int_equal(f->t.quotas, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_limits_nothing_is_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hard_limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_soft_limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_deepest_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_text_that_cannot_be_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_counts_that_are_too_large, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_quota_on_the_root, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
