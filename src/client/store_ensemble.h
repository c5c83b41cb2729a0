/*
 * store_ensemble - the task store in process, on an ensemble.
 *
 * The process is a candidate in the election of the leader, like a server, so that servers and
 * programs exclude each other: the first candidate has the tasks in memory, and its commits check
 * its fence. It has no URL to which a server could redirect.
 *
 * What always holds: the service is ready only while this process leads. When the outcome of a
 * commit is unknown, or the session has ended, a thread leads again as soon as it can; until then
 * calls wait (UNKNOWN outcome) or get NOT_LEADER (no session).
 */
#ifndef CLIENT_STORE_ENSEMBLE_H
#define CLIENT_STORE_ENSEMBLE_H

#include "drover.h"
#include "task/service.h"

struct store_ensemble;

/* IN_USE: another process leads. The service is the caller's, to be closed after this. */
int store_ensemble_open(const char *name, const struct drover_keeper_options *o,
                        struct service **ret_service, struct store_ensemble **ret_ensemble,
                        struct err_info *e);
void store_ensemble_close(struct store_ensemble *s);

#endif
