/*
 * Handlers on workers. A request goes to the pool and returns to the loop once: after the handler
 * has returned and after it has answered or parked the request, whichever is later. So the loop and
 * another thread never own it at the same time.
 */
#include <assert.h>

#include "base/mem.h"
#include "base/thread.h"
#include "http/conn.h"

void server_post(struct exchange *x)
{
    struct http_server *s = x->server;

    x->posted_next = NULL;
    LOCKED(&s->lock);
    *s->posted_last = x;
    s->posted_last = &x->posted_next;
    uv_async_send(&s->came); /* under the lock, so that the server still exists */
}

static void drop_hold(struct exchange *x)
{
    if (atomic_fetch_sub(&x->holds, 1) == 1)
        server_post(x);
}

void work_settle(struct exchange *x)
{
    drop_hold(x);
}

static void run(struct pool_job *job)
{
    struct exchange *x = (struct exchange *)((char *)job - offsetof(struct exchange, job));

    request_handle(x);
    drop_hold(x);
}

void work_submit(struct exchange *x)
{
    struct http_server *s = x->server;

    if (!s->pool)
        s->pool = pool_new(HTTP_WORKERS_MAX);
    x->away = true;
    x->job.run = run;
    atomic_store(&x->holds, 2);
    pool_submit(s->pool, &x->job);
}

static void drop_detached(struct exchange *x)
{
    struct http_server *s = x->server;

    if (x->waits)
        topic_unpark(x);
    if (x->status == 0 || x->status >= 400) /* the handler did not run, or took nothing */
        topic_pass_on(x);
    s->detached--;
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
        next = x->posted_next;
        take_one(x);
    }
    server_free_if_done(s);
}
