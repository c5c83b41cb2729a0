/*
 * leader - elects the leader among several servers on one ensemble. The leader has the task store
 * and the DAG in memory.
 *
 * The first candidate leads (keeper/election.h), and each of the others watches only its
 * predecessor. All servers watch the leader's epoch to know where to redirect clients.
 *
 * In order: leader_open -> lead and stop are called in turn, on the leader's own thread, which may
 * block -> leader_close.
 *
 * What always holds: between lead and stop the keeper passed to lead stays borrowed; a commit with
 * the fence succeeds only if nobody else was elected since.
 */
#ifndef SERVER_LEADER_H
#define SERVER_LEADER_H

#include "base/err.h"
#include "keeper/election.h"

enum { LEADER_URL_SIZE = 256, LEADER_FOLLOWERS_MAX = 4 };

struct context;
struct http_request;
struct leader;

/* A module that starts and stops with the leadership of this server. */
struct leader_follower {
    /*
     * This server leads: load the state and start. On an error it is called again a moment later.
     */
    int (*lead)(void *arg, struct keeper *k, const struct keeper_op *fence, struct err_info *e);
    /* This server does not lead any more. Also called after a lead that failed. */
    void (*stop)(void *arg);
    void *arg;
};

/* Sets context->leader. */
void leader_open(struct context *h);

/* Before leader_begin(), in the order in which they start. */
void leader_follow(struct leader *l, const struct leader_follower *f);

/* Does nothing if it has begun, or without a leader (NULL). */
void leader_begin(struct leader *l);

/*
 * Ends the thread. When it returns, followers are stopped and the candidate's node is deleted.
 * Does nothing without a leader.
 */
void leader_close(struct context *h);

/* A commit failed at the fence, or its outcome is not known: set the fence again and lead again. */
void leader_doubt(struct leader *l);

/* Another client has changed what the followers have stored: stop them, and lead again. */
void leader_reload(struct leader *l);

/*
 * The URL of the leader; empty: none is known, or this server leads, as it always does without a
 * struct leader (NULL).
 */
void leader_url(struct leader *l, char url[LEADER_URL_SIZE]);

/*
 * Answers 307 with the same path and query at the leader's URL; 503 with Retry-After and the
 * message while that URL is empty.
 */
void leader_redirect(struct leader *l, struct http_request *r, const char *nobody);

#endif
