/*
 * claim_queue - the claims that wait for a task. Pure.
 *
 * Each group has a FIFO queue; a claim is in the queue of every group that it names. An add thus
 * finds the one claim to wake without looking at the others. Two heaps are ordered by time: the
 * deadlines of the claims, and the groups with claims, by when their next task becomes available.
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
    uint32_t due_at; /* its position in the heap plus 1; 0: not in it */
    bool dirty;      /* in the list of marked groups */
    struct claim_group *next_dirty;
};

/* A claim in one queue. */
struct claim_link {
    struct task_request *r;
    struct claim_group *group; /* NULL: the claim names the group twice */
    struct claim_link *prev, *next;
};

struct claim_place {
    struct task_request *r;
    uint32_t at; /* in the heap of deadlines; of a free place: the next free one */
};

struct claim_queue {
    struct map by_name;
    struct claim_group **groups; /* by number, from 1 on */
    uint32_t group_top, group_cap;
    struct claim_group *unused; /* groups, with their numbers; linked by next_dirty */

    struct claim_place *claims; /* by wait_ref, from 1 on */
    uint32_t claim_top, claim_cap, free, count;
    struct heap deadlines, dues;

    struct claim_group *dirty;
};

void claim_queue_init(struct claim_queue *w);
void claim_queue_release(struct claim_queue *w); /* no claim may be left */

void claim_queue_add(struct claim_queue *w, struct task_request *r, int64_t deadline_ms);
void claim_queue_remove(struct claim_queue *w, struct task_request *r);

/* NULL: no claim waits for this group. */
struct claim_group *claim_queue_group(struct claim_queue *w, struct str name);

/* Marks a group as one whose claims may find a task; and takes the next marked one. */
void claim_queue_mark(struct claim_queue *w, struct claim_group *g);
void claim_queue_mark_all(struct claim_queue *w);
struct claim_group *claim_queue_next_marked(struct claim_queue *w);

/* When the group's next task becomes available; INT64_MAX: unknown. */
void claim_queue_set_due(struct claim_queue *w, struct claim_group *g, int64_t due_ms);

/* A claim past its deadline, or NULL. */
struct task_request *claim_queue_timed_out(struct claim_queue *w, int64_t now_ms);
void claim_queue_advance(struct claim_queue *w, int64_t now_ms); /* marks the groups that are due */

/* When the next of these happens. */
int64_t claim_queue_due_ms(const struct claim_queue *w);

#endif
