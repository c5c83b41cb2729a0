/*
 * Tasks of a world with a limit of attempts, on the embedded keeper or on the ZooKeeper that
 * DROVER_TEST_ZK names: when they end failed, that nobody takes them then, and how they come back.
 */
#include "world_scene.h"

#define MARK "/zoott_w/a_t"
#define RECORD "{\"name\":\"a\",\"type\":\"t\",\"path\":\"/zoott_w1/a_t\",\"parent\":null"

static enum world_state state_of(struct scene *s, const char *key)
{
    struct world_item item;
    struct str data;

    assert_int_equal(world_get(s->w, s->k, &s->a, str_of(key), &item, &data, &s->e), 0);
    return item.state;
}

static size_t listed(struct scene *s, enum world_state state)
{
    struct world_items items;

    assert_int_equal(world_list(s->w, s->k, &s->a, state, STR(""), 100, &items), 0);
    for (size_t i = 0; i < items.count; i++)
        assert_true(items.list[i].state == state || state == WORLD_IS_PENDING);
    return items.count;
}

/* The state that the tree shows for a_t. */
static int look(void *arg, struct str key, int depth, enum world_state state)
{
    (void)depth;
    if (str_eq(key, STR("a_t")))
        *(enum world_state *)arg = state;
    return 0;
}

static enum world_state walked(struct scene *s)
{
    enum world_state state = WORLD_IS_NONE;

    assert_int_equal(world_walk(s->w, s->k, look, &state), 0);
    return state;
}

/* Queues a_t with so many attempts, and uses them up. */
static void use_up(struct scene *s, int attempts)
{
    assert_int_equal(queue_limited(s, "a", "t", "1", attempts), 1);
    for (int i = 1; i <= attempts; i++) {
        assert_string_equal(claim(s, "t"), "a_t");
        assert_int_equal(fail_task(s, "a_t", "broken", false), i == attempts);
    }
    assert_int_equal(state_of(s, "a_t"), WORLD_IS_FAILED);
}

static void fails_after_its_attempts(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s);
    use_up(&s, 3);
    queue(&s, "child", "t", "1", "a", "t");
    assert_non_null(strstr(dump(&s), "/zoott_p/a_t " RECORD ",\"failures\":3,\"error\":\"broken\","
                                     "\"attempts\":3,\"tries\":3,\"failed\":true}\n"));
    assert_int_equal(walked(&s), WORLD_IS_FAILED);
    assert_int_equal(listed(&s, WORLD_IS_FAILED), 1);
    assert_int_equal(listed(&s, WORLD_IS_WORKING), 0);
    assert_int_equal(listed(&s, WORLD_IS_PENDING), 2);
    /* Nobody can claim it or what is below it, nor end it; the lock stays for other handlers. */
    assert_string_equal(claim(&s, "t"), "none");
    assert_int_equal(complete(&s, "a_t"), DROVER_NO_NODE);
    assert_int_equal(fail_task(&s, "a_t", "", true), DROVER_NO_NODE);
    assert_int_equal(world_release(s.w, s.k, STR("a_t"), &s.e), DROVER_NO_NODE);
    assert_int_equal(keeper_create(s.k, MARK, STR(""), KEEPER_EPHEMERAL, NULL), DROVER_EXISTS);
    scene_close(&s);
}

/* The lock does not end with the session of the handler. */
static void outlives_its_handler(void **state)
{
    struct keeper *other;
    bool failed = false;
    struct scene s;

    (void)state;
    scene_open(&s);
    other = stand_connect(&s.stand);
    assert_int_equal(queue_limited(&s, "a", "t", "1", 1), 1);
    assert_string_equal(claim_with(&s, other, "t"), "a_t");
    assert_int_equal(world_fail(s.w, other, STR("a_t"), STR("x"), false, &failed, &s.e), 0);
    assert_true(failed);
    keeper_close(other);
    assert_int_equal(keeper_exists(s.k, MARK, NULL), 0);
    assert_string_equal(claim(&s, "t"), "none");
    scene_close(&s);
}

static void retried(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s);
    use_up(&s, 2);
    queue(&s, "child", "t", "1", "a", "t");
    assert_int_equal(world_retry(s.w, s.k, STR("a_t"), &s.e), 0);
    assert_int_equal(world_retry(s.w, s.k, STR("a_t"), &s.e), DROVER_NOT_ALLOWED);
    assert_int_equal(world_retry(s.w, s.k, STR("b_t"), &s.e), DROVER_NO_NODE);
    assert_int_equal(world_retry(s.w, s.k, STR("b"), &s.e), DROVER_BAD_ARGUMENT);
    assert_non_null(strstr(dump(&s), "/zoott_p/a_t " RECORD ",\"attempts\":2}\n"));
    assert_int_equal(keeper_exists(s.k, MARK, NULL), DROVER_NO_NODE);
    assert_string_equal(claim(&s, "t"), "a_t"); /* with all its attempts */
    assert_int_equal(world_retry(s.w, s.k, STR("a_t"), &s.e), DROVER_NOT_ALLOWED);
    assert_int_equal(fail_task(&s, "a_t", "again", false), 0);
    assert_string_equal(claim(&s, "t"), "a_t");
    assert_int_equal(complete(&s, "a_t"), 0);
    assert_non_null(strstr(dump(&s), "/zoott_c/a_t " RECORD "}\n"));
    assert_string_equal(claim(&s, "t"), "a_t|child_t");
    assert_int_equal(world_retry(s.w, s.k, STR("a_t"), &s.e), DROVER_NOT_ALLOWED);
    scene_close(&s);
}

/* What was queued while it was worked on has not been tried. */
static void queued_again(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s);
    assert_int_equal(queue_limited(&s, "a", "t", "1", 1), 1);
    assert_string_equal(claim(&s, "t"), "a_t");
    assert_int_equal(queue_limited(&s, "a", "t", "2", 1), 1);
    assert_int_equal(fail_task(&s, "a_t", "old", true), 0);
    assert_string_equal(claim(&s, "t"), "a_t");
    assert_int_equal(fail_task(&s, "a_t", "new", false), 1);
    /* And one that has failed is pending again. */
    assert_int_equal(queue(&s, "a", "t", "3", NULL, NULL), 1);
    assert_int_equal(state_of(&s, "a_t"), WORLD_IS_PENDING);
    assert_non_null(strstr(dump(&s), "/zoott_p/a_t " RECORD "}\n"));
    assert_string_equal(claim(&s, "t"), "a_t");
    assert_int_equal(complete(&s, "a_t"), 0);
    scene_close(&s);
}

static void handlers_that_die_use_attempts_up(void **state)
{
    struct world_items items;
    struct keeper *other;
    struct scene s;

    (void)state;
    scene_open(&s);
    assert_int_equal(queue_limited(&s, "a", "t", "1", 2), 1);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(claim(&s, "t"), "a_t"); /* a release is no attempt */
        assert_int_equal(world_release(s.w, s.k, STR("a_t"), &s.e), 0);
        other = stand_connect(&s.stand);
        assert_string_equal(claim_with(&s, other, "t"), "a_t");
        keeper_close(other);
    }
    assert_string_equal(claim(&s, "t"), "none");
    assert_int_equal(state_of(&s, "a_t"), WORLD_IS_FAILED);
    assert_int_equal(world_list(s.w, s.k, &s.a, WORLD_IS_FAILED, STR(""), 10, &items), 0);
    assert_int_equal(items.count, 1);
    assert_true(str_eq(items.list[0].record.error, STR("its handler died in the last attempt")));
    assert_int_equal(items.list[0].record.tries, 2);
    scene_close(&s);
}

/* Another client queues it as the document says, and leaves our mark. */
static void queued_by_another_client(void **state)
{
    struct world *fresh;
    struct world_claim c;
    struct str t = STR("t");
    struct scene s;

    (void)state;
    scene_open(&s);
    use_up(&s, 1);
    assert_int_equal(keeper_set(s.k, "/zoott_p/a_t", STR(RECORD "}"), KEEPER_ANY_VERSION, NULL), 0);
    assert_int_equal(world_open(s.k, STR("w1"), NULL, &fresh, NULL), 0);
    assert_int_equal(world_claim(fresh, s.k, &s.a, &t, 1, true, &c, &s.e), 1);
    assert_int_equal(state_of(&s, "a_t"), WORLD_IS_WORKING);
    assert_int_equal(complete(&s, "a_t"), 0);
    world_close(fresh);
    scene_close(&s);
}

static void final_and_removed(void **state)
{
    struct scene s;
    char *before;

    (void)state;
    scene_open(&s);
    before = dump(&s);
    queue(&s, "a", "t", "1", NULL, NULL); /* without a limit */
    assert_string_equal(claim(&s, "t"), "a_t");
    assert_int_equal(fail_task(&s, "a_t", "no such file", true), 1);
    assert_string_equal(claim(&s, "t"), "none");
    assert_int_equal(world_remove(s.w, s.k, STR("a_t"), INT64_MAX - 1, &s.e), DROVER_NOT_ALLOWED);
    assert_int_equal(world_remove(s.w, s.k, STR("a_t"), INT64_MAX, &s.e), 0);
    assert_string_equal(dump(&s), before);
    assert_int_equal(queue_limited(&s, "a", "t", "1", -1), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue_limited(&s, "a", "t", "1", 1000001), DROVER_BAD_ARGUMENT);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fails_after_its_attempts),
        cmocka_unit_test(outlives_its_handler),
        cmocka_unit_test(retried),
        cmocka_unit_test(queued_again),
        cmocka_unit_test(handlers_that_die_use_attempts_up),
        cmocka_unit_test(queued_by_another_client),
        cmocka_unit_test(final_and_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
