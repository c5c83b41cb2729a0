/*
 * place - where a server of this user keeps its data and can be reached, unless it is told.
 * The server and its clients must agree, so both ask here.
 */
#ifndef BASE_PLACE_H
#define BASE_PLACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

/*
 * The data directory: /var/lib/drover for root, else $XDG_STATE_HOME/drover, else
 * ~/.local/state/drover.
 */
void place_data(struct buf *b);

/*
 * The Unix socket: /run/drover.sock for root, else $XDG_RUNTIME_DIR/drover.sock. False: this user
 * has no such directory.
 */
bool place_socket(struct buf *b);

/* The token of the administrator, in a data directory. */
#define PLACE_ADMIN_TOKEN "admin.token"

/*
 * The user who listens on this port of 127.0.0.1, according to the kernel. False: nobody does, or
 * it cannot be told.
 */
bool place_port_user(uint16_t port, uid_t *ret_user);

#endif
