/*
 * server - HTTP on one loop.
 *
 * In order: http_listen() binds and listens; http_serve() sets the routes; uv_run() accepts and
 * answers; http_close() closes everything, and `closed` is called when the last connection and the
 * last handler have ended.
 *
 * A complete request is passed to the handler of its route (route.h). There are two kinds of
 * handlers:
 *
 *  - On the thread of the loop. They must not block. They answer at once, or later: then the
 *    handler keeps the pointer and sets `gone`, which is called if the client leaves first. A
 *    request lives until it is answered or gone.
 *  - With ROUTE_WORKER, on a thread of the server's pool, where they may block. Such a request
 *    lives until it is answered, even if its client leaves meanwhile, and may be answered from any
 *    thread, also after the handler has returned.
 *
 * Both answer with one of the http_reply calls, exactly once, and must not touch the request
 * afterwards; or they wait, with http_park().
 *
 * Clients may pipeline requests. Handlers of the loop are called in the order of arrival, and
 * answers leave in the order of their requests.
 *
 * What always holds: every input has a limit (below). A request with an ambiguous head, chunk or
 * query is refused with 400. A wrong token gets 401, a request that its sender may not send 401 or
 * 403, before its body is read. The Host of a
 * request is one of the server's, so that a page whose name was pointed at this machine (DNS
 * rebinding) gets 421. A POST, and any other change with a body, is application/json, which no form
 * can send, so that a page from another origin gets 415. Every error has the body
 * {"errors":["..."],"code":"..."}.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/identity.h"
#include "base/json.h"
#include "base/option.h"
#include "base/str.h"
#include "http/head.h"

enum {
    HTTP_BODY_LEN_MAX = 4 * 1024 * 1024,
    HTTP_LARGE_BODY_LEN_MAX = 256 * 1024 * 1024,
    HTTP_VALUES_MAX = 512 * 1024, /* JSON values in a body: 32 MiB of memory */
    HTTP_LARGE_VALUES_MAX = 16 * 1024 * 1024,
    HTTP_CONNECTIONS_MAX = 16384,
    HTTP_WAITS_MAX = 32768,
    HTTP_MEMORY_MAX = 1024 * 1024 * 1024, /* bodies and answers of all connections */
    HTTP_PIPELINE_MAX = 64,               /* requests of one connection without an answer yet */
    HTTP_UNSENT_LEN_MAX = 256 * 1024,     /* unread answers above this stop reading requests */
    HTTP_STREAM_UNSENT_MAX = 1024 * 1024, /* a client this far behind its stream is disconnected */
    HTTP_SLICE_LEN = 128 * 1024,          /* of a long answer, made at a time */
    HTTP_WORKERS_MAX = 32,
    HTTP_TABLES_MAX = 32, /* of routes */
    HTTP_LISTENERS_MAX = 2 * OPTION_ADDRESSES_MAX + 1,

    HTTP_REQUEST_TIMEOUT_MS = 10 * 1000, /* for the head, and again for the body */
    HTTP_IDLE_TIMEOUT_MS = 60 * 1000,    /* between two requests */
    HTTP_WRITE_TIMEOUT_MS = 30 * 1000,   /* for the client to read its answer */
    HTTP_DENIED_MS = 250,                /* until a wrong token is answered */
    HTTP_LINGER_MS = 1000,               /* after the last answer, for the client to close */
};

struct tls_context;
struct tls_peer;

/* The other end of a connection. */
struct http_peer {
    bool is_unix; /* connected by a Unix socket */
    uid_t user;   /* on a Unix socket; -1: unknown */
    pid_t pid;    /* likewise; it may have ended since, and another may have its number */
    bool is_loopback;
    char address[64];                   /* "127.0.0.1:40112", "unix"; empty: it has left */
    const struct tls_peer *certificate; /* verified, as long as it is connected; NULL: none */
};

struct http_request {
    struct arena arena;                  /* freed with the request */
    struct str params[ROUTE_PARAMS_MAX]; /* the "{name}" parts of the path, percent-encoded */
    struct query query;
    struct str body;
    void *in;                /* what the fields of the route were read into */
    const struct json *json; /* the body; NULL: none, or a route without fields */
    void *arg;               /* of the route table */
    struct identity *who;    /* who sent it; NULL: anybody may do everything */
    struct http_peer peer;   /* from where, unless the route is open to anybody */
    uint64_t audit;          /* not 0: `answered` is called for it (http_options) */

    /* Set by a handler of the loop that answers later. */
    void (*gone)(struct http_request *r);
    void (*drained)(struct http_request *r); /* of a stream: the client has read everything */
    void *handler_data;
    void (*unparked)(struct http_request *r); /* see http_park() */
    int64_t kept; /* 0 at first; the handler's, also when it runs again after it was parked */

    struct head head; /* last, because its table of fields is large and not cleared */
};

/* Answers. */

/* With JSON, or without a body if it is empty. */
void http_reply(struct http_request *r, int status, struct str json);

/* With a body of another type. */
void http_reply_as(struct http_request *r, int status, const char *content_type, struct str body);

/* {"errors":[message],"code":...}. The code is that of the status: BAD_ARGUMENT, NOT_FOUND, ... */
void http_reply_error(struct http_request *r, int status, const char *message);
void http_reply_errorf(struct http_request *r, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for an enum drover_err: its status, its name as code, and its message unless given. */
void http_reply_err(struct http_request *r, int err, const char *message_or_null);

/* 400 for one field that is to blame, which the body then names. */
void http_reply_field(struct http_request *r, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Rights. The route names the roles of which one is needed; a handler asks for more where that
 * depends on the request, and forbids: 403.
 */
bool http_may(const struct http_request *r, unsigned roles);
bool http_reaches(const struct http_request *r, enum identity_scope scope, struct str name);
bool http_may_run(const struct http_request *r); /* any command, not only below a node */
void http_forbid(struct http_request *r, unsigned roles);
void http_forbid_name(struct http_request *r, struct str name); /* beyond the limits */
void http_forbid_what(struct http_request *r, const char *may); /* "may change only its own" */
const char *http_action(const struct http_request *r); /* the id of its route; "": it has none */

/*
 * 503 with Retry-After, because a limit is reached: the client may try again, and nothing has
 * happened. Such answers are counted, and logged once in a while.
 */
enum http_limit {
    HTTP_LIMIT_NONE,
    HTTP_LIMIT_WAITS,
    HTTP_LIMIT_SESSIONS,
    HTTP_LIMIT_MEMORY,
    HTTP_LIMITS
};

void http_reply_busy(struct http_request *r, enum http_limit limit, const char *message);

/* Several reasons at once; the code is that of err. */
void http_reply_reasons(struct http_request *r, int err, const char *const *reasons, size_t count);

/* What a request was read into, kept by a handler that outlives its client. */
struct http_memory {
    struct arena arena;
    struct buf head, body;
    struct identity *who;
};

/*
 * Only in `gone`: moves the memory of the request to the caller, so that everything that was read
 * from it stays where it is until http_memory_release().
 */
void http_take_memory(struct http_request *r, struct http_memory *ret_memory);
void http_memory_release(struct http_memory *m);

/* Adds a header to the answer. */
void http_add_header(struct http_request *r, const char *name, struct str value);

/*
 * A streamed answer: begin, send any number of times, end. On the thread of the loop only, for
 * routes of the loop. Set `gone` to hear when the client leaves.
 *
 * Begin returns false when the answer is complete already (HEAD). Send returns false when the
 * client does not read: it was disconnected, the request is freed, and `gone` is not called for it.
 */
bool http_stream_begin(struct http_request *r, const char *content_type);
bool http_stream_send(struct http_request *r, struct str data);
size_t http_stream_unsent(const struct http_request *r);
void http_stream_end(struct http_request *r);

/* Disconnects, so that the client does not take what it got for the whole. */
void http_stream_abort(struct http_request *r);

/*
 * An answer in slices, for lists that may be long: JSON, made in several turns of the loop, each
 * when the client has read the slice before. On the thread of the loop, for routes of the loop.
 *
 *     http_slice_begin(b);
 *     ... append, until it has http_slice_len(r) or there is no more ...
 *     if (!http_reply_slice(r, b, there_is_more ? next : NULL))
 *         ... the answer has ended, or was refused: free what belongs to it ...
 *
 * `next` is called for the next slice and does the same, at once or later; what is listed may have
 * changed meanwhile. If the client leaves first, `gone` is called instead. What fails after the
 * first slice is told with http_stream_abort(). An answer of one slice is an ordinary answer.
 *
 * Begin keeps the last byte of the slice before, by which the writer of JSON tells whether a comma
 * is needed. The buffer is the caller's.
 */
void http_slice_begin(struct buf *b);
size_t http_slice_len(const struct http_request *r);
bool http_reply_slice(struct http_request *r, const struct buf *b, route_fn *next);

/* Calls next in a later turn of the loop, unless the client leaves before: long work in steps. */
void http_later(struct http_request *r, route_fn *next);

/*
 * Counts memory that the handler uses for this request until it is answered. False: there is too
 * little; answer with http_reply_short().
 */
bool http_take_room(struct http_request *r, size_t len);
void http_reply_short(struct http_request *r);

/*
 * Topics: what requests wait for: "a task of this type may have come", "this session has ended".
 *
 * A handler that found nothing parks its request under one or several keys; whoever makes a change
 * wakes the key, from any thread. Up to so many of the requests that have waited longest for that
 * key are run again, from the beginning of their handler. A parked request costs its memory and no
 * thread, and nothing runs while it waits.
 *
 *     uint64_t keys[] = {http_key("type", type, world)};
 *     struct http_watch w = http_watch(r, topic, keys, 1);
 *     ... look ...
 *     if (nothing && http_park(r, &w, wait_ms))
 *         return 0; // the handler runs again when woken, or when the time is up
 *
 *     http_topic_wake(topic, http_key("type", type, world), 1); // whoever adds a task
 *
 * No wake-up is lost: http_watch() counts the wake-ups of the keys before the handler looks, and
 * http_park() runs the handler again at once if there was one since. A wake-up for a client that
 * has left, or whose request then ends with an error, is passed on to the next. Two keys may share
 * a count, so a handler may run without need, never the reverse.
 *
 * Initialise; release when no server knows it any more: a topic outlives the requests that wait on
 * it.
 */

struct topic_wait;

enum { HTTP_TOPIC_BUCKETS = 64, HTTP_TOPIC_ALL = 0x7fffffff };

struct http_topic {
    pthread_mutex_t lock;
    struct topic_bucket {
        uint64_t wakes;
        struct topic_wait *first, *last; /* parked, oldest first */
    } buckets[HTTP_TOPIC_BUCKETS];
};

struct http_watch {
    struct http_topic *topic;
    uint64_t *keys; /* in the arena of the request */
    size_t count;
    uint64_t seen;
};

void http_topic_init(struct http_topic *t);
void http_topic_release(struct http_topic *t);

/* A key: a kind of thing, and up to two names; those that are not needed are {0}. */
uint64_t http_key(const char *kind, struct str name, struct str within);

/* Call this before looking. */
struct http_watch http_watch(struct http_request *r, struct http_topic *t, const uint64_t *keys,
                             size_t count);

/*
 * Parks the request until one of its keys is woken or wait_ms have passed since the request came,
 * and returns true: the handler returns and will run again. False when there is nothing left to
 * wait for: the handler answers.
 *
 * r->unparked, if the handler sets it before, is called on the loop when the request is no longer
 * parked: before the handler runs again, or when the client has left.
 */
bool http_park(struct http_request *r, const struct http_watch *w, int64_t wait_ms);

/*
 * For handlers of the loop that keep a request without parking it: takes a place among the requests
 * that wait, until this one is answered or gone. False after an answer: there are too many. A
 * request that is parked takes one by itself.
 */
bool http_may_wait(struct http_request *r);

/* Whether the handler runs for the last time because the time to wait is up. */
bool http_wait_over(const struct http_request *r);

/* Whether the handler runs again after it was parked. */
bool http_was_parked(const struct http_request *r);

/* Wakes up to max of the requests that wait for the key. */
void http_topic_wake(struct http_topic *t, uint64_t key, int max);

/* How many requests wait for the key. */
size_t http_topic_parked(struct http_topic *t, uint64_t key);

/* The server. */

struct metrics;

/* Why a request was answered with 401 or 403. */
enum http_refusal {
    HTTP_REFUSED_TOKEN, /* it is missing or wrong */
    HTTP_REFUSED_ROLE,
    HTTP_REFUSED_LIMIT, /* beyond what the sender may reach */
    HTTP_REFUSALS,
};

struct http_options {
    const struct option_addresses *addresses;     /* port 0: any free one; NULL: none */
    const struct option_addresses *tls_addresses; /* the same, with TLS */
    struct tls_context *tls; /* of these; NULL: there are none. The caller closes it afterwards */
    int unix_socket;         /* bound already; 0: none */
    int64_t request_timeout_ms; /* 0: HTTP_REQUEST_TIMEOUT_MS, and so on */
    int64_t idle_timeout_ms, write_timeout_ms;
    size_t connections_max;         /* 0: HTTP_CONNECTIONS_MAX; never more than files allow */
    size_t connections_per_address; /* 0: a quarter; those of this machine have no limit */
    size_t waits_max;               /* requests that wait; 0: HTTP_WAITS_MAX */
    size_t memory_max;              /* bytes of requests and answers; 0: HTTP_MEMORY_MAX */

    /*
     * Recognises a client by where it comes from and its token, which is empty if it has none:
     * returns a reference; NULL: the token is wrong. NULL: anybody may do everything. A change of
     * *generation ends what was recognised before.
     */
    struct identity *(*identify)(void *access_arg, const struct http_peer *peer, struct str token);
    const atomic_uint_fast64_t *generation;
    void *access_arg;

    /*
     * refused: a request is answered with 401 or 403, on any thread. answered, on the loop: one
     * whose handler has set `audit` has this status; 0: its client left before. NULL: not called.
     */
    void (*refused)(void *audit_arg, const struct http_request *r, int status,
                    enum http_refusal why);
    void (*answered)(void *audit_arg, const struct http_request *r, int status);
    void *audit_arg;

    const char *const *hosts; /* further names for Host, with or without port */
    size_t host_count;
    struct metrics *metrics;      /* NULL: not counted */
    bool (*rest)(void *rest_arg); /* called before the loop waits; true: there may be new answers */
    void *rest_arg;
    void (*closed)(void *closed_arg); /* after http_close(), on the loop: all is closed */
    void *closed_arg;
};

struct http_server;

/* Binds and listens; takes the sockets. Connections are accepted when the loop runs. */
int http_listen(uv_loop_t *loop, const struct http_options *o, struct http_server **ret_server,
                struct err_info *ret_error);

/*
 * Sets the routes, before the loop runs; the server adds GET /v1 and GET /v1/openapi.json. The
 * routes, not the tables, are borrowed as long as the server lives.
 */
void http_serve(struct http_server *s, const struct route_table *tables, size_t count);

/*
 * Uses other options from now on: the time for a request, the limits on connections, waits and
 * memory, the host names. The rest stays as it was. On the loop.
 */
void http_change(struct http_server *s, const struct http_options *o);

/*
 * Where the server listens: "http://127.0.0.1:8048", "https://[::]:8443", "unix:/run/drover.sock",
 * in this order. NULL: there are fewer. Lives as long as the server.
 */
const char *http_url(const struct http_server *s, size_t i);

/*
 * Stops listening and closes the connections; answers are still sent for at most HTTP_LINGER_MS.
 * The loop waits for running handlers. The server frees itself when all is closed: run the loop
 * until then.
 */
void http_close(struct http_server *s);

#endif
