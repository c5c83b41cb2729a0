/*
 * conn - one connection of the HTTP server, and the requests on it. For the files of this
 * folder only.
 *
 * Bytes come in and are cut into requests; each is put at the end of a queue and handed to its
 * handler; the answers at the front of the queue are moved to `out` and written. Reading stops
 * while the queue is full or the client does not take its answers, so a client can make us keep a
 * bounded amount only.
 *
 * A connection frees itself, after conn_close(), when libuv has let go of it.
 */
#ifndef HTTP_CONN_H
#define HTTP_CONN_H

#include "base/buf.h"
#include "http/chunk.h"
#include "http/server.h"

/* A request as the server sees it. The handler's part comes first, so that one is the other. */
struct exchange {
    struct http_request request;
    struct conn *conn;
    struct exchange *next; /* in the queue of the connection */
    const struct route *route;
    bool answered;
    bool closes;       /* the connection ends with the answer */
    struct buf body;   /* as it arrives */
    struct buf fields; /* headers that the handler added */
    struct buf answer; /* complete, waiting for those before it */
    char head_text[];  /* what request.head points into */
};

/* What a connection waits for. Each has its time; see TIMEOUTS in conn.c. */
enum conn_phase { CONN_NONE, CONN_IDLE, CONN_HEAD, CONN_BODY, CONN_BUSY, CONN_WRITE, CONN_LINGER };

struct conn {
    struct http_server *server;
    struct conn *next, *prev; /* of the server's list */
    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_write_t write;
    uv_shutdown_t shutdown;

    enum conn_phase phase;
    uint64_t deadline_ms; /* of the phase, in the loop's time; 0: none */

    struct buf in;            /* bytes not yet cut into requests */
    size_t scanned;           /* of them, by head_scan() */
    struct exchange *reading; /* its body is still to come */
    struct chunk chunk;

    struct exchange *first, *last; /* the queue */
    size_t queued;
    struct buf out;     /* answers to write */
    struct buf writing; /* answers that libuv is writing */

    bool paused;       /* not reading from the socket */
    bool last_request; /* no request after those in the queue will be read */
    bool cutting;      /* requests are being cut; what they answer is written together at the end */
    bool ended;        /* the client has closed its side */
    bool lingering;    /* all is said, and the client has yet to close */
    bool refused;      /* one too many */
    bool closing;
    int open_handles;
};

/* What server.c and conn.c share. */
struct http_server {
    uv_tcp_t tcp;
    struct http_options options;
    struct conn *conns;
    size_t conn_count, conn_max;
    size_t refused_count; /* of conn_count: told that there are too many, and about to close */
    bool closing, tcp_closed;
    char address[64];           /* "127.0.0.1:8048" */
    char port_suffix[16];       /* ":8048" */
    char read_space[64 * 1024]; /* one for all: libuv hands back what it read at once */
};

/* exchange.c */

/* A request that begins, at the end of the queue. */
struct exchange *exchange_new(struct conn *c, const char *head, size_t len);
void exchange_drop_first(struct conn *c);

/* Answers with an error after which the connection ends. */
void exchange_refuse(struct exchange *x, int status, const char *reason);

/* Whether the connection takes requests: not at its end, and within its limits. */
bool conn_may_cut(const struct conn *c);

/* Cuts c->in. Returns whether bytes were left over only because the connection has to wait. */
bool conn_cut(struct conn *c);

/* conn.c */

enum {
    /* Connections beyond the maximum that are accepted all the same, to be told that it is reached.
     */
    CONN_REFUSALS_MAX = 64,
};

/* Accepts the connection that is waiting. */
void conn_accept(struct http_server *s);

/* Ends it now: what was not answered is gone. */
void conn_close(struct conn *c);

/* Ends it when the answers that were given are written. */
void conn_finish(struct conn *c);

/* An answer was given: sends what can be sent. */
void conn_answered(struct conn *c);

/* server.c */

/* A connection that frees itself takes itself off the server's list. */
void server_forget(struct http_server *s, struct conn *c);

/* Whether a Host names this server: empty (HTTP/1.0), or a loopback name or our address, with port.
 */
bool server_is_host(const struct http_server *s, struct str host);

#endif
