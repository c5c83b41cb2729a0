/*
 * world - a tree of tasks on a keeper, with lists of pending, working and completed tasks.
 *
 * A task has a name, a type and JSON data. Its node names it in the lists: "a_t" at the top,
 * "a_t|b_t" for the child b of type t. Handlers claim tasks by type, oldest first. A task with a
 * pending ancestor waits. A claim belongs to the keeper's session until the handler completes,
 * releases or fails the task, or until the session ends. Names and types are not empty and contain
 * no space, '/', '\\', '|' or control character.
 *
 * In order: drover_keeper_open(), drover_world_init() once, drover_world_open(), the calls below,
 * drover_world_close(). Text in a drover_world_list belongs to the list; the caller releases it.
 */
#ifndef DROVER_WORLD_H
#define DROVER_WORLD_H

#include <drover/core.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct drover_world;

enum drover_world_state {
    DROVER_WORLD_PENDING,
    DROVER_WORLD_WORKING,
    DROVER_WORLD_COMPLETED,
    DROVER_WORLD_FAILED, /* its attempts are used up */
    DROVER_WORLD_NONE,   /* in the tree, but in no list */
};

struct drover_world_item {
    const char *node;
    const char *name, *type;
    const char *path;   /* in the tree: "/zoott_w/a_t/b_t" */
    const char *parent; /* its path; NULL: at the top */
    const char *data;   /* set by a claim and by drover_world_get(), else NULL */
    enum drover_world_state state;
    int64_t since_ms; /* time when it entered this state; 0: not known */
    int64_t failures;
    const char *error; /* of the last failure; NULL: none */
    int64_t attempts;  /* so many it may have; 0: no limit */
    int64_t tries;     /* and has had, if there is a limit */
};

struct drover_world_list {
    struct drover_world_item *items;
    size_t count;
    int more; /* drover_world_ls(): the list continues after the last item */
    void *memory;
};

void drover_world_list_release(struct drover_world_list *l);

/* Creates a world. Safe to repeat. */
int drover_world_init(struct drover_keeper *k, const char *world, struct drover_error *ret_error);

/* NO_NODE: the world does not exist. `k` must outlive it. */
int drover_world_open(struct drover_keeper *k, const char *world, struct drover_world **ret_world,
                      struct drover_error *ret_error);
void drover_world_close(struct drover_world *w);

struct drover_world_task {
    const char *name, *type;
    const char *data; /* JSON; NULL: null */
    int64_t attempts; /* after so many the task has failed; 0: no limit */
};

/* Regular expressions (PCRE). Each must match the whole name or type. */
struct drover_world_match {
    const char *name, *type;
};

/* Returns the name of a child, from malloc(); the library frees it. NULL: there is no such name. */
typedef char *drover_world_name_fn(void *arg, const char *parent, const char *child);

/*
 * Creates the task, or updates its data, and makes it pending: below every task that matches
 * `parent`, or at the top if `parent` is NULL. All or nothing. name_fn may be NULL. A task that a
 * handler is working on becomes pending again when it completes. After UNKNOWN, queue the task
 * again or read it.
 */
int drover_world_queue(struct drover_world *w, const struct drover_world_task *task,
                       const struct drover_world_match *parent, drover_world_name_fn *name_fn,
                       void *arg, struct drover_world_list *ret_list,
                       struct drover_error *ret_error);

/* Finds the tasks of the tree that match; sets their nodes and paths. */
int drover_world_find(struct drover_world *w, const struct drover_world_match *match,
                      struct drover_world_list *ret_list, struct drover_error *ret_error);

/* Claims one task. 1: ret_list holds it; 0: none became available within wait_ms. */
int drover_world_claim(struct drover_world *w, const char *const *types, size_t type_count,
                       int64_t wait_ms, struct drover_world_list *ret_list,
                       struct drover_error *ret_error);

/*
 * End a claim. NO_NODE: no handler works on the task; FENCED: another session does. complete
 * returns 1 if the task was queued again meanwhile and is pending. A task that fails is pending,
 * behind the others, and fail returns 0; after its last attempt it has failed, and fail returns 1.
 */
int drover_world_complete(struct drover_world *w, const char *node, struct drover_error *ret_error);
int drover_world_release(struct drover_world *w, const char *node, struct drover_error *ret_error);
int drover_world_fail(struct drover_world *w, const char *node, const char *error,
                      struct drover_error *ret_error);

/* Makes a task that has failed pending again. NOT_ALLOWED: it has not failed. */
int drover_world_retry(struct drover_world *w, const char *node, struct drover_error *ret_error);

/* Removes a task. IN_USE: a handler works on it; NOT_EMPTY: it has children. */
int drover_world_remove(struct drover_world *w, const char *node, struct drover_error *ret_error);

/*
 * Lists tasks in a state, ordered by node, after `after` (NULL: from the start), at most `limit`
 * (0: all).
 */
int drover_world_ls(struct drover_world *w, enum drover_world_state state, const char *after,
                    size_t limit, struct drover_world_list *ret_list,
                    struct drover_error *ret_error);

int drover_world_get(struct drover_world *w, const char *node, struct drover_world_list *ret_list,
                     struct drover_error *ret_error);

/* Visits every task, parents first. If fn does not return 0, the walk stops and returns that. */
typedef int drover_world_walk_fn(void *arg, const char *node, int depth,
                                 enum drover_world_state state);

int drover_world_walk(struct drover_world *w, drover_world_walk_fn *fn, void *arg,
                      struct drover_error *ret_error);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
