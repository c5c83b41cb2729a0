/*
 * histogram - how many durations there were, by length, and their sum.
 *
 * Initialise with a scale; add from any thread. Adding is two relaxed atomic additions, cheap
 * enough for every request. A reader may see a duration in one of its two places only.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

enum { HISTOGRAM_ENDS = 16 };

/* Upper bounds of the buckets, in nanoseconds; one more bucket is for longer durations. */
struct histogram_scale {
    uint64_t ends_ns[HISTOGRAM_ENDS];
};

extern const struct histogram_scale HISTOGRAM_LATENCY; /* 100 µs to 10 s: requests, syncs */
extern const struct histogram_scale HISTOGRAM_RUN;     /* 10 ms to a day: commands, snapshots */

struct histogram {
    const struct histogram_scale *scale;
    atomic_uint_fast64_t buckets[HISTOGRAM_ENDS + 1], sum_ns;
};

static inline void histogram_init(struct histogram *h, const struct histogram_scale *scale)
{
    h->scale = scale;
}

void histogram_add(struct histogram *h, uint64_t ns);

#endif
