/*
 * Each thread takes the next index that nobody has taken. The caller takes part, and does
 * everything if no thread can be started.
 */
#include "base/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { THREADS_MAX = 8, ALONE_UP_TO = 64 };

struct parallel {
    size_t count;
    void (*fn)(void *arg, size_t i);
    void *arg;
    atomic_size_t next;
};

static void *run_next(void *arg)
{
    struct parallel *c = arg;
    size_t i;

    while ((i = atomic_fetch_add(&c->next, 1)) < c->count)
        c->fn(c->arg, i);
    return NULL;
}

void parallel_run(size_t count, void (*fn)(void *arg, size_t i), void *arg)
{
    struct parallel c = {.count = count, .fn = fn, .arg = arg};
    pthread_t threads[THREADS_MAX];
    size_t started = 0;

    while (count > ALONE_UP_TO && started < THREADS_MAX &&
           !pthread_create(&threads[started], NULL, run_next, &c))
        started++;
    run_next(&c);
    while (started)
        pthread_join(threads[--started], NULL);
}
