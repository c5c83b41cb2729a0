/*
 * A new thread names itself before it runs its function. The starter cannot do that: by then the
 * thread may have ended and been joined by somebody else.
 */
#include "base/thread.h"

#include <assert.h>
#include <stdatomic.h>
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
    assert(strlen(name) <= THREAD_NAME_MAX);
    *e = (struct thread_entry){.fn = fn, .arg = arg};
    strcpy(e->name, name);
    int errnum = pthread_create(ret_thread, NULL, thread_main, e);
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

enum { NOTICE_EVERY_MS = 1000, NOTICE_LATE_MS = 500 };

bool cond_wait_noticing_stops(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t boot_ms)
{
    int64_t until_ms = clock_boot_ms();
    if (boot_ms > until_ms)
        until_ms = boot_ms - until_ms < NOTICE_EVERY_MS ? boot_ms : until_ms + NOTICE_EVERY_MS;
    cond_wait_until(cond, lock, boot_ms == INT64_MAX ? INT64_MAX : until_ms);
    return boot_ms != INT64_MAX && clock_boot_ms() - until_ms >= NOTICE_LATE_MS;
}

/* At an interval. */

struct periodic {
    int64_t every_ms;
    void (*fn)(struct periodic *p, void *arg);
    void *arg;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping, woken;
};

bool periodic_is_stopping(struct periodic *p)
{
    LOCKED(&p->lock);
    return p->stopping;
}

void periodic_next(struct periodic *p, int64_t ms)
{
    p->every_ms = ms;
}

static void *periodic_main(void *arg)
{
    struct periodic *p = arg;
    int64_t next_ms = clock_boot_ms() + p->every_ms;
    pthread_mutex_lock(&p->lock);
    while (!p->stopping) {
        if (!p->woken)
            cond_wait_until(&p->changed, &p->lock, next_ms);
        if (p->stopping || (!p->woken && clock_boot_ms() < next_ms))
            continue;
        p->woken = false;
        pthread_mutex_unlock(&p->lock);
        p->fn(p, p->arg);
        next_ms = clock_boot_ms() + p->every_ms;
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct periodic *periodic_start(const char *name, int64_t every_ms,
                                void (*fn)(struct periodic *p, void *arg), void *arg)
{
    struct periodic *p = mem_alloc(sizeof *p);
    *p = (struct periodic){.every_ms = every_ms, .fn = fn, .arg = arg};
    pthread_mutex_init(&p->lock, NULL);
    cond_init(&p->changed);
    thread_must_start(&p->thread, name, periodic_main, p);
    return p;
}

static void set_and_signal(struct periodic *p, bool *flag)
{
    LOCKED(&p->lock);
    *flag = true;
    pthread_cond_signal(&p->changed);
}

void periodic_wake(struct periodic *p)
{
    set_and_signal(p, &p->woken);
}

void periodic_stop(struct periodic *p)
{
    if (!p)
        return;
    set_and_signal(p, &p->stopping);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/*
 * Each thread takes the next free index. The caller takes part, and does it all if no thread can
 * start.
 */

enum { THREADS_MAX = 15, ALONE_MAX = 64 };

struct parallel {
    size_t count;
    void (*fn)(void *arg, size_t i);
    void *arg;
    atomic_size_t next;
};

static void *run_next(void *arg)
{
    struct parallel *p = arg;
    size_t i;
    while ((i = atomic_fetch_add(&p->next, 1)) < p->count)
        p->fn(p->arg, i);
    return NULL;
}

void parallel_run(size_t count, void (*fn)(void *arg, size_t i), void *arg)
{
    struct parallel p = {.count = count, .fn = fn, .arg = arg};
    pthread_t threads[THREADS_MAX];
    size_t started = 0;
    while (count > ALONE_MAX && started < THREADS_MAX &&
           !thread_start(&threads[started], "parallel", run_next, &p, NULL))
        started++;
    run_next(&p);
    while (started)
        pthread_join(threads[--started], NULL);
}
