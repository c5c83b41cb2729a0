#include "base/histogram.h"

#include <stddef.h>

#define MS UINT64_C(1000000)
#define S (1000 * MS)
#define HOUR (3600 * S)

const struct histogram_scale HISTOGRAM_LATENCY = {{MS / 10, MS / 4, MS / 2, MS, 5 * MS / 2, 5 * MS,
                                                   10 * MS, 25 * MS, 50 * MS, 100 * MS, 250 * MS,
                                                   500 * MS, S, 5 * S / 2, 5 * S, 10 * S}};

const struct histogram_scale HISTOGRAM_RUN = {{10 * MS, 50 * MS, 100 * MS, 500 * MS, S, 5 * S,
                                               10 * S, 30 * S, 60 * S, 300 * S, 600 * S, 1800 * S,
                                               HOUR, 4 * HOUR, 12 * HOUR, 24 * HOUR}};

void histogram_add(struct histogram *h, uint64_t ns)
{
    size_t i = 0;
    while (i < HISTOGRAM_ENDS && ns > h->scale->ends_ns[i])
        i++;
    atomic_fetch_add_explicit(&h->buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum_ns, ns, memory_order_relaxed);
}
