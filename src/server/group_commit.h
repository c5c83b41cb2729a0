/*
 * group_commit - lets the changes that requests on a loop make share the syncs of the journal.
 *
 * Under load the loop is always about to make another change, and a sync takes as much CPU time as
 * a dozen of them. So the keeper defers them (local_set_defers()) until a turn of the loop has
 * brought no more of them: nothing waits while there is nothing to do. A single change is written
 * by the loop itself, if the disk is fast.
 */
#ifndef SERVER_GROUP_COMMIT_H
#define SERVER_GROUP_COMMIT_H

#include <uv.h>

#include "keeper/local/local.h"

struct group_commit {
    uv_idle_t turn;      /* while it is active the loop does not block, so there is another turn */
    struct local *local; /* NULL: not open */
    int64_t seen;        /* changes that were deferred in the last turn */
};

/* From now on group_commit_rest() must be called each time before the loop waits. */
void group_commit_open(struct group_commit *g, uv_loop_t *loop, struct local *l);

/* True: the loop has written a change itself, and answers may leave. */
bool group_commit_rest(struct group_commit *g);

/* Does nothing if it was never opened. */
void group_commit_close(struct group_commit *g);

#endif
