/*
 * Everything that tasks, groups and schedules can do, against the shared library: the store in
 * process, and the client of a server, which the test starts. Most tests run on both.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "drover.h"

enum { DEADLINE_S = 60, HOUR_MS = 3600 * 1000 };

static struct drover_store *store;
static struct drover_client *client;
static bool remote; /* which of the two is tested */
static struct drover_error e;
static pid_t server;
static char group[64]; /* of the test */

/* The server. */

static int start_server(void)
{
    char line[512], *at = NULL, url[100];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    server = fork();
    if (!server) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl(getenv("DROVER"), "drover", "serve", "--http", "127.0.0.1:0", "--zk", "none",
              "--socket", "none", "--journal", "none", "--config", "none", "--loopback-roles",
              "admin", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *log = fdopen(ends[0], "r");
    while (!at && fgets(line, sizeof line, log))
        at = strstr(line, "http://127.0.0.1:");
    assert_non_null(at);
    snprintf(url, sizeof url, "%s", at);
    url[strcspn(url, " \n")] = '\0';
    struct drover_client_options o = {.server = url, .clientid = 1};
    return drover_client_open(&o, &client, &e);
}

static int set_up(void **state)
{
    struct drover_store_options o = {.mode = DROVER_MEMORY};
    (void)state;
    return drover_store_open(&o, &store, &e) || start_server();
}

static int tear_down(void **state)
{
    int status = -1;
    (void)state;
    drover_store_close(store);
    drover_client_close(client);
    kill(server, SIGTERM);
    waitpid(server, &status, 0);
    return status;
}

static int next_group(void **state)
{
    static int count;
    (void)state;
    snprintf(group, sizeof group, "group-%d", ++count);
    e.text[0] = '\0';
    return 0;
}

static int on_store(void **state)
{
    remote = false;
    return next_group(state);
}

static int on_client(void **state)
{
    remote = true;
    return next_group(state);
}

/* The calls, of either. */

static int try_update(const struct drover_update *u, struct drover_result *r)
{
    struct drover_update mine = *u;
    mine.clientid = mine.clientid ? mine.clientid : 1;
    return remote ? drover_client_update(client, &mine, r, &e)
                  : drover_store_update(store, &mine, r, &e);
}

static struct drover_result update(const struct drover_update *u)
{
    struct drover_result r;
    if (try_update(u, &r))
        fail_msg("%s", e.text);
    return r;
}

/* Returns the only task's id. */
static int64_t change(const struct drover_update *u)
{
    struct drover_result r = update(u);
    int64_t id = r.task_count == 1 ? r.tasks[0].id : 0;
    drover_result_release(&r);
    return id;
}

static int64_t add(struct drover_task t)
{
    t.group = t.group ? t.group : group;
    return change(&(struct drover_update){.adds = &t, .add_count = 1});
}

static int claim_with(struct drover_claim c, struct drover_result *r)
{
    const char *groups[] = {group};
    c.clientid = c.clientid ? c.clientid : 1;
    c.groups = c.groups ? c.groups : groups;
    c.group_count = c.group_count ? c.group_count : 1;
    c.duration_ms = HOUR_MS;
    return remote ? drover_client_claim(client, &c, r, &e) : drover_store_claim(store, &c, r, &e);
}

static int64_t claim(void)
{
    struct drover_result r;
    assert_int_equal(claim_with((struct drover_claim){0}, &r), 1);
    int64_t id = r.tasks[0].id;
    drover_result_release(&r);
    return id;
}

static int get(int64_t id, struct drover_result *r)
{
    return remote ? drover_client_get(client, id, r, &e) : drover_store_get(store, id, r);
}

static int await(int64_t id, int64_t ms, struct drover_result *r)
{
    return remote ? drover_client_wait(client, id, ms, r, &e)
                  : drover_store_wait(store, id, ms, r, &e);
}

static int find(const struct drover_filter *f, size_t limit, struct drover_result *r)
{
    return remote ? drover_client_find(client, f, limit, r, &e)
                  : drover_store_find(store, f, limit, r, &e);
}

static int bulk(const struct drover_bulk *b, struct drover_bulk_count *count)
{
    return remote ? drover_client_bulk(client, b, count, &e)
                  : drover_store_bulk(store, b, count, &e);
}

static int set(const char *pattern, struct drover_settings s)
{
    return remote ? drover_client_set_group(client, pattern, &s, &e)
                  : drover_store_set_group(store, pattern, &s, &e);
}

static int unset(const char *pattern)
{
    return remote ? drover_client_unset_group(client, pattern, &e)
                  : drover_store_unset_group(store, pattern, &e);
}

static struct drover_group settings_of(const char *name)
{
    struct drover_group g;
    int err = remote ? drover_client_group(client, name, &g, &e)
                     : drover_store_group(store, name, &g, &e);
    if (err)
        fail_msg("%s", e.text);
    return g;
}

/* The task whose first id was this, as a search shows it: with its state. */
static struct drover_result show(int64_t first)
{
    struct drover_result r;
    assert_int_equal(await(DROVER_FIRST(first), 0, &r) >= 0, 1);
    drover_result_release(&r);
    assert_int_equal(get(DROVER_FIRST(first), &r), 1);
    return r;
}

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

static struct drover_task fail_once(struct drover_fail f)
{
    struct drover_result r;
    f.id = claim();
    f.error = "no luck";
    r = update(&(struct drover_update){.fails = &f, .fail_count = 1});
    assert_int_equal(r.task_count, 1);
    struct drover_task t = r.tasks[0];
    assert_string_equal(t.error, "no luck");
    assert_string_equal(t.origin ? t.origin : group, group);
    t.group = t.error = NULL;
    drover_result_release(&r);
    return t;
}

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
    w->got = await(w->id, DEADLINE_S * 1000, &w->result);
    return NULL;
}

/* Of a result that is not kept, those learn who wait. The wait has begun when it finds the task. */
static void those_who_wait_learn_the_end(void **state)
{
    static const struct {
        const char *what;
        enum drover_task_state state;
    } rows[] = {
        {"finish", DROVER_TASK_DONE}, {"fail", DROVER_TASK_DEAD}, {"delete", DROVER_TASK_DELETED}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct waiting w = {.id = DROVER_FIRST(add((struct drover_task){.priority = 1}))};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &w), 0);
        usleep(300 * 1000); /* too short a time makes the test easier, never wrong */
        int64_t id = claim();
        struct drover_finish finish = {.id = id, .result = "done"};
        struct drover_fail fail = {.id = id, .error = "bad", .dead = 1};
        change(&(struct drover_update){.finishes = &finish,
                                       .finish_count = i == 0,
                                       .fails = &fail,
                                       .fail_count = i == 1,
                                       .deletes = &id,
                                       .delete_count = i == 2});
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (w.got == DROVER_NO_TASK) /* on a machine that slept: it began to wait too late */
            continue;
        assert_int_equal(w.got, 1);
        assert_int_equal(w.result.tasks[0].state, rows[i].state);
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

#define STORE(test)                                                                                \
    {                                                                                              \
        "store: " #test, test, on_store, NULL, NULL                                                \
    }
#define CLIENT(test)                                                                               \
    {                                                                                              \
        "client: " #test, test, on_client, NULL, NULL                                              \
    }
#define BOTH(test) STORE(test), CLIENT(test)

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
        BOTH(a_search_has_pages),
        BOTH(a_search_by_what_they_are),
        BOTH(many_are_changed),
        BOTH(the_dead_are_retried),
        BOTH(settings_come_back),
        BOTH(wrong_settings_are_refused),
        BOTH(a_full_group),
        BOTH(groups_are_counted),
        BOTH(what_has_expired_goes),
        CLIENT(a_hold_keeps_what_the_task_carries),
        CLIENT(schedules),
        CLIENT(lists_of_schedules),
        CLIENT(wrong_schedules_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
