/*
 * How far workers are behind, over all queues: names of queues are mostly random, so none is a
 * label. A page costs as much as reading the next messages of QUEUES_MAX queues, on a thread.
 *
 * For the same reason the groups of messages are counted together (service_fold()). Which groups
 * those are is known from the names of the queues when the page before was written; a name that was
 * made is that of a queue anyway.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "queue/http.h"
#include "queue/message.h"
#include "server/late_metrics.h"

enum { QUEUES_MAX = 1000, MESSAGES_MAX = 100 };

struct queue_metrics {
    struct queue_module *module;
    struct late_metrics *late;
    atomic_bool has_names;
    pthread_mutex_t lock; /* guards: */
    struct keeper_names names;
};

struct backlog {
    size_t messages;
    int64_t oldest_ms;
};

/* A queue that has gone meanwhile, or holds invalid data, has none. */
static int add_backlog(const struct queues *qs, struct service *tasks, const char *name,
                       struct backlog *b)
{
    CLEANUP(queue_message_list_release) struct queue_message_list list = {0};
    struct queue_info info;
    int err = queue_get(qs, name, &info);
    if (err)
        return err == DROVER_NO_NODE || err == DROVER_DAMAGED ? 0 : err;
    TRY(queue_messages_read(tasks, str_of(name), info.last, MESSAGES_MAX, &list));
    b->messages += list.count;
    for (size_t i = 0; i < list.count; i++)
        if (list.messages[i].time_ms < b->oldest_ms)
            b->oldest_ms = list.messages[i].time_ms;
    return 0;
}

static void put_gauge(struct buf *page, const char *name, const char *help, double value)
{
    metrics_put_family(page, name, "gauge", help);
    metrics_put_sample(page, name, STR(""), value);
}

static int put(struct buf *page, const struct queues *qs, struct service *tasks,
               const struct keeper_names *names)
{
    int64_t now_ms = service_now_ms(tasks);
    struct backlog b = {.oldest_ms = now_ms};
    for (size_t i = 0; i < names->count && i < QUEUES_MAX; i++)
        TRY(add_backlog(qs, tasks, names->names[i], &b));
    put_gauge(page, "drover_queues", "Queues, when the page before was written.",
              (double)names->count);
    put_gauge(page, "drover_queue_waiting_messages",
              "Messages that no worker has handled, when the page before was written: up to 100 of "
              "each of the first 1000 queues.",
              (double)b.messages);
    put_gauge(page, "drover_queue_oldest_seconds", "The age of the oldest of these messages.",
              (double)(now_ms - b.oldest_ms) / 1000);
    return 0;
}

/* Takes the names. */
static void keep_names(struct queue_metrics *m, struct keeper_names *names)
{
    LOCKED(&m->lock);
    struct keeper_names old = m->names;
    m->names = *names;
    *names = old;
    atomic_store(&m->has_names, m->names.count > 0);
}

static int count(void *arg, struct buf *page)
{
    struct queue_metrics *m = arg;
    struct context *h = m->module->context;
    struct queues qs = {context_keeper(h), m->module->ns};
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    if (!qs.keeper)
        return DROVER_CLOSED;
    int err = queues_list(&qs, &names);
    if (!err) {
        err = put(page, &qs, h->tasks, &names);
        keep_names(m, &names);
    }
    context_return(h, qs.keeper);
    return err;
}

static bool is_queue(void *arg, struct str group)
{
    struct queue_metrics *m = arg;
    if (queue_is_made_name(group) || str_eq(group, STR(QUEUE_ERROR)))
        return true;
    if (!atomic_load(&m->has_names))
        return false;
    LOCKED(&m->lock);
    return queues_have(&m->names, group);
}

struct queue_metrics *queue_metrics_open(struct queue_module *module)
{
    struct queue_metrics *m = mem_zalloc(sizeof *m);
    m->module = module;
    pthread_mutex_init(&m->lock, NULL);
    service_fold(module->context->tasks, "queues", is_queue, m);
    m->late = late_metrics_open(module->context->metrics, "queue-metrics", count, m);
    return m;
}

void queue_metrics_close(struct queue_metrics *m)
{
    late_metrics_close(m->late);
    service_unfold(m->module->context->tasks, m);
    pthread_mutex_destroy(&m->lock);
    keeper_names_release(&m->names);
    free(m);
}
