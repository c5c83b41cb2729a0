/*
 * Each thread takes the next index that nobody has taken. The caller takes part, and does
 * everything if no thread can be started.
 */
#include "base/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/thread.h"

enum { THREADS_MAX = 8, ALONE_MAX = 64 };

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
