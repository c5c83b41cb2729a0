/*
 * The watches of a view: on the list, on the list of locks, and on the lock of each parked entry.
 *
 * Locks. The node that locks a parked entry is watched from the first attention on. Without a lock,
 * an entry that is due is freed, LIST_TRIES_MAX times; after that it is unusable for another reason
 * and is left to a call with `all`. So an idle list is not read, whatever its entries are.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "keeper/list_view_impl.h"

/* One-shot watches. */

void list_watch_init(struct list_watch *w, const char *path, enum keeper_watch_kind kind,
                     void (*changed)(void *arg), void *arg)
{
    *w = (struct list_watch){.path = path, .kind = kind, .changed = changed, .arg = arg};
    pthread_mutex_init(&w->lock, NULL);
    cond_init(&w->told);
}

void list_watch_release(struct list_watch *w)
{
    list_watch_clear(w);
    pthread_cond_destroy(&w->told);
    pthread_mutex_destroy(&w->lock);
}

static struct keeper_watch *take_watch(struct list_watch *w, int telling)
{
    LOCKED(&w->lock);
    struct keeper_watch *watch = w->watch;
    w->watch = NULL;
    w->telling += telling;
    return watch;
}

static void on_event(void *arg, enum keeper_event event, const char *path)
{
    struct list_watch *w = arg;
    struct keeper_watch *watch = take_watch(w, 1);
    (void)event, (void)path;
    if (watch)
        keeper_unwatch(w->k, watch);
    if (w->changed)
        w->changed(w->arg);
    LOCKED(&w->lock);
    w->telling--;
    pthread_cond_broadcast(&w->told);
}

bool list_watch_is_set(struct list_watch *w)
{
    LOCKED(&w->lock);
    return w->watch != NULL;
}

int list_watch_set(struct list_watch *w, struct keeper *k)
{
    struct keeper_watch *watch;
    if (list_watch_is_set(w))
        return 0;
    TRY(keeper_watch(k, w->path, w->kind, on_event, w, &watch));
    pthread_mutex_lock(&w->lock);
    bool late = w->watch != NULL; /* another thread was faster */
    if (!late) {
        w->watch = watch;
        w->k = k;
    }
    pthread_mutex_unlock(&w->lock);
    if (late)
        keeper_unwatch(k, watch);
    return 0;
}

/* Waits for events that have already taken their watch; keeper_unwatch() waits for the others. */
void list_watch_clear(struct list_watch *w)
{
    struct keeper_watch *watch = take_watch(w, 0);
    if (watch)
        keeper_unwatch(w->k, watch);
    LOCKED(&w->lock);
    while (w->telling)
        pthread_cond_wait(&w->told, &w->lock);
}

/* The lists of a view. */

int list_view_watch(struct list_view *v, struct keeper *k)
{
    TRY(list_watch_set(&v->watches[0], k));
    return v->o.locks ? list_watch_set(&v->watches[1], k) : 0;
}

bool list_view_is_stale(struct list_view *v)
{
    return !list_watch_is_set(&v->watches[0]) || (v->o.locks && !list_watch_is_set(&v->watches[1]));
}

/* The locks of parked entries. Only the thread that attends changes the list of them. */

struct list_lock {
    char *name, *path; /* of the entry, of its lock */
    struct list_watch watch;
    bool exists, ended; /* when it was last read */
    struct list_lock *next;
};

/* Under the lock of the view. NULL: the entry is not parked. */
static struct list_entry *parked_entry(struct list_view *v, const char *name)
{
    uint32_t ref = list_entry_find(v, str_of(name));
    return ref && v->entries[ref].state == LIST_PARKED ? &v->entries[ref] : NULL;
}

/* Removes the watches of all entries, or of those that are no longer parked. */
static void forget_locks(struct list_view *v, bool all)
{
    for (struct list_lock **at = &v->lock_watches, *l; (l = *at);) {
        pthread_mutex_lock(&v->lock);
        uint32_t ref = list_entry_find(v, str_of(l->name));
        bool keep = !all && parked_entry(v, l->name);
        if (ref && !keep)
            v->entries[ref].watched = false;
        pthread_mutex_unlock(&v->lock);
        if (keep) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        v->lock_watch_count--;
        list_watch_release(&l->watch);
        free(l->name);
        free(l->path);
        free(l);
    }
}

static void find_new_locks(struct list_view *v)
{
    LOCKED(&v->lock);
    for (size_t i = 0; i < v->parked.count && v->lock_watch_count < LIST_LOCKS_MAX; i++) {
        struct list_entry *e = &v->entries[v->parked.entries[i].ref];

        if (e->watched)
            continue;
        CLEANUP(buf_release) struct buf path = {0};
        struct list_lock *l = mem_zalloc(sizeof *l);
        v->o.lock_path(v->o.arg, str_of(e->name), &path);
        l->name = mem_dup(e->name, strlen(e->name));
        l->path = mem_dup(path.p, path.len);
        list_watch_init(&l->watch, l->path, KEEPER_WATCH_EXISTS, v->o.changed, v->o.arg);
        l->next = v->lock_watches;
        v->lock_watches = l;
        v->lock_watch_count++;
        e->watched = true;
    }
}

/* Reads whether a lock that is new or has changed exists. */
static int read_lock(struct keeper *k, struct list_lock *l)
{
    if (list_watch_is_set(&l->watch))
        return 0;
    TRY(list_watch_set(&l->watch, k));
    int err = keeper_exists(k, l->path, NULL);
    if (err && err != DROVER_NO_NODE) {
        list_watch_clear(&l->watch); /* so that it is read again */
        return err;
    }
    l->ended = l->exists && err;
    l->exists = !err;
    return 0;
}

/* Frees the entries whose lock has ended, and those that are due and have no lock. */
static int64_t free_unlocked(struct list_view *v, bool all)
{
    int64_t now_ms = clock_boot_ms(), next_ms = INT64_MAX;

    pthread_mutex_lock(&v->lock);
    for (struct list_lock *l = v->lock_watches; l; l = l->next) {
        struct list_entry *e = parked_entry(v, l->name);
        if (!e || l->exists)
            continue;
        if (l->ended)
            e->tries = 0;
        if (l->ended || (e->what <= now_ms && (all || e->tries < LIST_TRIES_MAX)))
            list_entry_enter(v, (uint32_t)(e - v->entries), LIST_FREE, 0);
        else if (e->tries < LIST_TRIES_MAX && e->what < next_ms)
            next_ms = e->what;
        l->ended = false;
    }
    for (uint32_t ref = 1; all && ref <= v->len; ref++) { /* those beyond LIST_LOCKS_MAX */
        const struct list_entry *e = &v->entries[ref];

        if (e->state == LIST_PARKED && !e->watched && e->what <= now_ms)
            list_entry_enter(v, ref, LIST_FREE, 0);
    }
    list_view_unlock(v);
    return next_ms;
}

int list_view_attend(struct list_view *v, struct keeper *k, bool all, int64_t *ret_next_ms)
{
    TRY(list_view_watch(v, k));
    TRY(list_view_refresh(v, k, false));
    forget_locks(v, false);
    find_new_locks(v);
    for (struct list_lock *l = v->lock_watches; l; l = l->next)
        TRY(read_lock(k, l));
    *ret_next_ms = free_unlocked(v, all);
    return 0;
}

void list_view_unwatch(struct list_view *v)
{
    list_watch_clear(&v->watches[0]);
    list_watch_clear(&v->watches[1]);
    forget_locks(v, true);
}
