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
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/thread.h"

void worker_note(struct drover_worker *w, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    if (!w->o.note)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    w->o.note(w->o.arg, line);
}

/* Watches. */

static void on_list(void *arg, enum keeper_event event, const char *path)
{
    struct drover_worker *w = arg;
    (void)path;
    LOCKED(&w->lock);
    if (event == KEEPER_EVENT_EXPIRED)
        w->expired = true;
    else
        w->lists_changed = true;
    pthread_cond_broadcast(&w->changed);
}

static void on_owner(void *arg, enum keeper_event event, const char *path)
{
    struct worker_wanted *wanted = arg;
    (void)event, (void)path;
    LOCKED(&wanted->worker->lock);
    wanted->freed = true;
    pthread_cond_broadcast(&wanted->worker->changed);
}

/*
 * Another worker owns the queue: watches its owner node. It may have gone before the watch was set.
 */
static void want(struct drover_worker *w, const char *queue)
{
    char path[QUEUE_PATH_SIZE];
    for (struct worker_wanted *wanted = w->wanted; wanted; wanted = wanted->next)
        if (!strcmp(wanted->queue, queue))
            return;
    struct worker_wanted *wanted = mem_zalloc(sizeof *wanted);
    wanted->worker = w;
    snprintf(wanted->queue, sizeof wanted->queue, "%s", queue);
    queues_path(&w->steps.registration.queues, path, "queues/%s/owner", queue);
    if (keeper_watch(w->keeper, path, KEEPER_WATCH_EXISTS, on_owner, wanted, &wanted->watch)) {
        free(wanted);
        return;
    }
    wanted->next = w->wanted;
    w->wanted = wanted;
    if (keeper_exists(w->keeper, path, NULL) == DROVER_NO_NODE)
        queue_worker_freed(&w->steps.worker, clock_boot_ms(), queue);
}

/* Removes the watch of a queue; NULL: of all. */
static void unwant(struct drover_worker *w, const char *queue)
{
    struct worker_wanted **link = &w->wanted, *wanted;
    while ((wanted = *link)) {
        if (queue && strcmp(wanted->queue, queue)) {
            link = &wanted->next;
            continue;
        }
        keeper_unwatch(w->keeper, wanted->watch);
        *link = wanted->next;
        free(wanted);
    }
}

/* The session. */

static void disconnect(struct drover_worker *w)
{
    if (!w->keeper)
        return;
    unwant(w, NULL);
    for (int i = 0; i < 2; i++) {
        if (w->watches[i])
            keeper_unwatch(w->keeper, w->watches[i]);
        w->watches[i] = NULL;
    }
    keeper_close(w->keeper);
    w->keeper = NULL;
}

/* Watches the lists. The keeper may have granted another timeout than the one asked for. */
static int begin_session(struct drover_worker *w)
{
    static const char *const lists[] = {"workers", "queues"};
    struct keeper_session session;
    char path[QUEUE_PATH_SIZE];
    keeper_session(w->keeper, &session);
    w->steps.worker.o.timeout_ms = session.timeout_ms;
    atomic_store(&w->timeout_ms, session.timeout_ms);
    for (int i = 0; i < 2; i++) {
        queues_path(&w->steps.registration.queues, path, "%s", lists[i]);
        TRY(keeper_watch(w->keeper, path, KEEPER_WATCH_CHILDREN, on_list, w, &w->watches[i]));
    }
    return 0;
}

static void join(struct drover_worker *w, const struct queue_worker_action *a)
{
    struct err_info e = {""};
    disconnect(w);
    int err = w->source->connect(w->source, &w->keeper, &e);
    w->steps.registration.queues.keeper = w->keeper;
    if (!err)
        err = begin_session(w);
    pthread_mutex_lock(&w->lock);
    w->expired = false; /* it concerned the previous session */
    pthread_mutex_unlock(&w->lock);
    if (!err)
        err = queue_step(&w->steps, a);
    else
        queue_worker_joined(&w->steps.worker, clock_boot_ms(), err, NULL);
    if (err && err != w->join_err)
        worker_note(w, "cannot join: %s%s", e.text[0] ? e.text : drover_err_message(err),
                    err == DROVER_NO_AUTH
                        ? "; the keeper wants a token with the roles read and work, or a user"
                        : "");
    else if (!err)
        worker_note(w, "joined as %s", w->steps.registration.name);
    w->join_err = err;
}

/* Actions. */

static void start_job(struct drover_worker *w, const struct queue_worker_action *a)
{
    struct queue_hold *h = queue_registration_find(&w->steps.registration, a->queue);
    struct worker_job *job = w->jobs;
    LOCKED(&w->lock);
    while (job->state != JOB_FREE)
        job++;
    assert(h && job < w->jobs + w->parallel);
    *job = (struct worker_job){.state = JOB_READY, .action = *a, .fence = h->fence};
    pthread_cond_signal(&w->work);
}

/* A session may end between two actions, by a watch, or in the answer to one. */
static void look_at_session(struct drover_worker *w)
{
    if (w->was_joined && !w->steps.worker.joined)
        worker_note(w, "the session of %s has ended", w->steps.registration.name);
    w->was_joined = w->steps.worker.joined;
    atomic_store(&w->contact_ms, w->was_joined ? w->steps.worker.contact_ms : INT64_MIN / 2);
}

/* An action on the keeper other than joining. */
static void take_step(struct drover_worker *w, const struct queue_worker_action *a)
{
    int err = queue_step(&w->steps, a);
    if (a->kind == WORKER_TAKE) {
        if (err == DROVER_IN_USE)
            want(w, a->queue);
        else
            unwant(w, a->queue);
        if (!err)
            worker_note(w, "took %s", a->queue);
    } else if (a->kind == WORKER_RELEASE && !err) {
        worker_note(w, "released %s", a->queue);
        worker_forget(w, a->queue);
    } else if (a->kind == WORKER_ADVANCE && err == DROVER_FENCED) {
        worker_note(w, "lost %s: another worker owns it", a->queue);
    }
}

static void act(struct drover_worker *w, const struct queue_worker_action *a)
{
    if (a->kind == WORKER_JOIN)
        join(w, a);
    else if (a->kind == WORKER_WORK)
        start_job(w, a);
    else
        take_step(w, a);
    look_at_session(w);
}

/* Reports events to the state machine. Under the lock. */
static void tell(struct drover_worker *w, int64_t now_ms)
{
    struct queue_worker *worker = &w->steps.worker;

    for (struct worker_job *job = w->jobs; job < w->jobs + w->parallel; job++) {
        if (job->state != JOB_DONE)
            continue;
        queue_worker_worked(worker, now_ms, job->action.queue, job->result, job->id);
        if (job->result == WORKER_FAILED && w->o.policy == DROVER_STOP)
            w->err = DROVER_REFUSED;
        job->state = JOB_FREE;
    }
    for (struct worker_wanted *wanted = w->wanted; wanted; wanted = wanted->next) {
        if (wanted->freed)
            queue_worker_freed(worker, now_ms, wanted->queue);
        wanted->freed = false;
    }
    if (w->expired && worker->joined)
        queue_worker_expired(worker, now_ms);
    else if (w->lists_changed && worker->joined)
        queue_worker_changed(worker, now_ms);
    if (w->posted_any)
        queue_worker_posted(worker, now_ms, NULL);
    for (size_t i = 0; i < w->posted_count && !w->posted_any; i++)
        queue_worker_posted(worker, now_ms, w->posted[i]);
    w->expired = w->lists_changed = w->posted_any = false;
    w->posted_count = 0;
    if (w->stop && !worker->stopping)
        queue_worker_stop(worker, now_ms);
}

static void *control(void *arg)
{
    struct drover_worker *w = arg;
    struct queue_worker_action a;
    do {
        pthread_mutex_lock(&w->lock);
        tell(w, clock_boot_ms());
        queue_worker_next(&w->steps.worker, clock_boot_ms(), &a);
        if (a.kind == WORKER_WAIT) /* tell() has left no event */
            cond_wait_until(&w->changed, &w->lock, a.at_ms);
        pthread_mutex_unlock(&w->lock);
        look_at_session(w);
        if (a.kind != WORKER_WAIT)
            act(w, &a);
    } while (a.kind != WORKER_END);
    disconnect(w);
    LOCKED(&w->lock);
    w->ended = true;
    pthread_cond_broadcast(&w->work);
    pthread_cond_broadcast(&w->changed);
    return NULL;
}

/* Starting and ending. */

static int64_t boot_ms(void *arg)
{
    (void)arg;
    return clock_boot_ms();
}

static int64_t chosen(int64_t given, int64_t otherwise)
{
    return given > 0 ? given : given < 0 ? 0 : otherwise;
}

static struct queue_worker_options machine_options(const struct drover_worker_options *o)
{
    static const enum queue_worker_policy policies[] = {
        [DROVER_RETRY] = WORKER_RETRY, [DROVER_SKIP] = WORKER_SKIP, [DROVER_STOP] = WORKER_STOP};
    return (struct queue_worker_options){
        .quiet_ms = chosen(o->quiet_ms, WORKER_QUIET_MS),
        .poll_ms = chosen(o->poll_ms, WORKER_POLL_MS),
        .timeout_ms = KEEPER_TIMEOUT_DEFAULT_MS,
        .policy = policies[o->policy],
        .back_off_ms = chosen(o->back_off_ms, WORKER_BACKOFF_MS),
        .retries = (int)chosen(o->retries, WORKER_RETRIES),
        .parallel = o->parallel > 0 ? o->parallel : 1,
    };
}

struct drover_worker *worker_start(struct queue_source *source, const char *ns,
                                   const struct drover_worker_options *o)
{
    struct drover_worker *w = mem_alloc(sizeof *w);
    struct queue_worker_options machine = machine_options(o);

    *w = (struct drover_worker){
        .source = source,
        .o = *o,
        .parallel = machine.parallel,
        .steps = {.now_ms = boot_ms,
                  .registration = {.queues.ns = ns, .only = o->only, .only_count = o->only_count},
                  .warnings = {.note = o->note, .arg = o->arg}},
        .contact_ms = INT64_MIN / 2,
        .timeout_ms = machine.timeout_ms,
        .jobs = mem_zalloc((size_t)machine.parallel * sizeof *w->jobs),
        .handlers = mem_zalloc((size_t)machine.parallel * sizeof *w->handlers),
    };
    queue_worker_init(&w->steps.worker, &machine);
    pthread_mutex_init(&w->lock, NULL);
    cond_init(&w->changed);
    pthread_cond_init(&w->work, NULL);
    for (int i = 0; i < w->parallel; i++)
        thread_must_start(&w->handlers[i], "queue-handler", worker_handle_all, w);
    thread_must_start(&w->control, "queue-control", control, w);
    if (source->listen)
        thread_must_start(&w->listener, "queue-listen", worker_listen, w);
    return w;
}

void drover_worker_stop(struct drover_worker *w)
{
    LOCKED(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->changed);
}

int drover_worker_wait(struct drover_worker *w)
{
    LOCKED(&w->lock);
    while (!w->ended)
        pthread_cond_wait(&w->changed, &w->lock);
    return w->err;
}

void drover_worker_free(struct drover_worker *w)
{
    drover_worker_stop(w);
    pthread_join(w->control, NULL);
    for (int i = 0; i < w->parallel; i++)
        pthread_join(w->handlers[i], NULL);
    if (w->source->listen) {
        w->source->unlisten(w->source);
        pthread_join(w->listener, NULL);
    }
    if (w->source->free)
        w->source->free(w->source);
    worker_forget(w, NULL);
    queue_steps_release(&w->steps);
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w->handlers);
    free(w->jobs);
    free(w->posted);
    free(w);
}
