/*
 * waiting - the claims that wait for a task. Pure.
 *
 * Each stands in the queue of every group that it would take from, first come first served; one add
 * finds the one claim to wake without looking at the others. Two heaps know what time brings: the next
 * deadline of a claim, and the next task of a group with waiting claims whose time comes.
 */
#ifndef TASK_WAITING_H
#define TASK_WAITING_H

#include "base/heap.h"
#include "base/map.h"
#include "task/service.h"

struct wait_group {
    struct str name;
    uint32_t number;
    struct wait_link *first, *last;
    uint32_t due_at; /* its place in the heap, plus 1; 0: not there */
    bool dirty;      /* in the list of those to be looked at */
    struct wait_group *next_dirty;
};

/* A claim in one queue. */
struct wait_link {
    struct task_request *r;
    struct wait_group *group; /* NULL: a name that the claim gave twice */
    struct wait_link *prev, *next;
};

struct waiting {
    struct map by_name;
    struct wait_group **groups; /* by number, from 1 on */
    uint32_t group_top, group_cap, unused_group_count;
    uint32_t *unused_groups;

    struct task_request **claims; /* by ref, from 1 on */
    uint32_t claim_top, claim_cap, unused_count, count;
    uint32_t *unused;
    struct heap deadlines, dues;
    uint32_t *deadline_at; /* place of each claim in the heap */

    struct wait_group *dirty;
};

void waiting_init(struct waiting *w);
void waiting_release(struct waiting *w); /* nobody may wait any more */

void waiting_add(struct waiting *w, struct task_request *r, int64_t deadline_ms);
void waiting_remove(struct waiting *w, struct task_request *r);

/* Somebody waits for this group: NULL, nobody. */
struct wait_group *waiting_group(struct waiting *w, struct str name);

/* The group has to be looked at; the next one that has. */
void waiting_mark(struct waiting *w, struct wait_group *g);
struct wait_group *waiting_next_marked(struct waiting *w);

/* When the group's next task becomes available; INT64_MAX: not known. */
void waiting_set_due(struct waiting *w, struct wait_group *g, int64_t due_ms);

/* What time has brought: marks the groups that are due, and gives one claim that is over. */
struct task_request *waiting_over(struct waiting *w, int64_t now_ms);
void waiting_pass(struct waiting *w, int64_t now_ms);

/* When it brings something next. */
int64_t waiting_due_ms(const struct waiting *w);

#endif
