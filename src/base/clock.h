/*
 * clock - milliseconds of the two clocks. Wall time is for people; everything that measures a
 * duration (leases, session timeouts, flush intervals) uses the boot clock, which also runs while
 * the machine sleeps.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_read_ms(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline int64_t clock_wall_ms(void)
{
    return clock_read_ms(CLOCK_REALTIME);
}

static inline int64_t clock_boot_ms(void)
{
    return clock_read_ms(CLOCK_BOOTTIME);
}

#endif
