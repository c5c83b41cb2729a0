/*
 * With m queues and n workers, m % n workers get one queue more than the m / n that everyone gets. A
 * worker keeps what it has up to its share; what is beyond goes, with what nobody holds, to those below
 * their share. The only moves are then those that balance itself asks for, when the larger shares go to
 * workers that have that many already.
 *
 * Steadiness comes from three choices that do not depend on how far the moves have got:
 *  - Who gets a larger share: first those that hold more than m / n, then the others, each in the order
 *    of the list. Of the first kind, only those without a larger share shrink out of it; of the second,
 *    only those with one grow out of it.
 *  - What a worker gives up: its last queues in the order of the list. The others stay the first.
 *  - Who gets what: the queues that go are dealt in the order of the list, to the workers in theirs, each
 *    taking all it lacks before the next takes any. Taking out a queue together with the one it was dealt
 *    to leaves the deal of the others as it was.
 *
 * Why not the names alone, by hashing as others do: if losing a worker moves only its own queues,
 * whatever the set of workers, then each queue ranks all workers there could ever be and goes to the
 * first that is there. Of many workers (Erdős and Szekeres) some three are ranked by any two of three
 * queues in the same order or in the reverse one, so two queues rank them alike and meet at one worker
 * while another has none. Three workers, three queues, and not balanced.
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

/* Gives one more to those that hold more than the common size, or to the others, while any is left. */
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

/* A worker keeps its first queues. From here on `held` counts those it keeps. */
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
