/*
 * bench - what the benchmarks share: the clock, and ending at the first error.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "drover.h"

static inline double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline void check(int err, const char *what)
{
    if (err >= 0)
        return;
    fprintf(stderr, "bench: %s: %s\n", what, drover_err_message(err));
    exit(1);
}

#endif
