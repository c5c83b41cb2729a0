/*
 * conformance - one list of cases that every keeper must pass.
 *
 * A backend opens sessions of one tree. conformance_run() runs all cases on it, each as a cmocka
 * test below a node of its own (/conf-<random>-<case>), so that they can share a tree that is not
 * empty. The nodes of a case are deleted after it.
 *
 * The cases check what a client sees of ZooKeeper 3.8 through keeper.h. If a keeper fails a case,
 * run the case on a real ZooKeeper: that one is right.
 */
#ifndef CONFORMANCE_CONFORMANCE_H
#define CONFORMANCE_CONFORMANCE_H

#include "keeper/keeper.h"

struct conformance_backend {
    const char *name; /* of the cmocka group */
    void *ctx;
    int (*connect)(void *ctx, const struct keeper_options *o, struct keeper **ret_keeper);
    int32_t short_timeout_ms;   /* the shortest timeout of a session that it grants */
    const char *const *without; /* parts of the names of cases that do not apply; may be NULL */
    int breaks_max; /* how often a case may be run again because a connection broke under it */
};

/*
 * Runs the cases whose name contains `filter` (NULL: all) and returns the number that failed. A
 * filter that no case matches counts as one failure.
 */
int conformance_run(const struct conformance_backend *backend, const char *filter);

/* Prints the names, one a line. */
void conformance_list(void);

#endif
