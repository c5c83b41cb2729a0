/*
 * Cases about the callback of a watch: what it sees, what it may call, and when it may no longer
 * run.
 */
#include <sched.h>

#include "base/clock.h"
#include "callbacks.h"

static void unwatch_self(struct recorder *r, enum keeper_event event)
{
    (void)event;
    unwatch(r);
}

static void watch_callback_may_unwatch_itself(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct recorder *r = watch_hook(f, f->k, a, KEEPER_WATCH_DATA, unwatch_self, NULL);

    must(keeper_set(f->k, a, STR("x"), 0, NULL));
    recorder_wait(r, 1);
    must(keeper_set(f->k, a, STR("x"), 1, NULL));
    quiesce(f, f->k, f->k);
    expect_count(r, 1);
    assert_null(r->watch);
}

static void unwatch_other(struct recorder *r, enum keeper_event event)
{
    struct recorder **other = r->hook_arg;

    (void)event;
    if (*other)
        unwatch(*other);
    *other = NULL;
}

/* Two watches, each taking the other back: whichever is first, the second is never told. */
static void watch_callback_may_unwatch_another(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct recorder **pair = keep(f, mem_zalloc(2 * sizeof *pair)), *first, *second;

    pair[0] = first = watch_hook(f, f->k, a, KEEPER_WATCH_DATA, unwatch_other, &pair[1]);
    pair[1] = second = watch_hook(f, f->k, a, KEEPER_WATCH_DATA, unwatch_other, &pair[0]);
    must(keeper_set(f->k, a, STR("x"), 0, NULL));
    quiesce(f, f->k, f->k);
    assert_int_equal(recorder_count(first) + recorder_count(second), 1);
}

/* What the callback finds when it looks again. */
struct look {
    int32_t version, child_count;
    int err;
};

static void look_again(struct recorder *r, enum keeper_event event)
{
    struct look *look = r->hook_arg;
    struct keeper_names names = {0};
    struct keeper_stat stat = {0};

    (void)event;
    look->err = keeper_children(r->k, r->path, &names, &stat);
    if (!look->err)
        look->child_count = (int32_t)names.count;
    keeper_names_release(&names);
    look->err = look->err ? look->err : keeper_exists(r->k, r->path, &stat);
    look->version = stat.version;
}

static void watch_callback_sees_the_change(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct look *look = keep(f, mem_zalloc(sizeof *look));
    struct recorder *data = watch_hook(f, f->k, a, KEEPER_WATCH_DATA, look_again, look);
    struct recorder *children = watch_hook(f, f->k, a, KEEPER_WATCH_CHILDREN, look_again, look);

    must(keeper_set(f->k, a, STR("x"), 0, NULL));
    recorder_wait(data, 1);
    expect_err(0, look->err);
    assert_int_equal(look->version, 1);
    mk(f, "a/b", "");
    recorder_wait(children, 1);
    assert_int_equal(look->child_count, 1);
    must(keeper_delete(f->k, at(f, "a/b"), 0));
    recorder_wait(children, 2);
    must(keeper_delete(f->k, a, 1));
    recorder_wait(data, 2);
    recorder_wait(children, 3);
    expect_err(DROVER_NO_NODE, look->err);
}

static void create_in_callback(struct recorder *r, enum keeper_event event)
{
    struct keeper_op op = keeper_op_create(r->hook_arg, STR(""), KEEPER_SEQUENTIAL);

    (void)event;
    keeper_multi(r->k, &op, 1, NULL);
}

/* The callback changes the node next to it, which another watch tells. */
static void watch_callback_may_change(struct fixture *f)
{
    const char *a = mk(f, "a", ""), *b = mk(f, "b", "");
    struct recorder *children = watch(f, f->k, b, KEEPER_WATCH_CHILDREN);
    struct recorder *data;

    data = watch_hook(f, f->k, a, KEEPER_WATCH_DATA, create_in_callback, (void *)at(f, "b/n"));
    for (int i = 0; i < 3; i++) {
        must(keeper_set(f->k, a, STR("x"), i, NULL));
        recorder_wait(data, i + 1);
        recorder_wait(children, i + 1);
    }
    assert_int_equal(must_stat(f->k, b).child_count, 3);
}

/* A change during the callback, be it its own, is a change after what it has read: told again. */
static void set_again(struct recorder *r, enum keeper_event event)
{
    struct keeper_stat stat;

    (void)event;
    if (!keeper_exists(r->k, r->path, &stat) && stat.version < 5)
        keeper_set(r->k, r->path, STR("again"), stat.version, NULL);
}

static void watch_callback_may_change_its_own_node(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct recorder *r = watch_hook(f, f->k, a, KEEPER_WATCH_DATA, set_again, NULL);

    must(keeper_set(f->k, a, STR("x"), 0, NULL));
    recorder_wait(r, 5);
    assert_int_equal(must_stat(f->k, a).version, 5);
}

/* Hurries on while the callback reads: what the last callback read must be the last change. */
struct chase {
    int32_t version, children;
};

static void chase_read(struct recorder *r, enum keeper_event event)
{
    struct chase *c = r->hook_arg;
    struct keeper_stat stat;

    (void)event;
    if (!keeper_exists(r->k, r->path, &stat)) {
        __atomic_store_n(&c->version, stat.version, __ATOMIC_SEQ_CST);
        __atomic_store_n(&c->children, stat.child_count, __ATOMIC_SEQ_CST);
    }
}

static bool chase_is_over(void *arg)
{
    struct chase *c = arg;

    return __atomic_load_n(&c->version, __ATOMIC_SEQ_CST) == 300 &&
           __atomic_load_n(&c->children, __ATOMIC_SEQ_CST) == 300;
}

static void watch_never_misses_the_last_change(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    struct chase *c = keep(f, mem_zalloc(sizeof *c));
    const char *a = mk(f, "a", "");

    watch_hook(f, f->k, a, KEEPER_WATCH_DATA, chase_read, c);
    watch_hook(f, f->k, a, KEEPER_WATCH_CHILDREN, chase_read, c);
    for (int i = 0; i < 300; i++) {
        must(keeper_set(other, a, STR("x"), i, NULL));
        must(keeper_create(other, at(f, "a/n%d", i), STR(""), 0, NULL));
    }
    wait_until(chase_is_over, c, PATIENCE_MS);
}

/* fn must not run once keeper_unwatch has returned, however close the change was. */
struct tripwire {
    bool dead;
    int late;
};

static void trip(struct recorder *r, enum keeper_event event)
{
    struct tripwire *t = r->hook_arg;

    (void)event;
    if (__atomic_load_n(&t->dead, __ATOMIC_SEQ_CST))
        __atomic_add_fetch(&t->late, 1, __ATOMIC_SEQ_CST);
}

static void watch_callback_never_runs_after_unwatch(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct tripwire *wires = keep(f, mem_zalloc(100 * sizeof *wires));
    struct done_log *log = done_log_new(f, 100);

    for (int i = 0; i < 100; i++) {
        const struct keeper_op op = keeper_op_set(a, STR("x"), i);
        struct recorder *r = watch_hook(f, f->k, a, KEEPER_WATCH_DATA, trip, &wires[i]);

        must(log_commit(log, f->k, &op, 1));
        unwatch(r);
        __atomic_store_n(&wires[i].dead, true, __ATOMIC_SEQ_CST);
    }
    expect_done_in_order(log);
    quiesce(f, f->k, f->k);
    for (int i = 0; i < 100; i++)
        assert_int_equal(__atomic_load_n(&wires[i].late, __ATOMIC_SEQ_CST), 0);
}

/* Stays inside for a while once it is being taken back. */
struct linger {
    bool entered, unwatching, left;
};

static void linger_inside(struct recorder *r, enum keeper_event event)
{
    struct linger *l = r->hook_arg;
    int64_t until_ms = clock_boot_ms() + 50;

    (void)event;
    __atomic_store_n(&l->entered, true, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&l->unwatching, __ATOMIC_SEQ_CST) || clock_boot_ms() < until_ms)
        sched_yield();
    __atomic_store_n(&l->left, true, __ATOMIC_SEQ_CST);
}

static bool has_entered(void *arg)
{
    return __atomic_load_n(&((struct linger *)arg)->entered, __ATOMIC_SEQ_CST);
}

static void watch_callback_is_awaited_by_unwatch(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct linger *l = keep(f, mem_zalloc(sizeof *l));
    struct recorder *r = watch_hook(f, f->k, a, KEEPER_WATCH_DATA, linger_inside, l);

    must(keeper_set(f->k, a, STR("x"), 0, NULL));
    wait_until(has_entered, l, PATIENCE_MS);
    __atomic_store_n(&l->unwatching, true, __ATOMIC_SEQ_CST);
    unwatch(r);
    assert_true(__atomic_load_n(&l->left, __ATOMIC_SEQ_CST));
}

static void watch_more(struct recorder *r, enum keeper_event event)
{
    struct recorder *next = r->hook_arg;

    (void)event;
    if (!next->watch)
        recorder_watch(next, r->k, KEEPER_WATCH_DATA);
}

/* A watch set from within a callback is in force at once. */
static void watch_callback_may_watch(struct fixture *f)
{
    const char *a = mk(f, "a", ""), *b = mk(f, "b", "");
    struct recorder *second = recorder_new(f, b);
    struct recorder *first = watch_hook(f, f->k, a, KEEPER_WATCH_DATA, watch_more, second);

    must(keeper_set(f->k, b, STR("x"), 0, NULL));
    must(keeper_set(f->k, a, STR("x"), 0, NULL));
    recorder_wait(first, 1);
    expect_count(second, 0);
    must(keeper_set(f->k, b, STR("x"), 1, NULL));
    expect_event(second, KEEPER_EVENT_CHANGED);
}

const struct conformance_case watch_callback_cases[] = {
    CASE(watch_callback_may_unwatch_itself),
    CASE(watch_callback_may_unwatch_another),
    CASE(watch_callback_sees_the_change),
    CASE(watch_callback_may_change),
    CASE(watch_callback_may_change_its_own_node),
    CASE(watch_never_misses_the_last_change),
    CASE(watch_callback_never_runs_after_unwatch),
    CASE(watch_callback_is_awaited_by_unwatch),
    CASE(watch_callback_may_watch),
    {0},
};
