/*
 * list_view - a cached, ordered view of a list: a node whose children are entries to take one by
 * one.
 *
 * Reading a list of 100,000 names for every claim would cost more than everything else, so the
 * takers of a process share a view. The view is a hint: the transaction that locks an entry checks
 * it. The view only decides which entry is tried first.
 *
 * How it stays fresh:
 *  - This process reports its own changes to the list: list_view_expect() before the transaction,
 *    list_view_done() after it, then list_view_add() or list_view_remove().
 *  - The list's cversion counts every creation and deletion. One bounded read, at most every
 *    LIST_FRESH_MS while there are free entries, shows whether other clients changed the list. Only
 *    then is it read again, and for at most one part in LIST_REST of the time.
 *  - Reading the list again reads the names, and the data of new entries only (if classify wants
 *    data).
 *  - list_view_refresh() with `must` is exact: it syncs and reads again unless nothing has changed.
 *  - When nothing is left to take, list_view_watch() sets watches, and `changed` tells of changes.
 *    They fire once: on an ensemble, arming a watch on a list reads the whole list.
 *    list_view_attend() does all that those who wait need, once and after each change.
 *
 * An entry is free; or taken by a caller who tries it; or locked, until it disappears from `locks`;
 * or parked, until a time that grows with each try; or blocked, for a reason until
 * list_view_unblock_if() lifts it, or on another entry until that leaves. Idle entries are never
 * offered, and read again now and then: the same name can get other data.
 *
 *     while (list_view_take(v, &arena, groups, count, now_ms, &retried, &item))
 *         try it, then list_view_lock(), _park(), _block(), _idle(), _remove() or _release()
 *
 * From any thread. Callbacks run without the lock, except classify.
 */
#ifndef KEEPER_LIST_VIEW_H
#define KEEPER_LIST_VIEW_H

#include <pthread.h>

#include "base/arena.h"
#include "keeper/keeper.h"

enum {
    LIST_FRESH_MS = 20, /* age of a view at which the list is checked */
    LIST_REST = 10,     /* a reading is followed by so many times its duration without */
    LIST_REREAD_MS = 5000,
    LIST_PARK_MS = 100, /* the first time, then twice as long each time */
    LIST_PARK_MAX_MS = 3200,
    LIST_TRIES_MAX = 5,     /* retries of a parked entry that has no lock, see list_view_attend() */
    LIST_LOCKS_MAX = 1000,  /* locks of parked entries that are watched */
    LIST_DUE_MAX = 2,       /* parked entries that one walk retries while others are free */
    LIST_DUE_IDLE_MAX = 64, /* and if there are none */
};

/*
 * What an entry is. Within a group, entries are offered in the order of `order`, then of arrival.
 */
struct list_class {
    bool idle;
    uint8_t flags; /* the user's */
    int64_t order;
    struct str group;
};

/*
 * A watch that fires once and is then set again. `changed` may be NULL. When
 * list_watch_clear() returns, `changed` is not running.
 */
struct list_watch {
    const char *path;
    enum keeper_watch_kind kind;
    void (*changed)(void *arg);
    void *arg;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t told;
    struct keeper *k;
    struct keeper_watch *watch; /* NULL: not set, or it has fired */
    int telling;                /* events in progress */
};

void list_watch_init(struct list_watch *w, const char *path, enum keeper_watch_kind kind,
                     void (*changed)(void *arg), void *arg);
int list_watch_set(struct list_watch *w, struct keeper *k); /* does nothing if it is set */
bool list_watch_is_set(struct list_watch *w);
void list_watch_clear(struct list_watch *w);
void list_watch_release(struct list_watch *w);

struct list_view_options {
    const char *dir;
    const char *locks; /* the list whose nodes lock the entries of the same name; NULL: none */
    /* The node that locks an entry; NULL: entries are not parked because of locks. */
    void (*lock_path)(void *arg, struct str name, struct buf *ret_path);
    bool data; /* classify gets data and stat; otherwise NULL */
    void (*classify)(void *arg, struct str name, struct str data, const struct keeper_stat *stat,
                     struct list_class *ret_class);
    void (*ready)(void *arg, struct str group, uint32_t count); /* became free; may be NULL */
    void (*changed)(void *arg); /* a watch fired: refresh; may be NULL */
    void *arg;
};

struct list_view;

struct list_view *list_view_new(const struct list_view_options *o);
void list_view_free(struct list_view *v);

/* Changes of this process: how many creations and deletions. err is that of the transaction. */
void list_view_expect(struct list_view *v, uint32_t changes);
void list_view_done(struct list_view *v, uint32_t changes, int err);
void list_view_add(struct list_view *v, struct str name, const struct list_class *c,
                   int32_t version);
void list_view_remove(struct list_view *v, struct str name);

/* Without `must` the view may stay as it is. TOO_BIG: the keeper cannot read the list. */
int list_view_refresh(struct list_view *v, struct keeper *k, bool must);

/*
 * Sets watches through k, which must stay open until list_view_unwatch(). Call before the refresh.
 */
int list_view_watch(struct list_view *v, struct keeper *k);
void list_view_unwatch(struct list_view *v);

/*
 * For those who wait until an entry is free: sets the watches on the list and on the locks of
 * parked entries, refreshes, and frees parked entries whose lock has ended. Call it again after
 * `changed`, after entries were parked, and at *ret_next_ms (INT64_MAX: never). `all`: now and
 * then, also retries entries that are unusable for reasons that no watch tells. From one thread at
 * a time; k as for list_view_watch().
 */
int list_view_attend(struct list_view *v, struct keeper *k, bool all, int64_t *ret_next_ms);

/* Whether the list may have changed since the last exact refresh: no watch is set, or it fired. */
bool list_view_is_stale(struct list_view *v);

struct list_item {
    struct str name, group; /* in the arena */
    int64_t order;
    int32_t version; /* of the node, as last seen */
    uint8_t flags;
    int64_t session; /* locked: by this session of this process; 0: by another */
};

/*
 * Takes the first free entry of the groups. False: none is free. retried: how many parked entries
 * the caller has retried, at first 0.
 */
bool list_view_take(struct list_view *v, struct arena *a, const struct str *groups,
                    size_t group_count, int64_t now_ms, uint32_t *retried,
                    struct list_item *ret_item);

/* What became of an entry. Entries that have left the view meanwhile are ignored. */
void list_view_lock(struct list_view *v, struct str name, int64_t session, int32_t version);
void list_view_park(struct list_view *v, struct str name, int64_t now_ms);
void list_view_block(struct list_view *v, struct str name, int64_t reason); /* not negative */

/* Blocked until the entry `by` leaves. False, and nothing happens, if that is not in the view. */
bool list_view_block_on(struct list_view *v, struct str name, struct str by);
void list_view_idle(struct list_view *v, struct str name, uint8_t flags);

/* It is free again; with a new class (NULL: as before). Unknown entries are added with a class. */
void list_view_release(struct list_view *v, struct str name, const struct list_class *c);

/* Frees the entries that are blocked for reasons that `is_lifted` accepts. */
void list_view_unblock_if(struct list_view *v, bool (*is_lifted)(void *arg, int64_t reason),
                          void *arg);

/* Lookups. a may be NULL: then ret_item holds no text. */
bool list_view_find(struct list_view *v, struct arena *a, struct str name,
                    struct list_item *ret_item);

struct list_view_counts {
    uint32_t entries, free, blocked;
    uint32_t removed; /* how many have left so far */
};

struct list_view_counts list_view_counts(struct list_view *v);

/* The data of many nodes of a list, read in parallel. err: the first error other than NO_NODE. */
struct list_nodes {
    size_t count;
    struct list_node {
        struct buf data;
        struct keeper_stat stat;
        int err;
    } * nodes;
};

int list_nodes_read(struct list_nodes *n, struct keeper *k, const char *dir, char *const *names,
                    size_t count);
void list_nodes_release(struct list_nodes *n);

#endif
