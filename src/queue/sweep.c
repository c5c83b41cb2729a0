#include "queue/sweep.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/mem.h"
#include "queue/queue.h"
#include "queue/tasks.h"

struct sweep {
    struct sweep_options o;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop;
};

static bool is_stopping(struct sweep *s)
{
    bool stop;

    pthread_mutex_lock(&s->lock);
    stop = s->stop;
    pthread_mutex_unlock(&s->lock);
    return stop;
}

static int64_t sweep_one(struct sweep *s, struct str queue, int64_t retention_ms)
{
    struct service *tasks = s->o.house->tasks;
    int swept = tasks_sweep(tasks, queue, service_now_ms(tasks) - retention_ms);

    return swept > 0 ? swept : 0;
}

static void sweep_all(struct sweep *s)
{
    struct keeper *k = house_keeper(s->o.house);
    struct queues queues = {k, s->o.ns};
    struct keeper_names names = {0};
    int64_t swept = 0;

    if (!k)
        return;
    if (!queues_list(&queues, &names)) {
        for (size_t i = 0; i < names.count && !is_stopping(s); i++)
            swept += sweep_one(s, str_of(names.names[i]), s->o.retention_ms);
        keeper_names_release(&names);
        swept += sweep_one(s, STR(QUEUE_ERROR), s->o.error_retention_ms);
    }
    house_return(s->o.house, k);
    if (swept)
        log_info("queues: removed %lld messages that were too old", (long long)swept);
}

static int64_t every_ms(const struct sweep *s)
{
    int64_t shorter =
        s->o.retention_ms < s->o.error_retention_ms ? s->o.retention_ms : s->o.error_retention_ms;
    int64_t ms = shorter / 100;

    ms = ms < SWEEP_EVERY_MIN_MS ? SWEEP_EVERY_MIN_MS : ms;
    return ms > SWEEP_EVERY_MAX_MS ? SWEEP_EVERY_MAX_MS : ms;
}

static void *run(void *arg)
{
    struct sweep *s = arg;
    int64_t next_ms = clock_boot_ms() + every_ms(s);

    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        cond_wait_until(&s->changed, &s->lock, next_ms);
        if (s->stop || clock_boot_ms() < next_ms)
            continue;
        pthread_mutex_unlock(&s->lock);
        if (service_is_ready(s->o.house->tasks))
            sweep_all(s);
        next_ms = clock_boot_ms() + every_ms(s);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

struct sweep *sweep_start(const struct sweep_options *o)
{
    struct sweep *s = mem_zalloc(sizeof *s);

    s->o = *o;
    pthread_mutex_init(&s->lock, NULL);
    cond_init(&s->changed);
    pthread_create(&s->thread, NULL, run, s);
    return s;
}

void sweep_free(struct sweep *s)
{
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
