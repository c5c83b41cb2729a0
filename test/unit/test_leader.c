/* The election with one server: what fails on the way is tried again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/thread.h"
#include "keeper/local/local.h"
#include "keeper_cutter.h"
#include "server/context.h"
#include "server/ground.h"
#include "server/leader.h"

#define GROUND "/ground"

enum { DEADLINE_MS = 30 * 1000 };

struct scene {
    struct cutter cutter; /* first, so that it is the scene's keeper */
    struct keeper_ops ops;
    const struct keeper_ops *cutter_ops;
    struct context context;
    struct local *local;
    struct keeper *k;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int led, stopped; /* under the lock: how often */
    int failing;      /* how often lead shall fail */
    int looks;        /* under the lock: how often GROUND was looked for */
};

static int on_lead(void *arg, struct keeper *k, const struct keeper_op *fence, struct err_info *e)
{
    struct scene *s = arg;

    (void)k, (void)fence, (void)e;
    LOCKED(&s->lock);
    s->led++;
    pthread_cond_broadcast(&s->changed);
    return s->led > s->failing ? 0 : DROVER_IO;
}

static void on_stop(void *arg)
{
    struct scene *s = arg;

    LOCKED(&s->lock);
    s->stopped++;
}

static bool has_counted(struct scene *s, const int *count, int times)
{
    int64_t until = clock_boot_ms() + DEADLINE_MS;

    LOCKED(&s->lock);
    while (*count < times && clock_boot_ms() < until)
        cond_wait_until(&s->changed, &s->lock, until);
    return *count >= times;
}

static bool has_led(struct scene *s, int times)
{
    return has_counted(s, &s->led, times) && s->led == times;
}

/*
 * The first look at GROUND finds nothing, and before its answer is there, somebody makes it. All
 * else is left to the cutter.
 */
static int get_too_early(struct keeper *k, struct str path, struct buf *ret_data,
                         struct keeper_stat *ret_stat)
{
    struct scene *s = (struct scene *)k;
    int err = s->cutter_ops->get(k, path, ret_data, ret_stat);

    if (!str_eq(path, STR(GROUND)))
        return err;
    if (err == DROVER_NO_NODE) {
        assert_int_equal(keeper_ensure(s->k, GROUND, STR("")), 0);
        keeper_dispatch(s->k);
    }
    LOCKED(&s->lock);
    s->looks++;
    pthread_cond_broadcast(&s->changed);
    return err;
}

static void scene_open(struct scene *s)
{
    struct local_options o = {.mode = LOCAL_NONE};
    struct leader_follower follower = {.lead = on_lead, .stop = on_stop, .arg = s};

    pthread_mutex_init(&s->lock, NULL);
    cond_init(&s->changed);
    assert_int_equal(local_open(&o, &s->local, NULL), 0);
    assert_int_equal(local_connect(s->local, NULL, &s->k), 0);
    cutter_init(&s->cutter, s->k, INT32_MAX, DROVER_UNKNOWN, false);
    s->cutter.once = true;
    s->cutter_ops = s->cutter.base.ops;
    s->ops = *s->cutter_ops;
    s->ops.get = get_too_early;
    s->cutter.base.ops = &s->ops;
    s->context.url = "http://a";
    s->context.keeper = &s->cutter.base;
    leader_open(&s->context);
    leader_follow(s->context.leader, &follower);
    leader_begin(s->context.leader);
}

static void scene_close(struct scene *s)
{
    leader_close(&s->context);
    assert_int_equal(s->stopped, 1);
    keeper_close(s->k);
    local_close(s->local);
}

/* A leader in doubt leads again, even if the first thing that it asks fails. */
static void a_doubt_outlives_a_failed_look(void **state)
{
    struct scene s = {0};

    (void)state;
    scene_open(&s);
    assert_true(has_led(&s, 1));
    pthread_mutex_lock(&s.cutter.lock);
    s.cutter.left = 0;
    pthread_mutex_unlock(&s.cutter.lock);
    leader_doubt(s.context.leader);
    assert_true(has_led(&s, 2));
    assert_true(s.cutter.cut);
    scene_close(&s);
}

/* What the attempt itself changes in the tree does not make the next one come at once. */
static void a_failure_to_lead_is_retried_a_moment_later(void **state)
{
    struct scene s = {.failing = 3};
    int64_t began_ms = clock_boot_ms();

    (void)state;
    scene_open(&s);
    assert_true(has_led(&s, 4));
    assert_true(clock_boot_ms() - began_ms >= 3 * 200);
    scene_close(&s);
}

/* It was not deleted: the leader does not load again, which would drop what is under way. */
static void a_node_that_is_made_while_it_is_looked_for_is_new(void **state)
{
    struct scene s = {0};

    (void)state;
    scene_open(&s);
    assert_true(has_led(&s, 1));
    ground_open(&s.context);
    ground_lead(&s.context, GROUND);
    ground_begin(&s.context);
    assert_true(has_counted(&s, &s.looks, 2)); /* the first one has ended */
    leader_doubt(s.context.leader);
    assert_true(has_led(&s, 2));
    assert_int_equal(s.stopped, 0);
    ground_close(&s.context);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_doubt_outlives_a_failed_look),
        cmocka_unit_test(a_failure_to_lead_is_retried_a_moment_later),
        cmocka_unit_test(a_node_that_is_made_while_it_is_looked_for_is_new),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
