/*
 * The handler threads read messages and pass them to the handler. The listener thread records which
 * queues have new messages; the control thread reports it to the state machine. Queues are also
 * polled (poll_ms): news may be lost with a connection.
 */
#include <inttypes.h>

#include "base/clock.h"
#include "base/thread.h"
#include "client/worker.h"

enum { AHEAD = 20, LISTEN_AGAIN_MS = 1000, POSTED_MAX = 10000, ERROR_SIZE = 256 };

/* Prefetched messages. */

static void free_ahead(struct worker_prefetch *a)
{
    queue_message_list_release(&a->list);
    free(a);
}

/*
 * Removes those of a queue (NULL: any) from the table; NULL: there are none. While a message of the
 * queue is in progress, only its thread uses them.
 */
static struct worker_prefetch *take_ahead(struct drover_worker *w, const char *queue)
{
    LOCKED(&w->lock);
    struct worker_prefetch **link = &w->aheads;
    while (*link && queue && strcmp((*link)->queue, queue))
        link = &(*link)->next;
    struct worker_prefetch *a = *link;
    if (a)
        *link = a->next;
    return a;
}

static void put_ahead(struct drover_worker *w, struct worker_prefetch *a)
{
    LOCKED(&w->lock);
    a->next = w->aheads;
    w->aheads = a;
}

void worker_forget(struct drover_worker *w, const char *queue)
{
    struct worker_prefetch *a;
    while ((a = take_ahead(w, queue)))
        free_ahead(a);
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
static int find_message(struct drover_worker *w, const struct queue_worker_action *job,
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
    int err = w->source->read(w->source, job->queue, job->last, AHEAD, &a->list, &e);
    if (err)
        worker_note(w, "cannot read messages of %s: %s", job->queue, e.text);
    else
        *ret_message = follows(a, job->last);
    return err;
}

/* Certainty of ownership. */

int drover_message_is_sure(const struct drover_message *m)
{
    const struct drover_worker *w = m->inside;
    return clock_boot_ms() - atomic_load(&w->contact_ms) < atomic_load(&w->timeout_ms) / 2;
}

int64_t drover_message_grace_ms(const struct drover_message *m)
{
    const struct drover_worker *w = m->inside;
    return atomic_load(&w->timeout_ms) / 4;
}

/* Handling. */

/* Posts the message to the error queue, with its origin and the error. */
static int set_aside(struct drover_worker *w, const struct drover_message *m)
{
    CLEANUP(buf_release) struct buf b = {0};
    struct err_info e = {""};
    int64_t id;
    json_open(&b, '{');
    json_member_text(&b, "queue", str_of(m->queue));
    json_member_int(&b, "id", m->id);
    json_member_int(&b, "time", m->time);
    json_member_text(&b, "error", str_of(m->error));
    json_member_text(&b, "data", (struct str){m->data, m->data_len});
    json_close(&b, '}');
    int err = w->source->post(w->source, QUEUE_ERROR, buf_str(&b), &id, &e);
    if (err)
        worker_note(w, "cannot move message %" PRId64 " of %s to the error queue: %s", m->id,
                    m->queue, e.text);
    else
        worker_note(w, "message %" PRId64 " of %s failed (%s): moved to %s as %" PRId64, m->id,
                    m->queue, m->error, QUEUE_ERROR, id);
    return err;
}

static enum queue_worker_result handle(struct drover_worker *w, const struct worker_job *job,
                                       const struct queue_message *message)
{
    char error[ERROR_SIZE] = "no reason given";
    struct drover_message m = {.queue = job->action.queue,
                               .id = message->id,
                               .time = message->time_ms,
                               .data = message->data.p,
                               .data_len = message->data.len,
                               .fence = job->fence,
                               .error = error,
                               .inside = w};
    int verdict = w->o.handle(w->o.arg, &m);
    if (verdict <= 0)
        return verdict ? WORKER_TROUBLE : WORKER_DONE;
    if (job->action.aside)
        return set_aside(w, &m) ? WORKER_TROUBLE : WORKER_DONE;
    worker_note(w, "message %" PRId64 " of %s failed (%s)", m.id, m.queue, m.error);
    return WORKER_FAILED;
}

static void run_job(struct drover_worker *w, struct worker_job *job)
{
    struct worker_prefetch *ahead = take_ahead(w, job->action.queue);
    const struct queue_message *message;
    if (find_message(w, &job->action, &ahead, &message)) {
        job->result = WORKER_TROUBLE;
    } else if (!message) {
        job->result = WORKER_NOTHING;
    } else {
        job->id = message->id;
        job->result = handle(w, job, message);
    }
    if (job->result == WORKER_DONE || job->result == WORKER_FAILED)
        put_ahead(w, ahead);
    else
        free_ahead(ahead);
}

static struct worker_job *find_ready(struct drover_worker *w)
{
    for (int i = 0; i < w->parallel; i++)
        if (w->jobs[i].state == JOB_READY)
            return &w->jobs[i];
    return NULL;
}

void *worker_handle_all(void *arg)
{
    struct drover_worker *w = arg;
    LOCKED(&w->lock);
    while (!w->ended) {
        struct worker_job *job = find_ready(w);
        if (!job) {
            pthread_cond_wait(&w->work, &w->lock);
            continue;
        }
        job->state = JOB_RUNNING;
        pthread_mutex_unlock(&w->lock);
        run_job(w, job);
        pthread_mutex_lock(&w->lock);
        job->state = JOB_DONE;
        pthread_cond_broadcast(&w->changed);
    }
    return NULL;
}

/* Listening. */

/* Under the lock. */
static void note_posted(struct drover_worker *w, struct str queue)
{
    if (!queue_valid_name(queue) || w->posted_any)
        return;
    if (w->posted_count == POSTED_MAX) { /* so many that every queue may as well be read */
        w->posted_any = true;
        return;
    }
    mem_grow(w->posted, w->posted_count, w->posted_cap);
    memcpy(w->posted[w->posted_count], queue.p, queue.len);
    w->posted[w->posted_count++][queue.len] = '\0';
}

static void note_news(struct drover_worker *w, const struct message_news *news)
{
    LOCKED(&w->lock);
    if (!news->queues)
        w->posted_any = true;
    for (size_t i = 0; i < news->count; i++)
        note_posted(w, news->queues[i]);
    pthread_cond_broadcast(&w->changed);
}

/* False: the worker has ended. */
static bool pause_for(struct drover_worker *w, int64_t ms)
{
    int64_t until_ms = clock_boot_ms() + ms;
    LOCKED(&w->lock);
    while (!w->ended && clock_boot_ms() < until_ms)
        cond_wait_until(&w->changed, &w->lock, until_ms);
    return !w->ended;
}

void *worker_listen(void *arg)
{
    struct drover_worker *w = arg;
    CLEANUP(arena_release) struct arena a = {0};
    struct message_news news;
    int err;
    do {
        arena_reset(&a);
        err = w->source->listen(w->source, &a, &news);
        if (!err)
            note_news(w, &news);
    } while (err != DROVER_CLOSED && pause_for(w, err ? LISTEN_AGAIN_MS : 0));
    return NULL;
}
