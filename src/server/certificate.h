/*
 * certificate - the server's certificate for TLS, and its renewal.
 *
 * The files are read again when one of them has changed, and on SIGHUP. If they cannot be used,
 * the old ones stay in use, and the log says why.
 */
#ifndef SERVER_CERTIFICATE_H
#define SERVER_CERTIFICATE_H

#include <uv.h>

#include "base/tls.h"
#include "server/reload.h"

struct certificate {
    struct tls_context *tls; /* NULL: not open */
    struct tls_options options;
    uv_timer_t timer;
    bool watched;
};

int certificate_open(struct certificate *c, const struct tls_options *o,
                     struct err_info *ret_error);

/* Begins to look for changes, on this loop and at reloads. Does nothing if it is not open. */
void certificate_watch(struct certificate *c, uv_loop_t *loop, struct reload *r);
void certificate_unwatch(struct certificate *c); /* safe if it was never watched */

/* When no connection is left. Safe if it is not open. */
void certificate_close(struct certificate *c);

#endif
