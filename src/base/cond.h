/*
 * cond - condition variables that wait until a moment of clock_boot_ms().
 */
#ifndef BASE_COND_H
#define BASE_COND_H

#include <pthread.h>
#include <stdint.h>

void cond_init(pthread_cond_t *cond);

/* INT64_MAX: for as long as it takes. Wakes early as condition variables do. */
void cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t boot_ms);

#endif
