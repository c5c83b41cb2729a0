#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

void sim_check(const struct sim *w, bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "# seed %" PRIu64 ", %" PRId64 " ms: %s\n", w->o.seed, w->now_ms, what);
    abort();
}

/* splitmix64 */
uint64_t sim_random(struct sim *w, uint64_t bound)
{
    uint64_t z = w->random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % bound;
}

/* Events: a heap by time, then by the order in which they were scheduled. */

static bool before(const struct event *a, const struct event *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

void sim_schedule(struct sim *w, struct event e)
{
    size_t i;

    if (w->event_count == w->event_cap) {
        w->event_cap = w->event_cap ? 2 * w->event_cap : 256;
        w->events = mem_realloc(w->events, w->event_cap * sizeof *w->events);
    }
    e.order = w->order++;
    for (i = w->event_count++; i && before(&e, &w->events[(i - 1) / 2]); i = (i - 1) / 2)
        w->events[i] = w->events[(i - 1) / 2];
    w->events[i] = e;
}

static struct event pop(struct sim *w)
{
    struct event first = w->events[0], last = w->events[--w->event_count];
    size_t i = 0, child;

    for (; (child = 2 * i + 1) < w->event_count; i = child) {
        if (child + 1 < w->event_count && before(&w->events[child + 1], &w->events[child]))
            child++;
        if (!before(&w->events[child], &last))
            break;
        w->events[i] = w->events[child];
    }
    w->events[i] = last;
    return first;
}

/* Queues. */

struct sim_queue *sim_find_queue(struct sim *w, const char *name)
{
    for (int i = 0; i < w->queue_count; i++)
        if (!memcmp(w->queues[i].name, name, QUEUE_NAME_LEN))
            return &w->queues[i];
    return NULL;
}

int sim_next_message(const struct sim_queue *q, int64_t last)
{
    for (int i = 0; i < q->message_count; i++)
        if (q->messages[i] > last)
            return i;
    return -1;
}

void sim_add_queue(struct sim *w)
{
    struct sim_queue *q;
    char path[QUEUE_PATH_SIZE];

    w->queues = mem_realloc(w->queues, (size_t)(w->queue_count + 1) * sizeof *w->queues);
    q = &w->queues[w->queue_count++];
    *q = (struct sim_queue){0};
    for (int i = 0; i < QUEUE_NAME_LEN; i++)
        q->name[i] = "0123456789abcdef"[sim_random(w, 16)];
    queues_path(&w->queues_at, path, "queues/%s", q->name);
    sim_check(w, !keeper_create(&w->own.base, path, STR("{\"last\": \"\"}"), 0, NULL), "create");
}

void sim_remove_queue(struct sim *w, struct sim_queue *q)
{
    q->removed = true;
    sim_check(w, !queue_remove(&w->queues_at, q->name), "remove");
}

/* Checks that the changes of a transaction are allowed. */

void sim_broadcast(struct sim *w, enum event_kind kind, int queue)
{
    for (int i = 0; i < w->worker_count; i++)
        if (w->workers[i]->alive)
            sim_schedule(w, (struct event){.at_ms = w->now_ms + (int64_t)sim_random(w, 20),
                                           .kind = kind,
                                           .worker = i,
                                           .queue = queue});
}

static void tell_posted(struct sim *w, const struct sim_queue *q, int worker)
{
    if (w->workers[worker]->alive)
        sim_schedule(w, (struct event){.at_ms = w->now_ms + (int64_t)sim_random(w, 20),
                                       .kind = EVENT_POSTED,
                                       .worker = worker,
                                       .queue = (int)(q - w->queues)});
}

/* Usually tells its owner, and some other worker. */
void sim_post(struct sim *w, struct sim_queue *q)
{
    bool lost = sim_random(w, 4) == 0;

    if (q->message_count == MESSAGES_MAX || q->removed)
        return;
    q->messages[q->message_count++] = ++w->last_id;
    for (int i = 0; i < w->worker_count && !lost; i++)
        if (!strcmp(w->workers[i]->steps.registration.name, q->owner))
            tell_posted(w, q, i);
    if (w->worker_count)
        tell_posted(w, q, (int)sim_random(w, (uint64_t)w->worker_count));
}

/* Workers. */

static int64_t now_ms(void *arg)
{
    return ((struct sim *)arg)->now_ms;
}

struct sim_worker *sim_start_worker(struct sim *w)
{
    struct sim_worker *worker = mem_zalloc(sizeof *worker);
    struct queue_worker_options o = {
        .quiet_ms = w->o.quiet_ms,
        .poll_ms = 1000,
        .timeout_ms = w->o.timeout_ms,
        .policy = WORKER_RETRY,
        .back_off_ms = WORKER_BACKOFF_MS,
        .retries = 3,
        .parallel = w->o.parallel,
    };

    w->workers = mem_realloc(w->workers, (size_t)(w->worker_count + 1) * sizeof(void *));
    w->workers[w->worker_count] = worker;
    worker->number = w->worker_count++;
    worker->alive = true;
    sim_keeper_init(&worker->keeper, w, worker);
    worker->steps.registration.queues = (struct queues){&worker->keeper.base, QUEUE_NAMESPACE};
    worker->steps.now_ms = now_ms;
    worker->steps.arg = w;
    queue_worker_init(&worker->steps.worker, &o);
    worker->works = mem_zalloc((size_t)w->o.parallel * sizeof *worker->works);
    worker->wake_ms = w->now_ms;
    sim_schedule(w,
                 (struct event){.at_ms = w->now_ms, .kind = EVENT_WAKE, .worker = worker->number});
    return worker;
}

/* The keeper no longer hears of the session, and expires it. */
static void fall_silent(struct sim *w, struct sim_worker *worker)
{
    worker->heard_ms = w->now_ms;
    if (worker->keeper.session)
        sim_schedule(
            w, (struct event){.at_ms = w->now_ms + w->o.timeout_ms + (int64_t)sim_random(w, 100),
                              .kind = EVENT_EXPIRE,
                              .worker = worker->number,
                              .session = worker->keeper.session});
}

void sim_kill(struct sim *w, struct sim_worker *worker)
{
    worker->alive = false;
    fall_silent(w, worker);
}

void sim_pause(struct sim *w, struct sim_worker *worker, int64_t ms)
{
    worker->resume_ms = w->now_ms + ms;
    fall_silent(w, worker);
}

void sim_cut_off(struct sim *w, struct sim_worker *worker, int64_t ms)
{
    worker->cut_off = true;
    worker->resume_ms = 0;
    fall_silent(w, worker);
    sim_schedule(
        w, (struct event){
               .at_ms = w->now_ms + ms, .kind = EVENT_WAKE, .worker = worker->number, .number = 1});
}

void sim_stop(struct sim *w, struct sim_worker *worker)
{
    queue_worker_stop(&worker->steps.worker, w->now_ms);
    worker->wake_ms = w->now_ms;
    sim_schedule(w,
                 (struct event){.at_ms = w->now_ms, .kind = EVENT_WAKE, .worker = worker->number});
}

/* Messages. */

static void check_exclusive(struct sim *w, const char *queue)
{
    for (int i = 0; i < w->worker_count; i++) {
        const struct sim_worker *other = w->workers[i];

        for (int k = 0; k < other->work_count; k++)
            sim_check(w,
                      !other->alive || memcmp(other->works[k].queue, queue, QUEUE_NAME_LEN) ||
                          !sim_owned(&other->steps.worker, queue) || !other->keeper.session,
                      "two messages of a queue in progress");
    }
}

static int64_t duration(struct sim *w)
{
    uint64_t kind = sim_random(w, 40);

    if (kind == 0)
        return (int64_t)sim_random(w, 2 * (uint64_t)w->o.timeout_ms);
    return (int64_t)sim_random(w, kind < 10 ? 500 : 20);
}

static void start_work(struct sim *w, struct sim_worker *worker,
                       const struct queue_worker_action *a)
{
    struct sim_queue *q = sim_find_queue(w, a->queue);
    int at = sim_next_message(q, a->last);
    struct event done = {.at_ms = w->now_ms,
                         .kind = EVENT_WORKED,
                         .worker = worker->number,
                         .queue = (int)(q - w->queues),
                         .number = at >= 0 ? q->messages[at] : 0};

    if (at >= 0 && !q->removed) {
        sim_check(w, !strcmp(q->owner, worker->steps.registration.name),
                  "started by a worker that does not own it");
        sim_check(w, q->last == a->last, "started at the wrong place");
        check_exclusive(w, a->queue);
        done.at_ms += duration(w);
    }
    sim_check(w, worker->work_count < w->o.parallel, "too many messages in progress");
    memcpy(worker->works[worker->work_count].queue, a->queue, sizeof a->queue);
    worker->works[worker->work_count++].id = done.number;
    sim_schedule(w, done);
}

static void end_work(struct sim *w, struct sim_worker *worker, const struct event *e)
{
    struct sim_queue *q = &w->queues[e->queue];
    enum queue_worker_result result = e->number ? WORKER_DONE : WORKER_NOTHING;
    int at = 0;

    while (memcmp(worker->works[at].queue, q->name, QUEUE_NAME_LEN))
        at++;
    worker->works[at] = worker->works[--worker->work_count];
    if (e->number && sim_random(w, 30) == 0)
        result = WORKER_FAILED;
    if (result == WORKER_DONE) {
        q->handled[sim_next_message(q, e->number - 1)] = true;
        w->messages_handled++;
    }
    queue_worker_worked(&worker->steps.worker, w->now_ms, q->name, result, e->number);
}

/* Steps of a worker, until it waits. */

static int join(struct sim *w, struct sim_worker *worker, const struct queue_worker_action *a)
{
    if (worker->cut_off) {
        queue_worker_joined(&worker->steps.worker, w->now_ms, DROVER_UNKNOWN, NULL);
        return DROVER_UNKNOWN;
    }
    if (worker->keeper.session)
        sim_keeper_expire(&worker->keeper);
    sim_keeper_open(&worker->keeper);
    return queue_step(&worker->steps, a);
}

static void do_action(struct sim *w, struct sim_worker *worker, const struct queue_worker_action *a)
{
    if (a->kind == WORKER_WORK) {
        start_work(w, worker, a);
        return;
    }
    worker->busy = true;
    if (a->kind == WORKER_JOIN)
        join(w, worker, a);
    else
        queue_step(&worker->steps, a);
    worker->busy = false;
    if (a->kind == WORKER_END) {
        if (worker->keeper.session)
            sim_keeper_expire(&worker->keeper);
        worker->alive = false;
    }
}

static void step(struct sim *w, struct sim_worker *worker)
{
    struct queue_worker_action a;

    while (worker->alive) {
        if (worker->resume_ms > w->now_ms)
            a = (struct queue_worker_action){.kind = WORKER_WAIT, .at_ms = worker->resume_ms};
        else
            queue_worker_next(&worker->steps.worker, w->now_ms, &a);
        if (a.kind == WORKER_WAIT)
            break;
        do_action(w, worker, &a);
    }
    if (!worker->alive || a.at_ms == INT64_MAX)
        return;
    worker->wake_ms = a.at_ms > w->now_ms ? a.at_ms : w->now_ms + 1;
    sim_schedule(
        w, (struct event){.at_ms = worker->wake_ms, .kind = EVENT_WAKE, .worker = worker->number});
}

static void expire(struct sim *w, struct sim_worker *worker, const struct event *e)
{
    if (worker->keeper.session != e->session || w->now_ms < worker->heard_ms + w->o.timeout_ms)
        return;
    if (worker->alive && worker->resume_ms <= w->now_ms && !worker->cut_off)
        return;
    sim_keeper_expire(&worker->keeper);
}

/* An event for a worker that runs and is not inside a call. */
static void tell(struct sim *w, struct sim_worker *worker, struct event *e)
{
    if (worker->busy || worker->resume_ms > w->now_ms) {
        e->at_ms = worker->resume_ms > w->now_ms ? worker->resume_ms : w->now_ms + 1;
        if (e->kind == EVENT_WAKE)
            worker->wake_ms = e->at_ms;
        if (e->kind == EVENT_CHANGED && worker->was_changed && !e->number)
            return; /* a wake-up is already scheduled */
        if (e->kind == EVENT_CHANGED) {
            worker->was_changed = true;
            e->number = 1;
        }
        sim_schedule(w, *e);
        return;
    }
    if (e->kind == EVENT_CHANGED && e->number)
        worker->was_changed = false;
    if (e->kind == EVENT_WORKED)
        end_work(w, worker, e);
    else if (e->kind == EVENT_CHANGED && !worker->cut_off)
        queue_worker_changed(&worker->steps.worker, w->now_ms);
    else if (e->kind == EVENT_FREED && !worker->cut_off)
        queue_worker_freed(&worker->steps.worker, w->now_ms, w->queues[e->queue].name);
    else if (e->kind == EVENT_POSTED && !worker->cut_off)
        queue_worker_posted(&worker->steps.worker, w->now_ms,
                            e->queue % 7 ? w->queues[e->queue].name : NULL);
    step(w, worker);
}

static void run(struct sim *w, struct event *e)
{
    struct sim_worker *worker = w->worker_count ? w->workers[e->worker] : NULL;

    if (e->kind == EVENT_CHAOS) {
        if (w->chaos)
            w->chaos(w);
        return;
    }
    if (e->kind == EVENT_WAKE && e->number) { /* after a reconnection it reads everything again */
        worker->cut_off = false;
        e->kind = EVENT_CHANGED;
    } else if (e->kind == EVENT_WAKE && e->at_ms != worker->wake_ms) {
        return;
    }
    if (e->kind == EVENT_EXPIRE)
        expire(w, worker, e);
    else if (worker->alive)
        tell(w, worker, e);
}

void sim_run_until(struct sim *w, int64_t at_ms)
{
    while (w->event_count && w->events[0].at_ms <= at_ms) {
        struct event e = pop(w);

        if (e.at_ms > w->now_ms)
            w->now_ms = e.at_ms;
        run(w, &e);
    }
    if (at_ms > w->now_ms)
        w->now_ms = at_ms;
}

/* At rest. */

const char *sim_balanced(struct sim *w)
{
    int queues = 0, workers = 0;

    for (int i = 0; i < w->queue_count; i++)
        queues += !w->queues[i].removed;
    for (int i = 0; i < w->worker_count; i++)
        workers += w->workers[i]->alive;
    for (int i = 0; i < w->queue_count && workers; i++)
        if (!w->queues[i].removed && !w->queues[i].owner[0])
            return "a queue has no owner";
    for (int i = 0; i < w->worker_count; i++) {
        struct sim_worker *worker = w->workers[i];
        int owned = (int)sim_owned(&worker->steps.worker, NULL), told = 0;

        if (!worker->alive)
            continue;
        for (int q = 0; q < w->queue_count; q++)
            told += !w->queues[q].removed &&
                    !strcmp(w->queues[q].owner, worker->steps.registration.name);
        if (told != owned)
            return "a worker owns other queues than it knows of";
        if (owned != queues / workers && owned != (queues + workers - 1) / workers)
            return "not balanced";
    }
    return NULL;
}

void sim_init(struct sim *w, const struct sim_options *o)
{
    *w = (struct sim){.o = *o, .random = o->seed * 2654435761u + 1};
    tree_init(&w->tree);
    sim_keeper_init(&w->own, w, NULL);
    w->queues_at = (struct queues){&w->own.base, QUEUE_NAMESPACE};
    sim_check(w, !queues_init(&w->queues_at), "init");
    for (int i = 0; i < o->queues; i++)
        sim_add_queue(w);
    for (int i = 0; i < o->workers; i++)
        sim_start_worker(w);
}

void sim_release(struct sim *w)
{
    for (int i = 0; i < w->worker_count; i++) {
        queue_steps_release(&w->workers[i]->steps);
        free(w->workers[i]->works);
        free(w->workers[i]);
    }
    free(w->workers);
    free(w->queues);
    free(w->events);
    changes_release(&w->changes);
    tree_release(&w->tree);
}
