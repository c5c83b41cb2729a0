/* Tasks in libdrover: what they carry, and what becomes of them. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "task_api_scene.h"

/* Tasks. */

static void all_that_a_task_carries_comes_back(void **state)
{
    static const char bytes[] = "\xff\x00\xfe z";
    struct drover_task t = {.data = bytes,
                            .data_len = sizeof bytes - 1,
                            .bytes = 1,
                            .priority = -7,
                            .key = "k\0k",
                            .key_len = 3,
                            .share = "tenant",
                            .expires = -HOUR_MS};
    int64_t id = add(t);
    struct drover_result r;
    (void)state;
    assert_int_equal(get(id, &r), 1);
    const struct drover_task *got = &r.tasks[0];
    assert_int_equal(got->data_len, sizeof bytes - 1);
    assert_memory_equal(got->data, bytes, sizeof bytes);
    assert_int_equal(got->bytes, 1);
    assert_int_equal(got->priority, -7);
    assert_int_equal(got->key_len, 3);
    assert_memory_equal(got->key, "k\0k", 4);
    assert_string_equal(got->share, "tenant");
    assert_true(got->created > 0 && got->expires >= got->created + HOUR_MS);
    assert_true(!got->error && !got->origin && !got->result && !got->attempts && !got->ended);
    drover_result_release(&r);
}

static void a_plain_task_has_nothing_more(void **state)
{
    int64_t id = add((struct drover_task){.data = "x"});
    struct drover_result r;
    (void)state;
    assert_int_equal(get(id, &r), 1);
    assert_string_equal(r.tasks[0].data, "x");
    assert_true(!r.tasks[0].bytes && !r.tasks[0].key && !r.tasks[0].created && !r.next);
    drover_result_release(&r);
}

static void bytes_are_asked_for(void **state)
{
    struct drover_task t = {.group = group, .data = "\xff"};
    struct drover_result r;
    (void)state;
    assert_int_equal(try_update(&(struct drover_update){.adds = &t, .add_count = 1}, &r),
                     DROVER_BAD_ARGUMENT);
    t.bytes = 1;
    t.id = add(t);
    t.data = "text"; /* an update may make them text again */
    t.bytes = 0;
    t.id = change(&(struct drover_update){.updates = &t, .update_count = 1});
    assert_int_equal(get(t.id, &r), 1);
    assert_true(!r.tasks[0].bytes && !strcmp(r.tasks[0].data, "text"));
    drover_result_release(&r);
}

static void wrong_members_are_refused(void **state)
{
    static char longer[600];
    const struct drover_task wrong[] = {
        {.priority = 1000001},      {.priority = -1000001}, {.key = longer},
        {.share = longer},          {.key = "\xff"},        {.share = "\xff"},
        {.on_key = DROVER_KEY_KEEP}};
    struct drover_result r;
    (void)state;
    memset(longer, 'x', sizeof longer - 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct drover_task t = wrong[i];
        t.group = group;
        assert_int_equal(try_update(&(struct drover_update){.adds = &t, .add_count = 1}, &r),
                         DROVER_BAD_ARGUMENT);
        assert_true(e.text[0]);
    }
    struct drover_fail f = {.id = 1, .error = "\xff"};
    assert_int_equal(try_update(&(struct drover_update){.fails = &f, .fail_count = 1}, &r),
                     DROVER_BAD_ARGUMENT);
}

static void keys(void **state)
{
    struct drover_task t = {.group = group, .key = "k", .data = "first"};
    int64_t id = add(t);
    struct drover_result r;
    (void)state;
    assert_int_equal(try_update(&(struct drover_update){.adds = &t, .add_count = 1}, &r),
                     DROVER_REFUSED);
    assert_int_equal(r.error_count, 1);
    drover_result_release(&r);
    t.data = "second";
    t.on_key = DROVER_KEY_KEEP;
    assert_int_equal(add(t), id);
    t.on_key = DROVER_KEY_REPLACE;
    assert_true(add(t) > id);
    r = show(id);
    assert_string_equal(r.tasks[0].data, "second");
    drover_result_release(&r);
}

/* What becomes of them. */

static void a_task_that_fails(void **state)
{
    struct drover_task t;
    int64_t now_ms = (int64_t)time(NULL) * 1000;
    (void)state;
    add((struct drover_task){0});
    t = fail_once((struct drover_fail){.retry_ms = -1});
    assert_true(t.attempts == 1 && !t.origin && t.timespec < now_ms + HOUR_MS);
    t = fail_once((struct drover_fail){.retry_ms = -1, .attempts = 100});
    assert_true(t.attempts == 2 && !t.origin);
    t = fail_once((struct drover_fail){.attempts = 3});
    assert_true(t.attempts == 3 && t.origin && t.ended >= now_ms);
    add((struct drover_task){0});
    t = fail_once((struct drover_fail){.dead = 1});
    assert_true(t.attempts == 1 && t.origin);
    add((struct drover_task){0});
    t = fail_once((struct drover_fail){.retry_ms = HOUR_MS});
    assert_true(t.timespec >= now_ms + HOUR_MS);
    struct drover_result r;
    assert_int_equal(await(DROVER_FIRST(t.first), 0, &r), 0);
    assert_int_equal(r.tasks[0].state, DROVER_TASK_RETRYING);
    drover_result_release(&r);
}

static void a_task_that_is_released(void **state)
{
    int64_t first = add((struct drover_task){0}), id = claim();
    (void)state;
    id = change(&(struct drover_update){.releases = &id, .release_count = 1});
    assert_true(id > first && claim() > id);
}

static void a_result_is_kept(void **state)
{
    int64_t first = add((struct drover_task){.data = "x"});
    struct drover_result r;
    (void)state;
    assert_int_equal(
        set(group, (struct drover_settings){.set = DROVER_SET_KEEP_DONE, .keep_done_ms = HOUR_MS}),
        0);
    assert_int_equal(await(first, 0, &r), 0);
    assert_int_equal(r.tasks[0].state, DROVER_TASK_AVAILABLE);
    drover_result_release(&r);
    struct drover_finish f = {.id = claim(), .result = "a\0b", .result_len = 3};
    assert_int_equal(change(&(struct drover_update){.finishes = &f, .finish_count = 1}), 0);
    assert_int_equal(await(DROVER_FIRST(first), HOUR_MS, &r), 1);
    assert_int_equal(r.tasks[0].state, DROVER_TASK_DONE);
    assert_int_equal(r.tasks[0].result_len, 3);
    assert_memory_equal(r.tasks[0].result, "a\0b", 4);
    assert_string_equal(r.tasks[0].group, group);
    drover_result_release(&r);
    assert_int_equal(await(INT64_C(1) << 40, 0, &r), DROVER_NO_TASK);
}

struct waiting {
    int64_t id;
    int got;
    struct drover_result result;
};

static void *wait_for_it(void *arg)
{
    struct waiting *w = arg;
    w->got = await(w->id, 10 * 1000, &w->result);
    return NULL;
}

/* Somebody waits for a task, which ends after a pause: finished, dead or deleted. */
static struct waiting end_it(enum drover_task_state how, useconds_t pause_us)
{
    struct waiting w = {.id = DROVER_FIRST(add((struct drover_task){.priority = 1}))};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &w), 0);
    usleep(pause_us);
    int64_t id = claim();
    struct drover_finish finish = {.id = id, .result = "done"};
    struct drover_fail fail = {.id = id, .error = "bad", .dead = 1};
    change(&(struct drover_update){.finishes = &finish,
                                   .finish_count = how == DROVER_TASK_DONE,
                                   .fails = &fail,
                                   .fail_count = how == DROVER_TASK_DEAD,
                                   .deletes = &id,
                                   .delete_count = how == DROVER_TASK_DELETED});
    assert_int_equal(pthread_join(thread, NULL), 0);
    return w;
}

/* Of a result that is not kept, those learn who wait. Who comes too late tries again. */
static void those_who_wait_learn_the_end(void **state)
{
    static const enum drover_task_state ends[] = {DROVER_TASK_DONE, DROVER_TASK_DEAD,
                                                  DROVER_TASK_DELETED};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct waiting w = {.got = DROVER_NO_TASK};
        for (useconds_t us = 50 * 1000; w.got == DROVER_NO_TASK && us < 1000 * 1000; us *= 4)
            w = end_it(ends[i], us);
        assert_int_equal(w.got, 1);
        assert_int_equal(w.result.tasks[0].state, ends[i]);
        assert_string_equal(i == 0 ? w.result.tasks[0].result : "done", "done");
        assert_string_equal(i == 1 ? w.result.tasks[0].error : "bad", "bad");
        drover_result_release(&w.result);
    }
}

static void a_claim_settles_what_was_before(void **state)
{
    int64_t ids[3];
    struct drover_result r;
    (void)state;
    for (int i = 0; i < 3; i++) {
        add((struct drover_task){0});
        ids[i] = claim();
    }
    struct drover_fail fail = {.id = ids[0], .dead = 1};
    struct drover_finish finish = {.id = ids[1]};
    struct drover_claim c = {.fails = &fail,
                             .fail_count = 1,
                             .finishes = &finish,
                             .finish_count = 1,
                             .releases = &ids[2],
                             .release_count = 1};
    assert_int_equal(claim_with(c, &r), 1);
    drover_result_release(&r);
    struct drover_group g = settings_of(group);
    assert_true(g.counts.claimed == 1 && g.counts.available == 0);
    drover_group_release(&g);
    assert_int_equal(claim_with(c, &r), DROVER_REFUSED);
    assert_int_equal(r.error_count, 3);
    drover_result_release(&r);
}

/* Of a client alone. */

static void a_hold_keeps_what_the_task_carries(void **state)
{
    static const char bytes[] = "\x80\0\xff";
    struct drover_task t = {
        .group = group, .data = bytes, .data_len = 3, .bytes = 1, .key = "k", .priority = 3};
    time_t end = time(NULL) + DEADLINE_S;
    struct drover_result claimed, now;
    const char *groups[] = {group};
    struct drover_claim c = {.groups = groups, .group_count = 1, .duration_ms = 600};
    int64_t id, first = add(t);
    (void)state;
    assert_int_equal(drover_client_claim(client, &c, &claimed, &e), 1);
    struct drover_hold *hold = drover_client_hold(client, &claimed.tasks[0], 600);
    assert_non_null(hold);
    do {
        assert_int_equal(get(DROVER_FIRST(first), &now), 1);
        id = now.tasks[0].id;
        assert_true(now.tasks[0].bytes && now.tasks[0].data_len == 3);
        assert_memory_equal(now.tasks[0].data, bytes, 4);
        assert_string_equal(now.tasks[0].key, "k");
        assert_true(now.tasks[0].priority == 3 && now.tasks[0].claims == 1);
        drover_result_release(&now);
    } while (id < claimed.tasks[0].id + 2 && time(NULL) < end);
    assert_true(id >= claimed.tasks[0].id + 2);
    assert_int_equal(drover_hold_release(hold, &id), 0);
    struct drover_finish f = {.id = id};
    assert_int_equal(change(&(struct drover_update){.finishes = &f, .finish_count = 1}), 0);
    drover_result_release(&claimed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(all_that_a_task_carries_comes_back),
        BOTH(a_plain_task_has_nothing_more),
        BOTH(bytes_are_asked_for),
        BOTH(wrong_members_are_refused),
        BOTH(keys),
        BOTH(a_task_that_fails),
        BOTH(a_task_that_is_released),
        BOTH(a_result_is_kept),
        BOTH(those_who_wait_learn_the_end),
        BOTH(a_claim_settles_what_was_before),
        CLIENT(a_hold_keeps_what_the_task_carries),
    };
    return cmocka_run_group_tests(tests, scene_set_up, scene_tear_down);
}
