/*
 * Events (a list changed, a queue is free, a message was handled) are recorded under the lock by
 * the thread that sees them. The control thread, which owns the state machine, reports them to it
 * between two actions.
 *
 * Messages are read ahead, several at a time. Prefetched messages are used only if they continue
 * exactly at `last`, which may also be changed by hand.
 */
#include "client/worker.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/thread.h"
#include "client/worker_impl.h"

static void wake(struct worker_runtime *s)
{
    pthread_cond_broadcast(&s->changed);
}

void worker_note(struct worker_runtime *s, const char *fmt, ...)
{
    char line[512];
    va_list ap;

    if (!s->o.note)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    s->o.note(s->o.arg, line);
}

/* Watches. */

static void on_list(void *arg, enum keeper_event event, const char *path)
{
    struct worker_runtime *s = arg;

    (void)path;
    LOCKED(&s->lock);
    if (event == KEEPER_EVENT_EXPIRED)
        s->expired = true;
    else
        s->lists_changed = true;
    wake(s);
}

static void on_owner(void *arg, enum keeper_event event, const char *path)
{
    struct worker_wanted *wanted = arg;

    (void)event, (void)path;
    LOCKED(&wanted->runtime->lock);
    wanted->freed = true;
    wake(wanted->runtime);
}

static struct worker_wanted *find_wanted(struct worker_runtime *s, const char *queue)
{
    struct worker_wanted *wanted = s->wanted;

    while (wanted && strcmp(wanted->queue, queue))
        wanted = wanted->next;
    return wanted;
}

/*
 * Another worker owns the queue: watches its owner node. It may have gone before the watch was set.
 */
static void want(struct worker_runtime *s, const char *queue)
{
    struct worker_wanted *wanted = find_wanted(s, queue);
    char path[QUEUE_PATH_SIZE];

    if (!wanted) {
        wanted = mem_zalloc(sizeof *wanted);
        wanted->runtime = s;
        snprintf(wanted->queue, sizeof wanted->queue, "%s", queue);
        queues_path(&s->steps.registration.queues, path, "queues/%s/owner", queue);
        if (keeper_watch(s->keeper, path, KEEPER_WATCH_EXISTS, on_owner, wanted, &wanted->watch)) {
            free(wanted);
            return;
        }
        wanted->next = s->wanted;
        s->wanted = wanted;
        if (keeper_exists(s->keeper, path, NULL) == DROVER_NO_NODE)
            queue_worker_freed(&s->steps.worker, clock_boot_ms(), queue);
    }
}

/* Removes the watch of a queue; NULL: of all. */
static void unwant(struct worker_runtime *s, const char *queue)
{
    struct worker_wanted **link = &s->wanted, *wanted;

    while ((wanted = *link)) {
        if (queue && strcmp(wanted->queue, queue)) {
            link = &wanted->next;
            continue;
        }
        keeper_unwatch(s->keeper, wanted->watch);
        *link = wanted->next;
        free(wanted);
    }
}

/* The session. */

static void disconnect(struct worker_runtime *s)
{
    if (!s->keeper)
        return;
    unwant(s, NULL);
    for (int i = 0; i < 2; i++) {
        if (s->watches[i])
            keeper_unwatch(s->keeper, s->watches[i]);
        s->watches[i] = NULL;
    }
    keeper_close(s->keeper);
    s->keeper = NULL;
}

static int watch_lists(struct worker_runtime *s)
{
    static const char *const lists[] = {"workers", "queues"};
    char path[QUEUE_PATH_SIZE];
    int err = 0;

    for (int i = 0; i < 2 && !err; i++) {
        queues_path(&s->steps.registration.queues, path, "%s", lists[i]);
        err = keeper_watch(s->keeper, path, KEEPER_WATCH_CHILDREN, on_list, s, &s->watches[i]);
    }
    return err;
}

/* The keeper may have granted another timeout than the one asked for. */
static void adopt_timeout(struct worker_runtime *s)
{
    struct keeper_session session;

    keeper_session(s->keeper, &session);
    s->steps.worker.o.timeout_ms = session.timeout_ms;
    atomic_store(&s->timeout_ms, session.timeout_ms);
}

static void join(struct worker_runtime *s, const struct queue_worker_action *a)
{
    struct err_info e = {""};

    disconnect(s);
    int err = s->o.connect(s->o.arg, &s->keeper, &e);
    s->steps.registration.queues.keeper = s->keeper;
    if (!err) {
        adopt_timeout(s);
        err = watch_lists(s);
    }
    pthread_mutex_lock(&s->lock);
    s->expired = false; /* it concerned the previous session */
    pthread_mutex_unlock(&s->lock);
    if (!err)
        err = queue_step(&s->steps, a);
    else
        queue_worker_joined(&s->steps.worker, clock_boot_ms(), err, NULL);
    if (err && err != s->join_err)
        worker_note(s, "cannot join: %s", e.text[0] ? e.text : drover_err_message(err));
    else if (!err)
        worker_note(s, "joined as %s", s->steps.registration.name);
    s->join_err = err;
}

/* Actions. */

static void start_job(struct worker_runtime *s, const struct queue_worker_action *a)
{
    struct queue_hold *h = queue_registration_find(&s->steps.registration, a->queue);
    struct worker_job *job = s->jobs;

    LOCKED(&s->lock);
    while (job->state != JOB_FREE)
        job++;
    assert(h && job < s->jobs + s->o.worker.parallel);
    memcpy(job->queue, a->queue, sizeof job->queue);
    job->last = a->last;
    job->aside = a->aside;
    job->fence = h->fence;
    job->state = JOB_READY;
    pthread_cond_signal(&s->work);
}

static void do_take(struct worker_runtime *s, const struct queue_worker_action *a)
{
    int err = queue_step(&s->steps, a);

    if (err == DROVER_IN_USE)
        want(s, a->queue);
    else
        unwant(s, a->queue);
    if (!err)
        worker_note(s, "took %s", a->queue);
}

/* A session may end between two actions, by a watch, or in the answer to one. */
static void look_at_session(struct worker_runtime *s)
{
    if (s->was_joined && !s->steps.worker.joined)
        worker_note(s, "the session of %s has ended", s->steps.registration.name);
    s->was_joined = s->steps.worker.joined;
    atomic_store(&s->contact_ms, s->was_joined ? s->steps.worker.contact_ms : INT64_MIN / 2);
}

static void act(struct worker_runtime *s, const struct queue_worker_action *a)
{
    if (a->kind == WORKER_JOIN) {
        join(s, a);
    } else if (a->kind == WORKER_WORK) {
        start_job(s, a);
    } else if (a->kind == WORKER_TAKE) {
        do_take(s, a);
    } else {
        int err = queue_step(&s->steps, a);
        if (a->kind == WORKER_RELEASE && !err) {
            worker_note(s, "released %s", a->queue);
            worker_forget(s, a->queue);
        } else if (a->kind == WORKER_ADVANCE && err == DROVER_FENCED) {
            worker_note(s, "lost %s: another worker owns it", a->queue);
        }
    }
    look_at_session(s);
}

/* Reports events to the state machine. Under the lock. */
static void tell(struct worker_runtime *s, int64_t now_ms)
{
    for (int i = 0; i < s->o.worker.parallel; i++) {
        struct worker_job *job = &s->jobs[i];

        if (job->state == JOB_DONE) {
            queue_worker_worked(&s->steps.worker, now_ms, job->queue, job->result, job->id);
            if (job->result == WORKER_FAILED && s->o.worker.policy == WORKER_STOP)
                s->err = DROVER_REFUSED;
            job->state = JOB_FREE;
        }
    }
    for (struct worker_wanted *wanted = s->wanted; wanted; wanted = wanted->next) {
        if (wanted->freed)
            queue_worker_freed(&s->steps.worker, now_ms, wanted->queue);
        wanted->freed = false;
    }
    if (s->expired && s->steps.worker.joined)
        queue_worker_expired(&s->steps.worker, now_ms);
    else if (s->lists_changed && s->steps.worker.joined)
        queue_worker_changed(&s->steps.worker, now_ms);
    s->expired = s->lists_changed = false;
    worker_tell_posted(s, now_ms);
    if (s->stop && !s->steps.worker.stopping)
        queue_worker_stop(&s->steps.worker, now_ms);
}

static bool has_news(const struct worker_runtime *s)
{
    for (int i = 0; i < s->o.worker.parallel; i++)
        if (s->jobs[i].state == JOB_DONE)
            return true;
    for (const struct worker_wanted *wanted = s->wanted; wanted; wanted = wanted->next)
        if (wanted->freed)
            return true;
    return s->expired || s->lists_changed || s->posted_any || s->posted_count ||
           (s->stop && !s->steps.worker.stopping);
}

static void *control(void *arg)
{
    struct worker_runtime *s = arg;
    struct queue_worker_action a;

    do {
        pthread_mutex_lock(&s->lock);
        tell(s, clock_boot_ms());
        queue_worker_next(&s->steps.worker, clock_boot_ms(), &a);
        if (a.kind == WORKER_WAIT && !has_news(s))
            cond_wait_until(&s->changed, &s->lock, a.at_ms);
        pthread_mutex_unlock(&s->lock);
        look_at_session(s);
        if (a.kind != WORKER_WAIT)
            act(s, &a);
    } while (a.kind != WORKER_END);
    disconnect(s);
    LOCKED(&s->lock);
    s->ended = true;
    pthread_cond_broadcast(&s->work);
    wake(s);
    return NULL;
}

/* The public calls. */

static int64_t boot_ms(void *arg)
{
    (void)arg;
    return clock_boot_ms();
}

struct worker_runtime *worker_runtime_start(const struct worker_runtime_options *o)
{
    struct worker_runtime *s = mem_zalloc(sizeof *s);
    size_t count = (size_t)o->worker.parallel;

    s->o = *o;
    pthread_mutex_init(&s->lock, NULL);
    cond_init(&s->changed);
    pthread_cond_init(&s->work, NULL);
    atomic_init(&s->contact_ms, INT64_MIN / 2);
    atomic_init(&s->timeout_ms, o->worker.timeout_ms);
    queue_worker_init(&s->steps.worker, &o->worker);
    s->steps.now_ms = boot_ms;
    s->steps.registration.queues.ns = o->ns;
    s->steps.registration.only = o->only;
    s->steps.registration.only_count = o->only_count;
    s->steps.warnings.note = o->note;
    s->steps.warnings.arg = o->arg;
    s->jobs = mem_zalloc(count * sizeof *s->jobs);
    s->handlers = mem_zalloc(count * sizeof *s->handlers);
    for (size_t i = 0; i < count; i++)
        thread_must_start(&s->handlers[i], "queue-handler", worker_handle_all, s);
    thread_must_start(&s->control, "queue-control", control, s);
    if (s->o.listen)
        thread_must_start(&s->listener, "queue-listen", worker_listen, s);
    return s;
}

void worker_runtime_stop(struct worker_runtime *s)
{
    LOCKED(&s->lock);
    s->stop = true;
    wake(s);
}

int worker_runtime_wait(struct worker_runtime *s)
{
    LOCKED(&s->lock);
    while (!s->ended)
        pthread_cond_wait(&s->changed, &s->lock);
    return s->err;
}

void worker_runtime_free(struct worker_runtime *s)
{
    worker_runtime_stop(s);
    pthread_join(s->control, NULL);
    for (int i = 0; i < s->o.worker.parallel; i++)
        pthread_join(s->handlers[i], NULL);
    if (s->o.listen) {
        s->o.unlisten(s->o.arg);
        pthread_join(s->listener, NULL);
    }
    worker_forget(s, NULL);
    queue_steps_release(&s->steps);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s->handlers);
    free(s->jobs);
    free(s->posted);
    free(s);
}
