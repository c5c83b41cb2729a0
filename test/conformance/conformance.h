/*
 * conformance - one list of cases that every keeper must pass.
 *
 * A backend is a way to open sessions of one tree. conformance_run() runs all cases over it, each as
 * a cmocka test of its own, each below a node of its own (/conf-<random>-<case>), so that they run on
 * a tree that is shared and not empty. What a case makes is deleted after it.
 *
 * The cases hold what a client can see of ZooKeeper 3.8 through keeper.h. Where a keeper and a case
 * differ, run the case over a real ZooKeeper: that one is right.
 */
#ifndef CONFORMANCE_CONFORMANCE_H
#define CONFORMANCE_CONFORMANCE_H

#include "keeper/keeper.h"

struct conformance_backend {
    const char *name; /* of the cmocka group */
    void *ctx;
    int (*connect)(void *ctx, const struct keeper_options *o, struct keeper **ret_keeper);
    const char *const *without; /* parts of the names of cases that do not apply; may be NULL */
    int breaks_max; /* how often a case may be run again because a connection broke under it */
};

/*
 * Runs the cases whose name contains `filter` (NULL: all) and returns how many failed: 0 is success.
 * A filter that no case matches counts as one failure.
 */
int conformance_run(const struct conformance_backend *backend, const char *filter);

/* Prints the names, one a line. */
void conformance_list(void);

#endif
