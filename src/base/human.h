/*
 * human - durations, times, sizes and counts as people write them.
 *
 * Each function writes to a buffer of the caller, of HUMAN_SIZE bytes, and returns it.
 */
#ifndef BASE_HUMAN_H
#define BASE_HUMAN_H

#include <stdint.h>

enum { HUMAN_SIZE = 48 };

/* "250ms", "1.5s", "1m30s", "2h", "365d": the two largest units, the second one rounded down. */
const char *human_span(char *out, int64_t ms);

/* "2026-11-16 17:40:05", in the local time zone. ms counts from 1970. */
const char *human_time(char *out, int64_t ms);

/* "2026-11-16T17:40:05", in UTC; the caller adds the "Z", with the milliseconds or without. */
const char *human_utc(char *out, int64_t ms);

/* "17:40:05", and "2026-11-16T17:40:05.123+01:00", in the local time zone. */
const char *human_clock(char *out, int64_t ms);
const char *human_iso(char *out, int64_t ms);

/* "512 B", "1.5 KiB", "16 MiB" */
const char *human_size(char *out, uint64_t bytes);

/* "1 node", "2 nodes", "2 batches". */
const char *human_count(char *out, uint64_t count, const char *singular);

#endif
