/*
 * Cases about many threads at once, on one session and on several. Threads do not assert: they
 * return what went wrong.
 */
#include <stdio.h>

#include "callbacks.h"

enum { THREADS = 8, ROUNDS = 50, CROWD = 32, CROWD_SETS = 20 };

struct worker {
    struct fixture *f;
    struct keeper *k;
    const char *path;
    struct done_log *log;
    char *made[ROUNDS];
};

/* One worker a thread, with a session each or all with f->k. */
static struct worker *workers_new(struct fixture *f, const char *path, bool own_sessions)
{
    struct worker *w = keep(f, mem_zalloc(THREADS * sizeof *w));

    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.f = f, .path = path};
        w[i].k = own_sessions ? session_open(f, LONG_TIMEOUT_MS) : f->k;
    }
    return w;
}

/* Adds one by compare-and-set: reads, writes at the version read, retries on BAD_VERSION. */
static int add_one(struct worker *w)
{
    struct keeper_stat stat;
    struct buf data = {0};
    char text[16];
    int err;

    do {
        err = keeper_get(w->k, w->path, &data, &stat);
        if (err)
            break;
        snprintf(text, sizeof text, "%d", atoi(buf_text(&data)) + 1);
        err = keeper_set(w->k, w->path, str_of(text), stat.version, NULL);
    } while (err == DROVER_BAD_VERSION);
    buf_release(&data);
    return err;
}

static void *count_up(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        int err = add_one(arg);

        if (err)
            return (void *)drover_err_name(err);
    }
    return NULL;
}

static void count_in_threads(struct fixture *f, bool own_sessions)
{
    const char *a = mk(f, "a", "0");

    run_threads(f, THREADS, count_up, workers_new(f, a, own_sessions), sizeof(struct worker));
    catch_up(f->k);
    assert_int_equal(atoi(must_get(f, a).p), THREADS * ROUNDS);
    assert_int_equal(must_stat(f->k, a).version, THREADS * ROUNDS);
}

static void threads_count_on_one_session(struct fixture *f)
{
    count_in_threads(f, false);
}

static void threads_count_on_many_sessions(struct fixture *f)
{
    count_in_threads(f, true);
}

static void *make_sequentials(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < ROUNDS; i++) {
        int err = keeper_create(w->k, w->path, STR(""), KEEPER_SEQUENTIAL, &w->made[i]);

        if (err)
            return (void *)drover_err_name(err);
        keep(w->f, w->made[i]);
        if (i && strcmp(w->made[i - 1], w->made[i]) >= 0)
            return "the numbers of one thread do not rise";
    }
    return NULL;
}

/* Every number from 0 was given, to exactly one thread. */
static void threads_get_unique_numbers(struct fixture *f)
{
    struct worker *w = workers_new(f, at(f, "n"), false);
    bool given[THREADS * ROUNDS] = {false};

    run_threads(f, THREADS, make_sequentials, w, sizeof *w);
    for (int i = 0; i < THREADS * ROUNDS; i++) {
        int number = atoi(w[i / ROUNDS].made[i % ROUNDS] + strlen(at(f, "n")));

        assert_in_range(number, 0, THREADS * ROUNDS - 1);
        assert_false(given[number]);
        given[number] = true;
    }
    assert_int_equal(must_stat(f->k, f->root).child_count, THREADS * ROUNDS);
}

static void *commit_many(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < ROUNDS; i++) {
        const struct keeper_op op = keeper_op_create(w->path, STR(""), KEEPER_SEQUENTIAL);

        if (log_commit(w->log, w->k, &op, 1))
            return "commit was refused";
    }
    return NULL;
}

/* Each thread has its own log, so the order of each is seen. */
static void threads_commit_in_their_order(struct fixture *f)
{
    struct worker *w = workers_new(f, at(f, "n"), false);

    for (int i = 0; i < THREADS; i++)
        w[i].log = done_log_new(f, ROUNDS);
    run_threads(f, THREADS, commit_many, w, sizeof *w);
    for (int i = 0; i < THREADS; i++) {
        expect_done_in_order(w[i].log);
        for (int j = 1; j < ROUNDS; j++)
            assert_true(strcmp(w[i].log->done[j - 1].first.path, w[i].log->done[j].first.path) < 0);
    }
    assert_int_equal(must_stat(f->k, f->root).child_count, THREADS * ROUNDS);
}

/* a and b are only ever changed together, so b, read after a, is never behind a. */
static void *write_pairs(struct worker *w)
{
    for (int i = 0; i < ROUNDS * 4; i++) {
        const struct keeper_op ops[] = {
            keeper_op_set(at(w->f, "a"), STR("x"), i),
            keeper_op_set(at(w->f, "b"), STR("x"), i),
        };

        if (keeper_multi(w->k, ops, 2, NULL))
            return "the pair was not written";
    }
    return NULL;
}

static void *read_pairs(struct worker *w)
{
    const char *a_path = at(w->f, "a"), *b_path = at(w->f, "b");
    struct keeper_stat a = {0}, b = {0};
    int32_t last = 0;

    while (a.version < ROUNDS * 4) {
        if (keeper_exists(w->k, a_path, &a) || keeper_exists(w->k, b_path, &b))
            return "the pair could not be read";
        if (a.version < last)
            return "time went back";
        if (b.version < a.version || (b.version == a.version && b.mzxid != a.mzxid))
            return "half a transaction was seen";
        last = a.version;
    }
    return NULL;
}

static void *read_or_write_pairs(void *arg)
{
    struct worker *w = arg;

    return w->path ? write_pairs(w) : read_pairs(w);
}

static void threads_see_whole_transactions(struct fixture *f)
{
    struct worker *w = workers_new(f, NULL, true);
    const struct keeper_op pair[] = {
        keeper_op_create(at(f, "a"), STR(""), 0),
        keeper_op_create(at(f, "b"), STR(""), 0),
    };

    must(keeper_multi(f->k, pair, 2, NULL));
    for (int i = 0; i < THREADS; i++)
        catch_up(w[i].k);
    w[0].path = "writer";
    run_threads(f, THREADS, read_or_write_pairs, w, sizeof *w);
}

static void *watch_and_unwatch(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < ROUNDS; i++) {
        struct recorder *r = recorder_new(w->f, w->path);

        if (recorder_watch(r, w->k, (enum keeper_watch_kind)(i % 3)))
            return "no watch";
        if (keeper_set(w->k, w->path, STR("x"), KEEPER_ANY_VERSION, NULL))
            return "no set";
        unwatch(r);
    }
    return NULL;
}

static void threads_watch_and_unwatch(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct recorder *r = watch(f, f->k, a, KEEPER_WATCH_DATA);

    run_threads(f, THREADS, watch_and_unwatch, workers_new(f, a, false), sizeof(struct worker));
    assert_int_equal(must_stat(f->k, a).version, THREADS * ROUNDS);
    recorder_wait(r, 1);
}

static void *come_and_go(void *arg)
{
    struct worker *w = arg;
    const struct conformance_backend *b = w->f->backend;

    for (int i = 0; i < ROUNDS / 5; i++) {
        struct keeper_options o = {.timeout_ms = LONG_TIMEOUT_MS};
        struct keeper *k;

        if (b->connect(b->ctx, &o, &k))
            return "no session";
        if (keeper_create(k, w->path, STR(""), KEEPER_EPHEMERAL | KEEPER_SEQUENTIAL, NULL))
            return "no ephemeral";
        keeper_close(k);
    }
    return NULL;
}

static bool has_no_children(void *place)
{
    struct place *p = place;
    struct keeper_stat stat;

    return !keeper_sync(p->k, "/") && !keeper_exists(p->k, p->path, &stat) && stat.child_count == 0;
}

static void threads_open_and_close_sessions(struct fixture *f)
{
    struct worker *w = workers_new(f, at(f, "e"), false);

    run_threads(f, THREADS, come_and_go, w, sizeof *w);
    wait_until(has_no_children, (&(struct place){f->k, f->root}), PROMPT_MS);
    assert_int_equal(must_stat(f->k, f->root).cversion, 2 * THREADS * (ROUNDS / 5));
}

static void *set_a_few(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < CROWD_SETS; i++) {
        int err = keeper_set(w->k, w->path, STR("x"), KEEPER_ANY_VERSION, NULL);

        if (err)
            return (void *)drover_err_name(err);
    }
    return NULL;
}

/*
 * Many, few, and many again: what is on its way to the disk is shared by whoever happens to wait.
 */
static void threads_in_crowds(struct fixture *f)
{
    static const int crowds[] = {CROWD, 1, 2, CROWD, 9, 1, CROWD, CROWD, 3, CROWD, 12, CROWD};
    const char *a = mk(f, "a", "");
    struct worker *w = keep(f, mem_zalloc(CROWD * sizeof *w));
    int threads = 0;

    for (int i = 0; i < CROWD; i++)
        w[i] = (struct worker){.f = f, .k = f->k, .path = a};
    for (size_t i = 0; i < sizeof crowds / sizeof *crowds; i++) {
        run_threads(f, crowds[i], set_a_few, w, sizeof *w);
        threads += crowds[i];
    }
    assert_int_equal(must_stat(f->k, a).version, threads * CROWD_SETS);
}

const struct conformance_case thread_cases[] = {
    CASE(threads_count_on_one_session),
    CASE(threads_count_on_many_sessions),
    CASE(threads_get_unique_numbers),
    CASE(threads_commit_in_their_order),
    CASE(threads_see_whole_transactions),
    CASE(threads_watch_and_unwatch),
    CASE(threads_open_and_close_sessions),
    CASE(threads_in_crowds),
    {0},
};
