/*
 * Strict, with changes held back (local_hold): where many are under way they wait for local_want() and
 * not longer; with few nothing is held. Whoever waits for one of them does not wait in vain.
 */
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "files.h"
#include "held_fs.h"
#include "store.h"

enum { CROWD = 20, LOOK_MS = 100, HELD_MAX = 64 };

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

    must(local_submit(c->s->k, &op, 1, &zxid));
    return zxid;
}

struct mark {
    struct store *s;
    int64_t zxid;
};

static bool is_durable(void *arg)
{
    struct mark *m = arg;

    return local_durable(m->s->l) >= m->zxid;
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
    local_hold(c->s->l, true);
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
    local_want(c->s->l); /* the last of them may be held already */
    held_fs_hold(&c->fs, false);
    wait_durable(c, last);
}

static int64_t submit_held(struct scene *c)
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

static void what_is_held_is_written_when_it_is_wanted(void **state)
{
    struct scene c;
    int64_t last;

    (void)state;
    open_scene(&c);
    make_crowd(&c);
    poll(NULL, 0, LOOK_MS); /* a rest does not make it forget */
    submit(&c);
    submit(&c);
    last = submit(&c);
    poll(NULL, 0, LOOK_MS);
    assert_int_equal(local_held(c.s->l), 3);
    assert_true(local_durable(c.s->l) < last - 2);
    local_want(c.s->l);
    assert_int_equal(local_held(c.s->l), 0);
    wait_durable(&c, last);
    close_scene(&c);
}

static void what_comes_during_a_sync_is_held_after_it(void **state)
{
    struct scene c;
    int64_t wanted = 0, last;

    (void)state;
    open_scene(&c);
    make_crowd(&c);
    held_fs_hold(&c.fs, true);
    for (int i = 0; i < CROWD; i++)
        wanted = submit(&c);
    local_want(c.s->l);
    wait_until(is_taken, &c);
    last = submit(&c);
    held_fs_hold(&c.fs, false);
    wait_durable(&c, wanted);
    poll(NULL, 0, LOOK_MS);
    assert_int_equal(local_held(c.s->l), 1);
    assert_int_equal(local_durable(c.s->l), wanted);
    local_want(c.s->l);
    wait_durable(&c, last);
    close_scene(&c);
}

static void a_few_are_not_held(void **state)
{
    struct scene c;

    (void)state;
    open_scene(&c);
    for (int i = 0; i < CROWD * 2; i++)
        wait_durable(&c, submit(&c));
    close_scene(&c);
}

static void no_more_are_held_than_gain_by_it(void **state)
{
    struct scene c;
    int64_t last = 0;

    (void)state;
    open_scene(&c);
    make_crowd(&c);
    for (int i = 1; i < HELD_MAX; i++)
        submit(&c);
    assert_int_equal(local_held(c.s->l), HELD_MAX - 1);
    last = submit(&c);
    assert_int_equal(local_held(c.s->l), 0);
    wait_durable(&c, last);
    close_scene(&c);
}

/* Each of these ends only when what was held is on disk. */

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
    return local_await(c->s->l, zxid);
}

static int flush(struct scene *c, int64_t zxid)
{
    (void)zxid;
    return local_flush(c->s->l);
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
    local_hold(c->s->l, false);
    wait_durable(c, zxid);
    return 0;
}

static void who_waits_wants_it_too(void **state)
{
    static const struct {
        const char *name;
        int (*fn)(struct scene *c, int64_t zxid);
    } calls[] = {{"get", get},           {"await", await}, {"flush", flush},
                 {"snapshot", snapshot}, {"set", set},     {"hold no more", let_go}};
    struct scene c;

    (void)state;
    open_scene(&c);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int64_t last = submit_held(&c);

        doing("%s", calls[i].name);
        assert_int_equal(local_held(c.s->l), 3);
        must(calls[i].fn(&c, last));
        assert_true(local_durable(c.s->l) >= last);
        done();
    }
    close_scene(&c);
}

static void what_is_held_is_there_after_the_end(void **state)
{
    struct scene c;
    char *before, *after;
    int64_t zxid;

    (void)state;
    open_scene(&c);
    submit_held(&c);
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
        cmocka_unit_test(what_is_held_is_written_when_it_is_wanted),
        cmocka_unit_test(what_comes_during_a_sync_is_held_after_it),
        cmocka_unit_test(a_few_are_not_held),
        cmocka_unit_test(no_more_are_held_than_gain_by_it),
        cmocka_unit_test(who_waits_wants_it_too),
        cmocka_unit_test(what_is_held_is_there_after_the_end),
    };

    return run_group(tests);
}
