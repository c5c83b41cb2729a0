/*
 * With m queues and n workers, m % n workers get one queue more than the m / n that every worker
 * gets. A worker keeps what it holds up to its share. The rest, and the queues that nobody holds,
 * go to the workers below their share. Larger shares go first to the workers that already hold that
 * many, so no queue moves that need not move.
 *
 * The result is stable while the moves are carried out, because three choices do not depend on how
 * many of them are done:
 *  - Who gets a larger share: first the workers that hold more than m / n, then the others, each in
 *    list order. Of the first kind, only workers without a larger share shrink out of it; of the
 *    second, only workers with one grow out of it.
 *  - What a worker releases: its last queues in list order. The queues it keeps stay the first
 *    ones.
 *  - Who gets what: released queues are dealt in list order to the workers in list order; each
 *    worker takes all it lacks before the next takes any. Removing a queue together with the worker
 *    slot it was dealt to leaves the rest of the deal unchanged.
 *
 * Why hashing the names is not enough: if losing a worker moves only its own queues, whatever the
 * set of workers, then each queue ranks all possible workers and goes to the first one present.
 * Among enough workers (Erdős and Szekeres) some three are ranked by any two of three queues in the
 * same or in the reverse order, so two queues share a worker while another has none: three workers,
 * three queues, not balanced.
 */
#include "queue/assign.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"

struct share {
    size_t held, size;
};

static void count_held(struct share *shares, size_t queue_count, const int32_t *holders)
{
    for (size_t q = 0; q < queue_count; q++)
        if (holders[q] != ASSIGN_NOBODY)
            shares[holders[q]].held++;
}

/* One more queue for those that hold more than `common`, or for the others, while any is left. */
static size_t enlarge(struct share *shares, size_t worker_count, size_t common, bool holding_more,
                      size_t left)
{
    for (size_t w = 0; w < worker_count && left; w++) {
        if ((shares[w].held > common) == holding_more) {
            shares[w].size++;
            left--;
        }
    }
    return left;
}

static void size_shares(struct share *shares, size_t worker_count, size_t queue_count)
{
    size_t common = queue_count / worker_count, left = queue_count % worker_count;
    for (size_t w = 0; w < worker_count; w++)
        shares[w].size = common;
    left = enlarge(shares, worker_count, common, true, left);
    enlarge(shares, worker_count, common, false, left);
}

/* A worker keeps its first queues. From here on `held` counts the queues it keeps. */
static void keep(struct share *shares, size_t worker_count, size_t queue_count,
                 const int32_t *holders, int32_t *owners)
{
    for (size_t w = 0; w < worker_count; w++)
        shares[w].held = 0;
    for (size_t q = 0; q < queue_count; q++) {
        int32_t w = holders[q];
        if (w != ASSIGN_NOBODY && shares[w].held < shares[w].size)
            shares[w].held++;
        else
            w = ASSIGN_NOBODY;
        owners[q] = w;
    }
}

static void deal(struct share *shares, size_t queue_count, int32_t *owners)
{
    int32_t w = 0;
    for (size_t q = 0; q < queue_count; q++) {
        if (owners[q] != ASSIGN_NOBODY)
            continue;
        while (shares[w].held == shares[w].size)
            w++;
        shares[w].held++;
        owners[q] = w;
    }
}

void assign(size_t worker_count, size_t queue_count, const int32_t *holders, int32_t *ret_owners)
{
    struct share *shares;
    if (!worker_count) {
        for (size_t q = 0; q < queue_count; q++)
            ret_owners[q] = ASSIGN_NOBODY;
        return;
    }
    shares = mem_zalloc(worker_count * sizeof *shares);
    count_held(shares, queue_count, holders);
    size_shares(shares, worker_count, queue_count);
    keep(shares, worker_count, queue_count, holders, ret_owners);
    deal(shares, queue_count, ret_owners);
    free(shares);
}
