/*
 * Cases about callbacks on the caller's own thread: with a `wake`, nothing runs before
 * keeper_dispatch, and everything runs inside it.
 */
#include <time.h>

#include "callbacks.h"

struct waker {
    pthread_mutex_t lock;
    pthread_cond_t woken;
    int wakes;
};

static void wake(void *arg)
{
    struct waker *w = arg;

    pthread_mutex_lock(&w->lock);
    w->wakes++;
    pthread_cond_signal(&w->woken);
    pthread_mutex_unlock(&w->lock);
}

static struct keeper *open_woken(struct fixture *f, struct waker **ret_waker)
{
    struct waker *w = keep(f, mem_zalloc(sizeof *w));
    struct keeper_options o = {.timeout_ms = LONG_TIMEOUT_MS, .wake = wake, .wake_arg = w};

    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->woken, NULL);
    *ret_waker = w;
    return session_open_with(f, &o);
}

/* Takes the wakes there are, or waits for the next. */
static void wait_for_wake(struct waker *w)
{
    struct timespec until;
    int late = 0, wakes;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    pthread_mutex_lock(&w->lock);
    while (!w->wakes && !late)
        late = pthread_cond_timedwait(&w->woken, &w->lock, &until);
    wakes = w->wakes;
    w->wakes = 0;
    pthread_mutex_unlock(&w->lock);
    assert_true(wakes > 0);
}

static void dispatch_until_done(struct keeper *k, struct waker *w, struct done_log *log,
                                size_t count)
{
    while (done_count(log) < count) {
        wait_for_wake(w);
        keeper_dispatch(k);
    }
}

static void dispatch_until_told(struct keeper *k, struct waker *w, struct recorder *r, int count)
{
    while (recorder_count(r) < count) {
        wait_for_wake(w);
        keeper_dispatch(k);
    }
}

static void dispatch_runs_commits_on_this_thread(struct fixture *f)
{
    struct waker *w;
    struct keeper *k = open_woken(f, &w);
    struct done_log *log = done_log_new(f, 10);

    for (int i = 0; i < 10; i++) {
        const struct keeper_op op = keeper_op_create(at(f, "n%d", i), STR(""), 0);

        must(log_commit(log, k, &op, 1));
    }
    must(keeper_sync(k, "/"));
    wait_for_wake(w);
    assert_int_equal(done_count(log), 0);
    wake(w);
    dispatch_until_done(k, w, log, 10);
    expect_done_in_order(log);
    for (int i = 0; i < 10; i++)
        assert_true(pthread_equal(log->done[i].thread, pthread_self()));
}

static void dispatch_runs_watches_on_this_thread(struct fixture *f)
{
    struct waker *w;
    struct keeper *k = open_woken(f, &w);
    const char *a = mk(f, "a", "");
    struct recorder *r;

    catch_up(k);
    r = watch(f, k, a, KEEPER_WATCH_DATA);
    for (int i = 0; i < 3; i++) {
        must(keeper_set(f->k, a, STR("x"), i, NULL));
        wait_for_wake(w);
        expect_count(r, i);
        wake(w);
        dispatch_until_told(k, w, r, i + 1);
        assert_true(pthread_equal(r->thread, pthread_self()));
    }
}

static void dispatch_of_nothing(struct fixture *f)
{
    struct waker *w;
    struct keeper *k = open_woken(f, &w);

    keeper_dispatch(k);
    must(keeper_create(k, at(f, "a"), STR(""), 0, NULL));
    keeper_dispatch(k);
    catch_up(f->k);
    assert_string_equal(tree_names(f), "a:0");
}

/* Calls that wait do not depend on the loop that will dispatch: they may be made from it. */
static void dispatch_is_not_needed_by_calls_that_wait(struct fixture *f)
{
    struct waker *w;
    struct keeper *k = open_woken(f, &w);
    struct done_log *log = done_log_new(f, 2);
    const struct keeper_op op = keeper_op_create(at(f, "n"), STR(""), KEEPER_SEQUENTIAL);

    must(log_commit(log, k, &op, 1));
    must(keeper_create(k, at(f, "a"), STR(""), 0, NULL));
    must(keeper_set(k, at(f, "a"), STR("x"), 0, NULL));
    must(keeper_exists(k, at(f, "n0000000000"), NULL));
    must(log_commit(log, k, &op, 1));
    assert_int_equal(done_count(log), 0);
    dispatch_until_done(k, w, log, 2);
    expect_done_in_order(log);
}

static void dispatch_in_a_pipeline(struct fixture *f)
{
    struct waker *w;
    struct keeper *k = open_woken(f, &w);
    struct done_log *log = done_log_new(f, 1000);
    const char *a = mk(f, "a", "");

    for (int i = 0; i < 1000; i++) {
        const struct keeper_op op = keeper_op_set(a, STR("x"), i % 10 ? i - i / 10 - 1 : 9999);

        must(log_commit(log, k, &op, 1));
    }
    dispatch_until_done(k, w, log, 1000);
    expect_done_in_order(log);
    for (int i = 0; i < 1000; i++)
        expect_err(i % 10 ? 0 : DROVER_BAD_VERSION, log->done[i].err);
}

static void commit_once_more(struct done_log *log, const struct done *d)
{
    const struct keeper_op op = keeper_op_check("/", KEEPER_ANY_VERSION);

    if (d->index < 19)
        log_commit(log, log->hook_arg, &op, 1);
}

static void dispatch_wakes_again_for_commits_of_callbacks(struct fixture *f)
{
    struct waker *w;
    struct keeper *k = open_woken(f, &w);
    const struct keeper_op op = keeper_op_check("/", KEEPER_ANY_VERSION);
    struct done_log *log = done_log_new(f, 20);

    log->hook = commit_once_more;
    log->hook_arg = k;
    must(log_commit(log, k, &op, 1));
    dispatch_until_done(k, w, log, 20);
    expect_done_in_order(log);
}

/* An event that waits to be dispatched goes with its watch. */
static void dispatch_skips_what_was_unwatched(struct fixture *f)
{
    struct waker *w;
    struct keeper *k = open_woken(f, &w);
    const char *a = mk(f, "a", ""), *b = mk(f, "b", "");
    struct recorder *first, *second;

    catch_up(k);
    first = watch(f, k, a, KEEPER_WATCH_DATA);
    second = watch(f, k, b, KEEPER_WATCH_DATA);
    must(keeper_set(k, a, STR("x"), 0, NULL));
    must(keeper_set(k, b, STR("x"), 0, NULL));
    must(keeper_sync(k, "/"));
    wait_for_wake(w);
    unwatch(first);
    wake(w);
    dispatch_until_told(k, w, second, 1);
    expect_count(first, 0);
}

static void dispatch_is_not_awaited_by_closing(struct fixture *f)
{
    struct waker *w;
    struct keeper *k = open_woken(f, &w);
    struct done_log *log = done_log_new(f, 100);

    watch(f, k, f->root, KEEPER_WATCH_CHILDREN);
    for (int i = 0; i < 100; i++) {
        const struct keeper_op op = keeper_op_create(at(f, "n%d", i), STR(""), 0);

        must(log_commit(log, k, &op, 1));
    }
    session_close(f, k);
    assert_int_equal(done_count(log), 100);
    expect_done_in_order(log);
}

static void dispatch_tells_of_expiry(struct fixture *f)
{
    struct waker *w;
    struct keeper *k = open_woken(f, &w);
    struct recorder *r = watch(f, k, f->root, KEEPER_WATCH_DATA);

    session_expire(f, k);
    dispatch_until_told(k, w, r, 1);
    expect_event(r, KEEPER_EVENT_EXPIRED);
}

const struct conformance_case dispatch_cases[] = {
    CASE(dispatch_runs_commits_on_this_thread),
    CASE(dispatch_runs_watches_on_this_thread),
    CASE(dispatch_of_nothing),
    CASE(dispatch_is_not_needed_by_calls_that_wait),
    CASE(dispatch_in_a_pipeline),
    CASE(dispatch_wakes_again_for_commits_of_callbacks),
    CASE(dispatch_skips_what_was_unwatched),
    CASE(dispatch_is_not_awaited_by_closing),
    CASE(dispatch_tells_of_expiry),
    {0},
};
