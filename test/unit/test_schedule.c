/* Schedules: which times come after a pause of the server or a jump of the clock; their nodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "drover.h"
#include "schedule/schedule.h"

#define HOUR INT64_C(3600000)

static const int64_t START = 1800000000000; /* a whole hour */

static int find_utc(void *arg, struct str name, const struct time_zone **ret_zone,
                    struct err_info *ret_error)
{
    struct time_zone **utc = arg;
    if (!*utc)
        assert_int_equal(time_zone_load(NULL, STR("UTC"), utc, NULL), 0);
    *ret_zone = *utc;
    return str_eq(name, STR("UTC")) ? 0 : err_set(ret_error, DROVER_BAD_ARGUMENT, "no zone");
}

static struct time_zone *utc;

static struct schedule *read_spec(const char *spec, const char **ret_field)
{
    CLEANUP(arena_release) struct arena a = {0};
    struct schedule *s = mem_zalloc(sizeof *s);
    struct err_info why;
    const struct json *v = json_parse(&a, str_of(spec), NULL);
    assert_non_null(v);
    if (!schedule_read(s, v, find_utc, &utc, ret_field, &why)) {
        s->state.from_ms = START;
        s->state.next_ms = schedule_after(s, START);
        return s;
    }
    schedule_free(s);
    return NULL;
}

static void wrong_specs(void **state)
{
    static const char *const specs[][2] = {
        {"{\"task\":{}}", "cron"},
        {"{\"cron\":\"@daily\",\"every\":1000,\"task\":{}}", "cron"},
        {"{\"cron\":\"@never\",\"task\":{}}", "cron"},
        {"{\"cron\":\"@daily\",\"timezone\":\"X\",\"task\":{}}", "timezone"},
        {"{\"every\":999,\"task\":{}}", "every"},
        {"{\"every\":\"1\",\"task\":{}}", "every"},
        {"{\"every\":1000}", "task"},
        {"{\"every\":1000,\"task\":{},\"graph\":[]}", "task"},
        {"{\"every\":1000,\"task\":{},\"missed\":\"x\"}", "missed"},
        {"{\"every\":1000,\"task\":{},\"overlap\":\"x\"}", "overlap"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        const char *field = NULL;
        assert_null(read_spec(specs[i][0], &field));
        assert_string_equal(field, specs[i][1]);
    }
}

/* Both kinds of times, ten hours after the first of them, and half an hour. */
static void missed_times(void **state)
{
    static const struct {
        const char *missed;
        bool comes;
        int64_t time_ms, next_ms;
    } cases[] = {{"one", true, 11 * HOUR, 12 * HOUR},
                 {"skip", false, 11 * HOUR, 12 * HOUR},
                 {"all", true, HOUR, 2 * HOUR}};
    static const char *const times[] = {"\"every\":3600000", "\"cron\":\"@hourly\""};
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        CLEANUP(buf_release) struct buf spec = {0};
        const char *field;
        int64_t time_ms, next_ms;
        buf_printf(&spec, "{%s,\"task\":{},\"missed\":\"%s\"}", times[i / 3], cases[i % 3].missed);
        struct schedule *s = read_spec(buf_text(&spec), &field);
        assert_non_null(s);
        assert_int_equal(s->state.next_ms, START + HOUR);
        bool comes = schedule_due(s, START + 11 * HOUR + HOUR / 2, &time_ms, &next_ms);
        assert_int_equal(comes, cases[i % 3].comes);
        assert_int_equal(time_ms, START + cases[i % 3].time_ms);
        assert_int_equal(next_ms, START + cases[i % 3].next_ms);
        assert_true(schedule_due(s, START + HOUR + SCHEDULE_GRACE_MS, &time_ms, &next_ms));
        assert_int_equal(time_ms, START + HOUR);
        assert_int_equal(schedule_due(s, START + HOUR + SCHEDULE_GRACE_MS + 1, &time_ms, &next_ms),
                         i % 3 != 1);
        schedule_free(s);
    }
}

/* A year without a server, of a schedule with a time in each second of one hour of the day. */
static void a_long_pause_is_short(void **state)
{
    const char *field;
    int64_t time_ms, next_ms, year = 365 * 24 * HOUR;
    struct schedule *s = read_spec("{\"cron\":\"* * 3 * * *\",\"task\":{}}", &field);
    (void)state;
    assert_true(schedule_due(s, s->state.next_ms + year - 1, &time_ms, &next_ms));
    assert_int_equal(next_ms, s->state.next_ms + year);
    assert_int_equal(time_ms, next_ms - 23 * HOUR - 1000);
    schedule_free(s);
}

static void a_clock_that_was_ahead(void **state)
{
    const char *field;
    struct schedule *s = read_spec("{\"every\":60000,\"task\":{}}", &field);
    (void)state;
    s->state.last_ms = START + 24 * HOUR;
    s->state.next_ms = s->state.last_ms + 60000;
    assert_false(schedule_correct(s, s->state.last_ms - SCHEDULE_AHEAD_MS));
    assert_true(schedule_correct(s, START + HOUR));
    assert_int_equal(s->state.next_ms, START + HOUR + 60000);
    assert_false(schedule_correct(s, START + HOUR));
    schedule_free(s);
}

static void nodes_are_read_back(void **state)
{
    CLEANUP(buf_release) struct buf node = {0}, text = {0};
    const char *field;
    struct schedule_state read, was = {START, INT64_MAX, START - 1, 7, 8, 9, 10, true};
    struct schedule *s = read_spec("{\"cron\":\"@daily\",\"task\":{\"group\":\"g\"}}", &field), *t;
    (void)state;
    s->name = mem_dup("a \"b\"", 5);
    schedule_put_node(&node, s);
    assert_int_equal(schedule_read_node(buf_str(&node), find_utc, &utc, &t), 0);
    assert_string_equal(t->name, s->name);
    assert_string_equal(t->spec, s->spec);
    assert_true(schedule_same_times(s, t));
    schedule_put_state(&text, &was);
    assert_int_equal(schedule_read_state(buf_str(&text), &read), 0);
    assert_memory_equal(&read, &was, offsetof(struct schedule_state, paused));
    assert_true(read.paused);
    for (size_t len = 0; len < node.len; len++)
        assert_int_equal(schedule_read_node((struct str){node.p, len}, find_utc, &utc, &t),
                         DROVER_DAMAGED);
    for (size_t len = 0; len < text.len; len++)
        assert_int_equal(schedule_read_state((struct str){text.p, len}, &read), DROVER_DAMAGED);
    assert_int_equal(schedule_read_state(STR("{\"version\":2}"), &read), DROVER_NEWER_VERSION);
    schedule_free(s);
    schedule_free(t);
}

/* The server starts, and the others run. */
static void a_zone_that_is_gone(void **state)
{
    struct schedule *s;
    (void)state;
    assert_int_equal(
        schedule_read_node(STR("{\"version\":1,\"name\":\"n\",\"spec\":{\"cron\":\"@daily\","
                               "\"timezone\":\"X\",\"task\":{}}}"),
                           find_utc, &utc, &s),
        0);
    assert_string_equal(s->error, "no zone");
    assert_int_equal(schedule_after(s, START), INT64_MAX);
    schedule_free(s);
}

static int end(void **state)
{
    (void)state;
    time_zone_free(utc);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_specs),           cmocka_unit_test(missed_times),
        cmocka_unit_test(a_long_pause_is_short), cmocka_unit_test(a_clock_that_was_ahead),
        cmocka_unit_test(nodes_are_read_back),   cmocka_unit_test(a_zone_that_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
