/*
 * time_zone - local times: zone files (TZif, RFC 9636) and what follows from them.
 *
 * In order: time_zone_load() -> time_zone_at(), time_zone_reach(), time_zone_passed() ->
 * time_zone_free(). A zone does not change, so threads may share it. It takes about 16 KiB: load it
 * once for all its users.
 *
 * Local seconds count as if the local clock showed UTC: local = UTC + offset. Where clocks are set
 * forward, some local times do not occur (a gap); where they are set back, some occur twice. A day
 * that a zone left out, as Samoa did in 2011, is a gap as well. Two calls define what happens then.
 * For every zone and all times
 *
 *     time_zone_reach(z, local) <= utc   if and only if   local <= time_zone_passed(z, utc)
 *
 * Times must lie within TIME_ZONE_RANGE_S of 1970, which every time in int64 milliseconds does.
 */
#ifndef BASE_TIME_ZONE_H
#define BASE_TIME_ZONE_H

#include "base/err.h"
#include "base/str.h"

#define TIME_ZONE_RANGE_S ((int64_t)1 << 59)

enum {
    TIME_ZONE_NAME_MAX = 64,         /* bytes of a name */
    TIME_ZONE_FILE_MAX = 64 * 1024,  /* bytes of a file; Debian's have 4 KiB at most */
    TIME_ZONE_OFFSET_MIN_S = -89999, /* what RFC 9636 allows: a bit more than a day */
    TIME_ZONE_OFFSET_MAX_S = 93599,
};

struct time_zone;

/* A time during which the offset stays the same. from is included, until is not. */
struct time_zone_span {
    int64_t from, until; /* INT64_MIN: since ever; INT64_MAX: for ever */
    int32_t offset;      /* in seconds */
};

/*
 * Reads the zone of a name such as "Europe/Berlin" from a directory; NULL: $TZDIR, else
 * /usr/share/zoneinfo. "UTC" needs no file.
 *
 * BAD_ARGUMENT: this is not a name, or the directory has no such zone. DAMAGED: the file is not a
 * zone file, or one that counts leap seconds. IO, TOO_MANY: it cannot be read.
 */
int time_zone_load(const char *dir, struct str name, struct time_zone **ret_zone,
                   struct err_info *ret_error);

/* The same for the bytes of a file. DAMAGED: they are none that can be used. */
int time_zone_parse(struct str bytes, struct time_zone **ret_zone, struct err_info *ret_error);

/* NULL is allowed. */
void time_zone_free(struct time_zone *z);

/* The offset at an instant, and how long it stays. */
struct time_zone_span time_zone_at(const struct time_zone *z, int64_t utc_s);

/*
 * The first instant at which local clocks show this time or a later one: the first of two; where
 * there is none, the end of the gap.
 */
int64_t time_zone_reach(const struct time_zone *z, int64_t local_s);

/* The latest local time that clocks have shown up to an instant. */
int64_t time_zone_passed(const struct time_zone *z, int64_t utc_s);

#endif
