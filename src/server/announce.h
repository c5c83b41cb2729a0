/*
 * announce - what a server says of itself: in the log when everything runs, and in the audit log.
 */
#ifndef SERVER_ANNOUNCE_H
#define SERVER_ANNOUNCE_H

#include "server/context.h"
#include "server/serve.h"

/* Its version, what it keeps and where it listens; and warnings about how it is set up. */
void announce_start(const struct serve_options *o, const struct context *h);

/* Warns of files with secrets that every user can read. */
void announce_exposed_secrets(const struct serve_options *o);

/* What a reader of the audit log needs to know about the server whose lines follow. */
int announce_to_audit(const struct serve_options *o, const struct context *h,
                      struct err_info *ret_error);

#endif
