/*
 * A new thread names itself before it runs its function. The starter cannot do that: by then the thread
 * may have ended and been joined by somebody else.
 */
#include "base/thread.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"

struct thread_entry {
    char name[THREAD_NAME_MAX + 1];
    void *(*fn)(void *);
    void *arg;
};

static void *thread_main(void *arg)
{
    struct thread_entry e = *(struct thread_entry *)arg;

    free(arg);
    pthread_setname_np(pthread_self(), e.name);
    return e.fn(e.arg);
}

int thread_start(pthread_t *ret_thread, const char *name, void *(*fn)(void *), void *arg,
                 struct err_info *ret_error)
{
    struct thread_entry *e = mem_alloc(sizeof *e);
    int errnum;

    assert(strlen(name) <= THREAD_NAME_MAX);
    *e = (struct thread_entry){.fn = fn, .arg = arg};
    strcpy(e->name, name);
    errnum = pthread_create(ret_thread, NULL, thread_main, e);
    if (!errnum)
        return 0;
    free(e);
    return err_set_errno(ret_error, errnum, "cannot start the thread '%s'", name);
}

void thread_must_start(pthread_t *ret_thread, const char *name, void *(*fn)(void *), void *arg)
{
    struct err_info e;

    if (thread_start(ret_thread, name, fn, arg, &e))
        err_fatal("%s", e.text);
}

void cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

/* pthreads cannot wait on CLOCK_BOOTTIME: the wait is as long, but on CLOCK_MONOTONIC. */
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
