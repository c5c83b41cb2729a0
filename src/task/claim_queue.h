/*
 * waiting - the claims that wait for a task. Pure.
 *
 * Each stands in the queue of every group that it would take from, first come first served; one add
 * finds the one claim to wake without looking at the others. Two heaps know what time brings: the next
 * deadline of a claim, and the next task of a group with waiting claims whose time comes.
 */
#ifndef TASK_CLAIM_QUEUE_H
#define TASK_CLAIM_QUEUE_H

#include "base/heap.h"
#include "base/map.h"
#include "task/service.h"

struct claim_group {
    struct str name;
    uint32_t number;
    struct claim_link *first, *last;
    uint32_t due_at; /* its place in the heap, plus 1; 0: not there */
    bool dirty;      /* in the list of those to be looked at */
    struct claim_group *next_dirty;
};

/* A claim in one queue. */
struct claim_link {
    struct task_request *r;
    struct claim_group *group; /* NULL: a name that the claim gave twice */
    struct claim_link *prev, *next;
};

struct claim_queue {
    struct map by_name;
    struct claim_group **groups; /* by number, from 1 on */
    uint32_t group_top, group_cap, unused_group_count;
    uint32_t *unused_groups;

    struct task_request **claims; /* by ref, from 1 on */
    uint32_t claim_top, claim_cap, unused_count, count;
    uint32_t *unused;
    struct heap deadlines, dues;
    uint32_t *deadline_at; /* place of each claim in the heap */

    struct claim_group *dirty;
};

void claim_queue_init(struct claim_queue *w);
void claim_queue_release(struct claim_queue *w); /* nobody may wait any more */

void claim_queue_add(struct claim_queue *w, struct task_request *r, int64_t deadline_ms);
void claim_queue_remove(struct claim_queue *w, struct task_request *r);

/* Somebody waits for this group: NULL, nobody. */
struct claim_group *claim_queue_group(struct claim_queue *w, struct str name);

/* The group has to be looked at; the next one that has. */
void claim_queue_mark(struct claim_queue *w, struct claim_group *g);
struct claim_group *claim_queue_next_marked(struct claim_queue *w);

/* When the group's next task becomes available; INT64_MAX: not known. */
void claim_queue_set_due(struct claim_queue *w, struct claim_group *g, int64_t due_ms);

/* What time has brought: marks the groups that are due, and gives one claim that is over. */
struct task_request *claim_queue_timed_out(struct claim_queue *w, int64_t now_ms);
void claim_queue_advance(struct claim_queue *w, int64_t now_ms);

/* When it brings something next. */
int64_t claim_queue_due_ms(const struct claim_queue *w);

#endif
