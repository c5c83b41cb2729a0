/*
 * ensemble - what drover serve keeps open on a ZooKeeper ensemble: one session, and a new one when that
 * is over.
 *
 * Connecting waits for the ensemble, so after the first time it is done beside the loop.
 */
#ifndef ENSEMBLE_H
#define ENSEMBLE_H

#include <uv.h>

#include "base/err.h"
#include "keeper/keeper.h"

struct ensemble;

struct ensemble_options {
    const char *url;
    const char *auth_file; /* holds "user:password"; NULL: $DROVER_ZK_AUTH, if it is set */
};

/* Connects, and warns when anybody may write below the chroot. */
int ensemble_open(uv_loop_t *loop, const struct ensemble_options *o, struct ensemble **ret_ensemble,
                  struct err_info *ret_error);

/* The session of the moment; NULL while there is none. On the loop's thread. */
struct keeper *ensemble_keeper(struct ensemble *e);

/* Ends the session. Frees itself: run the loop until then. */
void ensemble_close(struct ensemble *e);

#endif
