/*
 * leader - which of several servers on one ensemble leads: has the task store and the DAG in its memory.
 *
 * Candidates are ephemeral sequential nodes below /drover/leader, each with the URL of its server; the
 * first one leads, and each of the others watches only the one before it. Whoever comes to lead sets
 * /drover/epoch, whose data is then its URL and whose new version is the fence: every commit of a
 * leader checks it, so one that was thought dead can change nothing. All servers watch that node to know
 * where to send their clients.
 *
 * In order: leader_open -> lead and stop are called in turn, on the leader's own thread, where waiting is
 * fine -> leader_close.
 *
 * What always holds: between lead and stop the keeper that lead was given stays borrowed; a commit with
 * the fence happens only while nobody else has been elected since.
 */
#ifndef SERVER_LEADER_H
#define SERVER_LEADER_H

#include "base/err.h"
#include "keeper/keeper.h"

#define LEADER_ROOT "/drover/leader"
#define LEADER_EPOCH "/drover/epoch"

enum { LEADER_URL_SIZE = 256, LEADER_FOLLOWERS_MAX = 4 };

struct leader;

/* Who leads when this server does. */
struct leader_follower {
    /* This server leads now: read what is kept, and begin. An error: it is tried again a moment later. */
    int (*lead)(void *arg, struct keeper *k, const struct keeper_op *fence, struct err_info *e);
    /* No longer, or not yet again. Also after a lead that failed. */
    void (*stop)(void *arg);
    void *arg;
};

struct leader_options {
    const char *url; /* of this server */

    /* The server's session of the moment, from any thread; NULL: there is none. */
    struct keeper *(*borrow)(void *arg);
    void (*give_back)(void *arg, struct keeper *k);
    void (*note)(void *arg, const char *line); /* what an operator should know */
    void *arg;
};

struct leader *leader_open(const struct leader_options *o);

/* Before leader_begin(), in the order in which they shall begin. */
void leader_follow(struct leader *l, const struct leader_follower *f);
void leader_begin(struct leader *l);

/* Ends the thread. Followers have been stopped when it returns; the candidate's node is gone. */
void leader_close(struct leader *l);

/* The server's session has gone, or there is a new one. */
void leader_session_changed(struct leader *l);

/* A commit was refused by the fence, or nobody knows what became of it: fence and lead anew. */
void leader_doubt(struct leader *l);

/*
 * The URL of the one that leads; empty: nobody known, or it is this server, as it always is without a
 * struct leader (NULL). Whether it is.
 */
void leader_url(struct leader *l, char url[LEADER_URL_SIZE]);
bool leader_is_here(struct leader *l);

#endif
