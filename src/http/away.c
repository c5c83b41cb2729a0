/*
 * Requests that are away from the loop: on a worker, or parked on a topic.
 *
 * Handlers on workers. A request goes to a worker and returns to the loop once: after the handler
 * has returned and after it has answered or parked the request, whichever is later. So the loop and
 * another thread never own it at the same time. Of a route of the loop, a worker reads the body if
 * that is long; meanwhile its connection takes no further request, so that handlers of the loop
 * run in the order of arrival. A worker is started when a request is submitted and
 * none is idle, up to a maximum; further requests queue.
 *
 * Topics. A parked request has one entry for each of its keys, in the bucket of that key. Parking
 * happens on the loop only, waking anywhere. A request that is woken is off all its buckets at once
 * and on its way to the loop; in between, only the loop may free it, and leaves it alone until it
 * has come (exchange_abandon).
 */
#include <xxhash.h>

#include "base/thread.h"
#include "http/conn.h"

struct topic_wait {
    uint64_t key;
    struct exchange *x;
    struct topic_wait *next, *prev;
};

/* Returns a request to the loop, from any thread. */
static void server_post(struct exchange *x)
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

/* Topics. */

void http_topic_init(struct http_topic *t)
{
    *t = (struct http_topic){0};
    pthread_mutex_init(&t->lock, NULL);
}

void http_topic_release(struct http_topic *t)
{
    pthread_mutex_destroy(&t->lock);
}

uint64_t http_key(const char *kind, struct str name, struct str within)
{
    uint64_t hash = XXH3_64bits(kind, strlen(kind));
    hash = XXH3_64bits_withSeed(name.p ? name.p : "", name.len, hash);
    return XXH3_64bits_withSeed(within.p ? within.p : "", within.len, hash);
}

static struct topic_bucket *bucket_of(struct http_topic *t, uint64_t key)
{
    return &t->buckets[key % HTTP_TOPIC_BUCKETS];
}

/* With the lock held. Each count only rises, so the sum changes when one of them does. */
static uint64_t count_wakes(struct http_topic *t, const uint64_t *keys, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += bucket_of(t, keys[i])->wakes;
    return sum;
}

struct http_watch http_watch(struct http_request *r, struct http_topic *t, const uint64_t *keys,
                             size_t count)
{
    struct http_watch w = {t, arena_alloc(&r->arena, count * sizeof *keys + 1), count, 0};
    memcpy(w.keys, keys, count * sizeof *keys);
    LOCKED(&t->lock);
    w.seen = count_wakes(t, keys, count);
    return w;
}

/* With the lock held, as the next. */
static void link_waits(struct exchange *x)
{
    for (size_t i = 0; i < x->watch.count; i++) {
        struct topic_wait *w = &x->entries[i];
        struct topic_bucket *b = bucket_of(x->watch.topic, x->watch.keys[i]);
        *w = (struct topic_wait){.key = x->watch.keys[i], .x = x, .prev = b->last};
        *(b->last ? &b->last->next : &b->first) = w;
        b->last = w;
    }
}

static void unlink_waits(struct exchange *x)
{
    for (size_t i = 0; i < x->watch.count; i++) {
        struct topic_wait *w = &x->entries[i];
        struct topic_bucket *b = bucket_of(x->watch.topic, w->key);
        *(w->prev ? &w->prev->next : &b->first) = w->next;
        *(w->next ? &w->next->prev : &b->last) = w->prev;
    }
}

/* Posted under the lock: once it is released, the loop may find the request woken and free it. */
static void wake(struct exchange *x, uint64_t key)
{
    x->woken = true;
    x->woken_key = key;
    server_post(x);
}

void http_topic_wake(struct http_topic *t, uint64_t key, int max)
{
    struct topic_wait *next;
    LOCKED(&t->lock);
    bucket_of(t, key)->wakes++;
    for (struct topic_wait *w = bucket_of(t, key)->first; w && max > 0; w = next) {
        struct exchange *x = w->x;
        for (next = w->next; next && next->x == x; next = next->next)
            ; /* its other keys go with it */
        if (w->key != key)
            continue;
        unlink_waits(x);
        wake(x, key);
        max--;
    }
}

size_t http_topic_parked(struct http_topic *t, uint64_t key)
{
    size_t count = 0;
    LOCKED(&t->lock);
    for (struct topic_wait *w = bucket_of(t, key)->first; w; w = w->next)
        count += w->key == key;
    return count;
}

/* One that need not wait any more is posted; one that is too many is refused. */
static void topic_park(struct exchange *x)
{
    struct http_topic *t = x->watch.topic;
    if (!limits_enter(x)) {
        topic_unpark(x);
        limits_refuse_wait(x);
        return;
    }
    uint64_t began_ms = x->came_ns / 1000000;
    x->wait_end_ms = began_ms + (uint64_t)x->wait_ms;
    x->over = x->wait_end_ms <= uv_now(x->server->loop);
    x->coming = false;
    x->parked_before = true;
    x->conn->waiting++;
    pthread_mutex_lock(&t->lock);
    if (x->over || count_wakes(t, x->watch.keys, x->watch.count) != x->watch.seen)
        wake(x, x->watch.keys[0]);
    else
        link_waits(x);
    pthread_mutex_unlock(&t->lock);
    conn_answered(x->conn);
}

bool http_park(struct http_request *r, const struct http_watch *w, int64_t wait_ms)
{
    struct exchange *x = (struct exchange *)r;
    if (x->over || wait_ms <= 0)
        return false;
    r->gone = NULL;
    x->waits = true;
    x->owes = false;
    x->watch = *w;
    x->entries = arena_alloc(&r->arena, w->count * sizeof *x->entries + 1);
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

bool http_was_parked(const struct http_request *r)
{
    return ((const struct exchange *)r)->parked_before;
}

bool topic_leave(struct exchange *x)
{
    LOCKED(&x->watch.topic->lock);
    bool parked = !x->woken;
    if (parked)
        unlink_waits(x);
    return parked;
}

void topic_unpark(struct exchange *x)
{
    void (*unparked)(struct http_request * r) = x->request.unparked;
    x->owes = x->woken && !x->over;
    x->waits = x->woken = false;
    x->request.unparked = NULL;
    if (unparked)
        unparked(&x->request);
}

void topic_pass_on(struct exchange *x)
{
    if (x->owes)
        http_topic_wake(x->watch.topic, x->woken_key, 1);
    x->owes = false;
}

/*
 * One that was woken before its time was up is on its way and is left to it. It is no longer due: a
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

/* Workers. */

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
        if (x->reads)
            request_read_away(x);
        else
            request_handle(x);
        work_settle(x);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

bool work_submit(struct exchange *x)
{
    struct workers *w = &x->server->workers;
    struct err_info e;
    LOCKED(&w->lock);
    if (w->queued >= x->server->options.waits_max)
        return false;
    x->away = true;
    x->away_next = NULL;
    atomic_store(&x->holds, x->reads ? 1 : 2);
    *w->last = x;
    w->last = &x->away_next;
    w->queued++;
    if (w->queued > w->idle && w->count < HTTP_WORKERS_MAX &&
        !thread_start(&w->threads[w->count], "http-worker", worker_main, w, &e))
        w->count++;
    else if (!w->count)
        err_fatal("%s", e.text);
    pthread_cond_signal(&w->more);
    return true;
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
    access_answered(x, x->status);
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
    } else if (x->reads) {
        request_was_read(x);
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
