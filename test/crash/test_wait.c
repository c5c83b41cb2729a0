/*
 * Strict: an answer leaves when the journal is durable up to what it saw. The disk is blocked while
 * a change is pending; each call that sees the change, or sees that something is absent, must wait,
 * and each call about older nodes must not.
 *
 * Opportunistic: no answer waits, and a change is on disk LOCAL_FLUSH_MS later, also when nothing
 * follows it.
 *
 * No call waits for a snapshot: while its file is being written calls are answered, and each slice
 * that is encoded under the lock is small.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "files.h"
#include "held_fs.h"
#include "store.h"

/*
 * The calls. /p, /old, /old/child, /gone and /other are on disk; the pending change makes /p/fresh,
 * sets /old and deletes /gone.
 */

static int get(struct store *s, const char *path)
{
    struct buf data = {0};
    int err = keeper_get(s->k, path, &data, NULL);

    buf_release(&data);
    return err;
}

static int children(struct store *s, const char *path)
{
    struct keeper_names names = {0};
    int err = keeper_children(s->k, path, &names, NULL);

    if (!err)
        keeper_names_release(&names);
    return err;
}

static int exists(struct store *s, const char *path)
{
    return keeper_exists(s->k, path, NULL);
}

static int sync_path(struct store *s, const char *path)
{
    return keeper_sync(s->k, path);
}

static int check(struct store *s, const char *path)
{
    struct keeper_op op = keeper_op_check(path, 77);
    struct keeper_result result = {0};
    int err = keeper_multi(s->k, &op, 1, &result);

    keeper_results_release(&result, 1);
    return err;
}

static int set(struct store *s, const char *path)
{
    return keeper_set(s->k, path, STR("later"), KEEPER_ANY_VERSION, NULL);
}

static struct keeper *another; /* closed at the end: closing waits too */

static int connect(struct store *s, const char *path)
{
    (void)path;
    return local_connect(s->l, NULL, &another);
}

static const struct call {
    const char *name;
    int (*fn)(struct store *s, const char *path);
    const char *path;
    int err;
    bool waits;
} CALLS[] = {
    {"get of what did not change", get, "/old/child", 0, false},
    {"children of what did not change", children, "/old/child", 0, false},
    {"exists of what did not change", exists, "/old/child", 0, false},
    {"get of what was made", get, "/p/fresh", 0, true},
    {"get of what was set", get, "/old", 0, true},
    {"get of what was deleted", get, "/gone", DROVER_NO_NODE, true},
    {"get of what was never there", get, "/never", DROVER_NO_NODE, true},
    {"exists of what was made", exists, "/p/fresh", 0, true},
    {"exists of what was never there", exists, "/never", DROVER_NO_NODE, true},
    {"children with a new one", children, "/p", 0, true},
    {"children of what was never there", children, "/never", DROVER_NO_NODE, true},
    {"sync", sync_path, "/", 0, true},
    {"a check that fails", check, "/p", DROVER_BAD_VERSION, true},
    {"a change", set, "/other", 0, true},
    {"a new session", connect, NULL, 0, true},
};

enum { CALL_COUNT = sizeof CALLS / sizeof *CALLS, LOOK_MS = 100 };

struct caller {
    const struct call *call;
    struct store *s;
    pthread_t thread;
    _Atomic bool back;
    int err;
};

static void *caller_main(void *arg)
{
    struct caller *c = arg;

    c->err = c->call->fn(c->s, c->call->path);
    atomic_store(&c->back, true);
    return NULL;
}

static bool is_back(void *arg)
{
    return atomic_load(&((struct caller *)arg)->back);
}

static void on_done(void *arg, int err, const struct keeper_result *results, size_t count)
{
    (void)results, (void)count;
    must(err);
    atomic_store((_Atomic bool *)arg, true);
}

static void make_ground(struct store *s)
{
    static const char *const paths[] = {"/p", "/old", "/old/child", "/gone", "/other"};

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        must(keeper_create(s->k, paths[i], STR("x"), 0, NULL));
}

static void change_and_call(struct store *s, struct caller *callers, _Atomic bool *committed)
{
    struct keeper_op ops[] = {
        {.kind = KEEPER_CREATE, .path = STR("/p/fresh"), .data = STR("x")},
        {.kind = KEEPER_SET, .path = STR("/old"), .data = STR("y"), .version = KEEPER_ANY_VERSION},
        {.kind = KEEPER_DELETE, .path = STR("/gone"), .version = KEEPER_ANY_VERSION},
    };

    must(keeper_commit(s->k, ops, 3, on_done, committed));
    for (size_t i = 0; i < CALL_COUNT; i++) {
        callers[i] = (struct caller){.call = &CALLS[i], .s = s};
        pthread_create(&callers[i].thread, NULL, caller_main, &callers[i]);
    }
}

static void who_saw_the_change_waits_for_the_disk(void **state)
{
    struct held_fs h;
    struct caller callers[CALL_COUNT];
    _Atomic bool committed = false;
    struct store *s = store_new();
    char *dir = dir_make();

    (void)state;
    held_fs_init(&h);
    must(store_open(s, dir, &h.fs));
    must(store_connect(s));
    make_ground(s);
    held_fs_hold(&h, true);
    change_and_call(s, callers, &committed);
    for (size_t i = 0; i < CALL_COUNT; i++)
        if (!CALLS[i].waits)
            wait_until(is_back, &callers[i]);
    poll(NULL, 0, LOOK_MS);
    for (size_t i = 0; i < CALL_COUNT; i++) {
        doing("%s", CALLS[i].name);
        assert_int_equal(is_back(&callers[i]), !CALLS[i].waits);
        done();
    }
    assert_false(atomic_load(&committed));
    held_fs_hold(&h, false);
    for (size_t i = 0; i < CALL_COUNT; i++) {
        pthread_join(callers[i].thread, NULL);
        doing("%s", CALLS[i].name);
        expect_err(CALLS[i].err, callers[i].err);
        done();
    }
    keeper_close(another);
    store_close(s);
    store_free(s);
    dir_remove(dir);
}

/*
 * A keeper with a loop of its own: a commit, a watch and a change that it applied wait for the
 * disk.
 */
struct loop {
    struct held_fs fs;
    struct store *s;
    char *dir;
    struct keeper *k;
    struct keeper_watch *watch;
    _Atomic int wakes;
    int done, done_err, fired;
    int64_t zxid;
};

static void on_loop_wake(void *arg)
{
    atomic_fetch_add(&((struct loop *)arg)->wakes, 1);
}

static void on_loop_done(void *arg, int err, const struct keeper_result *results, size_t count)
{
    struct loop *l = arg;

    (void)results, (void)count;
    l->done++;
    l->done_err = err;
}

static void on_loop_event(void *arg, enum keeper_event event, const char *path)
{
    (void)event, (void)path;
    ((struct loop *)arg)->fired++;
}

static bool is_woken(void *arg)
{
    return atomic_load(&((struct loop *)arg)->wakes);
}

static void loop_open(struct loop *l)
{
    struct keeper_options o = {.wake = on_loop_wake, .wake_arg = l};

    *l = (struct loop){.s = store_new(), .dir = dir_make()};
    held_fs_init(&l->fs);
    must(store_open(l->s, l->dir, &l->fs.fs));
    must(store_connect(l->s));
    make_ground(l->s);
    must(local_connect(l->s->l, &o, &l->k));
    must(keeper_watch(l->k, "/old", KEEPER_WATCH_DATA, on_loop_event, l, &l->watch));
}

static void loop_close(struct loop *l)
{
    keeper_close(l->k);
    store_close(l->s);
    store_free(l->s);
    dir_remove(l->dir);
}

/* While the disk is blocked, nothing passes the gate and nobody is woken. */
static void loop_change(struct loop *l)
{
    struct keeper_op set_old = keeper_op_set("/old", STR("y"), KEEPER_ANY_VERSION);
    struct keeper_op set_other = keeper_op_set("/other", STR("y"), KEEPER_ANY_VERSION);

    held_fs_hold(&l->fs, true);
    must(keeper_commit(l->k, &set_old, 1, on_loop_done, l));
    must(keeper_apply(l->k, &set_other, 1, &l->zxid));
    poll(NULL, 0, LOOK_MS);
    assert_int_equal(keeper_passed(l->k, l->zxid), 0);
    keeper_dispatch(l->k);
    assert_int_equal(l->done + l->fired, 0);
    assert_int_equal(l->wakes, 0);
}

static void a_loop_is_woken_when_answers_may_leave(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l);
    loop_change(&l);
    held_fs_hold(&l.fs, false);
    wait_until(is_woken, &l);
    keeper_dispatch(l.k);
    assert_int_equal(l.done, 1);
    assert_int_equal(l.done_err, 0);
    assert_int_equal(l.fired, 1);
    while (!keeper_passed(l.k, l.zxid)) { /* the next round */
        wait_until(is_woken, &l);
        atomic_store(&l.wakes, 0);
    }
    assert_int_equal(keeper_passed(l.k, l.zxid), 1);
    loop_close(&l);
}

/* A failed sync wakes every waiter with IO, and no watch reports a change that may be lost. */
static void a_loop_is_woken_when_no_answer_can_leave(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l);
    loop_change(&l);
    held_fs_fail(&l.fs, EIO);
    wait_until(is_woken, &l);
    keeper_dispatch(l.k);
    assert_int_equal(l.done, 1);
    assert_int_equal(l.done_err, DROVER_IO);
    assert_int_equal(l.fired, 0);
    assert_int_equal(keeper_passed(l.k, l.zxid), DROVER_IO);
    assert_int_equal(keeper_wait(l.k, l.zxid), DROVER_IO);
    assert_int_equal(l.s->fatals, 1);
    loop_close(&l);
}

/* The system's files; a test can block the writes of a snapshot's nodes. */
enum { BEFORE_NODES = 4 };

struct snapshot_fs {
    struct held_fs held;
    _Atomic int fd; /* of the snapshot */
    _Atomic size_t longest, writes;
};

static int snapshot_open(const struct fs *fs, const char *path, int flags, int mode)
{
    struct snapshot_fs *s = (struct snapshot_fs *)fs;
    int fd = fs_system.open(&fs_system, path, flags, mode);

    if (strstr(path, "snapshot"))
        atomic_store(&s->fd, fd);
    return fd;
}

static ssize_t snapshot_pwrite(const struct fs *fs, int fd, const void *data, size_t len, off_t at)
{
    struct snapshot_fs *s = (struct snapshot_fs *)fs;

    if (fd == atomic_load(&s->fd)) {
        atomic_fetch_add(&s->writes, 1);
        if (len > atomic_load(&s->longest))
            atomic_store(&s->longest, len);
        pthread_mutex_lock(&s->held.lock);
        while (s->held.held && atomic_load(&s->writes) > BEFORE_NODES)
            pthread_cond_wait(&s->held.changed, &s->held.lock);
        pthread_mutex_unlock(&s->held.lock);
    }
    return fs_system.pwrite(&fs_system, fd, data, len, at);
}

static bool is_writing(void *arg)
{
    return atomic_load(&((struct snapshot_fs *)arg)->writes) > BEFORE_NODES;
}

static void *take_snapshot(void *arg)
{
    static int err;

    err = local_snapshot(((struct store *)arg)->l);
    return &err;
}

static void nobody_waits_for_a_snapshot(void **state)
{
    enum { NODES = 64, NODE_LEN = 64 * 1024, SLICE_MAX = 4 * NODE_LEN };
    static const char data[NODE_LEN];
    struct snapshot_fs f = {.fd = -1};
    static const struct call change = {.fn = set, .path = "/n0000000000"};
    struct store *s = store_new();
    struct caller meanwhile = {.call = &change, .s = s};
    char *dir = dir_make();
    pthread_t thread;
    void *err;

    (void)state;
    held_fs_init(&f.held);
    held_fs_hold(&f.held, true);
    f.held.fs.fdatasync = fs_system.fdatasync;
    f.held.fs.pwrite_sync = NULL;
    f.held.fs.open = snapshot_open;
    f.held.fs.pwrite = snapshot_pwrite;
    must(store_open(s, dir, &f.held.fs));
    must(store_connect(s));
    for (int i = 0; i < NODES; i++)
        must(keeper_create(s->k, "/n", (struct str){data, sizeof data}, KEEPER_SEQUENTIAL, NULL));
    pthread_create(&thread, NULL, take_snapshot, s);
    wait_until(is_writing, &f);
    pthread_create(&meanwhile.thread, NULL, caller_main, &meanwhile);
    wait_until(is_back, &meanwhile);
    must(meanwhile.err);
    assert_true(local_snapshotting(s->l));
    held_fs_hold(&f.held, false);
    pthread_join(meanwhile.thread, NULL);
    pthread_join(thread, &err);
    must(*(int *)err);
    assert_true(f.longest <= SLICE_MAX && f.writes >= NODES / 4);
    store_close(s);
    store_free(s);
    dir_remove(dir);
}

/* How long the last change needs to reach the disk. */
static int64_t time_to_disk_ms(struct store *s)
{
    int64_t start_ms = clock_boot_ms();
    struct local_stats stats;

    do {
        assert_true(clock_boot_ms() < start_ms + PATIENCE_MS);
        poll(NULL, 0, 1);
        local_stats(s->l, &stats);
    } while (stats.durable_zxid < stats.zxid);
    return clock_boot_ms() - start_ms;
}

/* The best of several: the machine may be busy. */
static void a_lone_change_is_on_disk_soon(void **state)
{
    int64_t best_ms = PATIENCE_MS;
    struct store *s = store_new();
    struct local_options o;
    char *dir = dir_make();

    (void)state;
    o = store_options(s, dir, &fs_system);
    o.mode = LOCAL_OPPORTUNISTIC;
    must(store_open_with(s, &o));
    must(store_connect(s));
    for (int i = 0; i < 20 && best_ms > LOCAL_FLUSH_MS; i++) {
        int64_t ms;

        time_to_disk_ms(s); /* lets earlier changes reach the disk */
        must(keeper_create(s->k, "/n", STR(""), KEEPER_SEQUENTIAL, NULL));
        ms = time_to_disk_ms(s);
        best_ms = ms < best_ms ? ms : best_ms;
    }
    assert_true(best_ms <= LOCAL_FLUSH_MS);
    store_close(s);
    store_free(s);
    dir_remove(dir);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(who_saw_the_change_waits_for_the_disk),
        cmocka_unit_test(a_loop_is_woken_when_answers_may_leave),
        cmocka_unit_test(a_loop_is_woken_when_no_answer_can_leave),
        cmocka_unit_test(a_lone_change_is_on_disk_soon),
        cmocka_unit_test(nobody_waits_for_a_snapshot),
    };

    return run_group(tests);
}
