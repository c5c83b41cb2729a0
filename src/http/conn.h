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

#include <stdatomic.h>

#include "base/buf.h"
#include "http/chunk.h"
#include "http/head_cache.h"
#include "http/metrics.h"
#include "http/pool.h"
#include "http/server.h"

/*
 * A request as the server sees it. The handler's part comes first, so that one is the other.
 *
 * Where it is: on the loop, in the queue of its connection. While it is *away* (on a worker, or woken
 * and on its way back) it comes back by server_post(); a connection that closes meanwhile lets go of
 * it (conn is NULL then), and it is freed when it comes.
 */
struct exchange {
    struct http_request request;
    struct http_server *server;

    /* Zero in a new one, up to the buffers. */
    struct conn *conn;
    struct exchange
        *next; /* in the queue of the connection, or in the server's list of spare ones */
    const struct router_row *row;
    uint64_t came_ns;
    bool answered;
    bool closes;    /* the connection ends with the answer */
    bool streaming; /* the head of the answer has been given */
    bool undrained; /* the stream is to be told when the client has taken all */
    bool away;      /* on a worker */

    /* work.c: what a worker leaves for the loop. */
    struct pool_job job;
    atomic_int holds; /* the handler that runs, the outcome that is to come; the last one posts */
    atomic_bool left; /* the client */
    int status;
    const char *content_type;
    struct exchange *posted_next;

    /* topic.c: while it waits. The entries and `woken` are under the topic's lock. */
    struct http_watch watch;
    struct topic_wait *entries; /* in the topic, one a key */
    uint64_t woken_key;
    bool waits;         /* the handler asked for it to be parked; then, it is */
    bool woken;         /* taken off the topic and on its way to the loop */
    bool over;          /* the time to wait is up */
    bool coming;        /* seen to be over, or woken in time and on its way */
    bool owes;          /* was woken for something: an error passes the wake-up on */
    bool parked_before; /* the handler runs again */
    int64_t wait_ms;
    uint64_t wait_end_ms; /* in the loop's time */

    struct buf text;   /* what request.head points into */
    struct buf body;   /* as it arrives */
    struct buf fields; /* headers that the handler added */
    struct buf reply;  /* of a worker */
    struct buf answer; /* complete, waiting for those before it */
};

/* What a connection waits for. Each has its time; see TIMEOUTS in conn.c. */
enum conn_phase { CONN_NONE, CONN_IDLE, CONN_HEAD, CONN_BODY, CONN_BUSY, CONN_WRITE, CONN_LINGER };

struct conn {
    struct http_server *server;
    struct conn *next, *prev;          /* of the server's list */
    struct conn *due_next, **due_link; /* of those that are due; not listed: NULL */
    uv_tcp_t tcp;
    uv_os_fd_t fd; /* of tcp */
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
    size_t queued, waiting;        /* in the queue; of them, parked */
    struct buf out;                /* answers to write */
    struct buf writing;            /* answers that libuv is writing */

    bool paused;       /* not reading from the socket */
    bool last_request; /* no request after those in the queue will be read */
    bool cutting;      /* requests are being cut; what they answer is written together at the end */
    bool ended;        /* the client has closed its side */
    bool lingering;    /* all is said, and the client has yet to close */
    bool refused;      /* one too many */
    bool closing;
    int open_handles;
};

/* What is counted of a route. */
struct route_metrics {
    struct counter *answers[6]; /* by the first digit of the status */
    struct histogram *seconds;
};

/* What the files of this folder share. */
struct http_server {
    uv_tcp_t tcp;
    struct http_options options;
    struct router router;
    struct pool *pool; /* NULL: not needed so far */
    struct route_metrics
        *route_metrics; /* a row each, and one for what has no route; NULL: not counted */

    uv_async_t came; /* something was posted */
    pthread_mutex_t lock;
    struct exchange *posted, **posted_last; /* under the lock */

    struct head_cache heads;
    struct exchange *spare; /* to be used again */
    size_t spare_count;
    size_t detached; /* away, and their connections gone */

    uv_prepare_t rest; /* before the loop waits */
    struct conn *due;  /* to be pumped then */

    struct conn *conns;
    size_t conn_count, conn_peak, conn_max, refusals_max;
    size_t refused_count; /* of conn_count: told that there are too many, and about to close */
    uint64_t refused_ever, refused_said_ms;
    bool closing, tcp_closed;
    bool any_address; /* listens on every address of the machine */
    char address[64]; /* "127.0.0.1:8048" */
    char url[80];
    char port_suffix[16]; /* ":8048" */
    char date[64];        /* the header, and the second of the loop's clock that it is of */
    size_t date_len;
    uint64_t date_second;
    char read_space[64 * 1024]; /* one for all: libuv hands back what it read at once */
};

/* exchange.c */

/* A request that begins, at the end of the queue. */
struct exchange *exchange_new(struct conn *c, const char *head, size_t len);
void exchange_drop_first(struct conn *c);

/* Its connection closes. */
void exchange_abandon(struct exchange *x);
void exchange_free(struct exchange *x);
void exchange_free_spare(struct http_server *s);

/* Calls the handler, from the beginning. */
void exchange_run(struct exchange *x);

/* Answers with an error after which the connection ends. */
void exchange_refuse(struct exchange *x, int status, const char *reason);

/* Whether the connection takes requests: not at its end, and within its limits. */
bool conn_may_cut(const struct conn *c);

/* Cuts c->in. Returns whether bytes were left over only because the connection has to wait. */
bool conn_cut(struct conn *c);

/* Cuts bytes that have just come; what is left of them goes to c->in. */
void conn_take(struct conn *c, const char *p, size_t len);

/* conn.c */

/* Accepts the connection that is waiting. */
void conn_accept(struct http_server *s);

/* Ends it now: what was not answered is gone. */
void conn_close(struct conn *c);

/* Ends it when the answers that were given are written. */
void conn_finish(struct conn *c);

/* An answer was given, or something else has changed: what can be sent will be. */
void conn_answered(struct conn *c);

/* Pumps the connections that are due. */
void conns_pump(uv_prepare_t *rest);

/* request.c */

/* Reads path, query and body by the row of the route and calls the handler, or answers 400 or 413. */
void request_handle(struct exchange *x);

/* reply.c */

/* Gives the answer, on the loop. */
void exchange_answer(struct exchange *x, int status, const char *content_type, struct str body);

/* The head of an answer that goes on. */
void exchange_put_stream_head(struct exchange *x, struct buf *b, const char *content_type);

/* An error; its code is that of the status, and no field is to blame, where they are NULL. */
void reply_with(struct http_request *r, int status, const char *code, const char *field,
                const char *message);

/* Empties a buffer; one that has grown large is given back. */
void buf_empty(struct buf *b);

/* work.c */

void work_submit(struct exchange *x);

/* The handler's outcome is there: an answer in `reply`, or it waits. From any thread. */
void work_settle(struct exchange *x);

/* Something is back on the loop. From any thread. */
void server_post(struct exchange *x);
void server_take_posted(uv_async_t *came);

/* topic.c */

/* Parks a request that asked for it; one that need not wait any more is posted. */
void topic_park(struct exchange *x);

/* Takes it off its topic. False when it was woken before. */
bool topic_leave(struct exchange *x);

/* It is not parked any more. */
void topic_unpark(struct exchange *x);

/* Wakes the next that waits for what it was woken for. */
void topic_pass_on(struct exchange *x);

/* Posts what has waited until now, in the loop's time. */
void topic_expire(struct conn *c, uint64_t now_ms);

/* When the next of them is due; 0: none. */
uint64_t topic_due_ms(const struct conn *c);

/* server.c */

/* Frees the server when nothing is left of it after http_close(). */
void server_free_if_done(struct http_server *s);

/* A connection that frees itself takes itself off the server's list. */
void server_forget(struct http_server *s, struct conn *c);

/*
 * Whether a Host names this server: empty (HTTP/1.0), a loopback name or our address, with port, or
 * one of the names that it was given.
 */
bool server_is_host(const struct conn *c, struct str host);

/* server_metrics.c */

void server_metrics_register(struct http_server *s);
void server_metrics_release(struct http_server *s);

/* An answer leaves, or begins to. */
void server_metrics_count(const struct exchange *x, int status);

#endif
