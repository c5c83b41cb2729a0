/*
 * wire_impl - the inside of wire: connections, their requests and their watches.
 *
 *   wire.c          the listener, and wake-ups by other threads and the disk
 *   wire_conn.c     one connection: bytes in, packets, answers out when they may leave
 *   wire_host.c     lets connections in; their addresses
 *   wire_memory.c   the memory of all connections
 *   wire_session.c  the session of a connection
 *   wire_auth.c     its identities, and whether it may ask at all
 *   wire_secure.c   TLS
 *   wire_rights.c   its roles
 *   wire_ops.c      the requests, a table
 *   wire_multi.c    transactions
 *   wire_watch.c    the watches of a connection
 *   wire_latency.c  how long answers take
 *   wire_words.c    the four-letter words, and the same as JSON
 *   wire_values.c   what they report, and wire_dump.c
 *   wire_report.c   how it is written
 *
 * A connection belongs to the loop's thread, except for the fields below "Under the store's lock":
 * changes by other threads fire watches.
 */
#ifndef KEEPER_WIRE_WIRE_IMPL_H
#define KEEPER_WIRE_WIRE_IMPL_H

#include <sys/queue.h>

#include "base/arena.h"
#include "base/door.h"
#include "base/map.h"
#include "base/summary.h"
#include "base/thread.h"
#include "keeper/jute.h"
#include "keeper/local/engine.h"
#include "keeper/wire/wire.h"

/* Latencies are those of requests that do not change anything, and of those that do. */
enum wire_latency_kind { WIRE_READ, WIRE_UPDATE, WIRE_LATENCY_KINDS };

/*
 * Answers that were not yet given to the socket: how many, and when their requests were read. That
 * is enough for the minimum, the maximum and the sum of their latencies, however many they are.
 */
struct wire_waits {
    uint64_t count;
    int64_t sum_ms, first_ms, last_ms;
};

/* The answers before position `end` of the output saw lsn. */
struct wire_barrier {
    int64_t lsn;
    uint64_t end;
    struct wire_waits waits[WIRE_LATENCY_KINDS];
};

/* What a connection has done; the word crst clears it. */
struct wire_traffic {
    uint64_t received, sent; /* packets */
    const char *last_op;     /* NULL: none */
    int64_t last_xid;        /* of a request of the client's own, plus 1; 0: none */
    int64_t last_zxid;       /* in an answer, plus 1; 0: none */
    int64_t last_sent_ms;    /* clock_boot_ms() of the last answer */
    int64_t last_latency_ms;
    struct summary latency; /* milliseconds */
};

/* The same of all connections, since the start or the word srst. */
struct wire_totals {
    uint64_t received, sent; /* packets */
    uint64_t received_bytes, sent_bytes;
    uint64_t hellos, resumed;    /* connect requests; those of a session that there is */
    uint64_t rejected, timeouts; /* connections: too many; without a connect request in time */
    struct summary latency[WIRE_LATENCY_KINDS];
};

struct wire_conn {
    uv_tcp_t tcp;        /* first member: the handle's pointer is the connection's */
    uv_timer_t patience; /* for the connect request, and to read the last answer */
    struct wire *w;
    TAILQ_ENTRY(wire_conn) link; /* in wire.conns */
    char peer[64];               /* address and port */
    struct door_guest guest;
    int closed_handles;
    bool closing;

    struct tls *tls; /* NULL: plain */
    struct buf in;
    size_t in_at;
    bool paused;

    struct buf out;                                   /* answers not yet given to the socket */
    uint64_t out_base;                                /* position of the first of them */
    uint64_t out_open;                                /* up to here they have passed the gate */
    struct wire_waits open_waits[WIRE_LATENCY_KINDS]; /* of those */
    uint64_t unsent; /* answers in `out`, for requests that count */
    struct wire_barrier *barriers;
    size_t barrier_first, barrier_count, barrier_cap;
    struct buf sending;
    uv_write_t write;
    bool writing;
    bool close_when_sent;
    size_t event_bytes; /* put into `out` since it was empty */
    size_t held;        /* as wire_memory.c counts it */
    bool holds;         /* on the list of those that hold much */
    TAILQ_ENTRY(wire_conn) holder_link;

    int64_t session;                 /* 0: not connected yet */
    struct acl_id ids[WIRE_IDS_MAX]; /* owned; the first is the address */
    struct acl_who who;              /* those that are used */
    bool is_loopback, is_super;
    bool roles_known; /* `roles` are those of rights_generation */
    uint64_t rights_generation;
    char *token;       /* that its client gave; NULL: none */
    int64_t told_zxid; /* the highest zxid in an answer */
    int64_t since_ms;  /* clock_wall_ms() when it was accepted */
    struct wire_traffic traffic;

    /* Under the store's lock: */
    unsigned roles;
    char name[IDENTITY_NAME_SIZE];    /* whose roles they are, for the audit log */
    bool refusal_noted;               /* of the present request, in the audit log */
    LIST_ENTRY(wire_conn) noted_link; /* in wire.noted or wire.called */
    bool noted;
    struct buf events; /* packets for watches that have fired */
    uint64_t event_count;
    int64_t events_lsn;
    bool ended; /* the session is over */
    struct wire_watch **watches;
    uint32_t watch_len, watch_cap;
    uint32_t listed; /* of them, by the word wchs */
    struct map watch_index;
    uint64_t told_of; /* the last change it was notified of (watches.changes) */
    enum keeper_event told;
};

TAILQ_HEAD(wire_conns, wire_conn);
LIST_HEAD(wire_noted, wire_conn);

enum { WIRE_LISTENERS_MAX = 2 * OPTION_ADDRESSES_MAX };

struct wire {
    struct wire_options o;                  /* with the defaults */
    char *super;                            /* the id of the superuser; NULL: there is none */
    uv_tcp_t listeners[WIRE_LISTENERS_MAX]; /* those with TLS last */
    char addresses[WIRE_LISTENERS_MAX][64]; /* of the listeners: "127.0.0.1:8049" */
    size_t listener_count;
    uv_async_t news; /* another thread has changed something for a connection */
    struct local *l;
    struct gate_waiter gate_waiter; /* for the answers of all connections */
    struct wire_conns conns;
    size_t conn_count;
    struct door door;
    struct refusals sessions_refused;
    size_t held;               /* bytes, of all connections */
    struct wire_conns holders; /* that hold much; the first has made no progress for longest */
    struct refusals evicted;
    size_t accepted;                  /* in this turn of the loop, or since an earlier one */
    bool waiting[WIRE_LISTENERS_MAX]; /* listeners: a connection waits for the next turn */
    struct wire_noted noted;          /* with events or waiting answers; under the store's lock */
    struct wire_noted called;         /* the part of them that on_news() still has to look at */
    int64_t now_ms;
    int64_t acl_lsn; /* of the last change of an access list, whose version every stat shows */
    struct buf head, body; /* of the answer being made */
    int64_t started_ms;    /* clock_boot_ms() */
    struct wire_totals totals;
    uint64_t unsent;      /* of all connections */
    uint64_t watch_count; /* as ZooKeeper counts them, see wire_watch.c; under the store's lock */
    int64_t trace_mask;   /* kept for those who ask; nothing is traced */
};

/* wire.c: the store does not call here any more; the port of an address of either family. */
void wire_leave(struct wire *w);
int wire_port(const struct sockaddr_storage *address);

/* wire_host.c */
void wire_door_open(struct wire *w);
bool wire_let_in(struct wire_conn *c); /* false: it is refused */
void wire_session_refused(struct wire *w);
void wire_accept(uv_stream_t *listener, int status);
void wire_accept_more(struct wire *w); /* what was left to the next turn of the loop */

/* wire_memory.c: counts what the connection holds, after it has changed. May close connections. */
void wire_memory_count(struct wire_conn *c);

/* wire_secure.c: what a connection does only if it has TLS. */

/* Decrypts bytes that have arrived into `in`. 0, TLS_CLOSED: the last ones, or TLS_FAILED. */
int wire_decrypt(struct wire_conn *c, struct str bytes);

/* wire_conn.c */
void wire_conn_accept(struct wire *w, uv_stream_t *listener);
void wire_conn_open(struct wire *w, int fd); /* takes a socket that is connected already */
void wire_conn_close(struct wire_conn *c);
void wire_conn_flush(struct wire_conn *c);

/*
 * Appends a packet to the output, or plain text for the four-letter words. Under the lock, unless
 * it depends on no transaction (lsn 0) and is the first.
 */
void wire_conn_put(struct wire_conn *c, struct str packet, int64_t lsn);
void wire_conn_finish(struct wire_conn *c); /* closes once everything is sent */

static inline void wire_count_received(struct wire_conn *c)
{
    c->traffic.received++;
    c->w->totals.received++;
}

static inline void wire_count_sent(struct wire_conn *c, uint64_t packets)
{
    c->traffic.sent += packets;
    c->w->totals.sent += packets;
}

/* The packets that were put last are the answer to a request that counts. op: as in `lop`. */
void wire_conn_answered(struct wire_conn *c, const char *op, int64_t xid, int64_t zxid,
                        enum wire_latency_kind kind);

/* Under the lock: appends the pending watch events to the output. */
void wire_conn_put_events(struct wire_conn *c);

/* Under the lock: has the connection looked at when the loop is woken next; or no longer. */
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
    WIRE_DELETE_CONTAINER = 20, /* of a server to itself */
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

/*
 * wire_session.c, wire_ops.c: one packet, without its length. False: the connection must be closed.
 */
bool wire_hello(struct wire_conn *c, struct str packet);
bool wire_request(struct wire_conn *c, struct str packet);

/* A request, and its result: an error, or w->body; and the LSN that it saw. */
struct wire_request {
    int type;
    const char *name; /* as in `lop`; NULL: it does not count */
    struct reader r;  /* the arguments */
    int error;        /* as ZooKeeper numbers it */
    bool keeps_body;  /* in spite of an error */
    int64_t zxid;     /* of a change, even if it was refused; 0: a read */
    bool no_zxid;     /* the header has zxid, whatever is known: it has not seen the tree */
    int64_t lsn;
};

/* ZooKeeper errors, most of them without a counterpart in enum drover_err. */
enum wire_error {
    WIRE_SYSTEM_ERROR = -1,
    WIRE_MARSHALLING_ERROR = -5, /* the request is invalid */
    WIRE_UNIMPLEMENTED = -6,
    WIRE_BAD_ARGUMENTS = -8,
    WIRE_NO_NODE = -101,
    WIRE_AUTH_FAILED = -115,
    WIRE_NO_WATCHER = -121,
    WIRE_RECONFIG_DISABLED = -123,
    WIRE_AUTH_REQUIRED = -124,
};

int wire_error(int err);

/*
 * Finds a node that the client may read. The answer saw the transactions that made the node what it
 * is, or, if there is none, the last one. An invalid path names no node.
 */
bool wire_look(struct wire_conn *c, struct str path, int permission, struct wire_request *q,
               struct tree_view *ret_view);

/* The answer to a getData, getChildren or getChildren2. */
void wire_put_node(struct wire_conn *c, int type, struct str path, const struct tree_view *v);

/* wire_auth.c, for the table of requests. */
void wire_auth(struct wire_conn *c, struct wire_request *q);
void wire_sasl(struct wire_conn *c, struct wire_request *q);
void wire_who_am_i(struct wire_conn *c, struct wire_request *q);

/* The id of the superuser, from its file. */
int wire_read_super(const struct wire_options *o, char **ret_super, struct err_info *ret_error);

/* Adds an identity to a connection. False: it has too many. */
bool wire_add_id(struct wire_conn *c, struct str scheme, struct str id);

/* With require_auth: whether the client is known well enough for a request of this type. */
bool wire_may_ask(const struct wire_conn *c, int type);

/* wire_rights.c: whether it has one of the roles for a path. Under the lock. */
bool wire_may(const struct wire_conn *c, struct str path, unsigned roles);
bool wire_may_read(struct wire_conn *c, struct str path); /* false: the audit log has it */
void wire_note_refusal(struct wire_conn *c, const char *verb, struct str path);
int wire_audit(struct wire_conn *c, const struct keeper_op *op); /* 0 or NO_AUTH */
void wire_refresh_rights(struct wire_conn *c);
void wire_take_token(struct wire_conn *c, struct str credential); /* "name:token", or any other */

/* wire_multi.c. read_op: false: the request is invalid. */
bool wire_read_op(struct wire_conn *c, int type, bool in_multi, struct reader *r, struct arena *a,
                  struct keeper_op *ret_op);
void wire_multi(struct wire_conn *c, struct wire_request *q);
void wire_multi_read(struct wire_conn *c, struct wire_request *q);

/* wire_watch.c: all under the lock. */
enum wire_watch_mode {
    WIRE_WATCH_DATA = 1,            /* once: getData, exists */
    WIRE_WATCH_CHILDREN = 2,        /* once: getChildren */
    WIRE_WATCH_PERSISTENT = 4 | 8,  /* addWatch: on the data and on the children, */
    WIRE_WATCH_RECURSIVE = 16 | 32, /* which can be removed one without the other */
    WIRE_WATCH_ON_DATA = 1 | 4 | 16,
    WIRE_WATCH_ON_CHILDREN = 2 | 8 | 32,
    WIRE_WATCH_ANY = 63,
};

void wire_watch_add(struct wire_conn *c, struct str path, int mode);
bool wire_watch_remove(struct wire_conn *c, struct str path, int modes); /* false: there was none */
bool wire_watch_has(struct wire_conn *c, struct str path, int modes);
void wire_watch_clear(struct wire_conn *c);
void wire_watch_tell(struct wire_conn *c, enum keeper_event event, struct str path, int64_t lsn);

/* wire_latency.c. settle: the answers that have passed the gate are given to the socket now. */
void wire_waits_add(struct wire_waits *to, int64_t read_ms);
void wire_waits_move(struct wire_waits *to, struct wire_waits *from); /* arrays of each kind */
void wire_waits_settle(struct wire_conn *c, int64_t now_ms);

/*
 * wire_values.c, wire_dump.c: what the words report, in the order of ZooKeeper's lines. They take
 * the lock.
 */
struct report;

void wire_put_connections(struct wire *w, struct report *r);
void wire_put_server(struct wire *w, struct report *r);
void wire_put_status(struct wire *w, struct report *r); /* both, the connections in brief */
void wire_put_sessions(struct wire *w, struct report *r);
void wire_put_monitor(struct wire *w, struct report *r);
void wire_put_configuration(struct wire *w, struct report *r);
void wire_put_directories(struct wire *w, struct report *r);
void wire_put_environment(struct wire *w, struct report *r);

/* wire_watch.c: the watches as ZooKeeper lists them: without those for children only. */
void wire_put_watch_summary(struct wire *w, struct report *r);
void wire_put_watches(struct wire *w, struct report *r); /* by session */
void wire_put_watches_by_path(struct wire *w, struct report *r);

/* wire_words.c: a first packet of `len` bytes so far. */
enum wire_word_state {
    WIRE_WORD_NONE, /* it is none */
    WIRE_WORD_MORE, /* it has an argument, which is not complete */
    WIRE_WORD_DONE, /* it was one, and is answered */
};

enum wire_word_state wire_word(struct wire_conn *c, const char *bytes, size_t len);
uint32_t wire_words_default(void);

#endif
