/*
 * conn - one connection of the HTTP server, and the requests on it. For src/http only.
 *
 * Bytes are parsed into requests. Each request is appended to a queue and passed to its handler;
 * answers at the front of the queue are moved to `out` and written. Reading stops while the queue
 * is full or the client does not read its answers, so the memory of a connection is bounded.
 *
 * A connection frees itself after conn_close(), when libuv has closed its handles.
 */
#ifndef HTTP_CONN_H
#define HTTP_CONN_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/door.h"
#include "base/file_limit.h"
#include "base/tls.h"
#include "http/metrics.h"
#include "http/server.h"

/*
 * A request as the server sees it. The handler's part is the first member, so the two pointers are
 * interchangeable.
 *
 * It belongs to the loop and is in the queue of its connection. While it is *away* (on a worker, or
 * woken and posted) it returns through server_take_posted(). A connection that closes meanwhile
 * detaches it (conn is NULL then), and it is freed when it returns.
 */
struct exchange {
    struct http_request request;
    struct http_server *server;

    /* Zero in a new one, from here to the buffers. */
    struct conn *conn;
    struct exchange *next; /* in the queue of the connection, or in the server's free list */
    const struct router_row *row;
    uint64_t came_ns;
    bool answered;
    bool closes;    /* the connection ends with the answer */
    bool streaming; /* the head of the answer was written */
    bool undrained; /* call `drained` when the client has read everything */
    bool away;      /* on a worker */
    bool reads;     /* only to be read there; the handler runs on the loop */
    bool has_place; /* among the requests that wait */
    size_t held;    /* as memory.c counts it */

    /* An answer in slices, and what is to be called in a later turn of the loop; NULL: nothing. */
    route_fn *next_slice, *later;
    TAILQ_ENTRY(exchange) later_link;

    /* What a worker passes to the loop. */
    atomic_int holds; /* the running handler, the pending outcome; the last one posts */
    int status;
    int read_err; /* of a request that was read there */
    struct route_field_error *read_why;
    enum http_limit limit; /* why it is refused */
    const char *content_type;
    struct exchange *away_next; /* in the queue to the workers, or of what was posted */

    /* While it waits. The entries and `woken` are under the topic's lock. */
    struct http_watch watch;
    struct topic_wait *entries; /* in the topic, one a key */
    uint64_t woken_key;
    bool waits;         /* the handler asked for it to be parked; then, it is */
    bool woken;         /* taken off the topic and posted to the loop */
    bool over;          /* the time to wait is up */
    bool coming;        /* timed out, or woken in time and posted */
    bool owes;          /* was woken for something: an error passes the wake-up on */
    bool parked_before; /* the handler runs again */
    int64_t wait_ms;
    uint64_t wait_end_ms; /* in the loop's time */

    struct buf text;   /* what request.head points into */
    struct buf body;   /* as it arrives */
    struct buf fields; /* headers that the handler added */
    struct buf reply;  /* of a worker */
    struct buf answer; /* complete, waits for earlier requests */
};

/* What a connection waits for. Each has its timeout (conn.c). */
enum conn_phase {
    CONN_NONE,
    CONN_HANDSHAKE,
    CONN_IDLE,
    CONN_HEAD,
    CONN_BODY,
    CONN_BUSY,
    CONN_WRITE,
    CONN_DENIED,
    CONN_LINGER
};

/* A socket that the server listens on. */
struct listener {
    union {
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    };
    struct http_server *server;
    bool is_unix; /* the kernel knows the user at the other end */
    bool is_tls;
    bool waits;            /* a connection waits for the next turn of the loop */
    bool any_address;      /* every address of the machine */
    char url[160];         /* "http://127.0.0.1:8048", "unix:/run/drover.sock" */
    const char *authority; /* of an address, in url: "127.0.0.1:8048" */
    char port_suffix[16];  /* ":8048" */
};

struct conn {
    struct http_server *server;
    const struct listener *listener;
    struct conn *next, *prev;          /* of the server's list */
    struct conn *due_next, **due_link; /* list of those to pump; NULL: not in it */
    uv_tcp_t tcp;                      /* or a Unix socket: libuv treats both alike */
    uv_os_fd_t fd;                     /* of tcp */
    struct door_guest guest;
    struct tls *tls; /* NULL: plain */
    uv_timer_t timer;
    uv_write_t write;
    uv_shutdown_t shutdown;

    enum conn_phase phase;
    uint64_t deadline_ms; /* of the phase, in the loop's time; 0: none */

    struct http_peer peer;
    bool peer_known;
    struct identity *who;    /* of the last request; NULL: none yet, or nobody is identified */
    struct buf credential;   /* that it had */
    uint64_t who_generation; /* of the rights, then */
    struct exchange *denied; /* it had a wrong token, and is answered later */

    struct buf in;            /* bytes not yet parsed */
    size_t scanned;           /* of them, by head_scan() */
    struct exchange *reading; /* its body has yet to arrive */
    struct chunk chunk;

    struct exchange *first, *last; /* the queue */
    size_t queued, waiting;        /* in the queue; of them, parked */
    size_t away;                   /* being read by a worker */
    struct buf out;                /* answers to write */
    struct buf writing;            /* answers that libuv is writing */
    size_t held;                   /* as memory.c counts it */

    bool paused;       /* not reading from the socket */
    bool last_request; /* no request after those in the queue will be read */
    bool cutting;      /* parsing; the answers are written together afterwards */
    bool ended;        /* the client has closed its side */
    bool lingering;    /* everything was written, and the client has yet to close */
    bool closing;
    int open_handles;
};

/* The metrics of a route. */
struct route_metrics {
    struct counter *answers[6]; /* by the first digit of the status */
    struct histogram *seconds;
};

/* Threads that run handlers which may block (away.c). */
struct workers {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct exchange *first, **last; /* the queue */
    size_t queued, idle, count;
    bool ending;
    pthread_t threads[HTTP_WORKERS_MAX];
};

/* The server. */
struct http_server {
    uv_loop_t *loop;
    struct listener listeners[HTTP_LISTENERS_MAX];
    size_t listener_count, open_listeners;
    struct http_options options;
    struct router router;
    struct workers workers;
    struct route_metrics
        *route_metrics; /* one a row, and one for requests without a route; NULL: not counted */

    uv_async_t came; /* something was posted */
    pthread_mutex_t lock;
    struct exchange *posted, **posted_last; /* under the lock */

    struct head_cache heads;
    struct exchange *spare; /* free list */
    size_t spare_count;
    size_t detached; /* away, with their connections closed */

    uv_prepare_t rest;            /* before the loop waits */
    struct conn *due;             /* to pump then */
    TAILQ_HEAD(, exchange) later; /* to be called in this turn of the loop, or a later one */
    uv_idle_t busy;               /* active while there are some */

    struct conn *conns;
    size_t conn_count, conn_peak;
    struct door door;
    size_t accepted; /* in this turn of the loop */
    size_t waiting;  /* requests that wait */
    struct refusals refusals[HTTP_LIMITS];
    atomic_size_t held_max;
    atomic_size_t held;  /* bytes, of all requests and answers */
    uint64_t tls_failed; /* handshakes */
    bool closing;
    char date[64]; /* the header, made in this second of the loop's clock */
    size_t date_len;
    uint64_t date_second;
    char read_space[64 * 1024]; /* shared: libuv hands over what it read at once */
};

/* exchange.c */

/* A new request, at the end of the queue. */
struct exchange *exchange_new(struct conn *c, const char *head, size_t len);
void exchange_drop_first(struct conn *c);
void exchange_abandon(struct exchange *x); /* the connection closes */
void exchange_free(struct exchange *x);
void exchange_free_spare(struct http_server *s);
void exchange_run(struct exchange *x); /* calls the handler */

/* Reads the request and calls the handler, or refuses. On the loop or a worker. */
void request_handle(struct exchange *x);

/* The same in two steps, for long bodies: on a worker; then on the loop. */
void request_read_away(struct exchange *x);
void request_was_read(struct exchange *x);

/* Answers with an error and ends the connection. */
void exchange_refuse(struct exchange *x, int status, const char *reason);

/* Whether the connection takes more requests now. */
bool conn_may_cut(const struct conn *c);

/* Parses c->in. Returns whether bytes are left only because of the connection's limits. */
bool conn_cut(struct conn *c);

/* Parses bytes that have just arrived; the rest of them goes to c->in. */
void conn_take(struct conn *c, const char *p, size_t len);

/* conn.c */

void conn_accept(uv_stream_t *listener, int status);
void conn_receive(struct conn *c, struct str bytes); /* that have arrived, decrypted */
void conn_pump(struct conn *c);      /* now: parses, writes, decides what to wait for */
void conn_end(struct conn *c);       /* the client sends nothing more */
void conn_close(struct conn *c);     /* now; requests without an answer are abandoned */
void conn_finish(struct conn *c);    /* when the answers so far are written */
void conn_answered(struct conn *c);  /* something has changed: schedules a pump() */
void conns_pump(uv_prepare_t *rest); /* pumps the connections on the list */
void buf_empty(struct buf *b);       /* frees a buffer that has grown large */

/* secure.c: what a connection does only if it has TLS. */

/* Encrypted bytes have arrived. */
void secure_receive(struct conn *c, struct str bytes);

/* What is to be sent, with the answers so far. Empty it. */
struct buf *secure_out(struct conn *c);

/* field.c: reads path, query and body into r->in by the row of the route. */

int request_read(struct http_request *r, const struct router_row *row,
                 const struct json_limit *limit, struct route_field_error *e);

/* reply.c */

/* Answers, on the loop. */
void exchange_answer(struct exchange *x, int status, const char *content_type, struct str body);

/* A piece of a streamed answer, however long. */
void stream_put(struct exchange *x, struct str data);

/* An error; its code is that of the status, and no field is to blame, where they are NULL. */
void reply_with(struct http_request *r, int status, const char *code, const char *field,
                const char *message);

/* away.c */

void workers_init(struct workers *w);
void workers_release(struct workers *w);
bool work_submit(struct exchange *x); /* false: too many queue */
void work_settle(struct exchange *x); /* the handler has returned; or has answered or parked it */
void server_take_posted(uv_async_t *came);

bool topic_leave(struct exchange *x);   /* takes it off its topic; false: it was woken before */
void topic_unpark(struct exchange *x);  /* it is not parked any more */
void topic_pass_on(struct exchange *x); /* wakes the next for what it was woken for */

/* Posts the requests whose time to wait is up; when the next one is due, 0: none. */
void topic_expire(struct conn *c, uint64_t now_ms);
uint64_t topic_due_ms(const struct conn *c);

/* access.c */

/* Whether the sender of a request may send it; if not, it is answered, or will be. */
bool access_check(struct exchange *x);
bool access_reaches(struct exchange *x); /* the same, by the names in its fields */
void access_deny(struct exchange *x);    /* the answer to a wrong token, when its time has come */
void access_answered(struct exchange *x, int status); /* for the audit; 0: the client left */

/* server.c */

void server_free_if_done(struct http_server *s);                 /* after http_close() */
void server_forget(struct http_server *s, struct conn *c);       /* takes it off the list */
void server_metrics_count(const struct exchange *x, int status); /* counts an answer */

/* admit.c */

void admit_open(struct http_server *s);
bool admit(struct conn *c); /* also one that is refused and will be told; false: it must close */
bool admit_now(struct listener *l, int status); /* false: not, or in the next turn of the loop */
void admit_more(struct http_server *s);         /* the next turn */
void admit_metrics(struct http_server *s, struct metrics *m);

/* limits.c */

void limits_count(struct exchange *x); /* its answer leaves */
bool limits_enter(struct exchange *x); /* takes a place among those that wait; false: full */
void limits_refuse_wait(struct exchange *x);
void limits_leave(struct exchange *x); /* it ends */
void limits_metrics(struct http_server *s, struct metrics *m);

/* memory.c */

void memory_open(struct http_server *s, size_t max); /* also to change it; 0: the default */
void memory_metrics(struct http_server *s, struct metrics *m);

/* Counts what something holds now, from any thread. */
void memory_set(struct http_server *s, size_t *held, size_t now);
void memory_count_conn(struct conn *c);

/* Whether something that holds so much may hold that; how much a large one may hold at most. */
bool memory_fits(const struct http_server *s, size_t held, size_t now);
size_t memory_large_max(const struct http_server *s);
bool memory_is_short(const struct http_server *s); /* all is in use */

bool memory_take(struct exchange *x, size_t now); /* counts it if it fits */
void memory_refuse_body(struct exchange *x);
bool memory_refuses_answer(struct exchange *x, int status, size_t len); /* true after 503 */
int memory_read(struct exchange *x, struct route_field_error *e);       /* request_read() */

/* slices.c */

void slices_open(struct http_server *s);
void slices_run(struct http_server *s); /* once in a turn of the loop */
void slices_leave(struct exchange *x);  /* nothing is to be called for it any more */

/* listener.c */

int listener_open_addresses(struct http_server *s, const struct option_addresses *a, bool is_tls,
                            struct err_info *ret_error);
int listener_open_unix(struct http_server *s, int fd, struct err_info *ret_error);
void listeners_close(struct http_server *s);

/* "127.0.0.1:8048" or "[::1]:8048". Returns where the port begins, with its colon. */
const char *listener_put_address(char *text, size_t size, const struct sockaddr_storage *address);

/*
 * Whether a Host names this server: empty (HTTP/1.0), a loopback name or the server's address with
 * its port, one of the configured names, or one in the certificate. No page of a browser reaches a
 * Unix socket, so there it may be any.
 */
bool listener_is_host(const struct conn *c, struct str host);

#endif
