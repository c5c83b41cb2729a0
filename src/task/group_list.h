/*
 * group_list - the groups of a store by their names, looked at in steps.
 *
 * Set the first members, the rest is zero. group_list_look() in a read of the service and
 * group_list_keep() after it, again while that returns true; then group_list_next() until NULL.
 * Everything is in the arena.
 *
 * A group that exists all the while is listed once, as it was when it was looked at. Each step
 * sorts what it has found, and a heap of the steps gives the next name: nothing sorts all groups.
 */
#ifndef TASK_GROUP_LIST_H
#define TASK_GROUP_LIST_H

#include "task/store.h"

/* What one step has found, and is not yet listed. */
struct group_run {
    struct store_group *next;
    size_t left;
};

struct group_list {
    struct arena *arena;
    const struct identity *who; /* who asks; NULL: no limits */
    struct str after;           /* only names behind this one; p NULL: all */
    size_t limit;               /* that are wanted at most; 0: all */
    bool internal;              /* also those of messages and nodes */
    bool living;                /* only those that have a task which is not done */

    uint32_t steps;
    struct group_run fresh; /* of the last look */
    size_t fresh_len;       /* bytes of it */
    bool end;               /* there was no more to look at */
    struct group_run *runs; /* from the end on a heap: the first has the smallest name */
    size_t count, cap;
};

/* May be repeated before it is kept. */
void group_list_look(struct group_list *l, struct store *s, int64_t now_ms);

/* True: look again. */
bool group_list_keep(struct group_list *l);

/* NULL: that was the last one. */
const struct store_group *group_list_next(struct group_list *l);

#endif
