/*
 * election - which process has the state of an ensemble in memory, and its fence.
 *
 * Candidates are ephemeral sequential nodes below /drover/leader, each with the URL of its server;
 * the first one leads. A new leader sets /drover/epoch: the data is its URL, and the new version is
 * the fence. Every commit of a leader checks the fence, so a deposed leader can change nothing.
 *
 * In order: election_prepare -> election_place, and election_join while that is negative ->
 * election_win, if the place is 0, as often as needed -> election_leave.
 */
#ifndef KEEPER_ELECTION_H
#define KEEPER_ELECTION_H

#include "keeper/keeper.h"

#define LEADER_ROOT "/drover/leader"
#define LEADER_EPOCH "/drover/epoch"

/* While this node is there, an import into the tree is not complete: nobody may use it. */
#define LEADER_IMPORT "/drover/importing"

/* A candidate. Borrows keeper and url. */
struct election {
    struct keeper *keeper;
    const char *url; /* empty: it has none */
    char *node;      /* its path, once it has joined */
};

/* Creates the nodes that an election needs. IN_USE: an import is not complete. */
int election_prepare(struct keeper *k);

/* Creates the candidate's node. */
int election_join(struct election *e);

/* The candidates in order, and the place of this one: 0 leads; -1: it is none of them. */
int election_place(const struct election *e, struct keeper_names *ret_names, long *ret_place);

/* Sets a new fence against every earlier leader, this one included. */
int election_win(const struct election *e, struct keeper_op *ret_fence);

/* Deletes the node, so that the next one need not wait for the session to end, if there is one. */
void election_leave(struct election *e, bool has_session);

#endif
