/*
 * A crash at each keeper call while tasks fail, finish, are released, retried in bulk, expire, and
 * while a schedule ticks: loading, then the steps of the operation, one transaction each. What the
 * next process loads is the state after some number of whole steps, and never fewer than were
 * answered.
 */
#include "keeper/local/local.h"
#include "task/service.h"
#include "task/settings_json.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "keeper_cutter.h"

#define TICK "/tick" /* stands for the state of a schedule */

enum { ME = 7, NOW = 1000000, HOUR = 3600 * 1000, STEPS_MAX = 3 };

struct scene {
    struct local *local;
    struct keeper *k;
    struct cutter cutter;
    struct service *s;
    int64_t now_ms;
    bool answered, doubts;
    int err;
    struct buf text; /* of a dump */
};

/* The service of one process. */

static int64_t now(void *arg)
{
    return ((struct scene *)arg)->now_ms;
}

static void on_wake(void *arg)
{
    (void)arg;
}

static void on_doubt(void *arg)
{
    ((struct scene *)arg)->doubts = true;
}

/* Dies after so many calls of the keeper. Returns what loading failed with. */
static int start(struct scene *s, int calls, bool after)
{
    struct service_options o = {
        .wake = on_wake, .now_ms = now, .now_arg = s, .doubt = on_doubt, .doubt_arg = s};
    struct keeper_op fence = keeper_op_check("/", KEEPER_ANY_VERSION);
    struct err_info e = {""};

    s->doubts = false;
    cutter_init(&s->cutter, s->k, calls, DROVER_SESSION_EXPIRED, after);
    assert_int_equal(service_open(&o, &s->s, &e), 0);
    return service_start(s->s, &s->cutter.base, &fence, &e);
}

static void stop(struct scene *s)
{
    if (s->s)
        service_close(s->s);
    s->s = NULL;
}

static void on_done(void *arg, const struct task_reply *reply)
{
    struct scene *s = arg;

    s->answered = true;
    s->err = reply->err;
}

/* True: it was answered. False: the process has died, and the service is gone with it. */
static bool call(struct scene *s, struct task_request *r)
{
    bool died;

    s->answered = false;
    r->done = on_done;
    r->arg = s;
    service_submit(s->s, r);
    while (!s->answered && !s->doubts) {
        keeper_dispatch(&s->cutter.base);
        service_dispatch(s->s);
    }
    died = !s->answered;
    if (died)
        stop(s);
    else
        assert_int_equal(s->err, 0);
    return !died;
}

static bool update(struct scene *s, struct task_update u)
{
    struct task_request r = {.kind = TASK_UPDATE, .update = u};

    r.update.clientid = ME;
    return call(s, &r);
}

static bool edit(struct scene *s, struct task_edit e)
{
    return update(s, (struct task_update){.edits = &e, .edit_count = 1});
}

/* The state of a store, as text. */

static void dump_tasks(void *arg, struct store *store, int64_t now_ms)
{
    struct scene *s = arg;
    struct store_filter all = {.internal = true};
    struct store_cursor cursor = {0};
    struct store_list list;
    CLEANUP(arena_release) struct arena a = {0};

    assert_int_equal(store_find_tasks(store, &all, now_ms, &cursor, 1000, &a, &list), 0);
    assert_true(cursor.end);
    for (size_t i = 0; i < list.count; i++) {
        const struct task *t = &list.tasks[i];
        const struct task_extra none = {0}, *x = t->extra ? t->extra : &none;
        buf_printf(
            &s->text,
            "%" PRId64 " %" PRId64 " %.*s %.*s %s at %" PRId64 " of %" PRId64
            " failed %u claimed %u error '%.*s' from '%.*s' key '%.*s' result '%.*s' ended %" PRId64
            "\n",
            t->first, t->id, STR_ARGS(t->group), STR_ARGS(t->data),
            task_state_name(task_state(t, now_ms)), t->timespec, t->ownerid, x->attempts, x->claims,
            STR_ARGS(x->error), STR_ARGS(x->origin), STR_ARGS(x->key), STR_ARGS(x->result),
            x->ended);
    }
}

/* Each time that has come has its task: the schedule begins with 1. */
static void check_ticks(const char *text, struct str next)
{
    int count = 0;

    while ((text = strstr(text, " ticks "))) {
        text++;
        count++;
    }
    assert_int_equal(next.len, 1);
    assert_int_equal(next.p[0] - '1', count);
}

/* What the next process sees, a moment later. To be freed. */
static char *dump(struct scene *s)
{
    CLEANUP(buf_release) struct buf tick = {0};
    int64_t now_ms = s->now_ms;

    s->now_ms = NOW + 1;
    assert_int_equal(start(s, INT32_MAX, false), 0);
    service_look(s->s, dump_tasks, s);
    stop(s);
    s->now_ms = now_ms;
    assert_int_equal(keeper_get(s->k, TICK, &tick, NULL), 0);
    check_ticks(buf_text(&s->text), buf_str(&tick));
    buf_printf(&s->text, "tick %.*s", STR_ARGS(buf_str(&tick)));
    char *text = mem_dup(buf_text(&s->text), s->text.len);
    s->text.len = 0;
    return text;
}

/* Before: 1 is claimed, 2 and 3 (with a key) available, 4 to 6 dead, 7 expires. */

static void put_settings(struct scene *s)
{
    struct task_settings settings = TASK_SETTINGS_DEFAULT;
    CLEANUP(buf_release) struct buf b = {0};
    char path[SETTINGS_PATH_SIZE];

    settings.keep_done_ms = settings.remember_keys_ms = HOUR;
    settings.bury_expired = true;
    settings.backoff_jitter = 0;
    settings.limit = 2;
    settings_put_node(&b, STR("g"), &settings);
    settings_path(STR("g"), path);
    assert_int_equal(keeper_set(s->k, path, buf_str(&b), KEEPER_ANY_VERSION, NULL), 0);
}

static void make_state(struct scene *s)
{
    struct task_extra keyed = {.key = STR("k")}, expires = {.expires = NOW + 5};
    struct task adds[] = {
        {.group = STR("g"), .data = STR("one")},
        {.group = STR("g"), .data = STR("two"), .timespec = NOW + HOUR},
        {.group = STR("g"), .data = STR("three"), .timespec = NOW + HOUR, .extra = &keyed},
        {.group = STR("g"), .data = STR("four"), .timespec = NOW + HOUR},
        {.group = STR("g"), .data = STR("five"), .timespec = NOW + HOUR},
        {.group = STR("g"), .data = STR("six"), .timespec = NOW + HOUR},
        {.group = STR("g"), .data = STR("seven"), .timespec = NOW + HOUR, .extra = &expires},
    };
    struct str group = STR("g");
    struct task_request claim = {
        .kind = TASK_CLAIM,
        .claim = {.clientid = ME, .duration_ms = HOUR, .groups = &group, .group_count = 1}};

    assert_true(update(s, (struct task_update){.adds = adds, .add_count = 7}));
    assert_true(call(s, &claim));
    for (int64_t first = 4; first <= 6; first++)
        assert_true(
            edit(s, (struct task_edit){EDIT_FAIL, TASK_FIRST(first), STR("broken"), -1, true}));
}

static void open_scene(struct scene *s)
{
    char path[SETTINGS_PATH_SIZE];

    *s = (struct scene){.now_ms = NOW};
    assert_int_equal(local_open(&(struct local_options){.mode = LOCAL_NONE}, &s->local, NULL), 0);
    assert_int_equal(local_connect(s->local, &(struct keeper_options){.wake = on_wake}, &s->k), 0);
    assert_int_equal(keeper_create(s->k, TICK, STR("1"), 0, NULL), 0);
    assert_int_equal(keeper_ensure(s->k, "/drover", STR("")), 0);
    assert_int_equal(keeper_ensure(s->k, SETTINGS_ROOT, STR("")), 0);
    settings_path(STR("g"), path);
    assert_int_equal(keeper_create(s->k, path, STR(""), 0, NULL), 0);
    put_settings(s);
    assert_int_equal(start(s, INT32_MAX, false), 0);
    make_state(s);
    stop(s);
}

static void close_scene(struct scene *s)
{
    buf_release(&s->text);
    keeper_close(s->k);
    local_close(s->local);
}

/* The operations: step n of each. False: the process has died. */

static bool fail_and_try_again(struct scene *s, int n)
{
    struct task_edit edits[] = {
        {EDIT_FAIL, TASK_FIRST(1), STR("no route"), -1, false},
        {EDIT_FAIL, TASK_FIRST(2), STR("no route"), 0, false},
    };

    return edit(s, edits[n]);
}

static bool fail_for_good(struct scene *s, int n)
{
    return edit(s, (struct task_edit){EDIT_FAIL, TASK_FIRST(1 + n), STR("poison"), -1, true});
}

static bool finish(struct scene *s, int n)
{
    return edit(s, (struct task_edit){EDIT_FINISH, TASK_FIRST(1 + 2 * n), STR("42"), 0, false});
}

static bool release(struct scene *s, int n)
{
    return edit(s, (struct task_edit){EDIT_RELEASE, TASK_FIRST(1 + n), {0}, 0, false});
}

/* A worker ends two tasks and gets the next. */
static bool end_and_claim(struct scene *s, int n)
{
    struct task_edit edits[] = {
        {EDIT_FAIL, TASK_FIRST(2), STR("again"), 0, false},
        {EDIT_FINISH, TASK_FIRST(1), STR("42"), 0, false},
    };
    struct str group = STR("g");
    struct task_request claim = {.kind = TASK_CLAIM,
                                 .claim = {.clientid = ME,
                                           .duration_ms = HOUR,
                                           .groups = &group,
                                           .group_count = 1,
                                           .edits = edits,
                                           .edit_count = 2}};

    (void)n;
    return call(s, &claim);
}

/* Bulk: a transaction for each of the dead. */
static bool retry(struct scene *s, int n)
{
    struct task_edit e = {EDIT_RETRY, TASK_FIRST(4 + n), {0}, 0, false};

    return update(
        s, (struct task_update){.edits = &e, .edit_count = 1, .operate = true, .skips = true});
}

/* A schedule: the task and the next time. */
static bool tick(struct scene *s, int n)
{
    struct task add = {.group = STR("ticks"), .data = STR("tick"), .timespec = NOW + HOUR};
    const char *times[] = {"2", "3", "4"};
    struct keeper_op next = keeper_op_set(TICK, str_of(times[n]), KEEPER_ANY_VERSION);
    struct task_request r = {.kind = TASK_UPDATE,
                             .update = {.clientid = ME, .adds = &add, .add_count = 1},
                             .extra = &next,
                             .extra_count = 1};

    return call(s, &r);
}

/* The sweep has no client: it is over when nothing more is due. */
static bool expire(struct scene *s, int n)
{
    (void)n;
    s->now_ms = NOW + 10;
    service_tick(s->s);
    keeper_dispatch(&s->cutter.base);
    service_dispatch(s->s);
    return !s->doubts;
}

static const struct operation {
    const char *name;
    bool (*step)(struct scene *s, int n);
    int steps;
} OPERATIONS[] = {
    {"fail and try again", fail_and_try_again, 2},
    {"fail for good", fail_for_good, 2},
    {"finish", finish, 2},
    {"release", release, 2},
    {"end and claim", end_and_claim, 1},
    {"retry in bulk", retry, 3},
    {"tick", tick, 3},
    {"expire", expire, 1},
};

/* The state after each number of steps, without a crash. */
static void expected(const struct operation *o, char *ret_texts[STEPS_MAX + 1])
{
    for (int steps = 0; steps <= o->steps; steps++) {
        struct scene s;
        open_scene(&s);
        assert_int_equal(start(&s, INT32_MAX, false), 0);
        for (int i = 0; i < steps; i++)
            assert_true(o->step(&s, i));
        stop(&s);
        ret_texts[steps] = dump(&s);
        if (steps && !strcmp(ret_texts[steps], ret_texts[steps - 1]))
            fail_msg("%s: step %d changes nothing: %s", o->name, steps, ret_texts[steps]);
        close_scene(&s);
    }
}

/* Dies at the nth call. False: there is none. */
static bool crash_at(const struct operation *o, int n, bool after, char *texts[])
{
    struct scene s;
    int answered = 0, seen = 0;

    open_scene(&s);
    if (!start(&s, n, after))
        while (answered < o->steps && o->step(&s, answered))
            answered++;
    bool cut = s.cutter.cut;
    stop(&s);
    char *got = dump(&s);
    while (seen <= o->steps && strcmp(got, texts[seen]))
        seen++;
    if (seen > o->steps || seen < answered || seen > answered + 1)
        fail_msg("%s, call %d (%s), %d steps answered, the state is that after %d:\n%s", o->name, n,
                 after ? "done" : "not done", answered, seen, got);
    free(got);
    close_scene(&s);
    return cut;
}

static void a_crash_leaves_whole_steps(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof OPERATIONS / sizeof *OPERATIONS; i++) {
        const struct operation *o = &OPERATIONS[i];
        char *texts[STEPS_MAX + 1];
        expected(o, texts);
        for (int after = 0; after < 2; after++) {
            int n = 0;
            while (crash_at(o, n, after, texts))
                n++;
            assert_true(n > o->steps); /* each step has a call, and so has loading */
        }
        for (int steps = 0; steps <= o->steps; steps++)
            free(texts[steps]);
    }
}

/* On an ensemble other transactions come between finding what has expired and removing it. */
static void only_what_is_still_expired_is_removed(void **state)
{
    struct store *s = store_new(NULL, NULL);
    struct store_random numbers = {1};
    struct task_txn t = {0};
    struct task_extra soon = {.expires = NOW + 5}, later = {.expires = NOW + 500};
    struct task adds[] = {{.group = STR("g"), .data = STR("x"), .extra = &soon},
                          {.group = STR("g"), .data = STR("y"), .extra = &later},
                          {.group = STR("g"), .data = STR("z")}};
    struct task_update add = {.clientid = ME, .adds = adds, .add_count = 3};
    struct str group = STR("g");
    struct task_claim claim = {.duration_ms = HOUR, .groups = &group, .group_count = 1, .limit = 2};
    struct task_edit edits[] = {{.kind = EDIT_EXPIRE, .id = 1},
                                {.kind = EDIT_EXPIRE, .id = 2},
                                {.kind = EDIT_EXPIRE, .id = 3},
                                {.kind = EDIT_EXPIRE, .id = 99}};
    struct task_update sweep = {.edits = edits, .edit_count = 4, .operate = true};

    (void)state;
    assert_int_equal(store_update(s, &add, NOW, &numbers, &t), 0);
    store_settle(s, &t);
    assert_int_equal(store_update(s, &sweep, NOW + 10, &numbers, &t), 0);
    assert_int_equal(t.change_count, 1);
    store_settle(s, &t);
    assert_int_equal(store_claim(s, &claim, NOW + 10, &numbers, &t), 0);
    assert_int_equal(t.task_count, 2);
    store_settle(s, &t);
    for (int i = 0; i < 3; i++)
        edits[i].id = TASK_FIRST(i + 1);
    assert_int_equal(store_update(s, &sweep, NOW + 1000, &numbers, &t), 0);
    assert_int_equal(t.change_count, 0); /* those that are claimed */
    task_txn_release(&t);
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_still_expired_is_removed),
        cmocka_unit_test(a_crash_leaves_whole_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
