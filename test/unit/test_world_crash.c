/* A crash at each keeper call of each operation of a world, and how UNKNOWN is resolved. */
#include "base/mem.h"
#include "keeper_cutter.h"
#include "world_scene.h"

typedef void step_fn(struct scene *s, struct keeper *k);

static int outcome; /* of the last step that ended a claim */

static void do_init(struct scene *s, struct keeper *k)
{
    (void)s;
    world_init(k, STR("w3"), NULL);
}

static void do_queue_new(struct scene *s, struct keeper *k)
{
    struct world_task task = {STR("new"), STR("t"), STR("7")};
    struct world_parent all = {STR(".*"), STR(".*")};
    struct world_paths paths;

    world_queue(s->w, k, &s->a, &task, &all, NULL, NULL, &paths, &s->e);
}

static void do_queue_again(struct scene *s, struct keeper *k)
{
    struct world_task task = {STR("done"), STR("t"), STR("7")};
    struct world_paths paths;

    world_queue(s->w, k, &s->a, &task, NULL, NULL, NULL, &paths, &s->e);
}

static void do_claim(struct scene *s, struct keeper *k)
{
    struct str types[] = {STR("t"), STR("u")};
    struct world_claim c;

    world_claim(s->w, k, &s->a, types, 2, true, &c, &s->e);
}

static void do_complete(struct scene *s, struct keeper *k)
{
    bool again;

    outcome = world_complete(s->w, k, STR("held_h"), &again, &s->e);
}

static void do_release(struct scene *s, struct keeper *k)
{
    outcome = world_release(s->w, k, STR("held_h"), &s->e);
}

static void do_fail(struct scene *s, struct keeper *k)
{
    bool failed;

    outcome = world_fail(s->w, k, STR("held_h"), STR("it broke"), false, &failed, &s->e);
}

static void do_fail_finally(struct scene *s, struct keeper *k)
{
    bool failed;

    outcome = world_fail(s->w, k, STR("held_h"), STR("it broke"), true, &failed, &s->e);
}

static void do_give_up(struct scene *s, struct keeper *k)
{
    struct str type = STR("l");
    struct world_claim c;

    world_claim(s->w, k, &s->a, &type, 1, true, &c, &s->e);
}

static void do_retry(struct scene *s, struct keeper *k)
{
    outcome = world_retry(s->w, k, STR("dead_d"), &s->e);
}

static void do_queue_failed(struct scene *s, struct keeper *k)
{
    struct world_task task = {STR("dead"), STR("d"), STR("8"), 0};
    struct world_paths paths;

    world_queue(s->w, k, &s->a, &task, NULL, NULL, NULL, &paths, &s->e);
}

static void do_remove_failed(struct scene *s, struct keeper *k)
{
    outcome = world_remove(s->w, k, STR("dead_d"), INT64_MAX, &s->e);
}

static void do_release_counted(struct scene *s, struct keeper *k)
{
    outcome = world_release(s->w, k, STR("counted_c"), &s->e);
}

static void do_remove(struct scene *s, struct keeper *k)
{
    outcome = world_remove(s->w, k, STR("done_t"), INT64_MAX, &s->e);
}

/*
 * Every state that an operation can meet. "held" and "counted" are claimed by k, "dead" has failed,
 * and the handler of "lost" died in its last attempt.
 */
static void crash_scene(struct scene *s, struct keeper **ret_k)
{
    scene_open(s);
    *ret_k = stand_connect(&s->stand);
    queue_limited(s, "lost", "l", "1", 1);
    assert_string_equal(claim_with(s, *ret_k, "l"), "lost_l");
    keeper_close(*ret_k);
    *ret_k = stand_connect(&s->stand);
    queue_limited(s, "dead", "d", "1", 1);
    assert_string_equal(claim(s, "d"), "dead_d");
    assert_int_equal(fail_task(s, "dead_d", "it broke", false), 1);
    queue_limited(s, "counted", "c", "1", 3);
    assert_string_equal(claim_with(s, *ret_k, "c"), "counted_c");
    queue(s, "done", "t", "1", NULL, NULL);
    assert_string_equal(claim(s, "t"), "done_t");
    assert_int_equal(complete(s, "done_t"), 0);
    queue(s, "held", "h", "1", NULL, NULL);
    assert_string_equal(claim_with(s, *ret_k, "h"), "held_h");
    queue(s, "first", "t", "1", NULL, NULL);
    queue(s, "below", "u", "1", "first", "t");
}

/* The tree after n calls, without the ephemeral nodes of the dead session. */
static char *crash_at(step_fn *step, int n, int err, bool after, bool once, int *ret_calls,
                      char **ret_alive)
{
    struct cutter c;
    struct keeper *k;
    struct scene s;
    char *text;

    crash_scene(&s, &k);
    cutter_init(&c, k, n, err, after);
    c.once = once;
    step(&s, &c.base);
    *ret_calls = c.cut ? c.calls : -c.calls; /* negative: there was nothing to cut */
    text = dump(&s);
    if (ret_alive)
        *ret_alive = mem_dup(text, strlen(text));
    keeper_close(k);
    text = dump(&s);
    text = mem_dup(text, strlen(text));
    scene_close(&s);
    return text;
}

static void nothing(struct scene *s, struct keeper *k)
{
    (void)s, (void)k;
}

/*
 * Dies at the nth call: 0 if the tree is as before, 1 if it is as after; -1: there is no such call.
 */
static int crash_once(step_fn *step, int n, bool dies_after, const char *before, const char *after)
{
    int calls;
    char *got = crash_at(step, n, DROVER_SESSION_EXPIRED, dies_after, false, &calls, NULL);
    bool is_before = !strcmp(got, before), is_after = !strcmp(got, after);

    if (!is_before && !is_after)
        fail_msg("call %d (%s):\n%s\nbefore:\n%s\nafter:\n%s", n, dies_after ? "done" : "not done",
                 got, before, after);
    free(got);
    return calls < 0 ? -1 : is_after;
}

static void crash_anywhere(void **state)
{
    static step_fn *const steps[] = {
        do_init,    do_queue_new,    do_queue_again,   do_claim,          do_complete,
        do_release, do_fail,         do_remove,        do_fail_finally,   do_give_up,
        do_retry,   do_queue_failed, do_remove_failed, do_release_counted};
    int calls, n, one;
    char *before = crash_at(nothing, 0, 0, false, false, &calls, NULL);

    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char *after = crash_at(steps[i], 1000000, 0, false, false, &calls, NULL);
        int as_after = 0;

        for (n = 0; (one = crash_once(steps[i], n, false, before, after)) >= 0; n++) {
            as_after += one;
            if (!stand_on_zookeeper())
                as_after += crash_once(steps[i], n, true, before, after) > 0;
        }
        /*
         * For the tree, dying after a call and before the next is the same. On ZooKeeper, where it
         * takes long, only the last call is cut afterwards. (The number of calls may differ by one,
         * as the list may be read again.)
         */
        for (; n > 0 && !as_after; n--)
            as_after += crash_once(steps[i], n - 1, true, before, after) > 0;
        assert_true(strcmp(before, after) ? as_after > 0 : true);
        free(after);
    }
    free(before);
}

/* A connection that breaks during the transaction and returns: the result is the same. */
static void unknown_is_settled(void **state)
{
    static step_fn *const steps[] = {do_complete,      do_release,        do_fail,
                                     do_remove,        do_fail_finally,   do_retry,
                                     do_remove_failed, do_release_counted};

    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char *after = NULL, *alive = NULL;
        int calls, unused;

        free(crash_at(steps[i], 1000000, 0, false, false, &calls, &after));
        for (int dies_after = 0; dies_after < 2; dies_after++) {
            /* The last call is the transaction. */
            free(crash_at(steps[i], -calls - 1, DROVER_UNKNOWN, dies_after, true, &unused, &alive));
            assert_true(unused > 0);
            assert_int_equal(outcome, 0);
            assert_string_equal(alive, after);
            free(alive);
        }
        free(after);
    }
}

/* A claim whose answer was lost is found to be this session's. */
static void unknown_claim(void **state)
{
    for (int after = 0; after < 2; after++) {
        struct str t = STR("t");
        struct world_claim c;
        struct cutter cut;
        struct scene s;
        int claimed = 0;

        (void)state;
        scene_open(&s);
        queue(&s, "a", "t", "1", NULL, NULL);
        for (int n = 0; !claimed && n < 50; n++) {
            cutter_init(&cut, s.k, n, DROVER_UNKNOWN, after);
            cut.once = true;
            claimed = world_claim(s.w, &cut.base, &s.a, &t, 1, true, &c, &s.e);
            assert_true(claimed == 1 || claimed == DROVER_UNKNOWN);
            claimed = claimed == 1;
        }
        assert_int_equal(claimed, 1);
        assert_string_equal(claim(&s, "t"), "none");
        assert_int_equal(complete(&s, "a_t"), 0);
        scene_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crash_anywhere),
        cmocka_unit_test(unknown_is_settled),
        cmocka_unit_test(unknown_claim),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
