/*
 * What happens (a list changes, a queue is free, a message was handled) is noted under the lock by
 * whoever sees it, and told to the state machine by the one thread that owns it, between two actions.
 *
 * Messages are read some at a time and kept for the next turns of their queue. What is kept is used only
 * when it goes on exactly where `last` is; `last` may also be moved by hand.
 */
#include "queue/run.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/json.h"
#include "base/mem.h"
#include "queue/run_impl.h"

/* Notes from anywhere. */

static void wake(struct run *r)
{
    pthread_cond_broadcast(&r->changed);
}

void run_note(struct run *r, const char *fmt, ...)
{
    char line[512];
    va_list ap;

    if (!r->o.note)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    r->o.note(r->o.arg, line);
}

/* Watches. */

static void on_list(void *arg, enum keeper_event event, const char *path)
{
    struct run *r = arg;

    (void)path;
    pthread_mutex_lock(&r->lock);
    if (event == KEEPER_EVENT_EXPIRED)
        r->expired = true;
    else
        r->lists_changed = true;
    wake(r);
    pthread_mutex_unlock(&r->lock);
}

static void on_owner(void *arg, enum keeper_event event, const char *path)
{
    struct run_wanted *wanted = arg;

    (void)event, (void)path;
    pthread_mutex_lock(&wanted->run->lock);
    wanted->freed = true;
    wake(wanted->run);
    pthread_mutex_unlock(&wanted->run->lock);
}

static struct run_wanted *find_wanted(struct run *r, const char *queue)
{
    struct run_wanted *wanted = r->wanted;

    while (wanted && strcmp(wanted->queue, queue))
        wanted = wanted->next;
    return wanted;
}

/* The queue is another's: we hear when it is free. It may have become so before we listened. */
static void want(struct run *r, const char *queue)
{
    struct run_wanted *wanted = find_wanted(r, queue);
    char path[QUEUE_PATH_SIZE];

    if (!wanted) {
        wanted = mem_zalloc(sizeof *wanted);
        wanted->run = r;
        snprintf(wanted->queue, sizeof wanted->queue, "%s", queue);
        queues_path(&r->act.member.queues, path, "queues/%s/owner", queue);
        if (keeper_watch(r->keeper, path, KEEPER_WATCH_EXISTS, on_owner, wanted, &wanted->watch)) {
            free(wanted);
            return;
        }
        wanted->next = r->wanted;
        r->wanted = wanted;
        if (keeper_exists(r->keeper, path, NULL) == DROVER_NO_NODE)
            worker_freed(&r->act.worker, clock_boot_ms(), queue);
    }
}

/* Stops listening for a queue; NULL: for all. */
static void unwant(struct run *r, const char *queue)
{
    struct run_wanted **link = &r->wanted, *wanted;

    while ((wanted = *link)) {
        if (queue && strcmp(wanted->queue, queue)) {
            link = &wanted->next;
            continue;
        }
        keeper_unwatch(r->keeper, wanted->watch);
        *link = wanted->next;
        free(wanted);
    }
}

/* The session. */

static void disconnect(struct run *r)
{
    if (!r->keeper)
        return;
    unwant(r, NULL);
    for (int i = 0; i < 2; i++) {
        if (r->watches[i])
            keeper_unwatch(r->keeper, r->watches[i]);
        r->watches[i] = NULL;
    }
    keeper_close(r->keeper);
    r->keeper = NULL;
}

static int watch_lists(struct run *r)
{
    static const char *const lists[] = {"workers", "queues"};
    char path[QUEUE_PATH_SIZE];
    int err = 0;

    for (int i = 0; i < 2 && !err; i++) {
        queues_path(&r->act.member.queues, path, "%s", lists[i]);
        err = keeper_watch(r->keeper, path, KEEPER_WATCH_CHILDREN, on_list, r, &r->watches[i]);
    }
    return err;
}

/* The keeper may have granted another timeout than we asked for. */
static void adopt_timeout(struct run *r)
{
    struct keeper_session session;

    keeper_session(r->keeper, &session);
    r->act.worker.o.timeout_ms = session.timeout_ms;
    atomic_store(&r->timeout_ms, session.timeout_ms);
}

static void join(struct run *r, const struct worker_action *a)
{
    struct err_info e = {""};
    int err;

    disconnect(r);
    err = r->o.connect(r->o.arg, &r->keeper, &e);
    r->act.member.queues.keeper = r->keeper;
    if (!err) {
        adopt_timeout(r);
        err = watch_lists(r);
    }
    pthread_mutex_lock(&r->lock);
    r->expired = false; /* it was the last session's */
    pthread_mutex_unlock(&r->lock);
    if (!err)
        err = act_on(&r->act, a);
    else
        worker_joined(&r->act.worker, clock_boot_ms(), err, NULL);
    if (err && err != r->join_err)
        run_note(r, "cannot join: %s", e.text[0] ? e.text : drover_err_message(err));
    else if (!err)
        run_note(r, "joined as %s", r->act.member.name);
    r->join_err = err;
}

/* Actions. */

static void start_job(struct run *r, const struct worker_action *a)
{
    struct hold *h = member_find(&r->act.member, a->queue);
    struct run_job *job = r->jobs;

    pthread_mutex_lock(&r->lock);
    while (job->state != JOB_FREE)
        job++;
    assert(h && job < r->jobs + r->o.worker.parallel);
    memcpy(job->queue, a->queue, sizeof job->queue);
    job->last = a->last;
    job->aside = a->aside;
    job->fence = h->fence;
    job->state = JOB_READY;
    pthread_cond_signal(&r->work);
    pthread_mutex_unlock(&r->lock);
}

static void do_take(struct run *r, const struct worker_action *a)
{
    int err = act_on(&r->act, a);

    if (err == DROVER_IN_USE)
        want(r, a->queue);
    else
        unwant(r, a->queue);
    if (!err)
        run_note(r, "took %s", a->queue);
}

static void act(struct run *r, const struct worker_action *a)
{
    int err;

    if (a->kind == WORKER_JOIN) {
        join(r, a);
    } else if (a->kind == WORKER_WORK) {
        start_job(r, a);
    } else if (a->kind == WORKER_TAKE) {
        do_take(r, a);
    } else {
        err = act_on(&r->act, a);
        if (a->kind == WORKER_GIVE_UP && !err) {
            run_note(r, "gave up %s", a->queue);
            run_forget(r, a->queue);
        } else if (a->kind == WORKER_ADVANCE && err == DROVER_FENCED) {
            run_note(r, "lost %s: another has taken over", a->queue);
        }
    }
    if (r->was_joined && !r->act.worker.joined)
        run_note(r, "the session of %s is over", r->act.member.name);
    r->was_joined = r->act.worker.joined;
    atomic_store(&r->contact_ms, r->was_joined ? r->act.worker.contact_ms : INT64_MIN / 2);
}

/* What happened meanwhile, under the lock. */
static void tell(struct run *r, int64_t now_ms)
{
    for (int i = 0; i < r->o.worker.parallel; i++) {
        struct run_job *job = &r->jobs[i];

        if (job->state == JOB_DONE) {
            worker_worked(&r->act.worker, now_ms, job->queue, job->result, job->id);
            if (job->result == WORKER_FAILED && r->o.worker.policy == WORKER_STOP)
                r->err = DROVER_REFUSED;
            job->state = JOB_FREE;
        }
    }
    for (struct run_wanted *wanted = r->wanted; wanted; wanted = wanted->next) {
        if (wanted->freed)
            worker_freed(&r->act.worker, now_ms, wanted->queue);
        wanted->freed = false;
    }
    if (r->expired && r->act.worker.joined)
        worker_expired(&r->act.worker, now_ms);
    else if (r->lists_changed && r->act.worker.joined)
        worker_changed(&r->act.worker, now_ms);
    r->expired = r->lists_changed = false;
    if (r->stop && !r->act.worker.stopping)
        worker_stop(&r->act.worker, now_ms);
}

static bool has_news(const struct run *r)
{
    for (int i = 0; i < r->o.worker.parallel; i++)
        if (r->jobs[i].state == JOB_DONE)
            return true;
    for (const struct run_wanted *wanted = r->wanted; wanted; wanted = wanted->next)
        if (wanted->freed)
            return true;
    return r->expired || r->lists_changed || (r->stop && !r->act.worker.stopping);
}

static void *control(void *arg)
{
    struct run *r = arg;
    struct worker_action a;

    do {
        pthread_mutex_lock(&r->lock);
        tell(r, clock_boot_ms());
        worker_next(&r->act.worker, clock_boot_ms(), &a);
        if (a.kind == WORKER_WAIT && !has_news(r))
            cond_wait_until(&r->changed, &r->lock, a.at_ms);
        pthread_mutex_unlock(&r->lock);
        if (a.kind != WORKER_WAIT)
            act(r, &a);
    } while (a.kind != WORKER_END);
    disconnect(r);
    pthread_mutex_lock(&r->lock);
    r->ended = true;
    pthread_cond_broadcast(&r->work);
    wake(r);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* Outside. */

static int64_t boot_ms(void *arg)
{
    (void)arg;
    return clock_boot_ms();
}

struct run *run_start(const struct run_options *o)
{
    struct run *r = mem_zalloc(sizeof *r);
    size_t count = (size_t)o->worker.parallel;

    r->o = *o;
    pthread_mutex_init(&r->lock, NULL);
    cond_init(&r->changed);
    pthread_cond_init(&r->work, NULL);
    atomic_init(&r->contact_ms, INT64_MIN / 2);
    atomic_init(&r->timeout_ms, o->worker.timeout_ms);
    worker_init(&r->act.worker, &o->worker);
    r->act.now_ms = boot_ms;
    r->act.member.queues.ns = o->ns;
    r->act.member.only = o->only;
    r->act.member.only_count = o->only_count;
    r->act.notes.note = o->note;
    r->act.notes.arg = o->arg;
    r->jobs = mem_zalloc(count * sizeof *r->jobs);
    r->handlers = mem_zalloc(count * sizeof *r->handlers);
    for (size_t i = 0; i < count; i++)
        pthread_create(&r->handlers[i], NULL, run_handle_all, r);
    pthread_create(&r->control, NULL, control, r);
    return r;
}

void run_stop(struct run *r)
{
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    wake(r);
    pthread_mutex_unlock(&r->lock);
}

int run_wait(struct run *r)
{
    int err;

    pthread_mutex_lock(&r->lock);
    while (!r->ended)
        pthread_cond_wait(&r->changed, &r->lock);
    err = r->err;
    pthread_mutex_unlock(&r->lock);
    return err;
}

void run_free(struct run *r)
{
    run_stop(r);
    pthread_join(r->control, NULL);
    for (int i = 0; i < r->o.worker.parallel; i++)
        pthread_join(r->handlers[i], NULL);
    run_forget(r, NULL);
    act_release(&r->act);
    pthread_cond_destroy(&r->work);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    free(r->handlers);
    free(r->jobs);
    free(r);
}
