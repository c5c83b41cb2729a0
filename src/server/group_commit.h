/*
 * gather - lets the changes that requests on a loop make share the syncs of the journal.
 *
 * Under load the loop is always about to make another change, and a sync takes as much of the
 * processors as a dozen of them do. So the keeper holds what is submitted (local_hold()), and the
 * changes are wanted on disk when a turn of the loop has brought no more of them: nothing waits
 * while there is nothing to do.
 */
#ifndef SERVER_GROUP_COMMIT_H
#define SERVER_GROUP_COMMIT_H

#include <uv.h>

#include "keeper/local/local.h"

struct group_commit {
    uv_idle_t turn;      /* runs: the loop does not wait, and so turns once more */
    struct local *local; /* NULL: not open */
    int64_t seen;
};

/* From now on gather_rest() is called each time before the loop waits. */
void group_commit_open(struct group_commit *g, uv_loop_t *loop, struct local *l);
void group_commit_rest(struct group_commit *g);

/* No more. One that was never opened is left alone. */
void group_commit_close(struct group_commit *g);

#endif
