/*
 * cutter - a keeper that dies at its nth call, for testing what a crash between any two calls
 * leaves.
 *
 * It wraps another keeper and passes every call through until `left` calls are used up. From then
 * on it behaves as a process that was killed would: nothing is done any more and every call fails
 * with `err`. With `after`, the call at which it dies is still done, and its answer lost: together
 * the two are all the places where a crash can fall.
 *
 *     for (int n = 0;; n++) {
 *         fresh tree; struct cutter c; cutter_init(&c, keeper, n, DROVER_SESSION_EXPIRED, after);
 *         err = the operation, on &c.base;
 *         keeper_close(keeper): the ephemeral nodes of the dead go
 *         the tree is as before or as after
 *         if (!c.cut) break;   the operation has no nth call
 *     }
 *
 * With err UNKNOWN and `once`, only the one call is cut and the next pass again: a connection that
 * broke and came back.
 *
 * It does not own what it wraps. Safe from any thread.
 */
#ifndef TEST_KEEPER_CUTTER_H
#define TEST_KEEPER_CUTTER_H

#include <pthread.h>

#include "keeper/keeper.h"

struct cutter {
    struct keeper base;
    struct keeper *inner;
    pthread_mutex_t lock; /* guards the counters */
    int left;             /* calls that still pass */
    int err;              /* of those that do not */
    bool after;           /* the call that is cut is done before its answer is lost */
    bool once;            /* later calls pass again */
    bool cut;             /* it happened */
    int calls;            /* all that were made */
};

void cutter_init(struct cutter *c, struct keeper *inner, int left, int err, bool after);

#endif
