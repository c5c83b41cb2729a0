/*
 * Cron expressions against a judge that looks at every second.
 *
 * Input: four bytes of an instant, the expression up to a newline, then a zone file; UTC if it is
 * none. In a zone that changes its offset, the instant is moved close to a change.
 */
#include <time.h>

#include "base/cron.h"
#include "fuzz.h"

enum { SECONDS_JUDGED = 2 * 3600 };

static bool has(uint64_t bits, int value)
{
    return bits >> value & 1;
}

static bool matches(const struct cron *c, int64_t local_s)
{
    if (!has(c->seconds, (int)((local_s % 60 + 60) % 60)))
        return false;
    time_t seconds = (time_t)local_s;
    struct tm tm, next_day;
    gmtime_r(&seconds, &tm);
    seconds += 86400;
    gmtime_r(&seconds, &next_day);
    bool last = c->last_day && next_day.tm_mday == 1;
    bool date = has(c->days_of_month, tm.tm_mday) || last,
         weekday = has(c->days_of_week, tm.tm_wday);
    return has(c->minutes, tm.tm_min) && has(c->hours, tm.tm_hour) &&
           has(c->months, tm.tm_mon + 1) && (c->either_day ? date || weekday : date && weekday);
}

/* The first time after an instant, if before end. fuzz_time_zone judges time_zone_passed(). */
static int64_t judge(const struct cron *c, const struct time_zone *z, int64_t after_s,
                     int64_t end_s)
{
    int64_t passed = time_zone_passed(z, after_s);
    struct time_zone_span s = time_zone_at(z, after_s);
    for (int64_t at = after_s + 1; at < end_s; at++) {
        if (at >= s.until)
            s = time_zone_at(z, at);
        int64_t local = at + s.offset;
        for (int64_t due = c->follows_clock ? local : passed + 1; due <= local; due++)
            if (matches(c, due))
                return at;
        passed = local > passed ? local : passed;
    }
    return INT64_MAX;
}

static void check(const struct cron *c, const struct time_zone *z, int64_t at_s)
{
    int64_t end_s = at_s + SECONDS_JUDGED;
    int64_t next_ms = cron_next(c, z, at_s * 1000);
    int64_t next_s = next_ms / 1000;

    FUZZ_CHECK(next_ms > at_s * 1000);
    FUZZ_CHECK(next_ms == INT64_MAX || next_ms % 1000 == 0);
    FUZZ_CHECK((next_s < end_s ? next_s : INT64_MAX) == judge(c, z, at_s, end_s));
    FUZZ_CHECK(cron_next(c, z, at_s * 1000 + 999) == next_ms);
    FUZZ_CHECK(next_ms == INT64_MAX || cron_next(c, z, next_ms - 1) == next_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct reader in = {(const char *)data, len, false};
    int64_t at_s = (int32_t)reader_u32(&in);
    struct str rest = {in.p, in.left}, text = str_cut(&rest, '\n');
    char *exact = fuzz_exact(text);
    struct err_info e = {""};
    struct time_zone *z = NULL;
    struct cron c;
    int err = cron_parse((struct str){exact, text.len}, &c, &e);

    free(exact);
    FUZZ_CHECK(err ? err == DROVER_BAD_ARGUMENT && e.text[0] : !e.text[0]);
    if (err)
        return 0;
    if (time_zone_parse((struct str){rest.p ? rest.p : "", rest.len}, &z, &e))
        FUZZ_CHECK(!time_zone_load(NULL, STR("UTC"), &z, &e));
    int64_t change_s = time_zone_at(z, at_s).until;
    if (change_s < INT32_MAX)
        at_s = change_s - SECONDS_JUDGED / 2 + at_s % (SECONDS_JUDGED / 2);
    check(&c, z, at_s);
    time_zone_free(z);
    return 0;
}
