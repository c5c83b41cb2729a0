/*
 * transport - requests to a Drover server over libcurl.
 *
 * Connections are kept alive. Several servers may be named: when one cannot be reached, the next is
 * asked. A 307 is followed with the same method and body, and the server that it names (the leader)
 * is asked first from then on; when the leader cannot be reached, the named servers are asked
 * again.
 *
 * A call returns 0 when the server answered, with any status. UNREACHABLE: nothing was sent.
 * UNKNOWN: the request may or may not have taken effect, because the connection broke or the answer
 * did not come in time. CLOSED: the caller stopped it (transport_set_stop); the outcome is not
 * known either.
 *
 * One transport is used by one thread at a time. Nothing here prints.
 */
#ifndef HTTP_TRANSPORT_H
#define HTTP_TRANSPORT_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "http/transport_tls.h"

#define TRANSPORT_PORT_DEFAULT 8048
#define TRANSPORT_SERVER_DEFAULT "http://127.0.0.1:8048"

enum {
    TRANSPORT_CONNECT_TIMEOUT_MS = 5 * 1000,
    TRANSPORT_TIMEOUT_MS = 30 * 1000,
    TRANSPORT_SERVERS_MAX = 16,
    TRANSPORT_ANSWER_LEN_MAX = 256 * 1024 * 1024,
};

struct transport_answer {
    int status;
    int64_t date_ms; /* by the clock of the server, in whole seconds; 0: it did not say */
    struct buf body; /* the caller releases it */
};

struct transport;

/*
 * server: URLs, comma-separated; "host:port" means http://, "unix:PATH" is a Unix socket. token:
 * NULL: none. tls: NULL: all defaults. Fails if a URL is not valid. Does not connect.
 *
 * Without a server: the Unix socket of this user's server, then TRANSPORT_SERVER_DEFAULT. Without a
 * token either, the token in the data directory of this user's server is used, if the process that
 * listens there is this user's or root's: anybody else could listen there to get it.
 */
int transport_open(const char *server, const char *token, const struct transport_tls *tls,
                   struct transport **ret_transport, struct err_info *ret_error);
void transport_close(struct transport *t);

/* Calls end with CLOSED once this descriptor is readable. -1: none, as at first. */
void transport_set_stop(struct transport *t, int fd);

/* Whether the bodies of calls from now on are application/octet-stream; at first they are JSON. */
void transport_set_bytes(struct transport *t, bool is_bytes);

/* The server that is asked now, without a trailing slash. */
const char *transport_server(const struct transport *t);

/* body.p NULL: none. timeout_ms 0: TRANSPORT_TIMEOUT_MS. */
int transport_call(struct transport *t, const char *method, const char *path, struct str body,
                   int64_t timeout_ms, struct transport_answer *ret_answer,
                   struct err_info *ret_error);

/*
 * GET of an answer of any length: with status 200 its body goes to the sink, piece by piece, as it
 * comes, and ret_answer has none. What the sink returns other than 0 ends the call, which returns
 * the same. UNKNOWN: the answer broke off, or nothing came for idle_ms.
 */
struct transport_sink {
    int (*take)(void *arg, struct str bytes, struct err_info *ret_error);
    void *arg;
};

int transport_fetch(struct transport *t, const char *path, int64_t idle_ms,
                    const struct transport_sink *sink, struct transport_answer *ret_answer,
                    struct err_info *ret_error);

#endif
