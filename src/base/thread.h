/*
 * thread - named threads; condition variables that wait until a moment of clock_boot_ms(); a
 * function that runs at an interval; a function that runs for many indexes at once.
 *
 * Every thread of Drover is started here. doc/design.md lists them all with the order of the locks.
 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"

enum { THREAD_NAME_MAX = 15 };

/*
 * Starts fn(arg) on a new thread that must be joined. The name has at most THREAD_NAME_MAX bytes;
 * it shows in /proc/PID/task/TID/comm, in top -H and in a debugger. Fails with IO when the system
 * has no thread to give; ret_error may be NULL.
 */
int thread_start(pthread_t *ret_thread, const char *name, void *(*fn)(void *), void *arg,
                 struct err_info *ret_error);

/* For a thread without which the program cannot work: ends the process when it cannot start. */
void thread_must_start(pthread_t *ret_thread, const char *name, void *(*fn)(void *), void *arg);

/* Holds a mutex until the block ends, however it ends: LOCKED(&store->lock); */
#define LOCKED(mutex) LOCKED_AT(mutex, __LINE__)
#define LOCKED_AT(mutex, line) LOCKED_AS(mutex, line)
#define LOCKED_AS(mutex, line)                                                                     \
    __attribute__((unused)) CLEANUP(locked_end) pthread_mutex_t *locked_##line = locked_begin(mutex)

static inline pthread_mutex_t *locked_begin(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    return mutex;
}

static inline void locked_end(pthread_mutex_t **mutex)
{
    pthread_mutex_unlock(*mutex);
}

void cond_init(pthread_cond_t *cond);

/* INT64_MAX: no time limit. As with every condition variable, it may also return early. */
void cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t boot_ms);

/*
 * The same for a thread that ends what was silent for too long. If the process is stopped (SIGSTOP,
 * a sleeping laptop), it hears nobody, so nobody was silent. Returns true if it woke so late that
 * the process may have been stopped. It returns every second to find out; a stop of a second and a
 * half is always noticed.
 */
bool cond_wait_noticing_stops(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t boot_ms);

/*
 * Calls fn(arg) every every_ms on a thread of its own. The first call comes after one interval, and
 * an interval begins when the call before it has returned. A long call checks
 * periodic_is_stopping() now and then, because periodic_stop() waits for it.
 */
struct periodic;

struct periodic *periodic_start(const char *name, int64_t every_ms,
                                void (*fn)(struct periodic *p, void *arg), void *arg);
bool periodic_is_stopping(struct periodic *p);
void periodic_next(struct periodic *p, int64_t ms); /* from fn: until its next call, from now on */
void periodic_wake(struct periodic *p);             /* the next call comes at once */
void periodic_stop(struct periodic *p);             /* NULL: does nothing */

/*
 * Calls fn(arg, 0) to fn(arg, count - 1), in any order and on several threads, and returns when all
 * calls have returned. For calls that wait: a keeper serves one call per thread, and an ensemble is
 * a round trip away.
 */
void parallel_run(size_t count, void (*fn)(void *arg, size_t i), void *arg);

#endif
