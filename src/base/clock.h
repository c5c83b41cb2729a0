/*
 * clock - the two clocks. Wall time is for what people name; everything that measures a span (leases,
 * session timeouts, flush intervals) uses the other, which also counts while the machine sleeps.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

int64_t clock_wall_ms(void);
int64_t clock_boot_ms(void);

#endif
