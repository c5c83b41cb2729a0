/*
 * transport - one conversation with a Drover server: requests out, answers back, over libcurl.
 *
 * Connections are kept alive. Several servers may be named, of which any will do: when one cannot be
 * reached, the next is asked. An answer of 307 is followed with any method and the body, and the server
 * that it named (the leader) is asked first from then on; when that one cannot be reached, those that
 * were named are asked again.
 *
 * What comes back from a call is what is known: 0 means that the server answered, with whatever
 * status. UNREACHABLE means that nothing was sent. UNKNOWN means that the request may or may not have
 * happened: the connection broke or the answer did not come in time. CLOSED means that the caller
 * stopped it (transport_set_stop), and is as little known.
 *
 * One transport is used by one thread at a time. Nothing here prints.
 */
#ifndef HTTP_TRANSPORT_H
#define HTTP_TRANSPORT_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define TRANSPORT_SERVER_DEFAULT "http://127.0.0.1:8048"

enum {
    TRANSPORT_CONNECT_TIMEOUT_MS = 5 * 1000,
    TRANSPORT_TIMEOUT_MS = 30 * 1000,
    TRANSPORT_SERVERS_MAX = 16,
    TRANSPORT_ANSWER_LEN_MAX = 256 * 1024 * 1024,
};

struct transport_options {
    const char *server; /* URLs with commas; "host:port" is taken as http://; NULL: the default */
    const char *token;  /* NULL: none */
};

struct transport_answer {
    int status;
    struct buf body; /* the caller releases it */
};

struct transport;

/* Fails when the URL cannot be one. Nothing is connected yet. */
int transport_open(const struct transport_options *o, struct transport **ret_transport,
                   struct err_info *ret_error);
void transport_close(struct transport *t);

/* Calls end with CLOSED once this descriptor can be read. -1, as at first: none. */
void transport_set_stop(struct transport *t, int fd);

/* The server that is asked at the moment, without a slash at its end. */
const char *transport_server(const struct transport *t);

/* body.p NULL: none. timeout_ms 0: TRANSPORT_TIMEOUT_MS. */
int transport_call(struct transport *t, const char *method, const char *path, struct str body,
                   int64_t timeout_ms, struct transport_answer *ret_answer,
                   struct err_info *ret_error);

#endif
