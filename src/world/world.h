/*
 * world - a tree of tasks with a pending, a working and a completed list (zoott).
 *
 *   /zoott_<world>/...    the tree: one node per task, with its data; children below their parents
 *   /zoott_p/<key>        pending: to be done; blocks the tasks below it
 *   /zoott_w/<key>        working: ephemeral node of the session that claimed it; also pending
 *   /zoott_c/<key>        completed
 *
 * A task whose attempts are used up has failed: it stays pending, and a working node that is not
 * ephemeral keeps everybody from it until it is retried or queued again.
 *
 * (record.h has the keys and the data.) In order: world_init() once; world_open(); queue,
 * claim, and complete, release or fail, from any thread; world_close().
 *
 * What always holds:
 *  - Each change is one transaction. After a crash the tree is as before it or as after it.
 *  - There is no working node without a pending one. Only the claimant completes a task.
 *  - A task that is queued again while it is worked on is pending again when it is completed:
 *    claiming and queueing both change the pending node's version, and completing deletes it only
 *    at the version that the claim gave it.
 *  - UNKNOWN is resolved by reading: the claimant's working node tells what happened. Only queueing
 *    returns it; it is safe to queue again.
 *
 * k, in every call, is the keeper to use: the one that the world was opened on, or another session
 * of the same store. Results are in the caller's arena.
 */
#ifndef WORLD_WORLD_H
#define WORLD_WORLD_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "keeper/keeper.h"
#include "world/record.h"

enum { WORLD_TYPES_MAX = 100 };

struct world;

enum world_state {
    WORLD_IS_PENDING,
    WORLD_IS_WORKING,
    WORLD_IS_COMPLETED,
    WORLD_IS_FAILED,
    WORLD_IS_NONE,
};

/* A state change made through this struct world. */
struct world_change {
    struct str key, type;   /* p NULL: not known */
    enum world_state state; /* NONE: removed */
    struct str error;       /* the task failed; p NULL: it did not */
};

struct world_options {
    /* So many tasks of a type can be claimed; p NULL: the lists have changed, try. Any thread. */
    void (*ready)(void *arg, struct str type, uint32_t count);
    void (*note)(void *arg, const char *line);             /* warns about an invalid node, once */
    void (*told)(void *arg, const struct world_change *c); /* after the change; any thread */
    void *arg;
};

/* Creates those of the four directories that are missing. */
int world_init(struct keeper *k, struct str name, struct err_info *ret_error);

/* NO_NODE if it does not exist. k is watched until world_close(). o may be NULL. */
int world_open(struct keeper *k, struct str name, const struct world_options *o,
               struct world **ret_world, struct err_info *ret_error);
void world_close(struct world *w);

/* Queueing. */

struct world_task {
    struct str name, type;
    struct str data;  /* JSON */
    int64_t attempts; /* after so many it has failed; 0: no limit */
};

struct world_parent {
    struct str name, type; /* expressions */
};

/* Names the child of a parent, in the arena. */
typedef struct str world_name_fn(void *arg, struct arena *a, struct str parent, struct str child);

struct world_paths {
    char **list;
    size_t count;
};

/*
 * Creates or updates the task below every task that matches parent (NULL: at the top) and makes it
 * pending. BAD_ARGUMENT (invalid names, expressions, data), NO_NODE (no such world, no match),
 * EXISTS (another world or task has the name), TOO_BIG (for one transaction).
 */
int world_queue(struct world *w, struct keeper *k, struct arena *a, const struct world_task *task,
                const struct world_parent *parent, world_name_fn *name_fn, void *name_arg,
                struct world_paths *ret_paths, struct err_info *ret_error);

/* The tasks that match, as for queueing; no match is no error. */
int world_find(struct world *w, struct keeper *k, struct arena *a, const struct world_parent *which,
               struct world_paths *ret_paths, struct err_info *ret_error);

/* Claims. */

struct world_claim {
    struct str key; /* "a_t|b_t" */
    struct world_record record;
    struct str data;
};

/*
 * Claims the oldest pending task of one of the types that has no pending ancestor. 1, or 0 if there
 * is none. With `look` the answer 0 is certain; without, it is as old as the cached list; `changed`
 * tells when to try again.
 */
int world_claim(struct world *w, struct keeper *k, struct arena *a, const struct str *types,
                size_t type_count, bool look, struct world_claim *ret_claim,
                struct err_info *ret_error);

/*
 * Ends a claim; by the session that made it. NO_NODE: nobody works on it. FENCED: another session
 * does. ret_again: it was queued again meanwhile and is still pending.
 */
int world_complete(struct world *w, struct keeper *k, struct str key, bool *ret_again,
                   struct err_info *ret_error);
int world_release(struct world *w, struct keeper *k, struct str key, struct err_info *ret_error);

/*
 * Counts a failure and keeps its error. The task is pending, behind the others; or, after its last
 * attempt or with `final`, it has failed (ret_failed), unless it was queued again meanwhile.
 */
int world_fail(struct world *w, struct keeper *k, struct str key, struct str error, bool final,
               bool *ret_failed, struct err_info *ret_error);

/* Makes a task that has failed pending again, with all its attempts. NOT_ALLOWED: it has not. */
int world_retry(struct world *w, struct keeper *k, struct str key, struct err_info *ret_error);

/*
 * Removes a task from the tree and the lists, in any state but working (IN_USE); with a before_ms
 * other than INT64_MAX, only if it was completed before that (NOT_ALLOWED). NOT_EMPTY: it has
 * children.
 */
int world_remove(struct world *w, struct keeper *k, struct str key, int64_t before_ms,
                 struct err_info *ret_error);

/* Reading. */

const char *world_state_name(enum world_state s);

struct world_item {
    struct str key;
    enum world_state state; /* WORKING and FAILED also count as pending */
    struct world_record record;
    int64_t since_ms; /* in this state */
};

struct world_items {
    struct world_item *list;
    size_t count;
    bool more; /* there are more after the last */
};

/* One list in key order, after a key (empty: from the start), up to a limit. */
int world_list(struct world *w, struct keeper *k, struct arena *a, enum world_state state,
               struct str after, size_t limit, struct world_items *ret_items);

/* One task: its state, record and data. */
int world_get(struct world *w, struct keeper *k, struct arena *a, struct str key,
              struct world_item *ret_item, struct str *ret_data, struct err_info *ret_error);

/* Visits every task, parents before children, siblings in order. Nonzero ends the walk. */
typedef int world_walk_fn(void *arg, struct str key, int depth, enum world_state state);

int world_walk(struct world *w, struct keeper *k, world_walk_fn *fn, void *arg);

#endif
