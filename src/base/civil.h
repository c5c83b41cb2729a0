/*
 * civil - the Gregorian calendar, in both directions, for any year that fits.
 *
 * Days count from 1970-01-01. gmtime_r() and timegm() do the same through a struct tm; the searches
 * of cron.c and the rules of time_zone_rule.c need days alone, often, and never an error.
 */
#ifndef BASE_CIVIL_H
#define BASE_CIVIL_H

#include <stdbool.h>
#include <stdint.h>

enum { CIVIL_DAY_S = 86400, CIVIL_ERA_YEARS = 400, CIVIL_ERA_DAYS = 146097 };

struct civil_date {
    int64_t year;
    int month, day; /* from 1 */
};

static inline int64_t civil_floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static inline bool civil_is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static inline int civil_month_len(int64_t year, int month)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return lengths[month - 1] + (month == 2 && civil_is_leap(year));
}

/* Years begin in March here, so that the leap day is the last of its year. */
static inline int64_t civil_days(struct civil_date d)
{
    int64_t year = d.year - (d.month <= 2);
    int64_t era = civil_floor_div(year, CIVIL_ERA_YEARS);
    int64_t of_era = year - era * CIVIL_ERA_YEARS;
    int64_t day_of_year = (153 * ((d.month + 9) % 12) + 2) / 5 + d.day - 1;
    return era * CIVIL_ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719468;
}

static inline struct civil_date civil_of_days(int64_t days)
{
    int64_t shifted = days + 719468;
    int64_t era = civil_floor_div(shifted, CIVIL_ERA_DAYS);
    int64_t of_era = shifted - era * CIVIL_ERA_DAYS;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t day_of_year = of_era - (365 * year + year / 4 - year / 100);
    int month = (int)((5 * day_of_year + 2) / 153);
    struct civil_date d = {
        .month = month < 10 ? month + 3 : month - 9,
        .day = (int)(day_of_year - (153 * month + 2) / 5) + 1,
    };
    d.year = year + era * CIVIL_ERA_YEARS + (d.month <= 2);
    return d;
}

/* 0 is Sunday. */
static inline int civil_weekday(int64_t days)
{
    return (int)(days - civil_floor_div(days + 4, 7) * 7 + 4);
}

#endif
