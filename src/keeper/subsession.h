/*
 * subsession - a session that lives inside another keeper's session.
 *
 * A server on an ensemble has one session there, and HTTP clients that each want their own. A
 * subsession is a keeper like any other: its host executes every call, and it remembers the
 * ephemeral nodes that it created (path and czxid), so that closing it deletes exactly those. For
 * the ensemble they belong to the host: ephemeral_owner is the host's session, and when that
 * expires they are deleted and every call of a subsession gets SESSION_EXPIRED.
 *
 * In order: subsession_open() on a host -> the calls of keeper.h -> keeper_close(), or
 * subsession_leave() and then keeper_abandon() where a failure matters. The host must outlive its
 * subsessions.
 *
 * Differences from other keepers:
 *  - Its timeout is only a number: whoever opened it closes it when its client is silent.
 *  - It cannot be resumed. Its callbacks run where the host's do; `wake` is the host's.
 *  - If another client deletes one of its nodes and creates it again at the moment of the close,
 *    the new node may be deleted: ZooKeeper cannot delete by czxid.
 *  - After UNKNOWN, subsession_leave() decides: a node at that path, of the host's session and with
 *    the given data, counts as the subsession's. So put something unique into the data of ephemeral
 *    nodes. A sequential one then stays as long as the host.
 */
#ifndef KEEPER_SUBSESSION_H
#define KEEPER_SUBSESSION_H

#include "keeper/keeper.h"

int subsession_open(struct keeper *host, int32_t timeout_ms, struct keeper **ret_keeper);

/*
 * Deletes its remaining ephemeral nodes. 0; SESSION_EXPIRED: they were deleted with the host's
 * session; or an error with some left: try again. No other call may use the subsession meanwhile.
 */
int subsession_leave(struct keeper *subsession);

#endif
