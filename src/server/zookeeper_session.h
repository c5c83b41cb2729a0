/*
 * zookeeper_session - the server's session on a ZooKeeper ensemble, replaced when it ends.
 *
 * The session is borrowed and returned, from any thread. One that has ended is closed, on the loop,
 * when its last borrower has returned it. Callbacks of the keeper run on the loop. After the first
 * time, connecting and everything else that waits for the ensemble happens on another thread.
 */
#ifndef SERVER_ZOOKEEPER_SESSION_H
#define SERVER_ZOOKEEPER_SESSION_H

#include <uv.h>

#include "base/err.h"
#include "keeper/keeper.h"

struct zookeeper_session;

struct zookeeper_session_options {
    const char *url;
    const char *auth_file; /* contains "user:password"; NULL: $DROVER_ZK_AUTH, if set */
    int32_t timeout_ms;    /* of the session; 0: KEEPER_TIMEOUT_DEFAULT_MS */
};

/* Connects, and warns if everybody may write below the chroot. */
int zookeeper_session_open(uv_loop_t *loop, const struct zookeeper_session_options *o,
                           struct zookeeper_session **ret_ensemble, struct err_info *ret_error);

/* From now on fn is called, on the loop, with each new session, and with NULL when one ends. */
void zookeeper_session_listen(struct zookeeper_session *e, void (*fn)(void *arg, struct keeper *k),
                              void *arg);

/* The present session; NULL: there is none. */
struct keeper *zookeeper_session_borrow(struct zookeeper_session *e);
void zookeeper_session_return(struct zookeeper_session *e, struct keeper *k);

/* Ends the session; all borrowers have returned it. Frees itself: run the loop until then. */
void zookeeper_session_close(struct zookeeper_session *e);

#endif
