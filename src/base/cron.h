/*
 * cron - cron expressions, and when they come next. Pure: time and zone are parameters.
 *
 * In order: cron_parse() -> cron_next() as often as wanted. A struct cron owns nothing.
 *
 *     second        0-59, only if there are six fields; else 0
 *     minute        0-59
 *     hour          0-23
 *     day-of-month  1-31, L: the last day of the month
 *     month         1-12 or jan-dec
 *     day-of-week   0-7 or sun-sat; 0 and 7 are Sunday
 *
 * A field is a list of parts, separated by commas: *, 5 or 1-5, each alone or with a step as in
 * 1-10/2; 5/15 goes from 5 to the end of the field. Letters may be capital. A range does not run
 * backward; Sunday at its end is 7. A step is at most the number of values in the field: a minute
 * does not come every 90 minutes. @yearly, @annually, @monthly, @weekly, @daily, @midnight and
 * @hourly stand for five fields.
 *
 * If both day fields are restricted, that is, neither begins with a star, a day must match one of
 * them, else both, as in Vixie's cron. What never comes (February 30) is refused.
 *
 * Daylight saving, and every other change of a zone's offset:
 *
 * - An expression whose hour field begins with a star follows the clock: it comes whenever the
 *   local clock shows a matching time. Times in a gap do not come, times that occur twice come
 *   twice: every 15 minutes stays every 15 minutes.
 * - Every other expression names times of day, and each of them comes once: when the local clock
 *   first shows that time, or a later one because it was set forward past it. In New York 2:30
 *   comes at 3:00 on the day in March; in November 1:30 comes the first time, not the second. All
 *   times in one gap come together, once. A whole day that a zone left out is a gap.
 */
#ifndef BASE_CRON_H
#define BASE_CRON_H

#include "base/err.h"
#include "base/str.h"
#include "base/time_zone.h"

enum { CRON_LEN_MAX = 512, CRON_YEARS_MAX = 100 };

/* Bit n: the value n. */
struct cron {
    uint64_t seconds, minutes;
    uint32_t hours, days_of_month;
    uint16_t months;
    uint8_t days_of_week; /* bit 0: Sunday */
    bool last_day;        /* of the month */
    bool either_day;      /* one of the two day fields must match, not both */
    bool follows_clock;   /* the hour field begins with a star */
};

/* BAD_ARGUMENT: the expression is not valid; the line names the field and says why. */
int cron_parse(struct str text, struct cron *ret_cron, struct err_info *ret_error);

/*
 * The first time after an instant, in ms since 1970; always a whole second. INT64_MAX: there is
 * none in CRON_YEARS_MAX years.
 */
int64_t cron_next(const struct cron *c, const struct time_zone *z, int64_t after_ms);

#endif
