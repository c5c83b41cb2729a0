/*
 * Removes tasks that have expired, and tasks that are done when their time is over: as transactions
 * of the service, one at a time, SWEEP_MAX tasks each. A crash leaves the rest to the next start.
 * The loop of a server starts one when it is due; without a loop, the next service_call() does.
 */
#include "base/mem.h"
#include "task/service_impl.h"

enum { SWEEP_MAX = 500, AGAIN_MS = 1000 };

struct task_sweep {
    struct service *service;
    struct task_request request;
    struct task_edit edits[SWEEP_MAX];
    bool running;
    int64_t again_ms; /* not before: the last one failed */
};

static void on_done(void *arg, const struct task_reply *reply)
{
    struct task_sweep *w = arg;
    struct service *s = w->service;
    pthread_mutex_lock(&s->lock);
    w->running = false;
    w->again_ms = reply->err ? service_now_ms(s) + AGAIN_MS : 0;
    pthread_mutex_unlock(&s->lock);
    service_wake(s);
}

struct task_sweep *sweep_new(struct service *s)
{
    struct task_sweep *w = mem_zalloc(sizeof *w);
    w->service = s;
    return w;
}

int64_t sweep_due_ms(const struct task_sweep *w)
{
    const struct service *s = w->service;
    if (!s->store || w->running || s->state != SERVICE_READY)
        return INT64_MAX;
    int64_t due_ms = store_expiry_ms(s->store);
    return due_ms < w->again_ms ? w->again_ms : due_ms;
}

int64_t service_next_due_ms(const struct service *s)
{
    int64_t claim_ms = claim_queue_due_ms(&s->waiting), sweep_ms = sweep_due_ms(s->sweep);
    return claim_ms < sweep_ms ? claim_ms : sweep_ms;
}

void sweep_start(struct task_sweep *w, int64_t now_ms)
{
    struct service *s = w->service;
    if (sweep_due_ms(w) > now_ms)
        return;
    size_t count = store_expired(s->store, now_ms, w->edits, SWEEP_MAX);
    w->running = true;
    w->request = (struct task_request){
        .kind = TASK_UPDATE,
        .update = {.edits = w->edits, .edit_count = count, .operate = true},
        .done = on_done,
        .arg = w,
    };
    w->request.own.called = !s->o.wake; /* a thread in service_call() delivers it */
    if (s->o.keeper)
        service_run(s, &w->request);
    else
        queue_put(&s->queue, &w->request);
}
