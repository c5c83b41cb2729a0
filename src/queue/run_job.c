/* The threads that read messages and hand them to the handler. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "queue/run_impl.h"

enum { AHEAD = 20 };

/* What was read ahead. */

static struct run_ahead **find_ahead(struct run *r, const char *queue)
{
    struct run_ahead **link = &r->aheads;

    while (*link && strcmp((*link)->queue, queue))
        link = &(*link)->next;
    return link;
}

static void free_ahead(struct run_ahead *a)
{
    message_list_release(&a->list);
    free(a);
}

void run_forget(struct run *r, const char *queue)
{
    struct run_ahead **link, *a;

    pthread_mutex_lock(&r->lock);
    link = queue ? find_ahead(r, queue) : &r->aheads;
    while ((a = *link)) {
        *link = a->next;
        free_ahead(a);
        if (queue)
            break;
    }
    pthread_mutex_unlock(&r->lock);
}

/* Out of the table: while a message of the queue is in hand, its thread alone has it. */
static struct run_ahead *take_ahead(struct run *r, const char *queue)
{
    struct run_ahead **link, *a;

    pthread_mutex_lock(&r->lock);
    link = find_ahead(r, queue);
    a = *link;
    if (a)
        *link = a->next;
    pthread_mutex_unlock(&r->lock);
    return a;
}

static void put_ahead(struct run *r, struct run_ahead *a)
{
    pthread_mutex_lock(&r->lock);
    a->next = r->aheads;
    r->aheads = a;
    pthread_mutex_unlock(&r->lock);
}

/* The message that comes right after `last`, if that is among those read. */
static const struct message *follows(const struct run_ahead *a, int64_t last)
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
static int find_message(struct run *r, const struct run_job *job, struct run_ahead **ahead,
                        const struct message **ret_message)
{
    struct run_ahead *a = *ahead;
    struct err_info e = {""};
    int err;

    *ret_message = a ? follows(a, job->last) : NULL;
    if (*ret_message)
        return 0;
    if (!a) {
        *ahead = a = mem_zalloc(sizeof *a);
        memcpy(a->queue, job->queue, sizeof a->queue);
    }
    message_list_release(&a->list);
    a->after = job->last;
    err = r->o.messages->read(r->o.messages, job->queue, job->last, AHEAD, &a->list, &e);
    if (err)
        run_note(r, "cannot read messages of %s: %s", job->queue, e.text);
    else
        *ret_message = follows(a, job->last);
    return err;
}

/* Certainty. */

bool run_is_sure(const struct run_message *m)
{
    const struct run *r = m->run;

    return clock_boot_ms() - atomic_load(&r->contact_ms) < atomic_load(&r->timeout_ms) / 2;
}

int64_t run_grace_ms(const struct run_message *m)
{
    const struct run *r = m->run;

    return atomic_load(&r->timeout_ms) / 4;
}

/* Handling. */

/* What the error queue gets: the message, where it came from and what went wrong. */
static int set_aside(struct run *r, const struct run_message *m)
{
    struct buf b = {0};
    struct err_info e = {""};
    int64_t id;
    int err;

    json_open(&b, '{');
    json_key(&b, "queue");
    json_put_text(&b, str_of(m->queue));
    json_key(&b, "id");
    json_put_int(&b, m->id);
    json_key(&b, "time");
    json_put_int(&b, m->time_ms);
    json_key(&b, "error");
    json_put_text(&b, str_of(m->error));
    json_key(&b, "data");
    json_put_text(&b, m->data);
    json_close(&b, '}');
    err = r->o.messages->post(r->o.messages, QUEUE_ERROR, (struct str){b.p, b.len}, &id, &e);
    if (err)
        run_note(r, "cannot set message %" PRId64 " of %s aside: %s", m->id, m->queue, e.text);
    else
        run_note(r, "message %" PRId64 " of %s failed (%s): set aside as %" PRId64 " of %s", m->id,
                 m->queue, m->error, id, QUEUE_ERROR);
    buf_release(&b);
    return err;
}

static enum worker_result judge(struct run *r, const struct run_job *job,
                                const struct run_message *m, enum run_verdict verdict)
{
    if (verdict == RUN_HANDLED)
        return WORKER_DONE;
    if (verdict == RUN_BROKEN_OFF)
        return WORKER_TROUBLE;
    if (job->aside)
        return set_aside(r, m) ? WORKER_TROUBLE : WORKER_DONE;
    run_note(r, "message %" PRId64 " of %s failed (%s)", m->id, m->queue, m->error);
    return WORKER_FAILED;
}

static void handle_one(struct run *r, struct run_job *job)
{
    struct run_ahead *ahead = take_ahead(r, job->queue);
    const struct message *message;

    if (find_message(r, job, &ahead, &message)) {
        job->result = WORKER_TROUBLE;
    } else if (!message) {
        job->result = WORKER_NOTHING;
    } else {
        struct run_message m = {.queue = job->queue,
                                .id = message->id,
                                .time_ms = message->time_ms,
                                .data = message->data,
                                .fence = job->fence,
                                .error = "no reason given",
                                .run = r};

        job->id = message->id;
        job->result = judge(r, job, &m, r->o.handle(r->o.arg, &m));
    }
    if (job->result == WORKER_DONE || job->result == WORKER_FAILED)
        put_ahead(r, ahead);
    else
        free_ahead(ahead);
}

static struct run_job *find_ready(struct run *r)
{
    for (int i = 0; i < r->o.worker.parallel; i++)
        if (r->jobs[i].state == JOB_READY)
            return &r->jobs[i];
    return NULL;
}

void *run_handle_all(void *arg)
{
    struct run *r = arg;
    struct run_job *job;

    pthread_mutex_lock(&r->lock);
    while (!r->ended) {
        job = find_ready(r);
        if (!job) {
            pthread_cond_wait(&r->work, &r->lock);
            continue;
        }
        job->state = JOB_RUNNING;
        pthread_mutex_unlock(&r->lock);
        handle_one(r, job);
        pthread_mutex_lock(&r->lock);
        job->state = JOB_DONE;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}
