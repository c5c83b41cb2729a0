/*
 * Watches instead of looking: what makes an item available, and is not done by this server.
 *
 *     an entry in the list of a state, or a lock of an entry   list_view_attend(), while one waits
 *     an item that a foreign client created                    the parent of the items
 *     a queue or a collection that is unlocked                 /locks/queue, /locks/collections
 *     a batch that is created, moved, held, released, or has   the lists of the states of batches,
 *     a report that is due                                     and active.c
 *
 * Each watch fires once. It is set again when the change is dealt with, at most every REST_MS, and
 * at most for one part in LIST_REST of the time: on an ensemble, setting it reads the whole list.
 *
 * No wake-up is lost. A request that found nothing says so (batch_view.wanted) before it parks, and
 * whatever changes after that fires a watch, or is found when the watch is set. If nobody waits any
 * more when a watch has fired, the request that may be about to park is told to look again.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "batch/server.h"

enum { REST_MS = LIST_PARK_MS };

enum batch_node {
    NODE_BATCHES, /* the parents of items, in the order of enum batch_kind_id */
    NODE_JOBS,    /* not watched: jobs are not indexed */
    NODE_SMALL,
    NODE_LARGE,
    NODE_QUEUES, /* the locks by name that stop acquires */
    NODE_COLLECTIONS,
    NODE_LISTS, /* of batches, by state; those of final states are not used */
    NODE_COUNT = NODE_LISTS + BATCH_STATES_MAX,
};

struct batch_watcher {
    struct batch_thread_options o;
    struct periodic *thread;
    pthread_mutex_t lock; /* guards: */
    bool closing;         /* the thread is not woken any more */
    atomic_bool ended;    /* the session of k has ended */

    /* Of the thread. */
    struct keeper *k; /* borrowed as long as it has watches; NULL: none */
    struct list_watch nodes[NODE_COUNT];
    int64_t rest_ms[NODE_COUNT];
    int64_t retry_ms[BATCH_KINDS]; /* when to look at incomplete items again */
    struct batch_actives *actives;
    int64_t all_ms; /* when everything was last looked at */
};

static void earlier(int64_t *ms, int64_t other_ms)
{
    if (other_ms < *ms)
        *ms = other_ms;
}

static int64_t rest_after(int64_t began_ms)
{
    int64_t now_ms = clock_boot_ms(), rest_ms = LIST_REST * (now_ms - began_ms);
    return now_ms + (rest_ms > REST_MS ? rest_ms : REST_MS);
}

/* A request that is about to park looks again. */
static void stop_attending(struct batch_watcher *w, struct batch_view *v)
{
    if (!v->attended)
        return;
    list_view_unwatch(v->list);
    v->attended = false;
    v->changed = false;
    w->o.wake(w->o.arg, v, 1);
}

static void give_back(struct batch_watcher *w)
{
    if (!w->k)
        return;
    for (int i = 0; i < NODE_COUNT; i++)
        list_watch_clear(&w->nodes[i]);
    batch_actives_clear(w->actives);
    for (int k = 0; k < BATCH_KINDS; k++)
        for (int i = 0; i < w->o.store->kinds[k].machine->count; i++)
            stop_attending(w, &w->o.store->kinds[k].views[i]);
    w->o.give_back(w->o.arg, w->k);
    w->k = NULL;
}

static void wake_kind(struct batch_watcher *w, enum batch_kind_id id, uint32_t max)
{
    const struct batch_kind *kind = &w->o.store->kinds[id];
    for (int i = 0; i < kind->machine->count; i++)
        w->o.wake(w->o.arg, &kind->views[i], max);
}

/* Sets a watch that is not set. True: it was set now, and what it watches may have changed. */
static bool renew(struct batch_watcher *w, enum batch_node node, struct keeper *k, int64_t *next_ms)
{
    int64_t began_ms = clock_boot_ms();
    if (list_watch_is_set(&w->nodes[node]))
        return false;
    if (began_ms < w->rest_ms[node]) {
        earlier(next_ms, w->rest_ms[node]);
        return false;
    }
    int err = list_watch_set(&w->nodes[node], k);
    w->rest_ms[node] = rest_after(began_ms);
    if (err)
        earlier(next_ms, began_ms + BATCH_RETRY_MS);
    return !err;
}

/* Indexes the new items of a kind. One that is incomplete is mostly whole a moment later. */
static void attend_items(struct batch_watcher *w, struct batch_call *c, enum batch_kind_id id,
                         int64_t *next_ms)
{
    int64_t *retry_ms = &w->retry_ms[id];
    int err = 0;
    if (renew(w, (enum batch_node)id, c->k, next_ms)) {
        *retry_ms = BATCH_INCOMPLETE_RETRY_MS;
        err = batch_index_refresh(c, id, false);
    } else if (batch_index_is_incomplete(c, id)) {
        *retry_ms = *retry_ms < BATCH_RETRY_MS / 2 ? 2 * *retry_ms : BATCH_RETRY_MS;
        err = batch_index_refresh(c, id, false);
    }
    if (err || batch_index_is_incomplete(c, id))
        earlier(next_ms, clock_boot_ms() + (err ? BATCH_RETRY_MS : *retry_ms));
}

/* Returns whether an acquire waits for the list. */
static bool attend_view(struct batch_watcher *w, struct batch_call *c, struct batch_view *v,
                        bool all, int64_t *next_ms)
{
    int64_t began_ms = clock_boot_ms();
    bool wanted = v->wanted;

    if (!wanted && !w->o.waiting(w->o.arg, v)) {
        if (v->changed)
            stop_attending(w, v);
        return false;
    }
    if (v->attended && !wanted && !v->changed && !all && began_ms < v->next_ms) {
        earlier(next_ms, v->next_ms);
    } else if (began_ms < v->rest_ms) {
        earlier(next_ms, v->rest_ms);
    } else {
        v->wanted = false;
        v->changed = false;
        v->attended = true;
        if (list_view_attend(v->list, c->k, all, &v->next_ms))
            v->next_ms = began_ms + BATCH_RETRY_MS;
        v->rest_ms = rest_after(began_ms);
        earlier(next_ms, v->next_ms);
    }
    return true;
}

static void attend_batches(struct batch_watcher *w, struct batch_call *c, bool all,
                           int64_t *next_ms)
{
    const struct batch_store *r = c->store;
    for (int i = 0; i < r->machines.batch.count; i++) {
        if (batch_machine_is_final(&r->machines.batch, i) ||
            !renew(w, (enum batch_node)(NODE_LISTS + i), c->k, next_ms))
            continue;
        if (batch_actives_read(w->actives, c, i)) {
            list_watch_clear(&w->nodes[NODE_LISTS + i]); /* so that it is read again */
            earlier(next_ms, clock_boot_ms() + BATCH_RETRY_MS);
        }
        if (i == r->batch.held)
            wake_kind(w, BATCH_KIND_JOB, 1);
        if (i == r->batch.reporting || i == r->batch.update_reporting)
            batch_callbacks_wake(w->o.callbacks);
    }
    batch_actives_look(w->actives, c, all, next_ms);
}

static void attend_all(struct batch_watcher *w, struct batch_call *c, bool all, int64_t *next_ms)
{
    struct batch_kind *kinds = c->store->kinds;
    for (int id = 0; id < BATCH_KINDS; id++) {
        bool waiting = false;
        for (int i = 0; i < kinds[id].machine->count; i++)
            waiting |= attend_view(w, c, &kinds[id].views[i], all, next_ms);
        if (id == BATCH_KIND_BATCH || (waiting && id != BATCH_KIND_JOB))
            attend_items(w, c, (enum batch_kind_id)id, next_ms);
    }
    for (int i = NODE_QUEUES; i <= NODE_COLLECTIONS; i++)
        if (renew(w, (enum batch_node)i, c->k, next_ms))
            for (int id = 0; id < BATCH_KINDS; id++)
                wake_kind(w, (enum batch_kind_id)id, HTTP_TOPIC_ALL);
    attend_batches(w, c, all, next_ms);
}

static void attend(struct periodic *thread, void *arg)
{
    struct batch_watcher *w = arg;
    CLEANUP(arena_release) struct arena a = {0};
    struct err_info why;
    int64_t now_ms = clock_boot_ms(), next_ms = now_ms + BATCH_RETRY_MS;
    if (atomic_exchange(&w->ended, false))
        give_back(w);
    if (!w->k)
        w->k = w->o.borrow(w->o.arg);
    struct batch_call c = {w->o.store, w->k, &a, &why};
    if (c.k && w->o.ready(w->o.arg, &c) == 0) {
        bool all = now_ms - w->all_ms >= BATCH_SWEEP_MS;
        w->all_ms = all ? now_ms : w->all_ms;
        next_ms = w->all_ms + BATCH_SWEEP_MS;
        attend_all(w, &c, all, &next_ms);
    }
    now_ms = clock_boot_ms();
    periodic_next(thread, next_ms > now_ms ? next_ms - now_ms : 0);
}

void batch_watcher_stale(void *arg)
{
    struct batch_watcher *w = arg;
    LOCKED(&w->lock);
    if (!w->closing)
        periodic_wake(w->thread);
}

struct batch_watcher *batch_watcher_open(const struct batch_thread_options *o)
{
    const struct batch_view *batches = o->store->kinds[BATCH_KIND_BATCH].views;
    const char *paths[NODE_COUNT] = {
        [NODE_BATCHES] = o->store->kinds[BATCH_KIND_BATCH].dir,
        [NODE_JOBS] = o->store->kinds[BATCH_KIND_JOB].dir,
        [NODE_SMALL] = o->store->kinds[BATCH_KIND_SMALL].dir,
        [NODE_LARGE] = o->store->kinds[BATCH_KIND_LARGE].dir,
        [NODE_QUEUES] = "/locks/queue",
        [NODE_COLLECTIONS] = "/locks/collections",
    };
    struct batch_watcher *w = mem_zalloc(sizeof *w);

    w->o = *o;
    w->all_ms = clock_boot_ms();
    w->actives = batch_actives_open(batch_watcher_stale, w);
    for (int i = 0; i < BATCH_STATES_MAX; i++)
        paths[NODE_LISTS + i] = batches[i].dir;
    pthread_mutex_init(&w->lock, NULL);
    for (int i = 0; i < NODE_COUNT; i++)
        list_watch_init(&w->nodes[i], paths[i], KEEPER_WATCH_CHILDREN, batch_watcher_stale, w);
    w->thread = periodic_start("batch-watch", BATCH_SWEEP_MS, attend, w);
    batch_watcher_stale(w);
    return w;
}

void batch_watcher_close(struct batch_watcher *w)
{
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_mutex_unlock(&w->lock);
    periodic_stop(w->thread);
    give_back(w);
    for (int i = 0; i < NODE_COUNT; i++)
        list_watch_release(&w->nodes[i]);
    batch_actives_close(w->actives);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

void batch_watcher_want(struct batch_watcher *w, struct batch_view *v)
{
    if (!atomic_exchange(&v->wanted, true))
        batch_watcher_stale(w);
}

void batch_watcher_session(void *arg, struct keeper *k)
{
    struct batch_watcher *w = arg;
    if (!k)
        w->ended = true;
    batch_watcher_stale(w);
}
