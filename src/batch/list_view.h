/*
 * view - what stands in a list of the tree, in order, as this process knows it.
 *
 * A list is a node whose children are entries: /jobs/states/pending with its PP-JIDs. Reading a list
 * of 100,000 names for every acquire would cost more than all the rest, so the acquirers of a process
 * share a view of it. The view is a hint and never the truth: whoever takes an entry from it makes
 * sure of it in the transaction that locks it. What the view decides is only who is tried first.
 *
 * How it stays fresh: the changes of this process are told to it. The list's stat counts every
 * creation and deletion (cversion), so one bounded read shows whether somebody else changed it; only
 * then it is read again, and never for more than a tenth of the time. Watches are not used, because
 * on an ensemble re-arming one reads the whole list.
 *
 * An entry is free, or taken by an acquirer who is trying it; or parked: locked when it was tried, to
 * be tried again at a certain time, which grows with each try; or blocked: held for a reason that many
 * may share, which is looked at instead of them. So an acquire tries what is new to it, and of what it
 * has tried before only a few: what stands at the front and cannot be used is tried once.
 *
 *     batch_view_expect(v, 1);                     before a transaction that changes the list
 *     batch_view_add(v, key) or batch_view_remove(v, key) or batch_view_failed(v, 1)     exactly one of them, after it
 *
 *     struct batch_view_walk walk = {0};           one acquire
 *     while (batch_view_next(v, k, now, &walk, &key) == 1)
 *         try it, then batch_view_park(), batch_view_block(), batch_view_forget() or, having taken it, batch_view_park()
 *
 * From any thread.
 */
#ifndef BATCH_LIST_VIEW_H
#define BATCH_LIST_VIEW_H

#include <pthread.h>

#include "base/err.h"
#include "base/map.h"
#include "keeper/keeper.h"

enum {
    BATCH_VIEW_FRESH_MS = 20, /* how old a view may be before its list is looked at */
    BATCH_VIEW_REST = 10,     /* reading a list is followed by so many times its time without */
    BATCH_VIEW_PARK_MS = 100, /* the first time, then twice as long each time */
    BATCH_VIEW_PARK_MAX_MS = 3200,
    BATCH_VIEW_DUE_MAX = 2, /* parked entries that one acquire tries again while there are others */
    BATCH_VIEW_DUE_IDLE_MAX = 64, /* and when there are none */
};

struct batch_view_entry {
    int64_t key;
    int64_t due_ms;   /* parked: until when */
    int64_t block;    /* blocked: by what */
    uint32_t at;      /* in the heap that it stands in */
    uint32_t reading; /* of the list, that saw it last */
    uint8_t place;    /* enum batch_view_place */
    uint8_t tries;
};

struct batch_view_heap {
    uint32_t *entries; /* numbers of entries */
    uint32_t count, cap;
};

struct batch_view {
    char dir[96];
    const char *prefix;
    bool priority;

    pthread_mutex_t lock;
    struct batch_view_entry *entries; /* the first is not used */
    uint32_t entry_count, entry_cap, unused;
    struct map by_key;
    struct batch_view_heap free, parked;
    uint32_t blocked;    /* entries */
    uint32_t generation; /* of the reasons for blocks, when they were last looked at */
    uint32_t gone;       /* how many entries have left */

    bool loaded, loading;
    uint32_t reading;  /* how often the list was read */
    int64_t cversion;  /* that the list has when only we change it */
    uint32_t expected; /* changes of ours that are on their way */
    uint32_t slack;    /* changes of ours that a reading may or may not have seen */
    int64_t *late;     /* keys of changes noted during a reading: +key added, -key-1 removed */
    uint32_t late_count, late_cap;
    int64_t checked_ms, rest_until_ms;
};

void batch_view_init(struct batch_view *v, const char *dir, const char *prefix, bool priority);
void batch_view_release(struct batch_view *v);

/* What this process is about to do to the list, and what became of it. */
void batch_view_expect(struct batch_view *v, uint32_t changes);
void batch_view_add(struct batch_view *v, int64_t key);
void batch_view_remove(struct batch_view *v, int64_t key);
void batch_view_failed(struct batch_view *v, uint32_t changes);

/* Whether it happened is not known: the list is read again. */
void batch_view_doubt(struct batch_view *v, uint32_t changes);

/* What one acquire has tried again. Zero-initialise. */
struct batch_view_walk {
    uint32_t woken;
};

/*
 * Takes the lowest entry that is free. 1: ret_key is the caller's to try. 0: there is none now.
 * TOO_BIG: the list cannot be read from this keeper.
 */
int batch_view_next(struct batch_view *v, struct keeper *k, int64_t now_ms,
                    struct batch_view_walk *walk, int64_t *ret_key);

/* What was taken is locked: again later. */
void batch_view_park(struct batch_view *v, int64_t key, int64_t now_ms);

/* What was taken is held, by `block`: again when that is lifted. */
void batch_view_block(struct batch_view *v, int64_t key, int64_t block);

/*
 * Frees what is blocked by what is_lifted() says is there no longer. It looks only when the generation
 * is another than the last time.
 */
void batch_view_unblock(struct batch_view *v, uint32_t generation,
                        bool (*is_lifted)(void *arg, int64_t block), void *arg);

/* What was taken is not there. */
void batch_view_forget(struct batch_view *v, int64_t key);

/* It was unlocked, or what held it is gone: it is free now. */
void batch_view_free(struct batch_view *v, int64_t key);
void batch_view_free_all(struct batch_view *v);

uint32_t batch_view_count(struct batch_view *v);

/* For lists that say something about others: what stands there, and how much has left it so far. */
int batch_view_refresh(struct batch_view *v, struct keeper *k, int64_t now_ms);
bool batch_view_has(struct batch_view *v, int64_t key);
uint32_t batch_view_gone(struct batch_view *v);
bool batch_view_has_blocked(struct batch_view *v);

/* The heaps, in view_heap.c: the free entries by key, the parked ones by time. */
void batch_view_heap_add(struct batch_view *v, struct batch_view_heap *h, uint32_t entry);
void batch_view_heap_remove(struct batch_view *v, struct batch_view_heap *h, uint32_t entry);

#endif
