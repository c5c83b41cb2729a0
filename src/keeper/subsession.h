/*
 * lodger - a session that lives inside another keeper's session.
 *
 * A server on an ensemble has one session there, and clients over HTTP that each want one of their
 * own. A lodger is a keeper like any other: everything passes through to its host, and it remembers
 * the ephemeral nodes that it made (path and czxid) so that its own end takes exactly those with it.
 * To the ensemble they are the host's: ephemeral_owner is the host's session, and when that is over
 * they are gone and every lodger's calls get SESSION_EXPIRED.
 *
 * In order: lodger_open() on a host -> the calls of keeper.h -> keeper_close(), or lodger_leave() and
 * then keeper_abandon() where a failure matters. The host must outlive its lodgers.
 *
 * What differs from other keepers:
 *  - Its timeout is a number to be told: whoever opened it ends it when it is silent.
 *  - It cannot be resumed, and its callbacks run where the host's do; `wake` is the host's.
 *  - A node that it made, that another deleted, and that was made again in the very moment of the
 *    lodger's end could be taken along: ZooKeeper cannot delete by czxid.
 *  - A change that ended with UNKNOWN is settled when the lodger leaves: a node at that path, of the
 *    host's session and with the data given, is taken to be the lodger's. Put something of your own
 *    into the data of ephemeral nodes. A sequential one stays as long as the host then.
 */
#ifndef KEEPER_SUBSESSION_H
#define KEEPER_SUBSESSION_H

#include "keeper/keeper.h"

int subsession_open(struct keeper *host, int32_t timeout_ms, struct keeper **ret_keeper);

/*
 * Deletes the ephemeral nodes that are left of it. 0, SESSION_EXPIRED (they went with the host), or
 * an error with some still there: try again. The lodger must not be used by anybody meanwhile.
 */
int subsession_leave(struct keeper *subsession);

#endif
