/*
 * Cases about sizes: what just fits must pass, one more must be refused before anything happens.
 */
#include "fixture.h"

/* Data that makes a request of one operation on `path` as big as is allowed, and `more` bytes. */
static struct str data_at_limit(struct fixture *f, const char *path, size_t more)
{
    const struct keeper_op empty = keeper_op_create(path, STR(""), 0);
    size_t len = KEEPER_REQUEST_MAX - keeper_request_size(&empty, 1) + more;
    char *data = keep(f, mem_alloc(len));

    for (size_t i = 0; i < len; i++)
        data[i] = (char)(i * 31 + i / 253);
    return (struct str){data, len};
}

static void expect_same_data(struct fixture *f, const char *path, struct str want)
{
    struct str got = must_get(f, path);

    assert_int_equal(got.len, want.len);
    assert_true(memcmp(got.p, want.p, want.len) == 0);
    assert_int_equal(must_stat(f->k, path).data_len, want.len);
}

static void limit_of_a_create(struct fixture *f)
{
    const char *a = at(f, "a");
    struct str fits = data_at_limit(f, a, 0), too_big = data_at_limit(f, a, 1);

    expect_err(DROVER_TOO_BIG, keeper_create(f->k, a, too_big, 0, NULL));
    expect_err(DROVER_NO_NODE, keeper_exists(f->k, a, NULL));
    must(keeper_create(f->k, a, fits, 0, NULL));
    expect_same_data(f, a, fits);
}

static void limit_of_a_set(struct fixture *f)
{
    const char *a = mk(f, "a", "small");
    struct str fits = data_at_limit(f, a, 0), too_big = data_at_limit(f, a, 1);

    expect_err(DROVER_TOO_BIG, keeper_set(f->k, a, too_big, KEEPER_ANY_VERSION, NULL));
    expect_data(f, a, "small");
    must(keeper_set(f->k, a, fits, 0, NULL));
    expect_same_data(f, a, fits);
    must(keeper_set(f->k, a, STR("small again"), 1, NULL));
    expect_data(f, a, "small again");
}

/* The whole transaction has to fit, not each operation. */
static void limit_of_a_multi(struct fixture *f)
{
    struct str half = data_at_limit(f, at(f, "a"), 0);
    struct keeper_op ops[2];
    struct keeper_result *r = results_new(f, 2);

    half.len = half.len / 2 + 100;
    ops[0] = keeper_op_create(at(f, "a"), half, 0);
    ops[1] = keeper_op_create(at(f, "b"), half, 0);
    expect_err(DROVER_TOO_BIG, multi(f, ops, 2, r));
    expect_err(DROVER_TOO_BIG, r[0].err);
    expect_err(DROVER_TOO_BIG, r[1].err);
    assert_string_equal(tree_names(f), "");
    ops[0].data.len = ops[1].data.len = half.len - 400;
    must(multi(f, ops, 2, r));
    assert_string_equal(tree_names(f), "a:0 b:0");
}

static void limit_of_the_number_of_operations(struct fixture *f)
{
    size_t count = KEEPER_MULTI_MAX + 1;
    struct keeper_op *ops = keep(f, mem_zalloc(count * sizeof *ops));

    for (size_t i = 0; i < count; i++)
        ops[i] = keeper_op_check("/", KEEPER_ANY_VERSION);
    expect_err(DROVER_TOO_BIG, keeper_multi(f->k, ops, count, NULL));
    must(keeper_multi(f->k, ops, count - 1, NULL));
}

static void not_to_be_called(void *arg, int err, const struct keeper_result *results, size_t count)
{
    (void)err, (void)results, (void)count;
    *(bool *)arg = true;
}

static void limit_of_a_commit(struct fixture *f)
{
    const char *a = at(f, "a");
    const struct keeper_op op = keeper_op_create(a, data_at_limit(f, a, 1), 0);
    bool *called = keep(f, mem_zalloc(sizeof *called));

    expect_err(DROVER_TOO_BIG, keeper_commit(f->k, &op, 1, not_to_be_called, called));
    must(keeper_sync(f->k, "/"));
    assert_false(*called);
    expect_err(DROVER_NO_NODE, keeper_exists(f->k, a, NULL));
}

const struct conformance_case limits_cases[] = {
    CASE(limit_of_a_create), CASE(limit_of_a_set),
    CASE(limit_of_a_multi),  CASE(limit_of_the_number_of_operations),
    CASE(limit_of_a_commit), {0},
};
