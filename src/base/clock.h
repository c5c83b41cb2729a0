/*
 * clock - the two clocks. Wall time is for people; everything that measures a duration (leases,
 * session timeouts, flush intervals) uses the boot clock, which also runs while the machine sleeps.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

int64_t clock_wall_ms(void);
int64_t clock_boot_ms(void);

#endif
