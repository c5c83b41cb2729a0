/*
 * Cron expressions: what is refused and why, what the fields mean, and changes of the clock. The
 * comparison with others is in cron_judge.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <time.h>

#include "base/buf.h"
#include "base/cron.h"

/* "2024-03-10 06:59:59" in UTC. */
static int64_t instant_ms(const char *text)
{
    struct tm tm = {0};
    assert_non_null(strptime(text, "%Y-%m-%d %H:%M:%S", &tm));
    return (int64_t)timegm(&tm) * 1000;
}

static struct cron parsed(const char *text)
{
    struct cron c;
    struct err_info e = {""};
    if (cron_parse(str_of(text), &c, &e))
        fail_msg("%s: %s", text, e.text);
    return c;
}

static struct time_zone *zone(const char *name)
{
    struct time_zone *z;
    struct err_info e = {""};
    if (time_zone_load(NULL, str_of(name), &z, &e))
        fail_msg("%s", e.text);
    return z;
}

/* The times after one, as "MM-DD HH:MM:SS" in UTC, separated by commas. */
static void assert_next(const char *expression, const char *zone_name, const char *after,
                        const char *expected)
{
    struct cron c = parsed(expression);
    struct time_zone *z = zone(zone_name);
    struct buf found = {0};
    int64_t at = instant_ms(after);
    for (const char *p = expected; p; p = strchr(p + 1, ',')) {
        char text[32];
        at = cron_next(&c, z, at);
        time_t at_s = (time_t)(at / 1000);
        strftime(text, sizeof text, "%m-%d %H:%M:%S", gmtime(&at_s));
        buf_printf(&found, "%s%s", found.len ? "," : "", text);
    }
    assert_string_equal(buf_text(&found), expected);
    buf_release(&found);
    time_zone_free(z);
}

static void refused(void **state)
{
    static const char *const cases[][2] = {
        {"61 * * * *", "minute: 61 is not 0 to 59"},
        {"60 * * * * *", "second: 60 is not 0 to 59"},
        {"0 24 * * *", "hour: 24 is not 0 to 23"},
        {"0 0 0 * *", "day-of-month: 0 is not 1 to 31"},
        {"0 0 * 13 *", "month: 13 is not 1 to 12 or jan to dec"},
        {"0 0 * * 8", "day-of-week: 8 is not 0 to 7 or sun to sat"},
        {"0 0 * * monday", "day-of-week: monday is not 0 to 7 or sun to sat"},
        {"0 0 * mon *", "month: mon is not 1 to 12 or jan to dec"},
        {"99999999999999999999 * * * *", "minute: 99999999999999999999 is not 0 to 59"},
        {"-5 * * * *", "minute: a value is missing in '-5'"},
        {"5- * * * *", "minute: a value is missing in '5-'"},
        {"1,,2 * * * *", "minute: a value is missing in '1,,2'"},
        {"1, * * * *", "minute: a value is missing in '1,'"},
        {"/5 * * * *", "minute: a value is missing in '/5'"},
        {"*5 * * * *", "minute: *5 is not 0 to 59"},
        {"*-5 * * * *", "minute: * is not 0 to 59"},
        {"1-2-3 * * * *", "minute: 2-3 is not 0 to 59"},
        {"? * * * *", "minute: ? is not 0 to 59"},
        {"L * * * *", "minute: L is not 0 to 59"},
        {"*/0 * * * *", "minute: the step in */0 is not 1 to 60"},
        {"*/90 * * * *", "minute: the step in */90 is not 1 to 60"},
        {"*/ * * * *", "minute: the step in */ is not 1 to 60"},
        {"1/2/3 * * * *", "minute: the step in 1/2/3 is not 1 to 60"},
        {"0 0 * */jan *", "month: the step in */jan is not 1 to 12"},
        {"0 22-2 * * *", "hour: 22-2 runs backward; write 22-23,0-2 if it is to wrap around"},
        {"0 0 * * fri-mon",
         "day-of-week: fri-mon runs backward; write fri-6,0-mon if it is to wrap around"},
        {"0 0 30 2 *", "day-of-month: 30 never comes in the months of 2"},
        {"0 0 31 feb,4-6/2,9,11 *", "day-of-month: 31 never comes in the months of feb,4-6/2,9,11"},
        {"", "a cron expression has five fields (minute hour day-of-month month day-of-week), or "
             "six with the second first; this has 0"},
        {"* * * * * * *", "a cron expression has five fields (minute hour day-of-month month "
                          "day-of-week), or six with the second first; this has 7"},
        {"@reboot", "@reboot is not a time; a schedule needs one"},
        {"@fortnightly", "@fortnightly is not @yearly, @annually, @monthly, @weekly, @daily, "
                         "@midnight or @hourly"},
        {"@daily *", "a cron expression has five fields (minute hour day-of-month month "
                     "day-of-week), or six with the second first; this has 2"},
        {"* * *\n* *", "a cron expression has no \\n (byte 6)"},
        {"* * * * \xc3\xa9", "a cron expression has no \\xc3 (byte 9)"},
    };
    struct cron c, untouched = {.hours = 7};

    (void)state;
    c = untouched;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err_info e = {""};
        assert_int_equal(cron_parse(str_of(cases[i][0]), &c, &e), DROVER_BAD_ARGUMENT);
        assert_string_equal(e.text, cases[i][1]);
        assert_memory_equal(&c, &untouched, sizeof c);
    }
}

static void length(void **state)
{
    char text[CRON_LEN_MAX + 2];
    struct cron c;
    struct err_info e;

    (void)state;
    memset(text, ' ', sizeof text);
    memcpy(text, "0 0 * * *", 9);
    assert_int_equal(cron_parse((struct str){text, CRON_LEN_MAX}, &c, &e), 0);
    assert_int_equal(cron_parse((struct str){text, CRON_LEN_MAX + 1}, &c, &e), DROVER_BAD_ARGUMENT);
    assert_string_equal(e.text, "a cron expression has at most 512 bytes; this has 513");
}

/* Two ways to write the same. */
static void equal_texts(void **state)
{
    static const char *const pairs[][2] = {
        {"5/15 * * * *", "5,20,35,50 * * * *"},
        {"1-10/3,7 0 * * *", " 1,4,7,10\t0  * * * "},
        {"0 0 * JAN,feb-Apr Mon", "0 0 * 1-4 1"},
        {"0 0 * * 7", "0 0 * * sun"},
        {"0 0 * * fri-sun", "0 0 * * 5,6,0"},
        {"0 0 * * 5-7", "0 0 * * 0,5,6"},
        {"0 0 * * 3/2", "0 0 * * 3,5"},
        {"30 4 * * *", "0 30 4 * * *"},
        {"0 0 l * *", "0 0 L * *"},
        {"@yearly", "0 0 1 1 *"},
        {"@ANNUALLY", "0 0 1 1 *"},
        {"@monthly", "0 0 1 * *"},
        {"@weekly", "0 0 * * 0"},
        {"@daily", "0 0 * * *"},
        {"@midnight", "0 0 * * *"},
        {"@hourly", "0 * * * *"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct cron a = parsed(pairs[i][0]), b = parsed(pairs[i][1]);
        assert_memory_equal(&a, &b, sizeof a);
    }
}

static void days(void **state)
{
    (void)state;
    /* Either the 13th or a Friday; a star with a step restricts, but not alone. */
    assert_next("0 0 13 * 5", "UTC", "2024-09-06 00:00:00", "09-13 00:00:00,09-20 00:00:00");
    assert_next("0 0 13 * 5", "UTC", "2024-10-11 00:00:00", "10-13 00:00:00,10-18 00:00:00");
    assert_next("0 0 */2 * 5", "UTC", "2024-09-06 00:00:00", "09-13 00:00:00,09-27 00:00:00");
    assert_next("0 0 13 * */5", "UTC", "2024-09-06 00:00:00", "09-13 00:00:00,10-13 00:00:00");
    assert_next("0 0 30 2 1", "UTC", "2024-01-01 00:00:00", "02-05 00:00:00,02-12 00:00:00");
    assert_next("0 0 L * *", "UTC", "2024-01-01 00:00:00",
                "01-31 00:00:00,02-29 00:00:00,03-31 00:00:00,04-30 00:00:00");
    assert_next("0 0 1,L 2 *", "UTC", "2023-01-01 00:00:00", "02-01 00:00:00,02-28 00:00:00");
}

static void rare_days(void **state)
{
    struct cron leap_day = parsed("0 0 29 2 *"), leap_sunday = parsed("0 0 29 2 */7");
    struct time_zone *z = zone("Europe/Berlin");

    (void)state;
    assert_int_equal(cron_next(&leap_day, z, instant_ms("2096-03-01 00:00:00")),
                     instant_ms("2104-02-28 23:00:00"));
    assert_int_equal(cron_next(&leap_sunday, z, instant_ms("2088-03-01 00:00:00")),
                     instant_ms("2128-02-28 23:00:00"));
    time_zone_free(z);
}

static void after(void **state)
{
    struct cron c = parsed("* * * * * *");
    struct time_zone *z = zone("UTC");
    static const int64_t cases[][2] = {{0, 1000}, {999, 1000}, {1000, 2000},
                                       {-1, 0},   {-1000, 0},  {-1001, -1000}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(cron_next(&c, z, cases[i][0]), cases[i][1]);
    assert_true(cron_next(&c, z, INT64_MAX - 1) == INT64_MAX);
    assert_int_equal(cron_next(&c, z, INT64_MIN) % 1000, 0);
    time_zone_free(z);
}

/* New York: on 2024-03-10 2:00 is 3:00, at 7:00 UTC; on 2024-11-03 2:00 is 1:00, at 6:00 UTC. */
static void daylight_saving(void **state)
{
    static const struct {
        const char *expression, *zone, *after, *expected;
    } cases[] = {
        /* A time in the gap comes when the gap ends. */
        {"30 2 * * *", "America/New_York", "2024-03-09 12:00:00", "03-10 07:00:00,03-11 06:30:00"},
        {"0 3 * * *", "America/New_York", "2024-03-09 12:00:00", "03-10 07:00:00,03-11 07:00:00"},
        /* All of them once, and together with what comes then anyway. */
        {"*/15 2,3 * * *", "America/New_York", "2024-03-10 00:00:00",
         "03-10 07:00:00,03-10 07:15:00"},
        /* Every other hour of the day was named. */
        {"0 0-23/2 * * *", "America/New_York", "2024-03-10 05:00:00",
         "03-10 07:00:00,03-10 08:00:00"},
        /* A time that occurs twice comes the first time. */
        {"30 1 * * *", "America/New_York", "2024-11-02 12:00:00", "11-03 05:30:00,11-04 06:30:00"},
        {"30 1 * * *", "America/New_York", "2024-11-03 06:10:00", "11-04 06:30:00"},
        {"*/30 1 * * *", "America/New_York", "2024-11-03 00:00:00",
         "11-03 05:00:00,11-03 05:30:00,11-04 06:00:00"},
        {"0 2 * * *", "America/New_York", "2024-11-03 00:00:00", "11-03 07:00:00"},
        /* A star as the hour: by the clock. */
        {"*/30 * * * *", "America/New_York", "2024-03-10 06:00:00",
         "03-10 06:30:00,03-10 07:00:00,03-10 07:30:00"},
        {"*/30 * * * *", "America/New_York", "2024-11-03 05:00:00",
         "11-03 05:30:00,11-03 06:00:00,11-03 06:30:00,11-03 07:00:00"},
        {"0 */2 * * *", "America/New_York", "2024-03-10 05:00:00", "03-10 08:00:00"},
        /* Half an hour. */
        {"15 2 * * *", "Australia/Lord_Howe", "2024-10-05 12:00:00",
         "10-05 15:30:00,10-06 15:15:00"},
        {"45 1 * * *", "Australia/Lord_Howe", "2024-04-06 12:00:00",
         "04-06 14:45:00,04-07 15:15:00"},
        /* Samoa had no December 30, 2011. */
        {"0 9 30 12 *", "Pacific/Apia", "2011-12-01 00:00:00", "12-30 10:00:00,12-29 19:00:00"},
        {"0 9 * * *", "Pacific/Apia", "2011-12-29 00:00:00",
         "12-29 19:00:00,12-30 10:00:00,12-30 19:00:00"},
        {"0 */12 30 12 *", "Pacific/Apia", "2011-12-01 00:00:00", "12-29 10:00:00"},
        /* Midnight does not exist in Havana on that day. */
        {"0 0 * * *", "America/Havana", "2024-03-09 12:00:00", "03-10 05:00:00,03-11 04:00:00"},
        /* A zone that went back for good. */
        {"30 1 * * *", "Europe/Moscow", "2014-10-25 00:00:00", "10-25 21:30:00,10-26 22:30:00"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_next(cases[i].expression, cases[i].zone, cases[i].after, cases[i].expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),         cmocka_unit_test(length),
        cmocka_unit_test(equal_texts),     cmocka_unit_test(days),
        cmocka_unit_test(rare_days),       cmocka_unit_test(after),
        cmocka_unit_test(daylight_saving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
