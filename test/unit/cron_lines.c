/*
 * Answers questions about cron expressions and time zones, one in each line, for cron_judge:
 *
 *   next ZONE FROM_MS UNTIL_MS MAX EXPRESSION     at most MAX times in (FROM_MS, UNTIL_MS]
 *   offset ZONE UTC_S...                          the offset at each instant
 *   reach ZONE LOCAL_S...                         time_zone_reach()
 *   passed ZONE UTC_S...                          time_zone_passed()
 *
 * An answer is one line of numbers, or "! " and the reason why there are none.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/cron.h"
#include "base/mem.h"

/* The zone of the last line; most lines ask about the same one. */
static struct time_zone *zone;
static char zone_name[TIME_ZONE_NAME_MAX + 1];

static int use_zone(const char *name, struct err_info *e)
{
    if (zone && !strcmp(zone_name, name))
        return 0;
    struct time_zone *other;
    TRY(time_zone_load(NULL, str_of(name), &other, e));
    time_zone_free(zone);
    zone = other;
    snprintf(zone_name, sizeof zone_name, "%s", name);
    return 0;
}

static int answer_next(char *rest, struct err_info *e)
{
    struct cron c;
    int64_t at = strtoll(rest, &rest, 10);
    int64_t until = strtoll(rest, &rest, 10);
    long left = strtol(rest, &rest, 10);
    TRY(cron_parse(str_of(rest), &c, e));
    while (left-- > 0 && (at = cron_next(&c, zone, at)) <= until)
        printf("%" PRId64 " ", at);
    return 0;
}

static int64_t offset_at(const struct time_zone *z, int64_t utc_s)
{
    return time_zone_at(z, utc_s).offset;
}

static int64_t (*lookup_of(const char *verb))(const struct time_zone *z, int64_t at)
{
    if (!strcmp(verb, "offset"))
        return offset_at;
    return strcmp(verb, "reach") ? time_zone_passed : time_zone_reach;
}

static int answer(char *line, struct err_info *e)
{
    char *rest = line, *verb = strsep(&rest, " "), *name = strsep(&rest, " ");
    if (!name || !rest)
        return err_set(e, DROVER_BAD_ARGUMENT, "not a question");
    TRY(use_zone(name, e));
    if (!strcmp(verb, "next"))
        return answer_next(rest, e);
    while (*rest)
        printf("%" PRId64 " ", lookup_of(verb)(zone, strtoll(rest, &rest, 10)));
    return 0;
}

int main(void)
{
    struct err_info e;
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    while ((len = getline(&line, &cap, stdin)) > 0) {
        line[len - 1] = '\0';
        if (answer(line, &e))
            printf("! %s", e.text);
        putchar('\n');
        fflush(stdout);
    }
    free(line);
    time_zone_free(zone);
    return 0;
}
