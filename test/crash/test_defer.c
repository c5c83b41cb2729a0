/*
 * Strict, with deferred changes (local_set_defers). With many in flight they wait for
 * local_write_deferred(), and not longer. A single one is deferred too, and written by the thread
 * that calls it if the disk is fast. A thread that waits for a deferred change causes it to be
 * written.
 */
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "files.h"
#include "held_fs.h"
#include "keeper/local/engine.h"
#include "store.h"

enum { CROWD = 20, LOOK_MS = 100, SLOW_ROUNDS = 8, SLOW_MS = 10, DEFERRED_MAX = 64 };

struct scene {
    struct held_fs fs;
    struct store *s;
    char *dir;
};

static int64_t submit(struct scene *c)
{
    struct keeper_op op = {
        .kind = KEEPER_SET, .path = STR("/n"), .data = STR("x"), .version = KEEPER_ANY_VERSION};
    int64_t zxid;

    must(keeper_apply(c->s->k, &op, 1, &zxid));
    return zxid;
}

static int64_t durable(struct store *s)
{
    struct local_stats stats;

    local_stats(s->l, &stats);
    return stats.durable_zxid;
}

struct mark {
    struct store *s;
    int64_t zxid;
};

static bool is_durable(void *arg)
{
    struct mark *m = arg;

    return durable(m->s) >= m->zxid;
}

static void wait_durable(struct scene *c, int64_t zxid)
{
    struct mark m = {c->s, zxid};

    wait_until(is_durable, &m);
}

static void open_scene(struct scene *c)
{
    held_fs_init(&c->fs);
    c->s = store_new();
    c->dir = dir_make();
    must(store_open(c->s, c->dir, &c->fs.fs));
    must(store_connect(c->s));
    must(keeper_create(c->s->k, "/n", STR(""), 0, NULL));
    local_set_defers(c->s->l, true);
}

static void close_scene(struct scene *c)
{
    store_close(c->s);
    store_free(c->s);
    dir_remove(c->dir);
}

/* Many changes come while the disk is slow. */
static void make_crowd(struct scene *c)
{
    int64_t last = 0;

    held_fs_hold(&c->fs, true);
    for (int i = 0; i < CROWD; i++)
        last = submit(c);
    local_write_deferred(c->s->l); /* the last of them may be deferred already */
    held_fs_hold(&c->fs, false);
    wait_durable(c, last);
}

static int64_t submit_deferred(struct scene *c)
{
    make_crowd(c);
    for (int i = 0; i < 2; i++)
        submit(c);
    return submit(c);
}

/* Whether the disk is at work on a round. */
static bool is_taken(void *arg)
{
    return held_fs_waits(&((struct scene *)arg)->fs);
}

static void deferred_changes_are_written_on_request(void **state)
{
    struct scene c;
    int64_t last;

    (void)state;
    open_scene(&c);
    make_crowd(&c);
    poll(NULL, 0, LOOK_MS); /* still deferring after a pause */
    submit(&c);
    submit(&c);
    last = submit(&c);
    poll(NULL, 0, LOOK_MS);
    assert_int_equal(local_deferred(c.s->l), 3);
    assert_true(durable(c.s) < last - 2);
    local_write_deferred(c.s->l);
    assert_int_equal(local_deferred(c.s->l), 0);
    wait_durable(&c, last);
    close_scene(&c);
}

static void changes_during_a_sync_stay_deferred_after_it(void **state)
{
    struct scene c;
    int64_t wanted = 0, last;

    (void)state;
    open_scene(&c);
    make_crowd(&c);
    held_fs_hold(&c.fs, true);
    for (int i = 0; i < CROWD; i++)
        wanted = submit(&c);
    local_write_deferred(c.s->l);
    wait_until(is_taken, &c);
    last = submit(&c);
    held_fs_hold(&c.fs, false);
    wait_durable(&c, wanted);
    poll(NULL, 0, LOOK_MS);
    assert_int_equal(local_deferred(c.s->l), 1);
    assert_int_equal(durable(c.s), wanted);
    local_write_deferred(c.s->l);
    wait_durable(&c, last);
    close_scene(&c);
}

/* The journal forgets how long its rounds took: a busy machine is no slow disk. */
static void make_fast(struct scene *c)
{
    struct local *l = c->s->l;

    pthread_mutex_lock(&l->lock);
    l->journal.round_us = 0;
    pthread_mutex_unlock(&l->lock);
}

/*
 * One at a time: durable when the call that writes it returns, written by its thread. The writer may
 * be at work for a moment, with a mark: then the change is left to it.
 */
static void a_single_change_is_written_by_the_caller(void **state)
{
    struct scene c;

    (void)state;
    open_scene(&c);
    for (int done = 0, tries = 0; done < CROWD * 2; tries++) {
        make_fast(&c);
        int64_t zxid = submit(&c);

        assert_true(tries < CROWD * 4);
        if (!local_deferred(c.s->l)) {
            wait_durable(&c, zxid);
            continue;
        }
        done++;
        assert_int_equal(keeper_passed(c.s->k, zxid), 0);
        local_write_deferred(c.s->l);
        assert_int_equal(local_deferred(c.s->l), 0);
        assert_int_equal(keeper_passed(c.s->k, zxid), 1);
    }
    close_scene(&c);
}

/*
 * A second change before the first is written: both are left to the writer at once, and so are a
 * few.
 */
static void a_few_are_not_deferred(void **state)
{
    struct scene c;
    int64_t last = 0;

    (void)state;
    open_scene(&c);
    for (int round = 0; round < CROWD; round++) {
        held_fs_hold(&c.fs, true);
        for (int i = 0; i < 3; i++)
            last = submit(&c);
        assert_int_equal(local_deferred(c.s->l), 0);
        held_fs_hold(&c.fs, false);
        wait_durable(&c, last);
    }
    close_scene(&c);
}

/* A slow disk: the caller does not write, the writer does. */
static void a_slow_disk_is_left_to_the_writer(void **state)
{
    struct scene c;
    int64_t zxid;

    (void)state;
    open_scene(&c);
    for (int i = 0; i < SLOW_ROUNDS; i++) {
        held_fs_hold(&c.fs, true);
        submit(&c);
        zxid = submit(&c);
        wait_until(is_taken, &c);
        poll(NULL, 0, SLOW_MS);
        held_fs_hold(&c.fs, false);
        wait_durable(&c, zxid);
    }
    wait_durable(&c, submit(&c)); /* a round of one, after rounds of two */
    zxid = submit(&c);            /* alone again, but most of the last rounds were slow */
    assert_int_equal(local_deferred(c.s->l), 0);
    wait_durable(&c, zxid);
    close_scene(&c);
}

static void no_more_are_deferred_than_gain_by_it(void **state)
{
    struct scene c;
    int64_t last = 0;

    (void)state;
    open_scene(&c);
    make_crowd(&c);
    for (int i = 1; i < DEFERRED_MAX; i++)
        submit(&c);
    assert_int_equal(local_deferred(c.s->l), DEFERRED_MAX - 1);
    last = submit(&c);
    assert_int_equal(local_deferred(c.s->l), 0);
    wait_durable(&c, last);
    close_scene(&c);
}

/* Each of these returns only when the deferred changes are on disk. */

static int get(struct scene *c, int64_t zxid)
{
    struct buf data = {0};
    int err = keeper_get(c->s->k, "/n", &data, NULL);

    (void)zxid;
    buf_release(&data);
    return err;
}

static int await(struct scene *c, int64_t zxid)
{
    return keeper_wait(c->s->k, zxid);
}

static int flush(struct scene *c, int64_t zxid)
{
    (void)zxid;
    return keeper_flush(c->s->k);
}

static int snapshot(struct scene *c, int64_t zxid)
{
    (void)zxid;
    return local_snapshot(c->s->l);
}

static int set(struct scene *c, int64_t zxid)
{
    (void)zxid;
    return keeper_set(c->s->k, "/n", STR("y"), KEEPER_ANY_VERSION, NULL);
}

static int let_go(struct scene *c, int64_t zxid)
{
    local_set_defers(c->s->l, false);
    wait_durable(c, zxid);
    return 0;
}

static void a_thread_that_waits_releases_them(void **state)
{
    static const struct {
        const char *name;
        int (*fn)(struct scene *c, int64_t zxid);
    } calls[] = {{"get", get},           {"await", await}, {"flush", flush},
                 {"snapshot", snapshot}, {"set", set},     {"defer no more", let_go}};
    struct scene c;

    (void)state;
    open_scene(&c);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int64_t last = submit_deferred(&c);

        doing("%s", calls[i].name);
        assert_int_equal(local_deferred(c.s->l), 3);
        must(calls[i].fn(&c, last));
        assert_true(durable(c.s) >= last);
        done();
    }
    close_scene(&c);
}

static void deferred_changes_are_on_disk_after_closing(void **state)
{
    struct scene c;
    char *before, *after;
    int64_t zxid;

    (void)state;
    open_scene(&c);
    submit_deferred(&c);
    before = store_text(c.s);
    store_leave(c.s);
    must(dir_text(c.dir, &after, &zxid, NULL));
    expect_text("after the end", before, after);
    free(before);
    free(after);
    store_free(c.s);
    dir_remove(c.dir);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(deferred_changes_are_written_on_request),
        cmocka_unit_test(changes_during_a_sync_stay_deferred_after_it),
        cmocka_unit_test(a_single_change_is_written_by_the_caller),
        cmocka_unit_test(a_few_are_not_deferred),
        cmocka_unit_test(a_slow_disk_is_left_to_the_writer),
        cmocka_unit_test(no_more_are_deferred_than_gain_by_it),
        cmocka_unit_test(a_thread_that_waits_releases_them),
        cmocka_unit_test(deferred_changes_are_on_disk_after_closing),
    };

    return run_group(tests);
}
