/*
 * Handlers on workers. A request goes to a worker and returns to the loop once: after the handler
 * has returned and after it has answered or parked the request, whichever is later. So the loop and
 * another thread never own it at the same time.
 *
 * A worker is started when a request is submitted and none is idle, up to a maximum; further
 * requests queue.
 */
#include "base/thread.h"
#include "http/conn.h"

void server_post(struct exchange *x)
{
    struct http_server *s = x->server;
    x->away_next = NULL;
    LOCKED(&s->lock);
    *s->posted_last = x;
    s->posted_last = &x->away_next;
    uv_async_send(&s->came); /* under the lock, so that the server still exists */
}

void work_settle(struct exchange *x)
{
    if (atomic_fetch_sub(&x->holds, 1) == 1)
        server_post(x);
}

/* With the lock held. NULL: the workers end. */
static struct exchange *next_request(struct workers *w)
{
    while (!w->first && !w->ending) {
        w->idle++;
        pthread_cond_wait(&w->more, &w->lock);
        w->idle--;
    }
    struct exchange *x = w->first;
    if (x) {
        w->first = x->away_next;
        w->queued--;
        if (!w->first)
            w->last = &w->first;
    }
    return x;
}

static void *worker_main(void *arg)
{
    struct workers *w = arg;
    struct exchange *x;
    pthread_mutex_lock(&w->lock);
    while ((x = next_request(w))) {
        pthread_mutex_unlock(&w->lock);
        request_handle(x);
        work_settle(x);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

void work_submit(struct exchange *x)
{
    struct workers *w = &x->server->workers;
    struct err_info e;
    x->away = true;
    x->away_next = NULL;
    atomic_store(&x->holds, 2);
    LOCKED(&w->lock);
    *w->last = x;
    w->last = &x->away_next;
    w->queued++;
    if (w->queued > w->idle && w->count < HTTP_WORKERS_MAX &&
        !thread_start(&w->threads[w->count], "http-worker", worker_main, w, &e))
        w->count++;
    else if (!w->count)
        err_fatal("%s", e.text);
    pthread_cond_signal(&w->more);
}

void workers_init(struct workers *w)
{
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->more, NULL);
    w->last = &w->first;
}

void workers_release(struct workers *w)
{
    pthread_mutex_lock(&w->lock);
    w->ending = true;
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 0; i < w->count; i++)
        pthread_join(w->threads[i], NULL);
    pthread_cond_destroy(&w->more);
    pthread_mutex_destroy(&w->lock);
}

static void drop_detached(struct exchange *x)
{
    if (x->waits)
        topic_unpark(x);
    if (x->status == 0 || x->status >= 400) /* the handler did not run, or took nothing */
        topic_pass_on(x);
    x->server->detached--;
    exchange_free(x);
}

static void take_one(struct exchange *x)
{
    if (!x->conn) {
        drop_detached(x);
    } else if (x->woken) {
        x->conn->waiting--;
        topic_unpark(x);
        exchange_run(x);
    } else if (x->waits) {
        x->away = false;
        topic_park(x);
    } else {
        x->away = false;
        exchange_answer(x, x->status, x->content_type, buf_str(&x->reply));
    }
}

void server_take_posted(uv_async_t *came)
{
    struct http_server *s = came->data;
    struct exchange *next;
    pthread_mutex_lock(&s->lock);
    struct exchange *x = s->posted;
    s->posted = NULL;
    s->posted_last = &s->posted;
    pthread_mutex_unlock(&s->lock);
    for (; x; x = next) {
        next = x->away_next;
        take_one(x);
    }
    server_free_if_done(s);
}
