/* Jobs by state, as a metric. Counting reads the keeper. */
#include <stdlib.h>

#include "base/mem.h"
#include "batch/server.h"
#include "server/late_metrics.h"

struct batch_metrics {
    struct batch_thread_options o;
    struct late_metrics *late;
};

static void put_sample(struct buf *page, struct str state, int64_t count)
{
    CLEANUP(buf_release) struct buf labels = {0};
    metrics_put_label(&labels, "state", state);
    metrics_put_sample(page, "drover_batch_jobs", buf_str(&labels), (double)count);
}

static int put_counts(struct batch_metrics *m, struct batch_call *c, struct buf *page)
{
    const struct batch_machine *machine = &c->store->machines.job;
    struct batch_counts counts;
    int64_t unknown = 0;
    TRY(m->o.ready(m->o.arg, c));
    TRY(batch_item_count(c, BATCH_KIND_JOB, &counts));
    metrics_put_family(page, "drover_batch_jobs", "gauge",
                       "Jobs by state, when the page before was written.");
    for (int i = 0; i < machine->count; i++)
        put_sample(page, str_of(machine->states[i].name), counts.known[i]);
    for (const struct batch_unknown_count *u = counts.unknown; u; u = u->next)
        unknown += u->count; /* other clients can write any text there */
    put_sample(page, STR(""), unknown);
    return 0;
}

static int count(void *arg, struct buf *page)
{
    struct batch_metrics *m = arg;
    CLEANUP(arena_release) struct arena a = {0};
    struct err_info why;
    struct batch_call c = {m->o.store, m->o.borrow(m->o.arg), &a, &why};
    if (!c.k)
        return DROVER_CLOSED;
    int err = put_counts(m, &c, page);
    m->o.give_back(m->o.arg, c.k);
    return err;
}

struct batch_metrics *batch_metrics_open(const struct batch_thread_options *o,
                                         struct metrics *registry)
{
    struct batch_metrics *m = mem_zalloc(sizeof *m);
    m->o = *o;
    m->late = late_metrics_open(registry, "batch-metrics", count, m);
    return m;
}

void batch_metrics_close(struct batch_metrics *m)
{
    late_metrics_close(m->late);
    free(m);
}
