/*
 * summary - how many values there were, their sum, the smallest and the largest.
 */
#ifndef BASE_SUMMARY_H
#define BASE_SUMMARY_H

#include <stdint.h>

struct summary {
    uint64_t count;
    int64_t sum, min, max; /* 0 without a value */
};

static inline void summary_merge(struct summary *to, const struct summary *from)
{
    if (!from->count)
        return;
    if (!to->count || to->min > from->min)
        to->min = from->min;
    if (!to->count || to->max < from->max)
        to->max = from->max;
    to->count += from->count;
    to->sum += from->sum;
}

static inline void summary_add(struct summary *s, int64_t value)
{
    summary_merge(s, &(struct summary){1, value, value, value});
}

#endif
