/* Looking at the two lists again, and the watches that tell when. */
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "base/parallel.h"
#include "world/name.h"
#include "world/pending_impl.h"

enum {
    LOOK_SHARE = 10,             /* of the time, looking takes at most one part of so many */
    REREAD_SHARE = 20,           /* the same for what is not ours */
    REREAD_US = 5 * 1000 * 1000, /* and not more often than this */
};

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

struct pending_reading {
    struct keeper *k;
    char **keys;
    struct buf *data;
    struct keeper_stat *stats;
    int *errs;
    size_t count;
};

static void read_one(void *arg, size_t i)
{
    struct pending_reading *r = arg;
    struct buf path = {0};

    buf_printf(&path, "%s/%s", WORLD_PENDING, r->keys[i]);
    r->errs[i] = keeper_get(r->k, buf_text(&path), &r->data[i], &r->stats[i]);
    buf_release(&path);
}

/* The names that have no slot yet and, now and then, those that are not ours. */
static void choose(struct pending *p, const struct keeper_names *names, bool again,
                   struct pending_reading *r)
{
    for (size_t i = 0; i < names->count; i++) {
        uint32_t ref = pending_slot_find(p, str_of(names->names[i]));

        if (ref)
            p->slots[ref].seen = p->begun;
        if (!ref || (again && p->slots[ref].state >= FOREIGN))
            r->keys[r->count++] = names->names[i];
    }
}

static void merge(struct pending *p, const struct pending_reading *r)
{
    for (size_t i = 0; i < r->count; i++) {
        uint32_t ref = pending_slot_find(p, str_of(r->keys[i]));

        if (r->errs[i])
            continue;
        if (!ref)
            ref = pending_slot_add(p, str_of(r->keys[i]));
        else if (p->slots[ref].state < FOREIGN)
            continue; /* a claimer was quicker */
        pending_slot_sort(p, ref, (struct str){r->data[i].p, r->data[i].len}, &r->stats[i]);
    }
    for (uint32_t ref = 1; ref <= p->len; ref++)
        if (p->slots[ref].state != EMPTY && p->slots[ref].seen != p->begun)
            pending_slot_remove(p, ref);
}

static int reading_error(const struct pending_reading *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->errs[i] && r->errs[i] != DROVER_NO_NODE)
            return r->errs[i];
    return 0;
}

static void reading_release(struct pending_reading *r)
{
    for (size_t i = 0; i < r->count; i++)
        buf_release(&r->data[i]);
    free(r->keys);
    free(r->data);
    free(r->stats);
    free(r->errs);
}

/* Under the lock, which is released while the keeper is asked. */
static int look_at_pending(struct pending *p, struct keeper *k)
{
    struct keeper_names names = {0};
    struct pending_reading r = {.k = k};
    int64_t began_us = now_us();
    bool again;
    int err;

    pthread_mutex_unlock(&p->lock);
    err = keeper_children(k, WORLD_PENDING, &names, NULL);
    pthread_mutex_lock(&p->lock);
    if (err)
        return err;
    again = began_us - p->reread_us > REREAD_US + REREAD_SHARE * p->reread_took_us;
    r.keys = mem_alloc((names.count + 1) * sizeof *r.keys);
    choose(p, &names, again, &r);
    pthread_mutex_unlock(&p->lock);
    r.data = mem_zalloc((r.count + 1) * sizeof *r.data);
    r.stats = mem_zalloc((r.count + 1) * sizeof *r.stats);
    r.errs = mem_zalloc((r.count + 1) * sizeof *r.errs);
    parallel_run(r.count, read_one, &r);
    pthread_mutex_lock(&p->lock);
    err = reading_error(&r);
    if (!err)
        merge(p, &r);
    if (again) {
        p->reread_us = now_us();
        p->reread_took_us = p->reread_us - began_us;
    }
    reading_release(&r);
    keeper_names_release(&names);
    return err;
}

static int by_name(const void *key, const void *name)
{
    return strcmp(key, *(char *const *)name);
}

/* What was taken and is worked on no longer is free again. */
static int look_at_working(struct pending *p, struct keeper *k)
{
    struct keeper_names names = {0};
    size_t kept = 0;
    int err;

    pthread_mutex_unlock(&p->lock);
    err = keeper_children(k, WORLD_WORKING, &names, NULL);
    pthread_mutex_lock(&p->lock);
    if (err)
        return err;
    for (size_t i = 0; i < p->taken_len; i++) {
        uint32_t ref = p->taken[i];

        if (p->slots[ref].state != TAKEN)
            continue;
        if (bsearch(p->slots[ref].key, names.names, names.count, sizeof *names.names, by_name))
            p->taken[kept++] = ref;
        else
            pending_slot_free_again(p, ref);
    }
    p->taken_len = kept;
    keeper_names_release(&names);
    return 0;
}

/* Takes the watch back: the next look that somebody insists on arms it again. */
static void on_event(void *arg, enum keeper_event event, const char *path)
{
    struct pending *p = arg;
    int which = !strcmp(path, WORLD_WORKING);
    struct keeper_watch *w;

    pthread_mutex_lock(&p->lock);
    p->telling++;
    w = p->watches[which];
    p->watches[which] = NULL;
    p->pending_changed |= !which || event == KEEPER_EVENT_RECONNECTED;
    p->working_changed |= which || event == KEEPER_EVENT_RECONNECTED;
    pthread_mutex_unlock(&p->lock);
    if (w)
        keeper_unwatch(p->k, w);
    if (p->o.changed)
        p->o.changed(p->o.arg);
    pthread_mutex_lock(&p->lock);
    p->telling--;
    pthread_cond_broadcast(&p->told);
    pthread_mutex_unlock(&p->lock);
}

/*
 * Under the lock, which it releases. A keeper on an ensemble reads a whole list to arm a watch on
 * it, so it is armed only when there was nothing left to take, and tells once: as long as tasks are
 * claimed, the lists are taken to have changed.
 */
static int arm(struct pending *p)
{
    static const char *const lists[] = {WORLD_PENDING, WORLD_WORKING};
    int err = 0;

    for (int i = 0; i < 2 && !err; i++) {
        struct keeper_watch *w = p->watches[i];

        if (w)
            continue;
        pthread_mutex_unlock(&p->lock);
        err = keeper_watch(p->k, lists[i], KEEPER_WATCH_CHILDREN, on_event, p, &w);
        pthread_mutex_lock(&p->lock);
        if (!err)
            p->watches[i] = w;
    }
    return err;
}

/* Under the lock. What was told before this is seen by it, so the flags go first. */
static int look(struct pending *p, struct keeper *k, bool must)
{
    bool pending = p->pending_changed || must, working = p->working_changed || must;
    int64_t began_us = now_us();
    int err = 0;

    p->looking = true;
    p->begun++;
    p->musts_begun += must;
    if (must)
        err = arm(p);
    p->pending_changed = !p->watches[0];
    p->working_changed = !p->watches[1];
    if (must && !err) {
        pthread_mutex_unlock(&p->lock);
        err = keeper_sync(k, WORLD_PENDING);
        pthread_mutex_lock(&p->lock);
    }
    if (!err && pending)
        err = look_at_pending(p, k);
    if (!err && working)
        err = look_at_working(p, k);
    p->looked_us = now_us();
    p->look_us = p->looked_us - began_us;
    if (err)
        p->pending_changed = p->working_changed = true;
    else if (must)
        p->musts_done = p->musts_begun;
    p->looking = false;
    pthread_cond_broadcast(&p->looked);
    return err;
}

int pending_look(struct pending *p, struct keeper *k, bool must)
{
    uint32_t wanted;
    int err = 0;

    pthread_mutex_lock(&p->lock);
    wanted = p->musts_begun + 1;
    if (!must) {
        if (!p->looking && (p->pending_changed || p->working_changed) &&
            now_us() - p->looked_us >= LOOK_SHARE * p->look_us)
            err = look(p, k, false);
    } else {
        while (!err && p->musts_done < wanted) {
            if (p->looking)
                pthread_cond_wait(&p->looked, &p->lock);
            else
                err = look(p, k, true);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return err;
}

bool pending_has_changed(struct pending *p)
{
    bool changed;

    pthread_mutex_lock(&p->lock);
    changed = p->pending_changed || p->working_changed;
    pthread_mutex_unlock(&p->lock);
    return changed;
}

/*
 * An event that has the watch in its hands is waited for, as keeper_unwatch() waits for the others.
 */
void pending_disarm(struct pending *p)
{
    struct keeper_watch *w;

    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < 2; i++) {
        w = p->watches[i];
        p->watches[i] = NULL;
        pthread_mutex_unlock(&p->lock);
        if (w)
            keeper_unwatch(p->k, w);
        pthread_mutex_lock(&p->lock);
    }
    while (p->telling)
        pthread_cond_wait(&p->told, &p->lock);
    pthread_mutex_unlock(&p->lock);
}
