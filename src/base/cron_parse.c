/*
 * Reading cron expressions: see cron.h for what they are. Each field is a row of a table and
 * becomes a bitmap.
 */
#include <stdio.h>
#include <strings.h>

#include "base/civil.h"
#include "base/cron.h"
#include "base/escape.h"

enum field { SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK, FIELDS };

static const struct field_kind {
    const char *name;
    int min, max;
    int accepted_max; /* 7 is another Sunday */
    const char *names;
} KINDS[FIELDS] = {
    [SECOND] = {"second", 0, 59, 59, NULL},
    [MINUTE] = {"minute", 0, 59, 59, NULL},
    [HOUR] = {"hour", 0, 23, 23, NULL},
    [DAY_OF_MONTH] = {"day-of-month", 1, 31, 31, NULL},
    [MONTH] = {"month", 1, 12, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
    [DAY_OF_WEEK] = {"day-of-week", 0, 6, 7, "sunmontuewedthufrisat"},
};

/* What stands for a whole expression, or why there is no such thing. */
static const struct {
    const char *name, *text, *refusal;
} NICKNAMES[] = {
    {"@yearly", "0 0 1 1 *", NULL},
    {"@annually", "0 0 1 1 *", NULL},
    {"@monthly", "0 0 1 * *", NULL},
    {"@weekly", "0 0 * * 0", NULL},
    {"@daily", "0 0 * * *", NULL},
    {"@midnight", "0 0 * * *", NULL},
    {"@hourly", "0 * * * *", NULL},
    {"@reboot", NULL, "@reboot is not a time; a schedule needs one"},
};

struct cron_part {
    const struct field_kind *kind;
    struct str text; /* as it was given, for messages */
    int first, last, step;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_star(struct str text)
{
    return text.len == 1 && *text.p == '*';
}

/* -1: neither a number nor a name. Numbers that are too large stay too large. */
static int value_of(const struct field_kind *k, struct str text)
{
    int value = 0;
    for (size_t i = 0; k->names && text.len == 3 && k->names[3 * i]; i++)
        if (!strncasecmp(text.p, k->names + 3 * i, 3))
            return k->min + (int)i;
    for (size_t i = 0; i < text.len; i++) {
        if (!is_digit(text.p[i]))
            return -1;
        value = value < 1000 ? value * 10 + (text.p[i] - '0') : value;
    }
    return text.len ? value : -1;
}

static int parse_value(const struct cron_part *p, struct str text, int *ret_value,
                       struct err_info *e)
{
    const struct field_kind *k = p->kind;
    char names[32] = "";
    int value = value_of(k, text);
    if (value >= k->min && value <= k->accepted_max) {
        *ret_value = value;
        return 0;
    }
    if (k->names)
        snprintf(names, sizeof names, " or %.3s to %.3s", k->names,
                 k->names + 3 * (k->max - k->min));
    if (!text.len)
        return err_set(e, DROVER_BAD_ARGUMENT, "%s: a value is missing in '%.*s'", k->name,
                       STR_ARGS(p->text));
    return err_set(e, DROVER_BAD_ARGUMENT, "%s: %.*s is not %d to %d%s", k->name, STR_ARGS(text),
                   k->min, k->accepted_max, names);
}

static int parse_step(struct cron_part *p, struct str text, struct err_info *e)
{
    const struct field_kind *k = p->kind;
    int count = k->max - k->min + 1, step = value_of(&(struct field_kind){0}, text);
    if (step < 1 || step > count)
        return err_set(e, DROVER_BAD_ARGUMENT, "%s: the step in %.*s is not 1 to %d", k->name,
                       STR_ARGS(p->text), count);
    p->step = step;
    return 0;
}

static int parse_range(struct cron_part *p, struct str text, struct err_info *e)
{
    const struct field_kind *k = p->kind;
    struct str last = text, first = str_cut(&last, '-');
    TRY(parse_value(p, first, &p->first, e));
    p->last = p->first;
    if (!last.p)
        return 0;
    TRY(parse_value(p, last, &p->last, e));
    if (p->last == 0 && k->accepted_max > k->max && p->first > 0)
        p->last = k->accepted_max; /* fri-sun */
    if (p->last < p->first)
        return err_set(e, DROVER_BAD_ARGUMENT,
                       "%s: %.*s runs backward; write %.*s-%d,%d-%.*s if it is to wrap around",
                       k->name, STR_ARGS(text), STR_ARGS(first), k->max, k->min, STR_ARGS(last));
    return 0;
}

static int parse_part(const struct field_kind *k, struct str text, uint64_t *bits,
                      struct err_info *e)
{
    struct cron_part p = {.kind = k, .text = text, .first = k->min, .last = k->max, .step = 1};
    struct str step = text, range = str_cut(&step, '/');
    if (!is_star(range)) {
        TRY(parse_range(&p, range, e));
        if (step.p && !memchr(range.p, '-', range.len) && p.last < k->max)
            p.last = k->max; /* 5/15 */
    }
    if (step.p)
        TRY(parse_step(&p, step, e));
    for (int value = p.first; value <= p.last; value += p.step)
        *bits |= UINT64_C(1) << (value > k->max ? k->min : value);
    return 0;
}

static int parse_field(enum field f, struct str text, struct cron *c, uint64_t *ret_bits,
                       struct err_info *e)
{
    const struct field_kind *k = &KINDS[f];
    for (struct str rest = text; rest.p;) {
        struct str part = str_cut(&rest, ',');
        if (f == DAY_OF_MONTH && part.len == 1 && (*part.p == 'L' || *part.p == 'l'))
            c->last_day = true;
        else if (part.len)
            TRY(parse_part(k, part, ret_bits, e));
        else
            return err_set(e, DROVER_BAD_ARGUMENT, "%s: a value is missing in '%.*s'", k->name,
                           STR_ARGS(text));
    }
    return 0;
}

/* Whether a day comes at all; each weekday comes in each month. In leap years, to include all. */
static bool comes(const struct cron *c)
{
    if (c->either_day || c->last_day)
        return true;
    for (int month = 1; month <= 12; month++)
        if (c->months >> month & 1 &&
            c->days_of_month & ((UINT64_C(2) << civil_month_len(2000, month)) - 2))
            return true;
    return false;
}

static int parse_fields(struct str texts[FIELDS], struct cron *ret_cron, struct err_info *e)
{
    struct cron c = {0};
    uint64_t bits[FIELDS] = {0};
    bool star[FIELDS];
    for (int f = 0; f < FIELDS; f++) {
        TRY(parse_field(f, texts[f], &c, &bits[f], e));
        star[f] = *texts[f].p == '*';
    }
    c.seconds = bits[SECOND];
    c.minutes = bits[MINUTE];
    c.hours = (uint32_t)bits[HOUR];
    c.days_of_month = (uint32_t)bits[DAY_OF_MONTH];
    c.months = (uint16_t)bits[MONTH];
    c.days_of_week = (uint8_t)bits[DAY_OF_WEEK];
    c.either_day = !star[DAY_OF_MONTH] && !star[DAY_OF_WEEK];
    c.follows_clock = star[HOUR];
    if (!comes(&c))
        return err_set(e, DROVER_BAD_ARGUMENT,
                       "day-of-month: %.*s never comes in the months of %.*s",
                       STR_ARGS(texts[DAY_OF_MONTH]), STR_ARGS(texts[MONTH]));
    *ret_cron = c;
    return 0;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* Removes the next word, up to a space, from the front. Empty: there is none. */
static struct str take_word(struct str *rest)
{
    while (rest->len && is_space(*rest->p))
        *rest = (struct str){rest->p + 1, rest->len - 1};
    struct str word = {rest->p, 0};
    while (word.len < rest->len && !is_space(rest->p[word.len]))
        word.len++;
    *rest = (struct str){rest->p + word.len, rest->len - word.len};
    return word;
}

static int parse_nickname(struct str name, struct cron *ret_cron, struct err_info *e)
{
    for (size_t i = 0; i < sizeof NICKNAMES / sizeof *NICKNAMES; i++) {
        if (name.len != strlen(NICKNAMES[i].name) ||
            strncasecmp(name.p, NICKNAMES[i].name, name.len) != 0)
            continue;
        if (NICKNAMES[i].refusal)
            return err_set(e, DROVER_BAD_ARGUMENT, "%s", NICKNAMES[i].refusal);
        return cron_parse(str_of(NICKNAMES[i].text), ret_cron, e);
    }
    return err_set(
        e, DROVER_BAD_ARGUMENT,
        "%.*s is not @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly",
        STR_ARGS(name));
}

/* Only what can be shown gets into messages. */
static int check_text(struct str text, struct err_info *e)
{
    if (text.len > CRON_LEN_MAX)
        return err_set(e, DROVER_BAD_ARGUMENT,
                       "a cron expression has at most %d bytes; this has %zu", CRON_LEN_MAX,
                       text.len);
    for (size_t i = 0; i < text.len; i++)
        if (!is_space(text.p[i]) && (text.p[i] <= ' ' || text.p[i] > '~'))
            return err_set(e, DROVER_BAD_ARGUMENT, "a cron expression has no %s (byte %zu)",
                           escape_byte(text.p[i]).text, i + 1);
    return 0;
}

int cron_parse(struct str text, struct cron *ret_cron, struct err_info *ret_error)
{
    struct str fields[FIELDS], rest = text, word;
    size_t count = 0;
    TRY(check_text(text, ret_error));
    while ((word = take_word(&rest)).len) {
        if (count < FIELDS)
            fields[count] = word;
        count++;
    }
    if (count == 1 && *fields[0].p == '@')
        return parse_nickname(fields[0], ret_cron, ret_error);
    if (count == FIELDS - 1) {
        memmove(fields + 1, fields, count * sizeof *fields);
        fields[SECOND] = STR("0");
    } else if (count != FIELDS) {
        return err_set(ret_error, DROVER_BAD_ARGUMENT,
                       "a cron expression has five fields (minute hour day-of-month month "
                       "day-of-week), or six with the second first; this has %zu",
                       count);
    }
    return parse_fields(fields, ret_cron, ret_error);
}
