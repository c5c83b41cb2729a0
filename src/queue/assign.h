/*
 * assign - which worker handles which queue. Pure.
 *
 * Workers and queues are numbers here: their places in the two sorted lists. What a worker says that it
 * handles is part of its entry in the list of workers (its node's data), and so part of the input: no
 * function of the names alone can both balance exactly and move as little as possible (see assign.c).
 *
 * What always holds:
 *  - Balanced: two workers never differ by more than one queue.
 *  - A change moves no more queues than it must: of all balanced assignments, none leaves more queues
 *    where they are.
 *  - Steady on the way: when only some of the moves have been made, whatever some, the result is still
 *    the same. So workers that look at different moments while others already move agree.
 */
#ifndef QUEUE_ASSIGN_H
#define QUEUE_ASSIGN_H

#include <stddef.h>
#include <stdint.h>

enum { ASSIGN_NOBODY = -1 };

/*
 * holders[q] is the worker that handles queue q now, or NOBODY; ret_owners[q] becomes the one that
 * should, NOBODY only when there are no workers. The two may be the same array.
 */
void assign(size_t worker_count, size_t queue_count, const int32_t *holders, int32_t *ret_owners);

#endif
