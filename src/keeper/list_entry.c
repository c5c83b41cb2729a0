/* The entries of a view and their states; and the calls that move an entry from one to another. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/thread.h"
#include "keeper/list_view_impl.h"

/* Groups. */

static uint32_t find_group(const struct list_view *v, struct str name)
{
    uint32_t hash = map_hash_str(name);
    for (uint32_t at, ref = map_first(&v->by_group, hash, &at); ref;
         ref = map_next(&v->by_group, hash, &at))
        if (str_eq(str_of(v->groups[ref - 1].name), name))
            return ref;
    return 0;
}

void list_entry_moved(void *arg, uint32_t ref, uint32_t at)
{
    ((struct list_view *)arg)->entries[ref].heap_at = at;
}

static uint32_t find_or_add_group(struct list_view *v, struct str name)
{
    uint32_t ref = find_group(v, name);
    if (ref)
        return ref;
    v->groups = mem_realloc(v->groups, (v->group_count + 1) * sizeof *v->groups);
    v->ready = mem_realloc(v->ready, (v->group_count + 1) * sizeof *v->ready);
    v->groups[v->group_count] = (struct list_group){.name = mem_dup(name.p, name.len),
                                                    .free = {.moved = list_entry_moved, .arg = v}};
    map_add(&v->by_group, map_hash_str(name), ++v->group_count);
    return v->group_count;
}

/* Entries. */

uint32_t list_entry_find(const struct list_view *v, struct str name)
{
    uint32_t hash = map_hash_str(name);
    for (uint32_t at, ref = map_first(&v->by_name, hash, &at); ref;
         ref = map_next(&v->by_name, hash, &at))
        if (str_eq(str_of(v->entries[ref].name), name))
            return ref;
    return 0;
}

/* 0: there is none, or it is gone. */
static uint32_t find_present(const struct list_view *v, struct str name)
{
    uint32_t ref = list_entry_find(v, name);
    return ref && v->entries[ref].state != LIST_GONE ? ref : 0;
}

/*
 * Blocked until the entry of this name leaves. Two names may share a reason: that unblocks too
 * early.
 */
static int64_t name_reason(struct str name)
{
    return -1 - (int64_t)map_hash_str(name);
}

static uint32_t reason_hash(int64_t reason)
{
    return map_hash_u64((uint64_t)reason);
}

/* Takes the entry out of the structure of its state. */
static void leave(struct list_view *v, uint32_t ref)
{
    struct list_entry *e = &v->entries[ref];
    if (e->state == LIST_FREE)
        heap_remove(&v->groups[e->group - 1].free, e->heap_at);
    else if (e->state == LIST_PARKED)
        heap_remove(&v->parked, e->heap_at);
    else if (e->state == LIST_BLOCKED)
        map_remove(&v->by_reason, reason_hash(e->what), ref);
    v->counts[e->state]--;
    e->state = LIST_UNUSED;
}

void list_entry_enter(struct list_view *v, uint32_t ref, enum list_state state, int64_t what)
{
    struct list_entry *e = &v->entries[ref];
    struct list_group *g = e->group ? &v->groups[e->group - 1] : NULL;
    leave(v, ref);
    e->state = (uint8_t)(g || state == LIST_GONE ? state : LIST_IDLE);
    e->what = what;
    v->counts[e->state]++;
    if (e->state == LIST_FREE) {
        heap_push(&g->free, e->order, ref);
        if (!g->became_free++)
            v->ready[v->ready_count++] = e->group;
    } else if (e->state == LIST_PARKED) {
        heap_push(&v->parked, what, ref);
    } else if (e->state == LIST_BLOCKED) {
        map_add(&v->by_reason, reason_hash(what), ref);
    } else if (e->state == LIST_LOCKED) {
        e->locked = v->locks_reading;
        mem_grow(v->locks, v->locks_len, v->locks_cap);
        v->locks[v->locks_len++] = ref;
    }
}

/* Finds an entry, also one that is gone, or adds one. */
static uint32_t find_or_add(struct list_view *v, struct str name)
{
    uint32_t ref = list_entry_find(v, name);
    if (ref)
        return ref;
    ref = v->unused;
    if (ref) {
        v->unused = v->entries[ref].heap_at;
    } else {
        if (v->len + 1 >= v->cap) {
            v->cap = v->cap ? v->cap * 2 : 64;
            v->entries = mem_realloc(v->entries, v->cap * sizeof *v->entries);
        }
        ref = ++v->len;
    }
    v->entries[ref] = (struct list_entry){.name = mem_dup(name.p, name.len)};
    map_add(&v->by_name, map_hash_str(name), ref);
    return ref;
}

void list_entry_put(struct list_view *v, struct str name, const struct list_class *c,
                    int32_t version)
{
    uint32_t ref = find_or_add(v, name);
    leave(v, ref);
    struct list_entry *e = &v->entries[ref];
    e->order = c->order;
    e->flags = c->flags;
    e->version = version;
    e->seen = v->reading;
    e->tries = 0;
    e->group = c->idle ? 0 : find_or_add_group(v, c->group);
    list_entry_enter(v, ref, c->idle ? LIST_IDLE : LIST_FREE, 0);
}

static void unblock(struct list_view *v, int64_t reason)
{
    uint32_t hash = reason_hash(reason), at, ref = map_first(&v->by_reason, hash, &at);
    while (ref) {
        if (v->entries[ref].what == reason) {
            list_entry_enter(v, ref, LIST_FREE, 0);
            ref = map_first(&v->by_reason, hash, &at); /* removal moves the others */
        } else {
            ref = map_next(&v->by_reason, hash, &at);
        }
    }
}

void list_entry_remove(struct list_view *v, uint32_t ref)
{
    struct list_entry *e = &v->entries[ref];
    struct str name = str_of(e->name);
    v->removed += e->state != LIST_GONE;
    leave(v, ref);
    map_remove(&v->by_name, map_hash_str(name), ref);
    unblock(v, name_reason(name));
    free(e->name);
    *e = (struct list_entry){.heap_at = v->unused};
    v->unused = ref;
}

/* While the list is read, the reading may have seen the entry: then it stays, and is gone. */
void list_view_remove(struct list_view *v, struct str name)
{
    pthread_mutex_lock(&v->lock);
    uint32_t ref = v->loading ? find_or_add(v, name) : list_entry_find(v, name);
    if (ref && v->loading) {
        v->removed += v->entries[ref].state != LIST_GONE && v->entries[ref].state != LIST_UNUSED;
        list_entry_enter(v, ref, LIST_GONE, 0);
        unblock(v, name_reason(name));
    } else if (ref) {
        list_entry_remove(v, ref);
    }
    list_view_unlock(v);
}

static int compare_name(const void *key, const void *name)
{
    return strcmp(key, *(char *const *)name);
}

void list_entries_unlock(struct list_view *v, const struct keeper_names *locks, uint32_t reading)
{
    size_t kept = 0;
    for (size_t i = 0; i < v->locks_len; i++) {
        uint32_t ref = v->locks[i];
        struct list_entry *e = &v->entries[ref];
        if (e->state != LIST_LOCKED)
            continue;
        if (e->locked >= reading || (locks->count && bsearch(e->name, locks->names, locks->count,
                                                             sizeof *locks->names, compare_name)))
            v->locks[kept++] = ref;
        else
            list_entry_enter(v, ref, LIST_FREE, 0);
    }
    v->locks_len = kept;
}

void list_entries_release(struct list_view *v)
{
    for (uint32_t ref = 1; ref <= v->len; ref++)
        free(v->entries[ref].name);
    for (uint32_t i = 0; i < v->group_count; i++) {
        free(v->groups[i].name);
        heap_release(&v->groups[i].free);
    }
    heap_release(&v->parked);
    map_release(&v->by_name);
    map_release(&v->by_reason);
    map_release(&v->by_group);
    free(v->entries);
    free(v->groups);
    free(v->ready);
    free(v->locks);
}

/* Taking. */

static void item_of(const struct list_view *v, struct arena *a, uint32_t ref,
                    struct list_item *ret_item)
{
    const struct list_entry *e = &v->entries[ref];
    *ret_item = (struct list_item){.order = e->order,
                                   .version = e->version,
                                   .flags = e->flags,
                                   .session = e->state == LIST_LOCKED ? e->what : 0};
    if (a)
        ret_item->name = str_of(arena_text(a, str_of(e->name)));
    if (a && e->group)
        ret_item->group = str_of(arena_text(a, str_of(v->groups[e->group - 1].name)));
}

static uint32_t first_free(const struct list_view *v, const struct str *groups, size_t count)
{
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t group = find_group(v, groups[i]);
        const struct heap *h = group ? &v->groups[group - 1].free : NULL;
        if (h && h->count && (!found || h->entries[0].key < v->entries[found].order))
            found = h->entries[0].ref;
    }
    return found;
}

static void wake_due(struct list_view *v, int64_t now_ms, uint32_t *retried)
{
    uint32_t most = v->counts[LIST_FREE] ? LIST_DUE_MAX : LIST_DUE_IDLE_MAX;
    for (; *retried < most && v->parked.count && v->parked.entries[0].key <= now_ms; ++*retried)
        list_entry_enter(v, v->parked.entries[0].ref, LIST_FREE, 0);
}

bool list_view_take(struct list_view *v, struct arena *a, const struct str *groups,
                    size_t group_count, int64_t now_ms, uint32_t *retried,
                    struct list_item *ret_item)
{
    pthread_mutex_lock(&v->lock);
    wake_due(v, now_ms, retried);
    uint32_t ref = first_free(v, groups, group_count);
    if (ref) {
        list_entry_enter(v, ref, LIST_TAKEN, 0);
        item_of(v, a, ref, ret_item);
    }
    list_view_unlock(v);
    return ref != 0;
}

/* What became of an entry. */

void list_view_lock(struct list_view *v, struct str name, int64_t session, int32_t version)
{
    LOCKED(&v->lock);
    uint32_t ref = find_present(v, name);
    if (ref) {
        list_entry_enter(v, ref, LIST_LOCKED, session);
        v->entries[ref].version = version;
    }
}

void list_view_park(struct list_view *v, struct str name, int64_t now_ms)
{
    LOCKED(&v->lock);
    uint32_t ref = find_present(v, name);
    if (ref) {
        struct list_entry *e = &v->entries[ref];
        int64_t ms = (int64_t)LIST_PARK_MS << (e->tries < 5 ? e->tries++ : 5);
        list_entry_enter(v, ref, LIST_PARKED,
                         now_ms + (ms < LIST_PARK_MAX_MS ? ms : LIST_PARK_MAX_MS));
    }
}

void list_view_block(struct list_view *v, struct str name, int64_t reason)
{
    LOCKED(&v->lock);
    uint32_t ref = find_present(v, name);
    if (ref)
        list_entry_enter(v, ref, LIST_BLOCKED, reason);
}

bool list_view_block_on(struct list_view *v, struct str name, struct str by)
{
    LOCKED(&v->lock);
    uint32_t ref = find_present(v, name);
    bool blocked = find_present(v, by) != 0;
    if (ref && blocked)
        list_entry_enter(v, ref, LIST_BLOCKED, name_reason(by));
    return blocked;
}

void list_view_idle(struct list_view *v, struct str name, uint8_t flags)
{
    LOCKED(&v->lock);
    uint32_t ref = find_present(v, name);
    if (ref) {
        v->entries[ref].flags = flags;
        list_entry_enter(v, ref, LIST_IDLE, 0);
    }
}

void list_view_release(struct list_view *v, struct str name, const struct list_class *c)
{
    pthread_mutex_lock(&v->lock);
    uint32_t ref = find_present(v, name);
    if (c) {
        list_entry_put(v, name, c, ref ? v->entries[ref].version : 0);
    } else if (ref) {
        v->entries[ref].tries = 0;
        list_entry_enter(v, ref, LIST_FREE, 0);
    }
    list_view_unlock(v);
}

void list_view_unblock_if(struct list_view *v, bool (*is_lifted)(void *arg, int64_t reason),
                          void *arg)
{
    pthread_mutex_lock(&v->lock);
    for (uint32_t ref = 1; ref <= v->len && v->counts[LIST_BLOCKED]; ref++)
        if (v->entries[ref].state == LIST_BLOCKED && is_lifted(arg, v->entries[ref].what))
            list_entry_enter(v, ref, LIST_FREE, 0);
    list_view_unlock(v);
}

bool list_view_find(struct list_view *v, struct arena *a, struct str name,
                    struct list_item *ret_item)
{
    LOCKED(&v->lock);
    uint32_t ref = find_present(v, name);
    if (ref)
        item_of(v, a, ref, ret_item);
    return ref != 0;
}

struct list_view_counts list_view_counts(struct list_view *v)
{
    LOCKED(&v->lock);
    return (struct list_view_counts){v->by_name.count, v->counts[LIST_FREE],
                                     v->counts[LIST_BLOCKED], v->removed};
}
