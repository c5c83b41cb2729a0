/*
 * Automatic renewal. One thread per client sleeps until the first of its holds is due, after a
 * third of the duration of the claim. A renewal gives the task a new id; when the reply is lost,
 * the same request is repeated until its outcome is known or the claim has run out and others may
 * have the task.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/thread.h"
#include "client/task_client.h"

enum { AGAIN_MS = 200, CALL_TIMEOUT_MIN_MS = 500, CALL_TIMEOUT_MAX_MS = 10 * 1000 };

/* All under the client's lock, except body, which the renewer uses while busy. */
struct drover_hold {
    struct drover_hold *next;
    struct drover_client *client;
    struct drover_task task; /* its current id and its data, which is a copy */
    int64_t duration_ms;
    int64_t due_ms, until_ms; /* by clock_boot_ms(): the next renewal, the end of the lease */
    struct buf body;          /* of a renewal whose outcome is unknown; empty: none */
    bool busy;                /* the renewer is sending body */
    bool lost;
};

/* One renewal. */

static void make_body(struct drover_hold *h)
{
    struct drover_task update = {.id = h->task.id,
                                 .data = h->task.data,
                                 .data_len = h->task.data_len,
                                 .bytes = h->task.bytes,
                                 .timespec = -h->duration_ms};
    struct drover_update u = {.updates = &update, .update_count = 1};
    char requestid[TASK_CLIENT_REQUESTID_LEN + 1];
    random_hex(requestid, TASK_CLIENT_REQUESTID_LEN);
    int err = task_body_update(&h->body, &u, h->client->clientid, requestid, NULL);
    assert(!err); /* drover_client_hold() has checked the data */
}

static int64_t call_timeout(const struct drover_hold *h)
{
    int64_t ms = h->duration_ms / 3;
    return ms < CALL_TIMEOUT_MIN_MS   ? CALL_TIMEOUT_MIN_MS
           : ms > CALL_TIMEOUT_MAX_MS ? CALL_TIMEOUT_MAX_MS
                                      : ms;
}

/*
 * Sends the pending renewal, with the client's retries or once. An error other than REFUSED leaves
 * its outcome unknown.
 */
static int send_renewal(struct drover_hold *h, bool insist, int64_t *ret_id)
{
    struct drover_client *c = h->client;
    struct str body = buf_str(&h->body);
    struct transport_answer answer;
    TRY(insist ? task_client_insist(c, "POST", "/update", body, 0, &answer, NULL)
               : task_client_call(c, "POST", "/update", body, call_timeout(h), &answer, NULL));
    CLEANUP(drover_result_release) struct drover_result r = {0};
    int err = task_client_read(&answer, &r, NULL);
    if (!err && r.task_count == 1)
        *ret_id = r.tasks[0].id;
    return err;
}

/* Called with the lock, which it releases during the call. */
static void renew(struct drover_hold *h)
{
    struct drover_client *c = h->client;
    int64_t id = 0, start_ms = clock_boot_ms();

    if (!h->body.len)
        make_body(h);
    h->busy = true;
    pthread_mutex_unlock(&c->lock);
    int err = send_renewal(h, false, &id);
    pthread_mutex_lock(&c->lock);
    h->busy = false;
    if (!err) {
        h->task.id = id;
        h->until_ms = start_ms + h->duration_ms;
        h->due_ms = start_ms + h->duration_ms / 3;
        h->body.len = 0;
    } else if (err == DROVER_REFUSED || clock_boot_ms() >= h->until_ms) {
        h->lost = true;
    } else {
        h->due_ms = clock_boot_ms() + AGAIN_MS;
    }
    pthread_cond_broadcast(&c->changed);
}

/* The thread. */

static struct drover_hold *first_due(const struct drover_client *c)
{
    struct drover_hold *first = NULL;
    for (struct drover_hold *h = c->holds; h; h = h->next)
        if (!h->lost && !h->busy && (!first || h->due_ms < first->due_ms))
            first = h;
    return first;
}

static void *renew_all(void *arg)
{
    struct drover_client *c = arg;
    LOCKED(&c->lock);
    while (!c->closing) {
        struct drover_hold *h = first_due(c);
        if (h && h->due_ms <= clock_boot_ms())
            renew(h);
        else
            cond_wait_until(&c->changed, &c->lock, h ? h->due_ms : INT64_MAX);
    }
    return NULL;
}

void task_hold_end(struct drover_client *c)
{
    if (!c->renewing)
        return;
    assert(!c->holds);
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->renewer, NULL);
}

/* The calls. */

struct drover_hold *drover_client_hold(struct drover_client *c, const struct drover_task *t,
                                       int64_t duration_ms)
{
    if (!t->bytes && !json_is_text((struct str){t->data, t->data_len}))
        return NULL;
    struct drover_hold *h = mem_alloc(sizeof *h);
    int64_t now_ms = clock_boot_ms();
    *h = (struct drover_hold){.client = c,
                              .task = {.id = t->id, .data_len = t->data_len, .bytes = t->bytes},
                              .duration_ms = duration_ms,
                              .due_ms = now_ms + duration_ms / 3,
                              .until_ms = now_ms + duration_ms};
    h->task.data = mem_dup(t->data, t->data_len);
    LOCKED(&c->lock);
    h->next = c->holds;
    c->holds = h;
    if (!c->renewing)
        thread_must_start(&c->renewer, "task-renew", renew_all, c);
    c->renewing = true;
    pthread_cond_broadcast(&c->changed);
    return h;
}

int drover_hold_lost(struct drover_hold *h)
{
    LOCKED(&h->client->lock);
    return h->lost;
}

/* Finds out the outcome of a pending renewal. */
static int settle(struct drover_hold *h)
{
    int err = h->body.len ? send_renewal(h, true, &h->task.id) : 0;
    return !err ? 0 : err == DROVER_REFUSED ? DROVER_FENCED : DROVER_UNKNOWN;
}

int drover_hold_release(struct drover_hold *h, int64_t *ret_id)
{
    struct drover_client *c = h->client;
    pthread_mutex_lock(&c->lock);
    while (h->busy)
        cond_wait_until(&c->changed, &c->lock, INT64_MAX);
    struct drover_hold **at = &c->holds;
    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    pthread_mutex_unlock(&c->lock);
    int err = h->lost ? DROVER_FENCED : settle(h);
    if (!err)
        *ret_id = h->task.id;
    buf_release(&h->body);
    free((char *)h->task.data);
    free(h);
    return err;
}
