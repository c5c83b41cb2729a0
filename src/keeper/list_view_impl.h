/*
 * list_view_impl - the inside of struct list_view: list_view.c keeps it fresh, list_entry.c keeps
 * the entries. Free entries stand in the heap of their group, parked ones in a heap by time,
 * blocked ones in a map by reason.
 */
#ifndef KEEPER_LIST_VIEW_IMPL_H
#define KEEPER_LIST_VIEW_IMPL_H

#include <pthread.h>

#include "base/heap.h"
#include "base/map.h"
#include "keeper/list_view.h"

enum list_state {
    LIST_UNUSED,
    LIST_FREE,
    LIST_TAKEN,
    LIST_LOCKED,
    LIST_PARKED,
    LIST_BLOCKED,
    LIST_IDLE,
    LIST_GONE, /* removed by this process while the list is read; swept after the reading */
    LIST_STATES,
};

struct list_entry {
    char *name;
    int64_t order;
    int64_t what;     /* LOCKED: the session; PARKED: until when; BLOCKED: the reason */
    uint32_t group;   /* 0: none */
    uint32_t heap_at; /* UNUSED: the next unused entry */
    uint32_t seen;    /* the reading that saw it last */
    uint32_t locked;  /* the reading of the locks that was the last when it was locked */
    int32_t version;
    uint8_t state, flags, tries;
    bool watched; /* there is a list_lock for it */
};

struct list_group {
    char *name;
    struct heap free;
    uint32_t became_free; /* since `ready` was called */
};

struct list_view {
    struct list_view_options o;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t loaded_one;
    struct list_entry *entries; /* refs start at 1 */
    uint32_t len, cap, unused;
    struct map by_name, by_reason;
    struct list_group *groups; /* refs start at 1 */
    uint32_t group_count;
    struct map by_group;
    struct heap parked;
    uint32_t counts[LIST_STATES]; /* entries by state, except LIST_UNUSED */
    uint32_t removed;             /* entries so far */
    uint32_t *ready;              /* groups with became_free */
    uint32_t ready_count;
    uint32_t *locks; /* entries that were LOCKED when they were put here */
    size_t locks_len, locks_cap;

    bool loaded, loading;
    uint32_t reading, locks_reading; /* how often the lists were read */
    int64_t cversion;                /* of the list if only this process changes it */
    uint32_t expected;               /* own changes in flight */
    uint32_t slack;                  /* own changes that the last reading may have counted */
    uint32_t late_changes;           /* own changes during a reading */
    int64_t checked_ms, rest_until_ms, locks_rest_until_ms, reread_ms;

    struct list_watch watches[2];   /* of dir and locks */
    struct list_lock *lock_watches; /* of parked entries; of the thread that attends */
    uint32_t lock_watch_count;
};

/* Under the lock. Refs are valid until the entry is removed. */
uint32_t list_entry_find(const struct list_view *v, struct str name); /* 0: none; or it is gone */
void list_entry_put(struct list_view *v, struct str name, const struct list_class *c,
                    int32_t version);
void list_entry_remove(struct list_view *v, uint32_t ref);
void list_entry_enter(struct list_view *v, uint32_t ref, enum list_state state, int64_t what);
void list_entry_moved(void *arg, uint32_t ref, uint32_t at);

/* Frees the entries that were locked before this reading of the locks and are not among them. */
void list_entries_unlock(struct list_view *v, const struct keeper_names *locks, uint32_t reading);
void list_entries_release(struct list_view *v);

/* Releases the lock and calls `ready`. */
void list_view_unlock(struct list_view *v);

#endif
