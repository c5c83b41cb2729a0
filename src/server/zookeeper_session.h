/*
 * ensemble - what drover serve keeps open on a ZooKeeper ensemble: one session, and a new one when that
 * is over.
 *
 * The session is borrowed and returned, from any thread. One that is over is closed, on the loop, when
 * its last borrower has returned it. Callbacks of the keeper come on the loop. Connecting, and all
 * else that waits for the ensemble, is done beside the loop after the first time.
 */
#ifndef SERVER_ZOOKEEPER_SESSION_H
#define SERVER_ZOOKEEPER_SESSION_H

#include <uv.h>

#include "base/err.h"
#include "keeper/keeper.h"

struct zookeeper_session;

struct zookeeper_session_options {
    const char *url;
    const char *auth_file; /* holds "user:password"; NULL: $DROVER_ZK_AUTH, if it is set */
    int32_t timeout_ms;    /* of the session; 0: KEEPER_TIMEOUT_DEFAULT_MS */
};

/* Connects, and warns when anybody may write below the chroot. */
int zookeeper_session_open(uv_loop_t *loop, const struct zookeeper_session_options *o,
                           struct zookeeper_session **ret_ensemble, struct err_info *ret_error);

/* From now on fn is told, on the loop, of the session that has come, or with NULL that it is over. */
void zookeeper_session_listen(struct zookeeper_session *e, void (*fn)(void *arg, struct keeper *k),
                              void *arg);

/* The session of the moment; NULL while there is none. */
struct keeper *zookeeper_session_borrow(struct zookeeper_session *e);
void zookeeper_session_return(struct zookeeper_session *e, struct keeper *k);

/* Ends the session, which all have returned. Frees itself: run the loop until then. */
void zookeeper_session_close(struct zookeeper_session *e);

#endif
