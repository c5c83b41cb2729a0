/* The span is measured with the one clock and waited for with the other, which pthreads knows. */
#include "base/cond.h"

#include <time.h>

#include "base/clock.h"

void cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

void cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t boot_ms)
{
    int64_t ms = boot_ms - clock_boot_ms();
    struct timespec t;

    if (boot_ms == INT64_MAX) {
        pthread_cond_wait(cond, lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &t);
    ms = (ms < 0 ? 0 : ms) + t.tv_nsec / 1000000;
    t.tv_sec += ms / 1000;
    t.tv_nsec = ms % 1000 * 1000000 + t.tv_nsec % 1000000;
    pthread_cond_timedwait(cond, lock, &t);
}
