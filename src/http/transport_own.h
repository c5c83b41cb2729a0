/* transport_own - the server of this user and its token, for a client that was told neither. */
#ifndef HTTP_TRANSPORT_OWN_H
#define HTTP_TRANSPORT_OWN_H

#include "base/buf.h"

/* URLs, as transport_open() takes them: the Unix socket if it is there, and the default port. */
const char *transport_own_servers(struct buf *b);

/*
 * The token for the default port, in line. NULL: there is none, or somebody else listens there. The
 * Unix socket needs none. Another server of this user may listen there: then it is not valid.
 */
const char *transport_own_token(char *line, size_t size);

#endif
