/*
 * assign - which worker handles which queue. Pure.
 *
 * Workers and queues are indexes into the two sorted lists. What a worker holds is part of the
 * input (it stands in the data of the worker's node): no function of the names alone can both
 * balance exactly and move as few queues as possible (see assign.c).
 *
 * What always holds:
 *  - Balanced: two workers never differ by more than one queue.
 *  - Minimal: no balanced assignment leaves more queues where they are.
 *  - Stable: after any subset of the moves the result is the same. Workers that read the lists at
 *    different moments of a re-balancing agree.
 */
#ifndef QUEUE_ASSIGN_H
#define QUEUE_ASSIGN_H

#include <stddef.h>
#include <stdint.h>

enum { ASSIGN_NOBODY = -1 };

/*
 * holders[q] is the worker that handles queue q now, or NOBODY. ret_owners[q] becomes the worker
 * that should handle it; NOBODY only without workers. The two may be the same array.
 */
void assign(size_t worker_count, size_t queue_count, const int32_t *holders, int32_t *ret_owners);

#endif
