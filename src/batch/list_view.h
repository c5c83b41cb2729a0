/*
 * list_view - a sorted view of a list in the tree, shared by the acquirers of this process.
 *
 * A list is a node whose children are entries: /jobs/states/pending with its PP-JIDs. Reading a
 * list of 100,000 names for every acquire would cost more than everything else. The view is a hint:
 * an acquirer verifies an entry in the transaction that locks it. The view only decides which entry
 * is tried first.
 *
 * How it stays fresh: this process notes its own changes in the view. The stat of the list counts
 * every creation and deletion (cversion), so one bounded read detects changes by others; only then
 * is the list read again, for at most a tenth of the time. Watches are not used, because on an
 * ensemble setting one again reads the whole list.
 *
 * An entry is free; or taken, while an acquirer tries it; or parked: it was locked, and is tried
 * again after a delay that grows with each try; or blocked: held for a reason that many entries can
 * share, and which is checked instead of them. So an acquire tries entries that are new, and only a
 * few that it tried before: an entry at the front that is not available is tried once.
 *
 *     batch_view_expect(v, 1);         before a transaction that changes the list
 *     batch_view_add(v, key) or batch_view_remove(v, key) or batch_view_failed(v, 1)    after it
 *
 *     struct batch_view_walk walk = {0};           one acquire
 *     while (batch_view_next(v, k, now, &walk, &key) == 1)
 *         try it, then batch_view_park(), _block() or _forget(); _park() also if it was locked
 *
 * Safe from any thread.
 */
#ifndef BATCH_LIST_VIEW_H
#define BATCH_LIST_VIEW_H

#include <pthread.h>

#include "base/err.h"
#include "base/map.h"
#include "keeper/keeper.h"

enum {
    BATCH_VIEW_FRESH_MS = 20, /* age at which the stat of the list is read */
    BATCH_VIEW_REST = 10,     /* after reading a list, pause for this many times as long */
    BATCH_VIEW_PARK_MS = 100, /* the first delay; each further one is twice as long */
    BATCH_VIEW_PARK_MAX_MS = 3200,
    BATCH_VIEW_DUE_MAX = 2, /* parked entries that one acquire retries while others are free */
    BATCH_VIEW_DUE_IDLE_MAX = 64, /* and while none is free */
};

struct batch_view_entry {
    int64_t key;
    int64_t due_ms;   /* parked: until when */
    int64_t block;    /* blocked: the reason */
    uint32_t at;      /* index in its heap */
    uint32_t reading; /* the last reading of the list that had it */
    uint8_t place;    /* enum batch_view_place */
    uint8_t tries;
};

struct batch_view_heap {
    uint32_t *entries; /* indexes of entries */
    uint32_t count, cap;
};

struct batch_view {
    char dir[96];
    const char *prefix;
    bool priority;

    pthread_mutex_t lock;
    struct batch_view_entry *entries; /* index 0 is not used */
    uint32_t entry_count, entry_cap, unused;
    struct map by_key;
    struct batch_view_heap free, parked;
    uint32_t blocked;    /* entries */
    uint32_t generation; /* of the reasons for blocks, when they were last checked */
    uint32_t gone;       /* counts removed entries */

    bool loaded, loading;
    uint32_t reading;  /* counts readings of the list */
    int64_t cversion;  /* of the list if only this process changed it */
    uint32_t expected; /* our changes in progress */
    uint32_t slack;    /* our changes that a reading may or may not have seen */
    int64_t *late;     /* keys of changes during a reading: key if added, -key-1 if removed */
    uint32_t late_count, late_cap;
    int64_t checked_ms, rest_until_ms;
};

void batch_view_init(struct batch_view *v, const char *dir, const char *prefix, bool priority);
void batch_view_release(struct batch_view *v);

/* Changes of this process: before, and after with the result. */
void batch_view_expect(struct batch_view *v, uint32_t changes);
void batch_view_add(struct batch_view *v, int64_t key);
void batch_view_remove(struct batch_view *v, int64_t key);
void batch_view_failed(struct batch_view *v, uint32_t changes);

/* The outcome is unknown: the list is read again. */
void batch_view_doubt(struct batch_view *v, uint32_t changes);

/* The state of one acquire. Zero-initialise. */
struct batch_view_walk {
    uint32_t woken;
};

/*
 * Takes the lowest free entry. 1: the caller tries ret_key. 0: none is free. TOO_BIG: the list
 * cannot be read from this keeper.
 */
int batch_view_next(struct batch_view *v, struct keeper *k, int64_t now_ms,
                    struct batch_view_walk *walk, int64_t *ret_key);

/* A taken entry is locked: retry later. */
void batch_view_park(struct batch_view *v, int64_t key, int64_t now_ms);

/* A taken entry is held by `block`: retry when that is lifted. */
void batch_view_block(struct batch_view *v, int64_t key, int64_t block);

/*
 * Frees the entries whose block is_lifted() reports as lifted. Does nothing if the generation is
 * the same.
 */
void batch_view_unblock(struct batch_view *v, uint32_t generation,
                        bool (*is_lifted)(void *arg, int64_t block), void *arg);

/* A taken entry does not exist. */
void batch_view_forget(struct batch_view *v, int64_t key);

/* It was unlocked, or its block was lifted. */
void batch_view_free(struct batch_view *v, int64_t key);
void batch_view_free_all(struct batch_view *v);

uint32_t batch_view_count(struct batch_view *v);

/* For the list of held batches: refreshes it, looks up a key, counts removals so far. */
int batch_view_refresh(struct batch_view *v, struct keeper *k, int64_t now_ms);
bool batch_view_has(struct batch_view *v, int64_t key);
uint32_t batch_view_gone(struct batch_view *v);
bool batch_view_has_blocked(struct batch_view *v);

/* The heaps, in view_heap.c: the free entries by key, the parked ones by time. */
void batch_view_heap_add(struct batch_view *v, struct batch_view_heap *h, uint32_t entry);
void batch_view_heap_remove(struct batch_view *v, struct batch_view_heap *h, uint32_t entry);

#endif
