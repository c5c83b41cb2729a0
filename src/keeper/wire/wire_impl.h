/*
 * The inside of wire: connections, what they are asked, what they watch.
 *
 *   wire.c          the listener, and waking up for what other threads and the disk did
 *   wire_conn.c     one connection: bytes in, packets, answers out when they may leave
 *   wire_session.c  who a connection is
 *   wire_ops.c      the requests, a table
 *   wire_multi.c    transactions
 *   wire_watch.c    what a connection watches
 *   wire_words.c    the four-letter words
 *
 * A connection belongs to the loop's thread, except for what stands under "under the store's lock":
 * changes are made by other threads too, and tell their watches there.
 */
#ifndef KEEPER_WIRE_WIRE_IMPL_H
#define KEEPER_WIRE_WIRE_IMPL_H

#include "base/map.h"
#include "keeper/local/engine.h"
#include "keeper/wire/jute.h"
#include "keeper/wire/wire.h"

/* The answers before position `end` of the output saw lsn. */
struct wire_barrier {
    int64_t lsn;
    uint64_t end;
};

struct wire_conn {
    uv_tcp_t tcp;        /* first: a handle is its connection */
    uv_timer_t patience; /* for the hello, and at the end for its answers to be taken */
    struct wire *w;
    struct wire_conn *next, *prev;
    char peer[64]; /* address and port */
    char ip[48];
    int closed_handles;
    bool closing;

    struct buf in;
    size_t in_at;
    bool paused;

    struct buf out;    /* answers not yet given to the socket */
    uint64_t out_base; /* how many bytes were before the first of them */
    uint64_t out_open; /* up to here they have passed the gate */
    struct wire_barrier *barriers;
    size_t barrier_first, barrier_count, barrier_cap;
    struct buf sending;
    uv_write_t write;
    bool writing;
    bool close_when_sent;
    size_t event_bytes; /* put into `out` since it was empty */

    int64_t session;                 /* 0: has not said hello */
    struct acl_id ids[WIRE_IDS_MAX]; /* owned; the first is the address */
    size_t id_count;
    uint64_t received, sent;
    int64_t told_zxid; /* in an answer: for a client time does not go back */

    /* Under the store's lock: */
    struct wire_conn *noted_next, **noted_at; /* in wire.noted; NULL: not in it */
    struct buf events;                        /* packets for watches that have fired */
    int64_t events_lsn;
    bool ended; /* the session is over */
    struct wire_watch **watches;
    uint32_t watch_len, watch_cap;
    struct map watch_index;
    uint64_t told_of; /* the last change that it was told of, as watches count them */
    enum keeper_event told;
};

struct wire {
    uv_loop_t *loop;
    uv_tcp_t listener;
    uv_async_t news; /* another thread did something that concerns a connection */
    struct local *l;
    struct gate_waiter gate_waiter; /* for the answers of all connections */
    struct wire_conn *conns;
    size_t conn_count;
    struct wire_conn *noted;  /* who has news or waits for the disk; under the store's lock */
    struct wire_conn *called; /* those of them that are being looked at */
    char address[64];
    int64_t now_ms;
    int64_t acl_lsn;       /* of the last change of an access list: every stat shows its version */
    struct buf head, body; /* of the answer being made */
    uint64_t received, sent;
    int open_handles;
};

/* wire.c: the store does not call here any more. */
void wire_leave(struct wire *w);

/* wire_conn.c */
void wire_conn_accept(struct wire *w);
void wire_conn_open(struct wire *w, int fd); /* takes a socket that is connected already */
void wire_conn_close(struct wire_conn *c);
void wire_conn_flush(struct wire_conn *c);

/*
 * Puts a packet behind the others: text for the words, which have no length in front. Under the lock,
 * unless it rests on nothing (lsn 0) and is the first.
 */
void wire_conn_put(struct wire_conn *c, struct str packet, int64_t lsn);
void wire_conn_finish(struct wire_conn *c); /* closes once everything is sent */

/* Under the lock: moves what watches have to tell behind what is already in the queue. */
void wire_conn_put_events(struct wire_conn *c);

/* Under the lock: the connection is looked at when the loop is woken next; and it is not. */
void wire_note(struct wire_conn *c);
void wire_unnote(struct wire_conn *c);

/* Under the lock: the connection is looked at when an answer that saw lsn may leave. */
void wire_wait_for_gate(struct wire_conn *c, int64_t lsn);

/* The requests, as ZooKeeper numbers them. */
enum wire_op {
    WIRE_CREATE = 1,
    WIRE_DELETE = 2,
    WIRE_EXISTS = 3,
    WIRE_GET_DATA = 4,
    WIRE_SET_DATA = 5,
    WIRE_GET_ACL = 6,
    WIRE_SET_ACL = 7,
    WIRE_GET_CHILDREN = 8,
    WIRE_SYNC = 9,
    WIRE_PING = 11,
    WIRE_GET_CHILDREN2 = 12,
    WIRE_CHECK = 13,
    WIRE_MULTI = 14,
    WIRE_CREATE2 = 15,
    WIRE_RECONFIG = 16,
    WIRE_CHECK_WATCHES = 17,
    WIRE_REMOVE_WATCHES = 18,
    WIRE_CREATE_CONTAINER = 19,
    WIRE_CREATE_TTL = 21,
    WIRE_MULTI_READ = 22,
    WIRE_AUTH = 100,
    WIRE_SET_WATCHES = 101,
    WIRE_SASL = 102,
    WIRE_GET_EPHEMERALS = 103,
    WIRE_COUNT_DESCENDANTS = 104,
    WIRE_SET_WATCHES2 = 105,
    WIRE_ADD_WATCH = 106,
    WIRE_WHO_AM_I = 107,
    WIRE_CLOSE = -11,
};

/* wire_session.c, wire_ops.c: one packet, without its length. False: the connection cannot go on. */
bool wire_hello(struct wire_conn *c, struct str packet);
bool wire_request(struct wire_conn *c, struct str packet);

/* What a request leaves: an error or w->body, and how far the journal must be for it to leave. */
struct wire_answer {
    int error; /* as ZooKeeper numbers it */
    int64_t zxid;
    int64_t lsn;
};

/* Errors of ZooKeeper's that stand for none of ours. */
enum wire_error {
    WIRE_SYSTEM_ERROR = -1,
    WIRE_MARSHALLING_ERROR = -5, /* what is asked for cannot be */
    WIRE_NO_NODE = -101,
    WIRE_AUTH_FAILED = -115,
    WIRE_NO_WATCHER = -121,
    WIRE_RECONFIG_DISABLED = -123,
};

int wire_error(int err);
struct acl_who wire_who(struct wire_conn *c);
void wire_put_children(struct wire_conn *c, struct str path);

/* wire_session.c, for the table of requests. */
void wire_auth(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a);
void wire_who_am_i(struct wire_conn *c, int type, struct reader *r, struct wire_answer *a);

/* wire_multi.c */
bool wire_read_op(struct wire_conn *c, int type, struct reader *r, struct buf *acl,
                  struct keeper_op *ret_op);
void wire_multi(struct wire_conn *c, struct reader *r, struct wire_answer *a);
void wire_multi_read(struct wire_conn *c, struct reader *r, struct wire_answer *a);

/* wire_watch.c: all under the lock. */
enum wire_watch_mode {
    WIRE_WATCH_DATA = 1,       /* once: getData, exists */
    WIRE_WATCH_CHILDREN = 2,   /* once: getChildren */
    WIRE_WATCH_PERSISTENT = 4, /* addWatch */
    WIRE_WATCH_RECURSIVE = 8,
    WIRE_WATCH_ANY = 15,
};

void wire_watch_add(struct wire_conn *c, struct str path, int mode);
bool wire_watch_remove(struct wire_conn *c, struct str path, int modes); /* false: there was none */
bool wire_watch_has(struct wire_conn *c, struct str path, int modes);
void wire_watch_clear(struct wire_conn *c);
void wire_watch_tell(struct wire_conn *c, enum keeper_event event, struct str path, int64_t lsn);

/* wire_words.c: true: it was one, and is answered. */
bool wire_word(struct wire_conn *c, const char *four);

#endif
