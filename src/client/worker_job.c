/* The handler threads: they read messages and pass them to the handler. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/thread.h"
#include "client/worker_impl.h"

enum { AHEAD = 20 };

/* Prefetched messages. */

static struct worker_prefetch **find_ahead(struct worker_runtime *s, const char *queue)
{
    struct worker_prefetch **link = &s->aheads;

    while (*link && strcmp((*link)->queue, queue))
        link = &(*link)->next;
    return link;
}

static void free_ahead(struct worker_prefetch *a)
{
    queue_message_list_release(&a->list);
    free(a);
}

void worker_forget(struct worker_runtime *s, const char *queue)
{
    struct worker_prefetch *a;

    LOCKED(&s->lock);
    struct worker_prefetch **link = queue ? find_ahead(s, queue) : &s->aheads;
    while ((a = *link)) {
        *link = a->next;
        free_ahead(a);
        if (queue)
            break;
    }
}

/*
 * Removes it from the table: while a message of the queue is in progress, only its thread uses it.
 */
static struct worker_prefetch *take_ahead(struct worker_runtime *s, const char *queue)
{
    LOCKED(&s->lock);
    struct worker_prefetch **link = find_ahead(s, queue);
    struct worker_prefetch *a = *link;
    if (a)
        *link = a->next;
    return a;
}

static void put_ahead(struct worker_runtime *s, struct worker_prefetch *a)
{
    LOCKED(&s->lock);
    a->next = s->aheads;
    s->aheads = a;
}

/* The message right after `last`, if it was prefetched. */
static const struct queue_message *follows(const struct worker_prefetch *a, int64_t last)
{
    int64_t before = a->after;

    for (size_t i = 0; i < a->list.count; i++) {
        if (before == last)
            return &a->list.messages[i];
        before = a->list.messages[i].id;
    }
    return NULL;
}

/* 0 and the message; NULL: there is none. */
static int find_message(struct worker_runtime *s, const struct worker_job *job,
                        struct worker_prefetch **ahead, const struct queue_message **ret_message)
{
    struct worker_prefetch *a = *ahead;
    struct err_info e = {""};

    *ret_message = a ? follows(a, job->last) : NULL;
    if (*ret_message)
        return 0;
    if (!a) {
        *ahead = a = mem_zalloc(sizeof *a);
        memcpy(a->queue, job->queue, sizeof a->queue);
    }
    queue_message_list_release(&a->list);
    a->after = job->last;
    int err = s->o.messages->read(s->o.messages, job->queue, job->last, AHEAD, &a->list, &e);
    if (err)
        worker_note(s, "cannot read messages of %s: %s", job->queue, e.text);
    else
        *ret_message = follows(a, job->last);
    return err;
}

/* Certainty of ownership. */

bool worker_message_is_sure(const struct worker_message *m)
{
    const struct worker_runtime *s = m->runtime;

    return clock_boot_ms() - atomic_load(&s->contact_ms) < atomic_load(&s->timeout_ms) / 2;
}

int64_t worker_message_grace_ms(const struct worker_message *m)
{
    const struct worker_runtime *s = m->runtime;

    return atomic_load(&s->timeout_ms) / 4;
}

/* Handling. */

/* Posts the message to the error queue, with its origin and the error. */
static int set_aside(struct worker_runtime *s, const struct worker_message *m)
{
    CLEANUP(buf_release) struct buf b = {0};
    struct err_info e = {""};
    int64_t id;
    int err;

    json_open(&b, '{');
    json_member_text(&b, "queue", str_of(m->queue));
    json_member_int(&b, "id", m->id);
    json_member_int(&b, "time", m->time_ms);
    json_member_text(&b, "error", str_of(m->error));
    json_member_text(&b, "data", m->data);
    json_close(&b, '}');
    err = s->o.messages->post(s->o.messages, QUEUE_ERROR, buf_str(&b), &id, &e);
    if (err)
        worker_note(s, "cannot move message %" PRId64 " of %s to the error queue: %s", m->id,
                    m->queue, e.text);
    else
        worker_note(s, "message %" PRId64 " of %s failed (%s): moved to %s as %" PRId64, m->id,
                    m->queue, m->error, QUEUE_ERROR, id);
    return err;
}

static enum queue_worker_result judge(struct worker_runtime *s, const struct worker_job *job,
                                      const struct worker_message *m, enum worker_verdict verdict)
{
    if (verdict == MESSAGE_HANDLED)
        return WORKER_DONE;
    if (verdict == MESSAGE_INTERRUPTED)
        return WORKER_TROUBLE;
    if (job->aside)
        return set_aside(s, m) ? WORKER_TROUBLE : WORKER_DONE;
    worker_note(s, "message %" PRId64 " of %s failed (%s)", m->id, m->queue, m->error);
    return WORKER_FAILED;
}

static void handle_one(struct worker_runtime *s, struct worker_job *job)
{
    struct worker_prefetch *ahead = take_ahead(s, job->queue);
    const struct queue_message *message;

    if (find_message(s, job, &ahead, &message)) {
        job->result = WORKER_TROUBLE;
    } else if (!message) {
        job->result = WORKER_NOTHING;
    } else {
        struct worker_message m = {.queue = job->queue,
                                   .id = message->id,
                                   .time_ms = message->time_ms,
                                   .data = message->data,
                                   .fence = job->fence,
                                   .error = "no reason given",
                                   .runtime = s};

        job->id = message->id;
        job->result = judge(s, job, &m, s->o.handle(s->o.arg, &m));
    }
    if (job->result == WORKER_DONE || job->result == WORKER_FAILED)
        put_ahead(s, ahead);
    else
        free_ahead(ahead);
}

static struct worker_job *find_ready(struct worker_runtime *s)
{
    for (int i = 0; i < s->o.worker.parallel; i++)
        if (s->jobs[i].state == JOB_READY)
            return &s->jobs[i];
    return NULL;
}

void *worker_handle_all(void *arg)
{
    struct worker_runtime *s = arg;

    pthread_mutex_lock(&s->lock);
    while (!s->ended) {
        struct worker_job *job = find_ready(s);
        if (!job) {
            pthread_cond_wait(&s->work, &s->lock);
            continue;
        }
        job->state = JOB_RUNNING;
        pthread_mutex_unlock(&s->lock);
        handle_one(s, job);
        pthread_mutex_lock(&s->lock);
        job->state = JOB_DONE;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}
