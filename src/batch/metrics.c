/*
 * Jobs by state, as a metric.
 *
 * Counting reads the keeper, which the thread that writes the page must not wait for. So the page
 * has the counts of the page before, and writing it wakes a thread that counts anew. While nobody
 * asks for metrics, nothing is counted.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "base/thread.h"
#include "batch/server.h"
#include "http/metrics.h"

struct batch_metrics {
    struct batch_thread_options o;
    struct periodic *thread;
    pthread_mutex_t lock; /* guards: */
    struct buf samples;   /* lines of the page */
};

static void put_sample(struct buf *page, struct str state, int64_t count)
{
    CLEANUP(buf_release) struct buf labels = {0};
    metrics_put_label(&labels, "state", state);
    metrics_put_sample(page, "drover_batch_jobs", buf_str(&labels), (double)count);
}

static int count(struct batch_metrics *m, struct batch_call *c, struct buf *ret_samples)
{
    const struct batch_machine *machine = &c->store->machines.job;
    struct batch_counts counts;
    TRY(m->o.ready(m->o.arg, c));
    TRY(batch_item_count(c, BATCH_KIND_JOB, &counts));
    for (int i = 0; i < machine->count; i++)
        put_sample(ret_samples, str_of(machine->states[i].name), counts.known[i]);
    for (const struct batch_unknown_count *u = counts.unknown; u; u = u->next)
        put_sample(ret_samples, u->name, u->count);
    return 0;
}

static void refresh(struct periodic *thread, void *arg)
{
    struct batch_metrics *m = arg;
    CLEANUP(arena_release) struct arena a = {0};
    CLEANUP(buf_release) struct buf samples = {0};
    struct err_info why;
    struct batch_call c = {m->o.store, m->o.borrow(m->o.arg), &a, &why};
    (void)thread;
    if (!c.k)
        return;
    int err = count(m, &c, &samples);
    m->o.give_back(m->o.arg, c.k);
    LOCKED(&m->lock);
    struct buf old = m->samples;
    m->samples = err ? (struct buf){0} : samples; /* none rather than wrong ones */
    samples = err ? samples : (struct buf){0};
    buf_release(&old);
}

static void collect(void *arg, struct buf *page)
{
    struct batch_metrics *m = arg;
    periodic_wake(m->thread);
    LOCKED(&m->lock);
    if (m->samples.len == 0)
        return;
    metrics_put_family(page, "drover_batch_jobs", "gauge",
                       "Jobs by state, when the page before was written.");
    buf_put(page, m->samples.p, m->samples.len);
}

struct batch_metrics *batch_metrics_open(const struct batch_thread_options *o,
                                         struct metrics *registry)
{
    enum { NEVER_MS = 24 * 3600 * 1000 }; /* it is woken */
    struct batch_metrics *m = mem_zalloc(sizeof *m);
    m->o = *o;
    pthread_mutex_init(&m->lock, NULL);
    m->thread = periodic_start("batch-metrics", NEVER_MS, refresh, m);
    metrics_collector(registry, collect, m);
    return m;
}

void batch_metrics_close(struct batch_metrics *m)
{
    periodic_stop(m->thread);
    pthread_mutex_destroy(&m->lock);
    buf_release(&m->samples);
    free(m);
}
