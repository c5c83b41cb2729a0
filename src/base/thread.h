/*
 * thread - named threads, and condition variables that wait until a moment of clock_boot_ms().
 *
 * Every thread of Drover is started here. doc/design.md lists them all with the order of the locks.
 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include "base/err.h"

enum { THREAD_NAME_MAX = 15 };

/*
 * Starts fn(arg) on a new thread that must be joined. The name has at most THREAD_NAME_MAX bytes; it
 * shows in /proc/PID/task/TID/comm, in top -H and in a debugger. Fails with IO when the system has no
 * thread to give; ret_error may be NULL.
 */
int thread_start(pthread_t *ret_thread, const char *name, void *(*fn)(void *), void *arg,
                 struct err_info *ret_error);

/* For a thread without which the program cannot work: ends the process when it cannot start. */
void thread_must_start(pthread_t *ret_thread, const char *name, void *(*fn)(void *), void *arg);

void cond_init(pthread_cond_t *cond);

/* INT64_MAX: no time limit. As with every condition variable, it may also return early. */
void cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t boot_ms);

#endif
