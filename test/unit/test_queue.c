/*
 * Queues and their owners on an embedded keeper in memory, or on the ZooKeeper that DROVER_TEST_ZK
 * names: what the tree holds, who may change it, and what is left when any keeper call fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keeper_stand.h"
#include "queue/membership.h"
#include "queue/registration.h"

struct scene {
    struct stand stand;
    struct keeper *keepers[3];
    struct queue_registration a, b;
    struct queues queues; /* of the third session, which only reads */
    char queue[QUEUE_NAME_LEN + 1];
};

static int set_up(void **state)
{
    struct scene *s = calloc(1, sizeof *s);

    stand_open(&s->stand);
    for (int i = 0; i < 3; i++)
        s->keepers[i] = stand_connect(&s->stand);
    s->a.queues = (struct queues){s->keepers[0], QUEUE_NAMESPACE};
    s->b.queues = (struct queues){s->keepers[1], QUEUE_NAMESPACE};
    s->queues = (struct queues){s->keepers[2], QUEUE_NAMESPACE};
    queue_make_name(s->queue);
    assert_int_equal(queue_create(&s->queues, s->queue), 0);
    assert_int_equal(queue_registration_join(&s->a), 0);
    assert_int_equal(queue_registration_join(&s->b), 0);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;

    queue_registration_leave(&s->a);
    queue_registration_leave(&s->b);
    for (int i = 0; i < 3; i++)
        keeper_close(s->keepers[i]);
    stand_close(&s->stand);
    free(s);
    return 0;
}

static void holds(const struct scene *s, const char *path, const char *text)
{
    struct buf data = {0};
    char full[QUEUE_PATH_SIZE];
    int err;

    queues_path(&s->queues, full, "%s", path);
    err = keeper_get(s->keepers[2], full, &data, NULL);
    if (text) {
        assert_int_equal(err, 0);
        assert_string_equal(buf_text(&data), text);
    } else {
        assert_int_equal(err, DROVER_NO_NODE);
    }
    buf_release(&data);
}

static void queue_holds(const struct scene *s, const char *rest, const char *text)
{
    char path[QUEUE_PATH_SIZE];

    snprintf(path, sizeof path, "queues/%s%s", s->queue, rest);
    holds(s, path, text);
}

static void the_tree_is_as_the_document_shows_it(void **state)
{
    struct scene *s = *state;
    char text[256];

    holds(s, "workers/worker-0000000000", "{\"queues\": []}");
    queue_holds(s, "", "{\"last\": \"\"}");
    assert_int_equal(queue_registration_take(&s->a, s->queue), 0);
    snprintf(text, sizeof text, "{\"queues\": [\"%s\"]}", s->queue);
    holds(s, "workers/worker-0000000000", text);
    queue_holds(s, "/owner", "{\"worker\": \"worker-0000000000\"}");
    queue_holds(s, "", "{\"last\": \"\"}");
    assert_int_equal(queue_registration_advance(&s->a, s->queue, 4711), 0);
    queue_holds(s, "", "{\"last\": \"4711\"}");
    assert_int_equal(queue_registration_release(&s->a, s->queue), 0);
    queue_holds(s, "/owner", NULL);
    holds(s, "workers/worker-0000000000", "{\"queues\": []}");
}

static void a_queue_has_one_owner(void **state)
{
    struct scene *s = *state;

    assert_int_equal(queue_registration_take(&s->a, s->queue), 0);
    assert_int_equal(queue_registration_take(&s->a, s->queue), 0);
    assert_int_equal(queue_registration_take(&s->b, s->queue), DROVER_IN_USE);
    assert_int_equal(queue_registration_advance(&s->b, s->queue, 1), DROVER_FENCED);
    assert_int_equal(queue_registration_release(&s->a, s->queue), 0);
    assert_int_equal(queue_registration_take(&s->b, s->queue), 0);
}

/*
 * Its owner node is deleted and another worker owns the queue: the new node has the same version.
 */
static void who_was_thought_dead_cannot_move_last(void **state)
{
    struct scene *s = *state;
    char owner[QUEUE_PATH_SIZE];
    int64_t fence;

    assert_int_equal(queue_registration_take(&s->a, s->queue), 0);
    assert_int_equal(queue_registration_advance(&s->a, s->queue, 5), 0);
    fence = queue_registration_find(&s->a, s->queue)->fence;
    queues_path(&s->queues, owner, "queues/%s/owner", s->queue);
    assert_int_equal(keeper_delete(s->keepers[2], owner, KEEPER_ANY_VERSION), 0);
    assert_int_equal(queue_registration_take(&s->b, s->queue), 0);
    assert_true(queue_registration_find(&s->b, s->queue)->fence > fence);
    assert_int_equal(queue_registration_advance(&s->a, s->queue, 6), DROVER_FENCED);
    queue_holds(s, "", "{\"last\": \"5\"}");
    holds(s, "workers/worker-0000000000", "{\"queues\": []}");
    assert_null(queue_registration_find(&s->a, s->queue));
    assert_int_equal(queue_registration_advance(&s->b, s->queue, 6), 0);
}

static void who_was_thought_dead_cannot_give_up_for_another(void **state)
{
    struct scene *s = *state;
    char owner[QUEUE_PATH_SIZE];

    assert_int_equal(queue_registration_take(&s->a, s->queue), 0);
    queues_path(&s->queues, owner, "queues/%s/owner", s->queue);
    assert_int_equal(keeper_delete(s->keepers[2], owner, KEEPER_ANY_VERSION), 0);
    assert_int_equal(queue_registration_take(&s->b, s->queue), 0);
    assert_int_equal(queue_registration_release(&s->a, s->queue), 0);
    queue_holds(s, "/owner", "{\"worker\": \"worker-0000000001\"}");
}

static void last_that_was_set_by_hand_stands(void **state)
{
    struct scene *s = *state;

    assert_int_equal(queue_registration_take(&s->a, s->queue), 0);
    assert_int_equal(queue_registration_advance(&s->a, s->queue, 5), 0);
    assert_int_equal(queue_set_last(&s->queues, s->queue, 2, KEEPER_ANY_VERSION), 0);
    assert_int_equal(queue_registration_advance(&s->a, s->queue, 6), DROVER_BAD_VERSION);
    assert_int_equal(queue_registration_find(&s->a, s->queue)->last, 2);
    queue_holds(s, "", "{\"last\": \"2\"}");
    assert_int_equal(queue_registration_advance(&s->a, s->queue, 3), 0);
    queue_holds(s, "", "{\"last\": \"3\"}");
}

static void a_queue_that_is_removed_is_lost(void **state)
{
    struct scene *s = *state;

    assert_int_equal(queue_registration_take(&s->a, s->queue), 0);
    assert_int_equal(queue_remove(&s->queues, s->queue), 0);
    queue_holds(s, "", NULL);
    assert_int_equal(queue_registration_advance(&s->a, s->queue, 1), DROVER_NO_NODE);
    assert_int_equal(queue_registration_take(&s->a, s->queue), DROVER_NO_NODE);
    assert_int_equal(queue_remove(&s->queues, s->queue), DROVER_NO_NODE);
    holds(s, "workers/worker-0000000000", "{\"queues\": []}");
}

static void rubbish_is_left_alone(void **state)
{
    static const char *const rubbish[] = {"",
                                          "{",
                                          "[]",
                                          "{\"last\": 5}",
                                          "{\"last\": \"5x\"}",
                                          "{\"last\": \"-5\"}",
                                          "{\"last\": \"99999999999999999999\"}",
                                          "\xff\xfe"};
    struct scene *s = *state;
    char path[QUEUE_PATH_SIZE];

    queues_path(&s->queues, path, "queues/%s", s->queue);
    for (size_t i = 0; i < sizeof rubbish / sizeof *rubbish; i++) {
        assert_int_equal(
            keeper_set(s->keepers[2], path, str_of(rubbish[i]), KEEPER_ANY_VERSION, NULL), 0);
        assert_int_equal(queue_registration_take(&s->a, s->queue), DROVER_DAMAGED);
        queue_holds(s, "", rubbish[i]);
        queue_holds(s, "/owner", NULL);
    }
    assert_int_equal(keeper_set(s->keepers[2], path, STR("{\"last\": \"135471512647131000L\"}"),
                                KEEPER_ANY_VERSION, NULL),
                     0);
    assert_int_equal(queue_registration_take(&s->a, s->queue), 0);
    assert_true(queue_registration_find(&s->a, s->queue)->last == 135471512647131000);
}

static void count_note(void *arg, const char *line)
{
    assert_non_null(strstr(line, "skipped /mozilla-qdo/"));
    ++*(int *)arg;
}

static void rubbish_in_the_lists_is_skipped_with_one_line(void **state)
{
    struct scene *s = *state;
    int notes = 0;
    struct queue_warnings n = {.note = count_note, .arg = &notes};
    struct queue_membership c = {0};
    static const char *const nodes[][2] = {{"workers/rubbish", "x"},
                                           {"workers/worker-", "x"},
                                           {"queues/_rubbish", "{}"},
                                           {"queues/0000000000000000 0000000000000000", "{}"},
                                           {"workers/worker-0000000077", "{\"queues\": [7]}"},
                                           {"workers/worker-0000000078", "\x00\xff"}};
    char path[QUEUE_PATH_SIZE];

    for (size_t i = 0; i < 6; i++) {
        queues_path(&s->queues, path, "%s", nodes[i][0]);
        assert_int_equal(keeper_create(s->keepers[2], path, str_of(nodes[i][1]), 0, NULL), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(queue_membership_read(&c, &s->queues, &n), 0);
        assert_int_equal(c.queue_count, 1);
        assert_int_equal(c.worker_count, 4);
        assert_int_equal(notes, 6);
    }
    queue_membership_release(&c);
    queue_warnings_release(&n);
}

/*
 * The keeper fails before or after its nth call. The tree is as before or as after the operation,
 * and repeating the operation succeeds.
 */
struct breaking {
    struct keeper base;
    struct keeper *inside;
    int left;
    bool after;
};

static bool breaks(struct breaking *b)
{
    return b->left-- == 0;
}

static int broken_get(struct keeper *base, struct str path, struct buf *data,
                      struct keeper_stat *stat)
{
    struct breaking *b = (struct breaking *)base;

    return breaks(b) ? DROVER_UNKNOWN : b->inside->ops->get(b->inside, path, data, stat);
}

static int broken_multi(struct keeper *base, const struct keeper_op *ops, size_t count,
                        struct keeper_result *results)
{
    struct breaking *b = (struct breaking *)base;
    bool now = breaks(b);
    int err = 0;

    if (!now || b->after)
        err = b->inside->ops->multi(b->inside, ops, count, results);
    if (!now)
        return err;
    keeper_results_release(results, count);
    for (size_t i = 0; i < count; i++)
        results[i] = (struct keeper_result){.err = DROVER_UNKNOWN};
    return DROVER_UNKNOWN;
}

static int broken_sync(struct keeper *base, struct str path)
{
    struct breaking *b = (struct breaking *)base;

    return breaks(b) ? DROVER_UNKNOWN : b->inside->ops->sync(b->inside, path);
}

static const struct keeper_ops BROKEN = {
    .get = broken_get, .multi = broken_multi, .sync = broken_sync};

static int step(struct queue_registration *m, const char *queue, int number)
{
    switch (number) {
    case 0:
        return queue_registration_take(m, queue);
    case 1:
        return queue_registration_advance(m, queue, 1);
    case 2:
        return queue_registration_advance(m, queue, 2);
    default:
        return queue_registration_release(m, queue);
    }
}

/* The owner node and the worker's node always agree. */
static void agrees(const struct scene *s)
{
    struct queue_info info;
    struct queue_warnings n = {0};
    struct queue_membership c = {0};

    assert_int_equal(queue_get(&s->queues, s->queue, &info), 0);
    assert_int_equal(queue_membership_read(&c, &s->queues, &n), 0);
    assert_int_equal(c.workers[0].queue_count, info.worker[0] ? 1 : 0);
    queue_membership_release(&c);
}

static void every_step_can_break_off_anywhere(void **state)
{
    struct scene *s = *state;
    struct breaking b = {.base = {&BROKEN}, .inside = s->keepers[0]};
    int64_t lasts[] = {0, 1, 2, 2};
    struct queue_info info;
    int err;

    s->a.queues.keeper = &b.base;
    for (int place = 0; place < 12; place++) {
        assert_int_equal(queue_set_last(&s->queues, s->queue, 0, KEEPER_ANY_VERSION), 0);
        for (int number = 0; number < 4; number++) {
            b.after = place % 2;
            b.left = place / 2;
            err = step(&s->a, s->queue, number);
            agrees(s);
            if (place < 2 && number) /* one call in doubt is resolved inside */
                assert_int_equal(err, 0);
            b.left = INT32_MAX;
            assert_int_equal(step(&s->a, s->queue, number), 0);
            agrees(s);
            assert_int_equal(queue_get(&s->queues, s->queue, &info), 0);
            assert_int_equal(info.last, lasts[number]);
            assert_string_equal(info.worker, number < 3 ? s->a.name : "");
        }
    }
    s->a.queues.keeper = s->keepers[0];
}

static void names_are_checked(void **state)
{
    struct scene *s = *state;
    struct queue_info info;

    assert_true(queue_valid_name(STR("a4bb2fb6dcda4b68aad743a4746d7f58")));
    assert_true(queue_is_made_name(STR("a4bb2fb6dcda4b68aad743a4746d7f58")));
    assert_true(queue_valid_name(STR("mail")) && !queue_is_made_name(STR("mail")));
    assert_true(queue_valid_name(STR("9.mail_out-2")));
    assert_false(queue_is_made_name(STR("a4bb2fb6dcda4b68aad743a4746d7f5g")));
    static const char *const wrong[] = {"",    ".",  "..",   "../../x",  "-a",  "_a",
                                        "a b", "a/", "a\"b", "\xc3\xa4", "a,b", "a\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(queue_valid_name(str_of(wrong[i])));
    assert_false(queue_valid_name(STR(QUEUE_ERROR)));
    char longest[QUEUE_NAME_LEN_MAX + 2];
    memset(longest, 'a', sizeof longest);
    assert_true(queue_valid_name((struct str){longest, QUEUE_NAME_LEN_MAX}));
    assert_false(queue_valid_name((struct str){longest, QUEUE_NAME_LEN_MAX + 1}));
    assert_true(queues_valid_namespace("/a/b"));
    assert_true(queues_valid_namespace("/"));
    assert_false(queues_valid_namespace("a"));
    assert_false(queues_valid_namespace("/a/"));
    assert_int_equal(queue_get(&s->queues, ".x", &info), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue_remove(&s->queues, ".x"), DROVER_BAD_ARGUMENT);
}

static void another_namespace_is_another_world(void **state)
{
    struct scene *s = *state;
    static const char *const spaces[] = {"/other/place", "/"};

    for (int i = 0; i < 2; i++) {
        struct queues other = {s->keepers[2], spaces[i]};
        struct keeper_names names = {0};
        char name[QUEUE_NAME_LEN + 1], path[QUEUE_PATH_SIZE];

        assert_int_equal(queues_list(&other, &names), 0);
        assert_int_equal(names.count, 0);
        keeper_names_release(&names);
        queue_make_name(name);
        assert_int_equal(queue_create(&other, name), 0);
        snprintf(path, sizeof path, "%s/queues/%s", i ? "" : "/other/place", name);
        assert_int_equal(keeper_exists(s->keepers[2], path, NULL), 0);
        assert_int_equal(queues_list(&other, &names), 0);
        assert_int_equal(names.count, 1);
        keeper_names_release(&names);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(the_tree_is_as_the_document_shows_it),
        CASE(a_queue_has_one_owner),
        CASE(who_was_thought_dead_cannot_move_last),
        CASE(who_was_thought_dead_cannot_give_up_for_another),
        CASE(last_that_was_set_by_hand_stands),
        CASE(a_queue_that_is_removed_is_lost),
        CASE(rubbish_is_left_alone),
        CASE(rubbish_in_the_lists_is_skipped_with_one_line),
        CASE(every_step_can_break_off_anywhere),
        CASE(names_are_checked),
        CASE(another_namespace_is_another_world),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
