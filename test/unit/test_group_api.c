/* Many tasks, groups and schedules in libdrover. */
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

/* Many. */

static void add_many(size_t count)
{
    char data[32];
    for (size_t done = 0; done < count;) {
        struct drover_task tasks[500];
        size_t more = count - done < 500 ? count - done : 500;
        for (size_t i = 0; i < more; i++) {
            snprintf(data, sizeof data, "%zu", done + i);
            tasks[i] = (struct drover_task){.group = group, .data = strdup(data)};
        }
        struct drover_result r = update(&(struct drover_update){.adds = tasks, .add_count = more});
        drover_result_release(&r);
        for (size_t i = 0; i < more; i++)
            free((char *)tasks[i].data);
        done += more;
    }
}

static void a_search_has_pages(void **state)
{
    enum { MANY = 2500 };
    struct drover_filter f = {.group = group};
    struct drover_result r;
    char after[64];
    size_t count = 0;
    (void)state;
    add_many(MANY);
    assert_int_equal(find(&f, 0, &r), MANY);
    assert_null(r.next);
    assert_int_equal(r.tasks[MANY - 1].state, DROVER_TASK_AVAILABLE);
    drover_result_release(&r);
    do {
        int got = find(&f, 1100, &r);
        assert_true(got >= 0 && got <= 1100);
        count += (size_t)got;
        snprintf(after, sizeof after, "%s", r.next ? r.next : "");
        f.after = r.next ? after : NULL;
        drover_result_release(&r);
    } while (f.after);
    assert_int_equal(count, MANY);
    f = (struct drover_filter){.group = group, .text = "249"};
    assert_int_equal(find(&f, 0, &r), 13); /* 249, 1249, 2249, 2490 to 2499 */
    drover_result_release(&r);
}

static void a_search_by_what_they_are(void **state)
{
    struct drover_result r;
    (void)state;
    add((struct drover_task){.key = "one", .data = "apple"});
    fail_once((struct drover_fail){.retry_ms = HOUR_MS});
    add((struct drover_task){.timespec = -HOUR_MS, .data = "pear"});
    add((struct drover_task){.data = "plum"});
    claim();
    add((struct drover_task){.data = "fig"});
    const struct {
        struct drover_filter f;
        int count;
    } rows[] = {
        {{.key = "one"}, 1},
        {{.error = "luck"}, 1},
        {{.text = "p"}, 3},
        {{.states = DROVER_TASK_RETRYING}, 1},
        {{.states = DROVER_TASK_DELAYED}, 1},
        {{.states = DROVER_TASK_CLAIMED}, 1},
        {{.states = DROVER_TASK_AVAILABLE | DROVER_TASK_CLAIMED}, 2},
        {{.states = DROVER_TASK_DEAD | DROVER_TASK_DONE}, 0},
        {{.states = DROVER_TASK_DELAYED, .text = "apple"}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct drover_filter f = rows[i].f;
        f.group = group;
        assert_int_equal(find(&f, 0, &r), rows[i].count);
        drover_result_release(&r);
    }
    assert_int_equal(find(&(struct drover_filter){.after = "x"}, 0, &r), DROVER_BAD_ARGUMENT);
    assert_int_equal(find(&(struct drover_filter){.states = 1 << 9}, 0, &r), DROVER_BAD_ARGUMENT);
    assert_int_equal(find(&(struct drover_filter){.text = "\xff"}, 0, &r), DROVER_BAD_ARGUMENT);
}

static int stop_at_once(void *arg, int64_t matched, int64_t changed)
{
    *(int64_t *)arg = matched + changed;
    return 1;
}

static void many_are_changed(void **state)
{
    enum { MANY = 2100 };
    char other[80];
    int64_t seen = 0;
    struct drover_bulk_count count;
    struct drover_bulk b = {
        .filter = {.group = group}, .action = DROVER_BULK_PRIORITY, .priority = 4, .dry_run = 1};
    (void)state;
    snprintf(other, sizeof other, "%s-other", group);
    add_many(MANY);
    assert_int_equal(bulk(&b, &count), 0);
    assert_true(count.matched == MANY && count.changed == 0);
    b.dry_run = 0;
    b.progress = stop_at_once;
    b.arg = &seen;
    assert_int_equal(bulk(&b, &count), DROVER_CLOSED);
    assert_true(count.matched > 0 && count.matched <= 1000);
    assert_true(count.changed == count.matched && seen == 2 * count.matched);
    b.progress = NULL;
    b.action = DROVER_BULK_MOVE;
    b.group = other;
    assert_int_equal(bulk(&b, &count), 0);
    assert_true(count.matched == MANY && count.changed == MANY);
    struct drover_group g = settings_of(other);
    assert_int_equal(g.counts.available, MANY);
    drover_group_release(&g);
    b = (struct drover_bulk){.filter = {.group = other}, .action = DROVER_BULK_DELETE};
    assert_int_equal(bulk(&b, NULL), 0);
    g = settings_of(other);
    assert_int_equal(g.counts.available, 0);
    drover_group_release(&g);
    b = (struct drover_bulk){.action = DROVER_BULK_DELETE};
    assert_int_equal(bulk(&b, &count), DROVER_BAD_ARGUMENT);
    b = (struct drover_bulk){.filter = {.group = "g"}, .action = DROVER_BULK_MOVE};
    assert_int_equal(bulk(&b, &count), DROVER_BAD_ARGUMENT);
}

static void the_dead_are_retried(void **state)
{
    char dead[80];
    struct drover_bulk_count count;
    (void)state;
    snprintf(dead, sizeof dead, "%s/dead", group);
    add((struct drover_task){0});
    fail_once((struct drover_fail){.dead = 1});
    struct drover_bulk b = {.filter = {.group = dead, .states = DROVER_TASK_DEAD},
                            .action = DROVER_BULK_RETRY};
    assert_int_equal(bulk(&b, &count), 0);
    assert_int_equal(count.changed, 1);
    struct drover_task died = fail_once((struct drover_fail){.dead = 1});
    b.filter = (struct drover_filter){.origin = group, .ids = &died.id, .id_count = 1};
    assert_int_equal(bulk(&b, &count), 0);
    assert_int_equal(count.changed, 1);
    b.filter.origin = "other";
    assert_int_equal(bulk(&b, &count), 0);
    assert_int_equal(count.matched, 0);
    claim();
}

/* Groups. */

static void settings_come_back(void **state)
{
    struct drover_settings s = {.set = (1U << 15) - 1,
                                .fifo = 1,
                                .fair = 1,
                                .paused = 1,
                                .expired_die = 1,
                                .attempts = 9,
                                .claims = 3,
                                .backoff_ms = 10,
                                .backoff_max_ms = 1000,
                                .backoff_factor = 1.5,
                                .backoff_jitter = 0.25,
                                .limit = 7,
                                .limit_per_share = 2,
                                .rate = 30,
                                .rate_ms = 1000,
                                .rate_burst = 4,
                                .keep_done_ms = 11,
                                .keep_dead_ms = 12,
                                .remember_keys_ms = 13,
                                .max_tasks = 14,
                                .dead = "graveyard"};
    char pattern[80];
    (void)state;
    snprintf(pattern, sizeof pattern, "%s*", group);
    struct drover_group g = settings_of(group);
    assert_true(!g.pattern && g.settings.attempts == 5 && g.settings.backoff_ms == 1000);
    drover_group_release(&g);
    if (set(pattern, s))
        fail_msg("%s", e.text);
    g = settings_of(group);
    assert_string_equal(g.pattern, pattern);
    assert_string_equal(g.settings.dead, "graveyard");
    s.dead = g.settings.dead;
    g.settings.set = s.set;
    assert_memory_equal(&g.settings, &s, sizeof s);
    drover_group_release(&g);
    assert_int_equal(set(pattern, (struct drover_settings){.set = DROVER_SET_LIMIT, .limit = 8}),
                     0);
    g = settings_of(group);
    assert_true(g.settings.limit == 8 && g.settings.attempts == 9 && g.settings.paused);
    drover_group_release(&g);
    assert_int_equal(unset(pattern), 1);
    assert_int_equal(unset(pattern), 0);
}

static void wrong_settings_are_refused(void **state)
{
    const struct drover_settings wrong[] = {
        {.set = DROVER_SET_LIMIT, .limit = -1},
        {.set = DROVER_SET_RATE, .rate = 1},
        {.set = DROVER_SET_BACKOFF, .backoff_ms = 5, .backoff_factor = 2},
        {.set = DROVER_SET_DEAD, .dead = "\xff"},
        {.set = DROVER_SET_DEAD, .dead = group},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        e.text[0] = '\0';
        assert_int_equal(set(group, wrong[i]), DROVER_BAD_ARGUMENT);
        assert_true(e.text[0]);
    }
    assert_int_equal(set("a*b", (struct drover_settings){0}), DROVER_BAD_ARGUMENT);
}

static void a_full_group(void **state)
{
    struct drover_task t = {.group = group};
    struct drover_result r;
    (void)state;
    set(group, (struct drover_settings){.set = DROVER_SET_MAX_TASKS, .max_tasks = 1});
    add(t);
    assert_int_equal(try_update(&(struct drover_update){.adds = &t, .add_count = 1}, &r),
                     DROVER_GROUP_FULL);
    assert_non_null(strstr(e.text, "may have 1"));
}

static void groups_are_counted(void **state)
{
    struct drover_groups g;
    size_t at = 0;
    (void)state;
    add((struct drover_task){0});
    add((struct drover_task){0});
    int64_t id = claim();
    int err = remote ? drover_client_count_groups(client, 0, &g, &e)
                     : drover_store_count_groups(store, 0, &g);
    assert_int_equal(err, 0);
    while (at < g.count && strcmp(g.names[at], group) != 0)
        at++;
    assert_true(at < g.count);
    assert_true(g.counts[at].available == 1 && g.counts[at].claimed == 1 && !g.counts[at].dead);
    drover_groups_release(&g);
    struct drover_group one = settings_of(group);
    assert_int_equal(one.claimed_count, 1);
    assert_true(one.claimed[0].id == id && one.claimed[0].ownerid == 1);
    drover_group_release(&one);
}

/* Without a loop, the next call removes it. */
static void what_has_expired_goes(void **state)
{
    struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    time_t end = time(NULL) + DEADLINE_S;
    (void)state;
    add((struct drover_task){.expires = -10});
    struct drover_group g = {0};
    do {
        drover_group_release(&g);
        nanosleep(&pause, NULL);
        g = settings_of(group);
    } while (g.counts.available && time(NULL) < end);
    assert_int_equal(g.counts.available, 0);
    drover_group_release(&g);
}

/* Schedules, which a client has alone. */

static void schedules(void **state)
{
    struct drover_task task = {.group = group, .data = "tick", .key = "once", .priority = -2};
    struct drover_schedule s = {.name = "a/b ä",
                                .cron = "0 9 * * mon-fri",
                                .timezone = "Europe/Berlin",
                                .task = &task,
                                .missed = DROVER_MISSED_ALL,
                                .overlap = DROVER_OVERLAP_SKIP};
    struct drover_schedules r;
    (void)state;
    if (drover_client_put_schedule(client, &s, &r, &e))
        fail_msg("%s", e.text);
    const struct drover_schedule *got = &r.schedules[0];
    assert_string_equal(got->name, s.name);
    assert_string_equal(got->cron, s.cron);
    assert_string_equal(got->timezone, s.timezone);
    assert_true(got->missed == s.missed && got->overlap == s.overlap && !got->paused);
    assert_true(got->time_count == 5 && got->times[0] == got->next_ms && got->times[4] > 0);
    assert_string_equal(got->task->group, group);
    assert_string_equal(got->task->data, "tick");
    assert_string_equal(got->task->key, "once");
    assert_int_equal(got->task->priority, -2);
    drover_schedules_release(&r);

    assert_int_equal(drover_client_run_schedule(client, s.name, &r, &e), 0);
    assert_true(r.schedules[0].runs == 1 && r.schedules[0].last_task > 0);
    struct drover_result shown = show(r.schedules[0].last_task);
    assert_string_equal(shown.tasks[0].data, "tick");
    drover_result_release(&shown);
    drover_schedules_release(&r);
    assert_int_equal(drover_client_pause_schedule(client, s.name, &r, &e), 0);
    assert_true(r.schedules[0].paused && !r.schedules[0].next_ms);
    drover_schedules_release(&r);
    assert_int_equal(drover_client_put_schedule(client, &s, NULL, &e), 0);
    assert_int_equal(drover_client_get_schedule(client, s.name, &r, &e), 1);
    assert_int_equal(r.schedules[0].paused, 1);
    drover_schedules_release(&r);
    assert_int_equal(drover_client_resume_schedule(client, s.name, NULL, &e), 0);
    assert_int_equal(drover_client_delete_schedule(client, s.name, &e), 1);
    assert_int_equal(drover_client_delete_schedule(client, s.name, &e), 0);
    assert_int_equal(drover_client_get_schedule(client, s.name, &r, &e), 0);
    assert_int_equal(drover_client_pause_schedule(client, s.name, &r, &e), DROVER_NO_NODE);
    assert_int_equal(drover_client_run_schedule(client, s.name, &r, &e), DROVER_NO_NODE);
}

static void lists_of_schedules(void **state)
{
    struct drover_task task = {.group = group};
    char name[16];
    struct drover_schedules r;
    (void)state;
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "list-%d", i);
        struct drover_schedule s = {.name = name, .every_ms = HOUR_MS, .task = &task, .paused = 1};
        assert_int_equal(drover_client_put_schedule(client, &s, NULL, &e), 0);
    }
    assert_int_equal(drover_client_list_schedules(client, NULL, 0, &r, &e), 5);
    assert_null(r.next);
    assert_string_equal(r.schedules[4].name, "list-4");
    assert_int_equal(r.schedules[4].every_ms, HOUR_MS);
    assert_true(r.schedules[4].paused);
    drover_schedules_release(&r);
    assert_int_equal(drover_client_list_schedules(client, "list-0", 2, &r, &e), 2);
    assert_string_equal(r.next, "list-2");
    drover_schedules_release(&r);
}

static void wrong_schedules_are_refused(void **state)
{
    struct drover_task task = {.group = group}, bytes = {.group = group, .bytes = 1};
    const struct drover_schedule wrong[] = {
        {.name = "w"},
        {.name = "w", .cron = "61 * * * *", .task = &task},
        {.name = "w", .cron = "@daily", .timezone = "Nowhere", .task = &task},
        {.name = "w", .every_ms = 5, .task = &task},
        {.name = "w", .every_ms = 5000, .task = &bytes},
        {.name = "w", .every_ms = 5000, .graph = "[{"},
        {.name = "", .every_ms = 5000, .task = &task},
        {.name = "\xff", .every_ms = 5000, .task = &task},
        {.name = "w", .every_ms = 5000, .task = &task, .missed = (enum drover_missed)3},
    };
    struct drover_schedules r;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        e.text[0] = '\0';
        assert_int_equal(drover_client_put_schedule(client, &wrong[i], &r, &e),
                         DROVER_BAD_ARGUMENT);
        assert_true(e.text[0]);
    }
    assert_int_equal(drover_client_get_schedule(client, "w", &r, &e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(a_search_has_pages),    BOTH(a_search_by_what_they_are),
        BOTH(many_are_changed),      BOTH(the_dead_are_retried),
        BOTH(settings_come_back),    BOTH(wrong_settings_are_refused),
        BOTH(a_full_group),          BOTH(groups_are_counted),
        BOTH(what_has_expired_goes), CLIENT(schedules),
        CLIENT(lists_of_schedules),  CLIENT(wrong_schedules_are_refused),
    };
    return cmocka_run_group_tests(tests, scene_set_up, scene_tear_down);
}
