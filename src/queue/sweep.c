#include "queue/http.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "queue/message.h"
#include "task/service.h"

enum { SWEEP_EVERY_MIN_MS = 1000, SWEEP_EVERY_MAX_MS = 10 * 60 * 1000 };

struct queue_sweep {
    struct queue_sweep_options o;
    struct periodic *periodic;
};

static int64_t sweep_one(struct queue_sweep *s, struct str queue, int64_t retention_ms)
{
    struct service *tasks = s->o.context->tasks;
    int swept = queue_messages_sweep(tasks, queue, service_now_ms(tasks) - retention_ms);
    return swept > 0 ? swept : 0;
}

static void sweep_all(struct periodic *c, void *arg)
{
    struct queue_sweep *s = arg;
    struct keeper *k = service_is_ready(s->o.context->tasks) ? context_keeper(s->o.context) : NULL;
    struct queues queues = {k, s->o.ns};
    struct keeper_names names = {0};
    int64_t swept = 0;

    if (!k)
        return;
    if (!queues_list(&queues, &names)) {
        for (size_t i = 0; i < names.count && !periodic_is_stopping(c); i++)
            swept += sweep_one(s, str_of(names.names[i]), s->o.retention_ms);
        keeper_names_release(&names);
        swept += sweep_one(s, STR(QUEUE_ERROR), s->o.error_retention_ms);
    }
    context_return(s->o.context, k);
    if (swept)
        log_info("queues: removed %lld messages that were too old", (long long)swept);
}

static int64_t every_ms(const struct queue_sweep *s)
{
    int64_t shorter =
        s->o.retention_ms < s->o.error_retention_ms ? s->o.retention_ms : s->o.error_retention_ms;
    int64_t ms = shorter / 100;
    ms = ms < SWEEP_EVERY_MIN_MS ? SWEEP_EVERY_MIN_MS : ms;
    return ms > SWEEP_EVERY_MAX_MS ? SWEEP_EVERY_MAX_MS : ms;
}

struct queue_sweep *queue_sweep_start(const struct queue_sweep_options *o)
{
    struct queue_sweep *s = mem_zalloc(sizeof *s);
    s->o = *o;
    s->periodic = periodic_start("queue-sweep", every_ms(s), sweep_all, s);
    return s;
}

void queue_sweep_free(struct queue_sweep *s)
{
    periodic_stop(s->periodic);
    free(s);
}
