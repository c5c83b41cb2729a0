/*
 * The next time of an expression.
 *
 * The search goes by fields: the next matching day by a bitmap for each month, then the next
 * matching time of that day. The rarest day, February 29 on a given weekday, is at most 40 years
 * away. Zones are kept out of it: it finds local times, and cron_next() maps them to instants.
 */
#include "base/cron.h"

#include "base/civil.h"

/* No day, and no time of day. */
enum { NONE = -1 };

/* The first bit at or after one; NONE if there is no such bit. */
static int next_bit(uint64_t bits, int from)
{
    bits = from < 64 ? bits >> from << from : 0;
    return bits ? __builtin_ctzll(bits) : NONE;
}

/* The first matching second of a day at or after one. */
static int next_second_of_day(const struct cron *c, int from)
{
    int first_minute = next_bit(c->minutes, 0), first_second = next_bit(c->seconds, 0);
    int hour = from / 3600, minute = from / 60 % 60, second = from % 60;
    if (c->hours >> hour & 1) {
        if (c->minutes >> minute & 1) {
            int same_minute = next_bit(c->seconds, second);
            if (same_minute != NONE)
                return hour * 3600 + minute * 60 + same_minute;
        }
        int same_hour = next_bit(c->minutes, minute + 1);
        if (same_hour != NONE)
            return hour * 3600 + same_hour * 60 + first_second;
    }
    hour = next_bit(c->hours, hour + 1);
    return hour == NONE ? NONE : hour * 3600 + first_minute * 60 + first_second;
}

/* The matching days of a month: bit n is day n. */
static uint32_t days_of(const struct cron *c, int64_t year, int month)
{
    int len = civil_month_len(year, month);
    uint32_t all = (uint32_t)((UINT64_C(2) << len) - 2);
    uint32_t by_date = c->days_of_month | (c->last_day ? UINT32_C(1) << len : 0);
    /* The week, beginning with the weekday of day 1, and as often as it fits. */
    int first = civil_weekday(civil_days((struct civil_date){year, month, 1}));
    uint64_t week = (c->days_of_week >> first | c->days_of_week << (7 - first)) & 0x7f;
    uint32_t by_weekday = (uint32_t)(week * UINT64_C(0x10204081) << 1);
    return all & (c->either_day ? by_date | by_weekday : by_date & by_weekday);
}

/* The first matching day at or after one, in days since 1970. INT64_MAX: none for too long. */
static int64_t next_day(const struct cron *c, int64_t from)
{
    struct civil_date d = civil_of_days(from);
    for (int64_t end = d.year + CRON_YEARS_MAX; d.year < end; d.year++, d.month = 1, d.day = 1) {
        int month = d.month;
        while ((d.month = next_bit(c->months, d.month)) != NONE) {
            int day = next_bit(days_of(c, d.year, d.month), d.month == month ? d.day : 1);
            if (day != NONE)
                return civil_days((struct civil_date){d.year, d.month, day});
            d.month++;
        }
    }
    return INT64_MAX;
}

/* The first matching local time at or after one. INT64_MAX: none for too long. */
static int64_t next_local(const struct cron *c, int64_t from_s)
{
    int64_t today = civil_floor_div(from_s, CIVIL_DAY_S);
    int64_t day = next_day(c, today);
    int second = NONE;
    if (day == today) {
        second = next_second_of_day(c, (int)(from_s - today * CIVIL_DAY_S));
        if (second == NONE)
            day = next_day(c, today + 1);
    }
    if (day == INT64_MAX)
        return INT64_MAX;
    return day * CIVIL_DAY_S + (second == NONE ? next_second_of_day(c, 0) : second);
}

/* Each span of the zone is searched on its own: the next one may begin with an earlier time. */
static int64_t next_by_clock(const struct cron *c, const struct time_zone *z, int64_t from_s)
{
    int64_t end_s = from_s + (int64_t)CRON_YEARS_MAX * 366 * CIVIL_DAY_S;
    while (from_s < end_s) {
        struct time_zone_span s = time_zone_at(z, from_s);
        int64_t local_s = next_local(c, from_s + s.offset);
        if (local_s != INT64_MAX && local_s - s.offset < s.until)
            return local_s - s.offset;
        from_s = s.until;
    }
    return INT64_MAX;
}

static int64_t next_once(const struct cron *c, const struct time_zone *z, int64_t after_s)
{
    int64_t local_s = next_local(c, time_zone_passed(z, after_s) + 1);
    return local_s == INT64_MAX ? INT64_MAX : time_zone_reach(z, local_s);
}

int64_t cron_next(const struct cron *c, const struct time_zone *z, int64_t after_ms)
{
    int64_t after_s = civil_floor_div(after_ms, 1000);
    int64_t next_s = c->follows_clock ? next_by_clock(c, z, after_s + 1) : next_once(c, z, after_s);
    return next_s > INT64_MAX / 1000 ? INT64_MAX : next_s * 1000;
}
