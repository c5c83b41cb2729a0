/*
 * Cases about commit, the multi that does not wait: order, exactly one callback, effects.
 */
#include <sched.h>
#include <stdio.h>

#include "callbacks.h"

static void commit_happens(struct fixture *f)
{
    const struct keeper_op ops[] = {
        keeper_op_create(at(f, "a"), STR("x"), 0),
        keeper_op_create(at(f, "s"), STR("y"), KEEPER_SEQUENTIAL),
    };
    struct done_log *log = done_log_new(f, 1);

    must(log_commit(log, f->k, ops, 2));
    expect_done_in_order(log);
    expect_err(0, log->done[0].err);
    assert_int_equal(log->done[0].count, 2);
    assert_string_equal(tree_names(f), "a:0 s0000000001:0");
}

static void commit_tells_path_and_stat(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    const struct keeper_op create = keeper_op_create(at(f, "s"), STR(""), KEEPER_SEQUENTIAL);
    const struct keeper_op set = keeper_op_set(a, STR("data"), 0);
    struct done_log *log = done_log_new(f, 2);

    must(log_commit(log, f->k, &create, 1));
    must(log_commit(log, f->k, &set, 1));
    expect_done_in_order(log);
    assert_string_equal(log->done[0].first.path, at(f, "s0000000001"));
    assert_null(log->done[1].first.path);
    expect_stat_equal(log->done[1].first.stat, must_stat(f->k, a));
}

static void commit_that_fails(struct fixture *f)
{
    const struct keeper_op ops[] = {
        keeper_op_create(at(f, "a"), STR(""), 0),
        keeper_op_check(at(f, "missing"), 0),
    };
    struct done_log *log = done_log_new(f, 1);

    must(log_commit(log, f->k, ops, 2));
    expect_done_in_order(log);
    expect_err(DROVER_NO_NODE, log->done[0].err);
    assert_int_equal(log->done[0].count, 2);
    expect_err(0, log->done[0].first.err);
    assert_string_equal(tree_names(f), "");
}

/* Each sees those before it, without waiting for their callbacks. */
static void commit_in_a_pipeline_of_a_thousand(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct done_log *log = done_log_new(f, 1000);

    for (int i = 0; i < 1000; i++) {
        const struct keeper_op op = keeper_op_set(a, STR("x"), i);

        must(log_commit(log, f->k, &op, 1));
    }
    expect_done_in_order(log);
    for (int i = 0; i < 1000; i++) {
        expect_err(0, log->done[i].err);
        assert_int_equal(log->done[i].first.stat.version, i + 1);
    }
    assert_int_equal(must_stat(f->k, a).version, 1000);
}

/* Every third fails, and is answered in its place all the same. */
static void commit_keeps_the_order_with_failures(struct fixture *f)
{
    struct done_log *log = done_log_new(f, 1000);

    for (int i = 0; i < 1000; i++) {
        const struct keeper_op op = i % 3 ? keeper_op_create(at(f, "n"), STR(""), KEEPER_SEQUENTIAL)
                                          : keeper_op_delete(at(f, "missing"), KEEPER_ANY_VERSION);

        must(log_commit(log, f->k, &op, 1));
    }
    expect_done_in_order(log);
    for (int i = 0, made = 0; i < 1000; i++) {
        expect_err(i % 3 ? 0 : DROVER_NO_NODE, log->done[i].err);
        if (i % 3)
            assert_string_equal(log->done[i].first.path, at(f, "n%010d", made++));
    }
}

/* Calls that wait and calls that do not keep one order: that of the session's requests. */
static void commit_comes_before_later_calls(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct done_log *log = done_log_new(f, 100);
    char text[16];

    for (int i = 0; i < 100; i += 2) {
        struct keeper_op op;

        snprintf(text, sizeof text, "%d", i);
        op = keeper_op_set(a, str_of(text), i);
        must(log_commit(log, f->k, &op, 1));
        expect_data(f, a, text);
        must(keeper_set(f->k, a, STR("between"), i + 1, NULL));
    }
    expect_done_in_order(log);
}

static void commit_copies_what_it_needs(struct fixture *f)
{
    struct done_log *log = done_log_new(f, 1);
    char *path = strdup(at(f, "a")), *data = strdup("data");
    struct keeper_op *ops = mem_alloc(sizeof *ops);

    ops[0] = keeper_op_create(path, str_of(data), 0);
    must(log_commit(log, f->k, ops, 1));
    memset(path, '!', strlen(path));
    memset(data, '!', strlen(data));
    memset(ops, 0xff, sizeof *ops);
    free(path);
    free(data);
    free(ops);
    expect_done_in_order(log);
    expect_data(f, at(f, "a"), "data");
}

static void commit_of_bad_arguments(struct fixture *f)
{
    const struct keeper_op bad = keeper_op_create(at(f, "a//b"), STR(""), 0);
    const struct keeper_op root = keeper_op_delete("/", KEEPER_ANY_VERSION);
    const struct keeper_op good = keeper_op_create(at(f, "a"), STR(""), 0);
    struct done_log *refused = done_log_new(f, 4), *log = done_log_new(f, 1);

    expect_err(DROVER_BAD_ARGUMENT, log_commit(refused, f->k, &bad, 1));
    expect_err(DROVER_BAD_ARGUMENT, log_commit(refused, f->k, &root, 1));
    expect_err(DROVER_BAD_ARGUMENT, log_commit(refused, f->k, NULL, 0));
    must(log_commit(log, f->k, &good, 1));
    expect_done_in_order(log);
    assert_int_equal(done_count(refused), 0);
}

/* Closing answers what is in flight: with what became of it, or with an error, but always once. */
static void commit_in_flight_when_closing(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    struct done_log *log = done_log_new(f, 500);

    for (int i = 0; i < 500; i++) {
        const struct keeper_op op = keeper_op_create(at(f, "n%d", i), STR(""), 0);

        must(log_commit(log, other, &op, 1));
    }
    session_close(f, other);
    assert_int_equal(done_count(log), 500);
    expect_done_in_order(log);
    catch_up(f->k);
    for (int i = 0; i < 500; i++) {
        if (!log->done[i].err)
            must(keeper_exists(f->k, at(f, "n%d", i), NULL));
    }
}

static void commit_in_flight_when_abandoning(struct fixture *f)
{
    struct keeper *other = session_open(f, f->backend->short_timeout_ms);
    struct done_log *log = done_log_new(f, 200);

    for (int i = 0; i < 200; i++) {
        const struct keeper_op op = keeper_op_create(at(f, "n%d", i), STR(""), 0);

        must(log_commit(log, other, &op, 1));
    }
    session_abandon(f, other);
    assert_int_equal(done_count(log), 200);
    expect_done_in_order(log);
}

static void read_in_callback(struct done_log *log, const struct done *d)
{
    int *seen = log->hook_arg;
    struct keeper_stat stat;

    if (!d->err && !keeper_exists(log->f->k, d->first.path, &stat) && stat.version == 0)
        ++*seen;
}

static void commit_callback_may_read(struct fixture *f)
{
    struct done_log *log = done_log_new(f, 20);
    int *seen = keep(f, mem_zalloc(sizeof *seen));

    log->hook = read_in_callback;
    log->hook_arg = seen;
    for (int i = 0; i < 20; i++) {
        const struct keeper_op op = keeper_op_create(at(f, "n%d", i), STR(""), 0);

        must(log_commit(log, f->k, &op, 1));
    }
    expect_done_in_order(log);
    assert_int_equal(*seen, 20);
}

static void commit_in_callback(struct done_log *log, const struct done *d)
{
    const struct keeper_op op = keeper_op_create(log->hook_arg, STR(""), KEEPER_SEQUENTIAL);

    if (!d->err && d->index < 49)
        log_commit(log, log->f->k, &op, 1);
}

static void commit_callback_may_commit(struct fixture *f)
{
    const char *path = at(f, "n");
    const struct keeper_op op = keeper_op_create(path, STR(""), KEEPER_SEQUENTIAL);
    struct done_log *log = done_log_new(f, 50);

    log->hook = commit_in_callback;
    log->hook_arg = (void *)path;
    must(log_commit(log, f->k, &op, 1));
    done_wait(log, 50);
    expect_done_in_order(log);
    assert_int_equal(must_stat(f->k, f->root).child_count, 50);
}

static void change_in_callback(struct done_log *log, const struct done *d)
{
    if (!d->err && !keeper_create(log->f->k, log->hook_arg, STR("deep"), 0, NULL))
        keeper_delete(log->f->k, d->first.path, KEEPER_ANY_VERSION);
}

static void commit_callback_may_change(struct fixture *f)
{
    const struct keeper_op op = keeper_op_create(at(f, "a"), STR(""), 0);
    struct done_log *log = done_log_new(f, 1);

    log->hook = change_in_callback;
    log->hook_arg = (void *)at(f, "b");
    must(log_commit(log, f->k, &op, 1));
    expect_done_in_order(log);
    assert_string_equal(tree_names(f), "b:0");
}

/* Either answer is a clear one: refused at once, or by the callback. */
static void commit_of_an_expired_session(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const struct keeper_op op = keeper_op_create(at(f, "a"), STR(""), 0);
    struct done_log *log = done_log_new(f, 1);
    int err;

    session_expire(f, other);
    wait_until(keeper_has_expired, other, PATIENCE_MS);
    err = log_commit(log, other, &op, 1);
    if (!err) {
        expect_done_in_order(log);
        err = log->done[0].err;
    }
    expect_err(DROVER_SESSION_EXPIRED, err);
    catch_up(f->k);
    assert_string_equal(tree_names(f), "");
}

struct alone {
    int inside, entered, overlaps;
};

static void enter(struct alone *a)
{
    if (__atomic_add_fetch(&a->inside, 1, __ATOMIC_SEQ_CST) != 1)
        __atomic_add_fetch(&a->overlaps, 1, __ATOMIC_SEQ_CST);
    sched_yield();
    __atomic_add_fetch(&a->entered, 1, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&a->inside, 1, __ATOMIC_SEQ_CST);
}

static void enter_by_commit(struct done_log *log, const struct done *d)
{
    (void)d;
    enter(log->hook_arg);
}

static void enter_by_watch(struct recorder *r, enum keeper_event event)
{
    (void)event;
    enter(r->hook_arg);
}

static void callbacks_run_one_at_a_time(struct fixture *f)
{
    struct done_log *log = done_log_new(f, 300);
    struct alone *alone = keep(f, mem_zalloc(sizeof *alone));
    const char *a = mk(f, "a", "");

    log->hook = enter_by_commit;
    log->hook_arg = alone;
    watch_hook(f, f->k, a, KEEPER_WATCH_DATA, enter_by_watch, alone);
    watch_hook(f, f->k, f->root, KEEPER_WATCH_CHILDREN, enter_by_watch, alone);
    for (int i = 0; i < 300; i++) {
        const struct keeper_op ops[] = {
            keeper_op_set(a, STR(""), i),
            keeper_op_create(at(f, "n"), STR(""), KEEPER_SEQUENTIAL),
        };

        must(log_commit(log, f->k, ops, 2));
    }
    expect_done_in_order(log);
    quiesce(f, f->k, f->k);
    assert_int_equal(__atomic_load_n(&alone->overlaps, __ATOMIC_SEQ_CST), 0);
    assert_true(__atomic_load_n(&alone->entered, __ATOMIC_SEQ_CST) >= 302);
}

const struct conformance_case commit_cases[] = {
    CASE(commit_happens),
    CASE(commit_tells_path_and_stat),
    CASE(commit_that_fails),
    CASE(commit_in_a_pipeline_of_a_thousand),
    CASE(commit_keeps_the_order_with_failures),
    CASE(commit_comes_before_later_calls),
    CASE(commit_copies_what_it_needs),
    CASE(commit_of_bad_arguments),
    CASE(commit_in_flight_when_closing),
    CASE(commit_in_flight_when_abandoning),
    CASE(commit_callback_may_read),
    CASE(commit_callback_may_commit),
    CASE(commit_callback_may_change),
    CASE(commit_of_an_expired_session),
    CASE(callbacks_run_one_at_a_time),
    {0},
};
