/*
 * time_zone_impl - what the files of time_zone share: the table of changes, and rules.
 *
 * A zone is one table of changes. What the file says by a rule ("the last Sunday in March") stands
 * in the table too, for a little more than 400 years: after these the calendar repeats to the day
 * of the week, and so does the rule. A lookup is then one binary search for every time.
 */
#ifndef BASE_TIME_ZONE_IMPL_H
#define BASE_TIME_ZONE_IMPL_H

#include "base/time_zone.h"

struct time_zone_change {
    int64_t at;
    int32_t offset; /* from then on */
};

/*
 * Changes are in order, and each does change the offset. The first is at INT64_MIN. repeats: after
 * the last change, what happened 400 years before it happens again.
 */
struct time_zone {
    struct time_zone_change *changes;
    size_t count, cap;
    bool repeats;
};

/* Adds a change at or after the last one. One at the same time replaces it. */
void time_zone_add(struct time_zone *z, int64_t at, int32_t offset);

/*
 * Continues a zone by the rule at the end of its file, such as "CET-1CEST,M3.5.0,M10.5.0/3", after
 * the last time in it. INT64_MIN: it has no times; the rule holds always, daylight saving from 1600
 * on. False: it is not valid, and the zone may have been continued by a part of it.
 */
bool time_zone_continue(struct time_zone *z, int64_t after, struct str rule);

#endif
