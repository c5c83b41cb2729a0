#include "server/late_metrics.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/thread.h"

struct late_metrics {
    late_metrics_fn *fn;
    void *arg;
    struct periodic *thread;
    pthread_mutex_t lock; /* guards: */
    struct buf families;  /* lines of the page */
};

static void refresh(struct periodic *thread, void *arg)
{
    struct late_metrics *l = arg;
    CLEANUP(buf_release) struct buf families = {0};
    (void)thread;
    if (l->fn(l->arg, &families))
        families.len = 0;
    LOCKED(&l->lock);
    struct buf old = l->families;
    l->families = families;
    families = old;
}

static void collect(void *arg, struct buf *page)
{
    struct late_metrics *l = arg;
    periodic_wake(l->thread);
    LOCKED(&l->lock);
    buf_put(page, l->families.p, l->families.len);
}

struct late_metrics *late_metrics_open(struct metrics *m, const char *thread, late_metrics_fn *fn,
                                       void *arg)
{
    enum { NEVER_MS = 24 * 3600 * 1000 }; /* it is woken */
    struct late_metrics *l = mem_zalloc(sizeof *l);
    l->fn = fn;
    l->arg = arg;
    pthread_mutex_init(&l->lock, NULL);
    l->thread = periodic_start(thread, NEVER_MS, refresh, l);
    metrics_collector(m, collect, l);
    return l;
}

void late_metrics_close(struct late_metrics *l)
{
    periodic_stop(l->thread);
    pthread_mutex_destroy(&l->lock);
    buf_release(&l->families);
    free(l);
}
