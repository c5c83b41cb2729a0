#include "base/human.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *human_span(char *out, int64_t ms)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}};
    if (ms > -1000 && ms < 1000) {
        snprintf(out, HUMAN_SIZE, ms ? "%" PRId64 "ms" : "%" PRId64 "s", ms);
        return out;
    }
    if (ms > 0 && ms < 10000 && ms % 1000 >= 100) {
        snprintf(out, HUMAN_SIZE, "%" PRId64 ".%" PRId64 "s", ms / 1000, ms % 1000 / 100);
        return out;
    }
    size_t i = 0;
    while (ms / units[i].ms == 0)
        i++;
    int64_t small = units[i].ms > 1000 ? ms % units[i].ms / units[i + 1].ms : 0;
    if (small)
        snprintf(out, HUMAN_SIZE, "%" PRId64 "%s%" PRId64 "%s", ms / units[i].ms, units[i].name,
                 small < 0 ? -small : small, units[i + 1].name);
    else
        snprintf(out, HUMAN_SIZE, "%" PRId64 "%s", ms / units[i].ms, units[i].name);
    return out;
}

const char *human_time(char *out, int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    if (!localtime_r(&seconds, &tm) || !strftime(out, HUMAN_SIZE, "%Y-%m-%d %H:%M:%S", &tm))
        snprintf(out, HUMAN_SIZE, "%" PRId64 " ms", ms);
    return out;
}

const char *human_utc(char *out, int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    strftime(out, HUMAN_SIZE, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &tm));
    return out;
}

const char *human_clock(char *out, int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm = {0};
    localtime_r(&seconds, &tm);
    strftime(out, HUMAN_SIZE, "%H:%M:%S", &tm);
    return out;
}

const char *human_iso(char *out, int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm = {0};
    localtime_r(&seconds, &tm);
    size_t len = strftime(out, HUMAN_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
    long minutes = labs(tm.tm_gmtoff) / 60;
    snprintf(out + len, HUMAN_SIZE - len, ".%03d%c%02ld:%02ld", (int)(ms % 1000),
             tm.tm_gmtoff < 0 ? '-' : '+', minutes / 60, minutes % 60);
    return out;
}

const char *human_size(char *out, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    uint64_t whole = bytes, tenths = 0;
    size_t i = 0;
    for (; whole >= 1024; i++) {
        tenths = whole % 1024 * 10 / 1024;
        whole /= 1024;
    }
    if (tenths && whole < 100)
        snprintf(out, HUMAN_SIZE, "%" PRIu64 ".%" PRIu64 " %s", whole, tenths, units[i]);
    else
        snprintf(out, HUMAN_SIZE, "%" PRIu64 " %s", whole, units[i]);
    return out;
}

const char *human_count(char *out, uint64_t count, const char *singular)
{
    size_t len = strlen(singular);
    const char *ending = strchr("hsx", singular[len - 1]) ? "es" : "s";
    snprintf(out, HUMAN_SIZE, "%" PRIu64 " %s%s", count, singular, count == 1 ? "" : ending);
    return out;
}
