/*
 * Parking happens on the loop only, signalling anywhere. A request that is woken is off its topic at
 * once and on its way to the loop; in between, nobody but the loop may free it, and the loop leaves it
 * alone until it has come (exchange_abandon).
 */
#include "http/topic.h"

#include "http/conn.h"

void http_topic_init(struct http_topic *t)
{
    *t = (struct http_topic){0};
    pthread_mutex_init(&t->lock, NULL);
}

void http_topic_release(struct http_topic *t)
{
    pthread_mutex_destroy(&t->lock);
}

uint64_t http_topic_seen(struct http_topic *t)
{
    uint64_t signals;

    pthread_mutex_lock(&t->lock);
    signals = t->signals;
    pthread_mutex_unlock(&t->lock);
    return signals;
}

static void unlink_parked(struct http_topic *t, struct exchange *x)
{
    *(x->topic_prev ? &x->topic_prev->topic_next : &t->first) = x->topic_next;
    *(x->topic_next ? &x->topic_next->topic_prev : &t->last) = x->topic_prev;
    x->topic_next = x->topic_prev = NULL;
}

/* Posted under the lock: once it is released, the loop may find the request woken and free it. */
void http_topic_signal(struct http_topic *t, int max_to_wake)
{
    struct exchange *x;

    pthread_mutex_lock(&t->lock);
    t->signals++;
    for (; max_to_wake > 0 && (x = t->first); max_to_wake--) {
        unlink_parked(t, x);
        x->woken = true;
        server_post(x);
    }
    pthread_mutex_unlock(&t->lock);
}

bool http_wait(struct http_request *r, struct http_topic *t, uint64_t seen, int64_t wait_ms)
{
    struct exchange *x = (struct exchange *)r;

    if (x->over || wait_ms <= 0)
        return false;
    r->gone = NULL;
    x->waits = true;
    x->topic = t;
    x->seen = seen;
    x->wait_ms = wait_ms;
    if (x->away)
        work_settle(x);
    else
        topic_park(x);
    return true;
}

bool http_wait_over(const struct http_request *r)
{
    return ((const struct exchange *)r)->over;
}

void topic_park(struct exchange *x)
{
    struct http_topic *t = x->topic;
    uv_loop_t *loop = x->server->tcp.loop;
    uint64_t began_ms = x->came_ns / 1000000;

    x->wait_end_ms = began_ms + (uint64_t)x->wait_ms;
    x->over = x->wait_end_ms <= uv_now(loop);
    x->coming = false;
    x->conn->waiting++;
    pthread_mutex_lock(&t->lock);
    if (t->signals != x->seen || x->over) {
        x->woken = true;
        server_post(x);
    } else {
        x->topic_prev = t->last;
        *(t->last ? &t->last->topic_next : &t->first) = x;
        t->last = x;
    }
    pthread_mutex_unlock(&t->lock);
    conn_answered(x->conn);
}

bool topic_leave(struct exchange *x)
{
    bool parked;

    pthread_mutex_lock(&x->topic->lock);
    parked = !x->woken;
    if (parked)
        unlink_parked(x->topic, x);
    pthread_mutex_unlock(&x->topic->lock);
    return parked;
}

/*
 * One that was woken before its time was over is on its way and is left to it. It is no longer due: a
 * timer for a time that has passed would fire again at once, before the loop ever comes to it.
 */
void topic_expire(struct conn *c, uint64_t now_ms)
{
    for (struct exchange *x = c->first; x; x = x->next) {
        if (x->away || !x->waits || x->coming || x->wait_end_ms > now_ms)
            continue;
        x->coming = true;
        if (topic_leave(x)) {
            x->over = x->woken = true;
            server_post(x);
        }
    }
}

uint64_t topic_due_ms(const struct conn *c)
{
    uint64_t due = 0;

    for (const struct exchange *x = c->waiting ? c->first : NULL; x; x = x->next)
        if (!x->away && x->waits && !x->over && !x->coming && (!due || x->wait_end_ms < due))
            due = x->wait_end_ms;
    return due;
}
