#include "keeper/local/callback_queue.h"

#include "base/thread.h"

static void on_gate_moved(void *arg)
{
    struct callback_queue *q = arg;
    q->wake(q->wake_arg);
}

void callback_queue_init(struct callback_queue *q, struct gate *gate,
                         const struct keeper_options *o)
{
    *q = (struct callback_queue){.gate = gate, .wake = o->wake, .wake_arg = o->wake_arg};
    q->waiter = (struct gate_waiter){.moved = on_gate_moved, .arg = q};
    TAILQ_INIT(&q->callbacks);
    pthread_cond_init(&q->changed, NULL);
}

/* Takes the first callback and runs it. Under the lock, which it releases meanwhile. */
static void run_first(struct callback_queue *q)
{
    struct callback *callback = TAILQ_FIRST(&q->callbacks);
    TAILQ_REMOVE(&q->callbacks, callback, link);
    q->running = true;
    q->runner = pthread_self();
    q->subject = callback->subject;
    pthread_mutex_unlock(q->gate->lock);
    callback->run(callback, gate_wait(q->gate, callback->ticket));
    pthread_mutex_lock(q->gate->lock);
    q->running = false;
    q->subject = NULL;
    pthread_cond_broadcast(&q->changed);
}

static void *delivery_main(void *arg)
{
    struct callback_queue *q = arg;
    LOCKED(q->gate->lock);
    while (!TAILQ_EMPTY(&q->callbacks) || !q->stop) {
        if (TAILQ_EMPTY(&q->callbacks))
            pthread_cond_wait(&q->changed, q->gate->lock);
        else
            run_first(q);
    }
    return NULL;
}

void callback_queue_wake_at(struct callback_queue *q, int64_t lsn)
{
    if (q->wake && !gate_subscribe(q->gate, &q->waiter, lsn))
        q->wake(q->wake_arg);
}

void callback_queue_post(struct callback_queue *q, struct callback *callback)
{
    bool was_empty = TAILQ_EMPTY(&q->callbacks);
    TAILQ_INSERT_TAIL(&q->callbacks, callback, link);
    if (!q->wake && !q->delivery_runs) {
        thread_must_start(&q->delivery, "keeper-callback", delivery_main, q);
        q->delivery_runs = true;
    }
    if (!was_empty)
        return;
    pthread_cond_broadcast(&q->changed);
    callback_queue_wake_at(q, callback->ticket.lsn);
}

static bool is_inside(const struct callback_queue *q)
{
    return q->running && pthread_equal(q->runner, pthread_self());
}

/*
 * From inside a callback it does nothing: the dispatch that runs that callback goes on with the
 * rest.
 */
void callback_queue_dispatch(struct callback_queue *q)
{
    LOCKED(q->gate->lock);
    struct callback *first;
    while ((first = TAILQ_FIRST(&q->callbacks)) && !is_inside(q)) {
        if (!gate_state(q->gate, first->ticket.lsn)) {
            callback_queue_wake_at(q, first->ticket.lsn);
            break;
        }
        run_first(q);
    }
}

static void drop_callbacks(struct callback_queue *q, const void *subject)
{
    for (struct callback *c = TAILQ_FIRST(&q->callbacks), *next; c; c = next) {
        next = TAILQ_NEXT(c, link);
        if (c->subject == subject) {
            TAILQ_REMOVE(&q->callbacks, c, link);
            c->drop(c);
        }
    }
}

bool callback_queue_withdraw(struct callback_queue *q, const void *subject)
{
    LOCKED(q->gate->lock);
    drop_callbacks(q, subject);
    bool inside = is_inside(q);
    while (!inside && q->running && q->subject == subject)
        pthread_cond_wait(&q->changed, q->gate->lock);
    return inside && q->subject == subject;
}

void callback_queue_close(struct callback_queue *q)
{
    pthread_mutex_lock(q->gate->lock);
    q->stop = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(q->gate->lock);
    if (q->delivery_runs)
        pthread_join(q->delivery, NULL);
    pthread_mutex_lock(q->gate->lock);
    /* With `wake` there may be some left; and a callback that runs here may post another. */
    while (!TAILQ_EMPTY(&q->callbacks))
        run_first(q);
    gate_unsubscribe(&q->waiter);
    pthread_mutex_unlock(q->gate->lock);
    pthread_cond_destroy(&q->changed);
}
