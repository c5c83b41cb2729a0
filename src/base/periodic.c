#include "base/periodic.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

struct periodic {
    int64_t every_ms;
    void (*fn)(struct periodic *c, void *arg);
    void *arg;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool ending, woken;
};

bool periodic_is_stopping(struct periodic *c)
{
    bool ending;

    pthread_mutex_lock(&c->lock);
    ending = c->ending;
    pthread_mutex_unlock(&c->lock);
    return ending;
}

static void *run(void *arg)
{
    struct periodic *c = arg;
    int64_t next_ms = clock_boot_ms() + c->every_ms;

    pthread_mutex_lock(&c->lock);
    while (!c->ending) {
        if (!c->woken)
            cond_wait_until(&c->ended, &c->lock, next_ms);
        if (c->ending || (!c->woken && clock_boot_ms() < next_ms))
            continue;
        c->woken = false;
        pthread_mutex_unlock(&c->lock);
        c->fn(c, c->arg);
        next_ms = clock_boot_ms() + c->every_ms;
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

struct periodic *periodic_start(const char *name, int64_t every_ms,
                                void (*fn)(struct periodic *c, void *arg), void *arg)
{
    struct periodic *c = mem_zalloc(sizeof *c);

    c->every_ms = every_ms;
    c->fn = fn;
    c->arg = arg;
    pthread_mutex_init(&c->lock, NULL);
    cond_init(&c->ended);
    thread_must_start(&c->thread, name, run, c);
    return c;
}

void periodic_wake(struct periodic *c)
{
    pthread_mutex_lock(&c->lock);
    c->woken = true;
    pthread_cond_signal(&c->ended);
    pthread_mutex_unlock(&c->lock);
}

void periodic_stop(struct periodic *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->ending = true;
    pthread_cond_signal(&c->ended);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    pthread_cond_destroy(&c->ended);
    pthread_mutex_destroy(&c->lock);
    free(c);
}
