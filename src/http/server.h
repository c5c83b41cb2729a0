/*
 * server - HTTP on one loop.
 *
 * In order: http_listen() binds and listens; uv_run() accepts and answers; http_close() lets go of
 * everything, and the loop runs out once the last connection is gone.
 *
 * A request that arrives is handed, whole, to the handler that the route table names. The handler
 * answers it with http_reply() or http_reply_error(), at once or later. Later means: it keeps the
 * pointer and sets `gone`, which is called when the client went away first. A request lives until
 * it is answered or gone, whichever comes first, and must not be touched afterwards. Everything
 * happens on the thread of the loop.
 *
 * A connection carries one request after the other; a client may send the next before it has the
 * answer to the last (pipelining). Handlers are called in the order of arrival and answers leave in
 * the same order, whatever the order they were given in.
 *
 * What always holds: every input has a limit, and they stand below. A request that could be read in
 * two ways is refused with 400. The Host of a request is one of ours, so that a page from elsewhere
 * whose name was pointed at us gets 421. Every error has the body {"errors":["..."]}.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/str.h"
#include "http/head.h"
#include "http/router.h"

enum {
    HTTP_BODY_LEN_MAX = 4 * 1024 * 1024,
    HTTP_CONNECTIONS_MAX = 10000,
    HTTP_PIPELINE_MAX = 64,           /* requests of one connection that wait for their answers */
    HTTP_UNSENT_LEN_MAX = 256 * 1024, /* answers that a client does not read stop its requests */

    HTTP_REQUEST_TIMEOUT_MS = 10 * 1000, /* for the head, and again for the body */
    HTTP_IDLE_TIMEOUT_MS = 60 * 1000,    /* between two requests */
    HTTP_WRITE_TIMEOUT_MS = 30 * 1000,   /* for the client to take what it asked for */
    HTTP_LINGER_MS = 1000,               /* after the last answer, for the client to close */
};

struct http_request {
    struct head head;
    struct str params[ROUTE_PARAMS_MAX]; /* what stood for the "{name}" parts of the pattern */
    struct str body;
    void *arg; /* of the server */

    /* The handler's, when it answers later. */
    void (*gone)(struct http_request *r);
    void *handler_data;
};

/* Answers with JSON, or with nothing when the body is empty. */
void http_reply(struct http_request *r, int status, struct str json);

/* Answers {"errors":[message]}. */
void http_reply_error(struct http_request *r, int status, const char *message);

/* Adds a header to the answer that is still to be given. */
void http_add_header(struct http_request *r, const char *name, struct str value);

struct http_options {
    struct sockaddr_storage address; /* port 0: any that is free */
    struct route_table routes;
    void *arg;                  /* handed to the handlers */
    int64_t request_timeout_ms; /* 0: HTTP_REQUEST_TIMEOUT_MS */
};

struct http_server;

/* Binds and listens. What connects from now on is accepted when the loop runs. */
int http_listen(uv_loop_t *loop, const struct http_options *o, struct http_server **ret_server,
                struct err_info *ret_error);

/* Where the server listens, as it stands in a URL: "127.0.0.1:8048". Lives as long as the server.
 */
const char *http_address(const struct http_server *s);

/*
 * Stops listening and closes the connections; answers that were given are still sent, for at most
 * HTTP_LINGER_MS. The server frees itself when all is closed: run the loop until then.
 */
void http_close(struct http_server *s);

#endif
