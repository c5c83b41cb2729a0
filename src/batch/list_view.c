/*
 * Two heaps over one table of entries: free entries by key, parked ones by time. Taken and blocked
 * entries are in neither.
 *
 * Detecting changes by others. Let C be the cversion of the list if only this process changed it. C
 * before the stat is read is the lowest value that our changes explain; C after it plus the changes
 * in progress is the highest. A cversion outside of that range means that somebody else changed the
 * list. A reading may or may not include changes that were in progress during it: they are the
 * slack, until a moment at which none is in progress.
 */
#include "batch/list_view.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "batch/name.h"

enum batch_view_place { UNUSED, FREE, PARKED, TAKEN, BLOCKED };

void batch_view_init(struct batch_view *v, const char *dir, const char *prefix, bool priority)
{
    *v = (struct batch_view){.prefix = prefix, .priority = priority, .entry_count = 1};
    snprintf(v->dir, sizeof v->dir, "%s", dir);
    pthread_mutex_init(&v->lock, NULL);
}

void batch_view_release(struct batch_view *v)
{
    free(v->entries);
    free(v->free.entries);
    free(v->parked.entries);
    free(v->late);
    map_release(&v->by_key);
    pthread_mutex_destroy(&v->lock);
}

/* Entries. */

static uint32_t find(const struct batch_view *v, int64_t key)
{
    uint32_t hash = map_hash_u64((uint64_t)key);

    for (uint32_t at, ref = map_first(&v->by_key, hash, &at); ref;
         ref = map_next(&v->by_key, hash, &at))
        if (v->entries[ref].key == key)
            return ref;
    return 0;
}

static struct batch_view_heap *heap_of(struct batch_view *v, uint32_t entry)
{
    uint8_t place = v->entries[entry].place;

    return place == FREE ? &v->free : place == PARKED ? &v->parked : NULL;
}

static void move(struct batch_view *v, uint32_t entry, enum batch_view_place place)
{
    struct batch_view_heap *h = heap_of(v, entry);

    if (h)
        batch_view_heap_remove(v, h, entry);
    v->blocked += (place == BLOCKED) - (v->entries[entry].place == BLOCKED);
    v->entries[entry].place = (uint8_t)place;
    h = heap_of(v, entry);
    if (h)
        batch_view_heap_add(v, h, entry);
}

static uint32_t new_entry(struct batch_view *v)
{
    uint32_t entry = v->unused;

    if (entry) {
        v->unused = v->entries[entry].at;
        return entry;
    }
    if (v->entry_count >= v->entry_cap) {
        v->entry_cap = v->entry_cap ? 2 * v->entry_cap : 64;
        v->entries = mem_realloc(v->entries, v->entry_cap * sizeof *v->entries);
    }
    return v->entry_count++;
}

static void enter(struct batch_view *v, int64_t key)
{
    uint32_t entry = find(v, key);

    if (!entry) {
        entry = new_entry(v);
        v->entries[entry] = (struct batch_view_entry){.key = key};
        map_add(&v->by_key, map_hash_u64((uint64_t)key), entry);
        move(v, entry, FREE);
    }
    v->entries[entry].reading = v->reading;
}

static void leave(struct batch_view *v, int64_t key)
{
    uint32_t entry = find(v, key);

    if (!entry)
        return;
    move(v, entry, UNUSED);
    map_remove(&v->by_key, map_hash_u64((uint64_t)key), entry);
    v->entries[entry].at = v->unused;
    v->unused = entry;
    v->gone++;
}

/* Changes by this process. */

void batch_view_expect(struct batch_view *v, uint32_t changes)
{
    pthread_mutex_lock(&v->lock);
    v->expected += changes;
    pthread_mutex_unlock(&v->lock);
}

static void note(struct batch_view *v, int64_t key, bool added)
{
    pthread_mutex_lock(&v->lock);
    v->expected--;
    v->cversion++;
    if (added)
        enter(v, key);
    else
        leave(v, key);
    if (v->loading) {
        if (v->late_count == v->late_cap) {
            v->late_cap = v->late_cap ? 2 * v->late_cap : 64;
            v->late = mem_realloc(v->late, v->late_cap * sizeof *v->late);
        }
        v->late[v->late_count++] = added ? key : -key - 1;
    }
    pthread_mutex_unlock(&v->lock);
}

void batch_view_add(struct batch_view *v, int64_t key)
{
    note(v, key, true);
}

void batch_view_remove(struct batch_view *v, int64_t key)
{
    note(v, key, false);
}

void batch_view_failed(struct batch_view *v, uint32_t changes)
{
    pthread_mutex_lock(&v->lock);
    v->expected -= changes;
    pthread_mutex_unlock(&v->lock);
}

void batch_view_doubt(struct batch_view *v, uint32_t changes)
{
    pthread_mutex_lock(&v->lock);
    v->expected -= changes;
    v->loaded = false;
    pthread_mutex_unlock(&v->lock);
}

/* Reading the list. */

/* Removes entries that are not in the list any more, except those that somebody is trying. */
static void sweep(struct batch_view *v)
{
    for (uint32_t i = 1; i < v->entry_count; i++) {
        const struct batch_view_entry *e = &v->entries[i];

        if (e->reading != v->reading &&
            (e->place == FREE || e->place == PARKED || e->place == BLOCKED))
            leave(v, e->key);
    }
}

static void take_over(struct batch_view *v, const struct keeper_names *names,
                      const struct keeper_stat *stat)
{
    v->reading++;
    for (size_t i = 0; i < names->count; i++) {
        int64_t key = batch_entry_key(v->prefix, v->priority, str_of(names->names[i]));

        if (key >= 0)
            enter(v, key);
    }
    sweep(v);
    for (uint32_t i = 0; i < v->late_count; i++) {
        if (v->late[i] >= 0)
            enter(v, v->late[i]);
        else
            leave(v, -v->late[i] - 1);
    }
    v->cversion = stat->cversion;
    v->slack = v->late_count + v->expected;
    v->loaded = true;
}

/* Releases the lock while it calls the keeper. */
static int load(struct batch_view *v, struct keeper *k)
{
    struct keeper_names names = {0};
    struct keeper_stat stat;
    int64_t began_ms = clock_boot_ms(), now_ms;
    int err;

    v->loading = true;
    v->late_count = 0;
    pthread_mutex_unlock(&v->lock);
    err = keeper_children(k, v->dir, &names, &stat);
    pthread_mutex_lock(&v->lock);
    v->loading = false;
    if (err)
        return err;
    take_over(v, &names, &stat);
    keeper_names_release(&names);
    now_ms = clock_boot_ms();
    v->checked_ms = now_ms;
    v->rest_until_ms = now_ms + BATCH_VIEW_REST * (now_ms - began_ms);
    return 0;
}

/* One bounded read: 0 if the list is as we know it, 1 if somebody else changed it. */
static int look(struct batch_view *v, struct keeper *k)
{
    struct keeper_stat stat;
    int64_t least = v->cversion;
    bool quiet = v->expected == 0;
    int err;

    pthread_mutex_unlock(&v->lock);
    err = keeper_exists(k, v->dir, &stat);
    pthread_mutex_lock(&v->lock);
    if (err)
        return err;
    v->checked_ms = clock_boot_ms();
    if (quiet && v->expected == 0 && v->cversion == least && v->slack) {
        if ((uint32_t)stat.child_count != v->by_key.count)
            return 1;
        v->cversion = stat.cversion;
        v->slack = 0;
        return 0;
    }
    return stat.cversion < least ||
           stat.cversion > v->cversion + (int64_t)v->expected + (int64_t)v->slack;
}

static void wake_due(struct batch_view *v, int64_t now_ms, struct batch_view_walk *walk)
{
    uint32_t most = v->free.count ? BATCH_VIEW_DUE_MAX : BATCH_VIEW_DUE_IDLE_MAX;

    for (; walk->woken < most && v->parked.count; walk->woken++) {
        uint32_t entry = v->parked.entries[0];

        if (v->entries[entry].due_ms > now_ms)
            break;
        move(v, entry, FREE);
    }
}

/* Under the lock. While another thread reads the list, the view is used as it is. */
static int freshen(struct batch_view *v, struct keeper *k, int64_t now_ms)
{
    int changed;

    if (v->loading)
        return 0;
    if (!v->loaded)
        return load(v, k);
    if (now_ms - v->checked_ms < BATCH_VIEW_FRESH_MS && v->free.count)
        return 0;
    v->checked_ms = now_ms;
    changed = look(v, k);
    if (changed <= 0)
        return changed;
    if (v->loading || (now_ms < v->rest_until_ms && v->free.count))
        return 0;
    return load(v, k);
}

int batch_view_next(struct batch_view *v, struct keeper *k, int64_t now_ms,
                    struct batch_view_walk *walk, int64_t *ret_key)
{
    int result;

    pthread_mutex_lock(&v->lock);
    result = freshen(v, k, now_ms);
    if (!result) {
        wake_due(v, now_ms, walk);
        if (v->free.count) {
            uint32_t entry = v->free.entries[0];

            move(v, entry, TAKEN);
            *ret_key = v->entries[entry].key;
            result = 1;
        }
    }
    pthread_mutex_unlock(&v->lock);
    return result;
}

void batch_view_park(struct batch_view *v, int64_t key, int64_t now_ms)
{
    uint32_t entry;
    int64_t span_ms;

    pthread_mutex_lock(&v->lock);
    entry = find(v, key);
    if (entry) {
        struct batch_view_entry *e = &v->entries[entry];

        move(v, entry, UNUSED);
        span_ms = (int64_t)BATCH_VIEW_PARK_MS << (e->tries < 5 ? e->tries++ : 5);
        e->due_ms = now_ms + (span_ms < BATCH_VIEW_PARK_MAX_MS ? span_ms : BATCH_VIEW_PARK_MAX_MS);
        move(v, entry, PARKED);
    }
    pthread_mutex_unlock(&v->lock);
}

void batch_view_block(struct batch_view *v, int64_t key, int64_t block)
{
    uint32_t entry;

    pthread_mutex_lock(&v->lock);
    entry = find(v, key);
    if (entry) {
        v->entries[entry].block = block;
        move(v, entry, BLOCKED);
    }
    pthread_mutex_unlock(&v->lock);
}

/* Checks all entries, which takes microseconds and is rare: people hold and release. */
void batch_view_unblock(struct batch_view *v, uint32_t generation,
                        bool (*is_lifted)(void *arg, int64_t block), void *arg)
{
    pthread_mutex_lock(&v->lock);
    if (v->blocked && v->generation != generation)
        for (uint32_t i = 1; i < v->entry_count; i++)
            if (v->entries[i].place == BLOCKED && is_lifted(arg, v->entries[i].block))
                move(v, i, FREE);
    v->generation = generation;
    pthread_mutex_unlock(&v->lock);
}

void batch_view_forget(struct batch_view *v, int64_t key)
{
    pthread_mutex_lock(&v->lock);
    leave(v, key);
    pthread_mutex_unlock(&v->lock);
}

static void set_free(struct batch_view *v, uint32_t entry)
{
    v->entries[entry].tries = 0;
    move(v, entry, FREE);
}

void batch_view_free(struct batch_view *v, int64_t key)
{
    uint32_t entry;

    pthread_mutex_lock(&v->lock);
    entry = find(v, key);
    if (entry)
        set_free(v, entry);
    pthread_mutex_unlock(&v->lock);
}

void batch_view_free_all(struct batch_view *v)
{
    pthread_mutex_lock(&v->lock);
    while (v->parked.count)
        set_free(v, v->parked.entries[0]);
    pthread_mutex_unlock(&v->lock);
}

uint32_t batch_view_count(struct batch_view *v)
{
    uint32_t count;

    pthread_mutex_lock(&v->lock);
    count = v->by_key.count;
    pthread_mutex_unlock(&v->lock);
    return count;
}

int batch_view_refresh(struct batch_view *v, struct keeper *k, int64_t now_ms)
{
    int err;

    pthread_mutex_lock(&v->lock);
    err = freshen(v, k, now_ms);
    pthread_mutex_unlock(&v->lock);
    return err;
}

bool batch_view_has(struct batch_view *v, int64_t key)
{
    bool has;

    pthread_mutex_lock(&v->lock);
    has = find(v, key) != 0;
    pthread_mutex_unlock(&v->lock);
    return has;
}

uint32_t batch_view_gone(struct batch_view *v)
{
    uint32_t gone;

    pthread_mutex_lock(&v->lock);
    gone = v->gone;
    pthread_mutex_unlock(&v->lock);
    return gone;
}

bool batch_view_has_blocked(struct batch_view *v)
{
    bool has;

    pthread_mutex_lock(&v->lock);
    has = v->blocked != 0;
    pthread_mutex_unlock(&v->lock);
    return has;
}
