/*
 * Rules at the end of zone files: the TZ strings of POSIX, as RFC 9636 restricts and extends them.
 *
 *   rule      name offset [name [offset] "," change "," change]
 *   name      three letters or more, or "<+03>"
 *   offset    [+-]h[:m[:s]], positive west of Greenwich, up to 24 hours
 *   change    day ["/" time]: to daylight saving first, then back
 *   day       "M" month "." week "." weekday, week 5 being the last; "J" 1..365, which never
 *             counts February 29; or 0..365, which does
 *   time      like an offset, up to 167 hours before or after midnight; default 2:00
 *
 * A change is given in the local time that ends with it. Daylight saving may be behind standard
 * time (Europe/Dublin), begin in one year and end in the next (the south), or last all year: the
 * two changes then fall together and cancel out.
 */
#include "base/civil.h"
#include "base/time_zone_impl.h"

enum {
    NAME_LEN_MIN = 3,
    HOUR_S = 3600,
    DST_DEFAULT_S = HOUR_S, /* ahead of standard time */
    TIME_DEFAULT_S = 2 * HOUR_S,
    FIRST_YEAR = 1600, /* of a rule in a zone without changes */
    /* A whole era before the last change, even if the changes of all but leap years cancel out. */
    RULE_YEARS = CIVIL_ERA_YEARS + 20,
};

struct rule_day {
    char kind; /* 'M', 'J' or '0' */
    int month, week, day;
    int32_t time_s;
};

struct rule {
    int32_t standard, dst;
    bool has_dst;
    struct rule_day begin, end;
};

static bool take(struct str *text, char c)
{
    if (!text->len || *text->p != c)
        return false;
    *text = (struct str){text->p + 1, text->len - 1};
    return true;
}

static bool take_number(struct str *text, int min, int max, int *ret_number)
{
    int n = 0;
    size_t len = 0;
    for (; len < text->len && text->p[len] >= '0' && text->p[len] <= '9' && n <= max; len++)
        n = n * 10 + (text->p[len] - '0');
    if (!len || n < min || n > max)
        return false;
    *text = (struct str){text->p + len, text->len - len};
    *ret_number = n;
    return true;
}

static bool take_time(struct str *text, int hours_max, int32_t *ret_s)
{
    int hours, minutes = 0, seconds = 0;
    bool minus = take(text, '-');
    if (!minus)
        take(text, '+');
    if (!take_number(text, 0, hours_max, &hours))
        return false;
    if (take(text, ':')) {
        if (!take_number(text, 0, 59, &minutes))
            return false;
        if (take(text, ':') && !take_number(text, 0, 59, &seconds))
            return false;
    }
    int32_t s = hours * HOUR_S + minutes * 60 + seconds;
    *ret_s = minus ? -s : s;
    return true;
}

static bool is_alpha(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool take_name(struct str *text)
{
    bool quoted = take(text, '<');
    size_t len = 0;
    while (len < text->len && (quoted ? text->p[len] != '>' : is_alpha(text->p[len])))
        len++;
    *text = (struct str){text->p + len, text->len - len};
    return len >= NAME_LEN_MIN && (!quoted || take(text, '>'));
}

/* Rules count westward, zones eastward. */
static bool take_offset(struct str *text, int32_t *ret_offset)
{
    if (!take_time(text, 24, ret_offset))
        return false;
    *ret_offset = -*ret_offset;
    return true;
}

static bool take_day(struct str *text, struct rule_day *d)
{
    d->kind = take(text, 'M') ? 'M' : take(text, 'J') ? 'J' : '0';
    if (d->kind == 'M') {
        if (!take_number(text, 1, 12, &d->month) || !take(text, '.') ||
            !take_number(text, 1, 5, &d->week) || !take(text, '.') ||
            !take_number(text, 0, 6, &d->day))
            return false;
    } else if (!take_number(text, d->kind == 'J', 365, &d->day)) {
        return false;
    }
    d->time_s = TIME_DEFAULT_S;
    return !take(text, '/') || take_time(text, 167, &d->time_s);
}

static bool parse_rule(struct str text, struct rule *r)
{
    if (!take_name(&text) || !take_offset(&text, &r->standard))
        return false;
    r->has_dst = text.len > 0;
    if (!r->has_dst)
        return true;
    if (!take_name(&text))
        return false;
    r->dst = r->standard + DST_DEFAULT_S;
    if (text.len && *text.p != ',' && !take_offset(&text, &r->dst))
        return false;
    return take(&text, ',') && take_day(&text, &r->begin) && take(&text, ',') &&
           take_day(&text, &r->end) && !text.len;
}

static int64_t day_in_year(const struct rule_day *d, int64_t year)
{
    int64_t january_1 = civil_days((struct civil_date){year, 1, 1});
    if (d->kind == 'J')
        return january_1 + d->day - 1 + (d->day >= 60 && civil_is_leap(year));
    if (d->kind == '0')
        return january_1 + d->day;
    int64_t first = civil_days((struct civil_date){year, d->month, 1});
    int day = (d->day - civil_weekday(first) + 7) % 7 + (d->week - 1) * 7;
    return first + (day < civil_month_len(year, d->month) ? day : day - 7);
}

static struct time_zone_change change_in_year(const struct rule_day *d, int64_t year,
                                              int32_t before, int32_t after)
{
    return (struct time_zone_change){day_in_year(d, year) * CIVIL_DAY_S + d->time_s - before,
                                     after};
}

/* The two changes of a year, in order. */
static void changes_in_year(const struct rule *r, int64_t year, struct time_zone_change ret[2])
{
    struct time_zone_change begin = change_in_year(&r->begin, year, r->standard, r->dst);
    struct time_zone_change end = change_in_year(&r->end, year, r->dst, r->standard);
    ret[0] = begin.at <= end.at ? begin : end;
    ret[1] = begin.at <= end.at ? end : begin;
}

/*
 * Adds what the rule says after a time, up to the beginning of the last year. False: the changes of
 * two years overlap.
 */
static bool add_years(struct time_zone *z, const struct rule *r, int64_t after, int64_t year)
{
    int64_t end = civil_days((struct civil_date){year + RULE_YEARS, 1, 1}) * CIVIL_DAY_S;
    int64_t last = INT64_MIN;
    for (int i = 0; i <= RULE_YEARS; i++) {
        struct time_zone_change two[2];
        changes_in_year(r, year + i, two);
        if (two[0].at < last)
            return false;
        for (int j = 0; j < 2; j++)
            if (two[j].at > after && two[j].at < end)
                time_zone_add(z, two[j].at, two[j].offset);
        last = two[1].at;
    }
    return true;
}

bool time_zone_continue(struct time_zone *z, int64_t after, struct str rule)
{
    struct rule r = {0};
    int64_t year = FIRST_YEAR;
    if (!parse_rule(rule, &r))
        return false;
    if (after == INT64_MIN)
        time_zone_add(z, INT64_MIN, r.standard);
    else
        year = civil_of_days(civil_floor_div(after, CIVIL_DAY_S)).year;
    size_t given = z->count;
    if (r.has_dst && !add_years(z, &r, after, year))
        return false;
    z->repeats = z->count - given > 2;
    return true;
}
