/*
 * zookeeper_impl - what the files of the ZooKeeper keeper share; nothing else includes this, and
 * nothing else sees libzookeeper.
 *
 * Threads. libzookeeper has two: one for the socket and one, here "the reply thread", for
 * completions and watches. Nothing on the reply thread waits or runs a callback of the user: it
 * stores the answer and wakes the thread that waits for it. Calls of the user are sent with the
 * asynchronous functions, and the user's thread waits. Callbacks of the user wait in a queue for
 * the keeper's own thread or for keeper_dispatch(). The repair thread starts with the first commit
 * whose outcome is unknown.
 *
 * One lock guards everything in struct zk. It is held while a request is handed to libzookeeper,
 * which does not block, so that our lists have the order of the wire. It is never held while a
 * callback of the user runs, and never taken in an authentication callback, which libzookeeper
 * calls under its own locks.
 *
 * libzookeeper leaves some requests unanswered when a handle is closed. So every request that it
 * has is in zk->calls, and zk_calls_fail() answers those that are left when its threads have ended.
 */
#ifndef KEEPER_ZOOKEEPER_ZOOKEEPER_IMPL_H
#define KEEPER_ZOOKEEPER_ZOOKEEPER_IMPL_H

#include <sys/queue.h>
#include <zookeeper/zookeeper.h>

#include "base/arena.h"
#include "base/thread.h"
#include "keeper/keeper.h"
#include "keeper/zookeeper/zookeeper.h"
#include "keeper/zookeeper/zookeeper_relay.h"

struct zk;

enum {
    /*
     * libzookeeper breaks the connection when 64 Ki requests wait for its socket thread, so a
     * commit waits while this many are in flight.
     */
    ZK_IN_FLIGHT_MAX = 16 * 1024,

    ZK_TAG_LEN = 32,
    ZK_RESOLVE_TIMEOUTS = 3, /* session timeouts, to find out the outcome of a transaction */

    ZK_LOOK_MS = 50,      /* opening asks the relay this often whether it is of use to wait */
    ZK_CLOSE_MS = 2000,   /* closing waits this long for answers and for a connection */
    ZK_ABANDON_MS = 1000, /* abandoning waits this long for the server to disconnect */
};

/* A request that libzookeeper has. */
struct zk_call {
    TAILQ_ENTRY(zk_call) link; /* in zk->calls */
    struct zk *zk;
    int replies;                       /* still expected */
    int rc;                            /* ZooKeeper's answer */
    void (*finish)(struct zk_call *c); /* NULL: a thread waits for the last reply */
    pthread_cond_t answered;
};
TAILQ_HEAD(zk_calls, zk_call);

/* A callback of the user that is due. run() is called with the lock and releases it inside. */
struct zk_item {
    TAILQ_ENTRY(zk_item) link; /* in zk->ready */
    bool queued;
    void (*run)(struct zk *zk, struct zk_item *item);
};
TAILQ_HEAD(zk_items, zk_item);

struct zk_txn;
TAILQ_HEAD(zk_txns, zk_txn);

/* A node of ours that holds the tag of the latest transaction that used it (zookeeper_tag.c). */
struct zk_slot {
    SLIST_ENTRY(zk_slot) link; /* in zk->slots while it is free */
    bool made;
    char path[]; /* with the chroot */
};
SLIST_HEAD(zk_slots, zk_slot);

enum zk_tags { ZK_TAGS_UNTRIED, ZK_TAGS_READY, ZK_TAGS_FORBIDDEN };

struct zk_watched;
TAILQ_HEAD(zk_watched_nodes, zk_watched);

struct zk {
    struct keeper keeper; /* first, so the two pointers are interchangeable */
    zhandle_t *handle;
    struct zk_relay *relay; /* NULL: no TLS */
    char *chroot;           /* "" or a path */
    size_t chroot_len;
    const struct ACL_vector *acl; /* of the nodes we create */
    char *user;                   /* logged in; NULL: nobody */
    void (*wake)(void *arg);
    void *wake_arg;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* the connection, ended, callers, in_flight, a watch */
    bool connected_before;
    bool closing;
    int ended; /* 0, or the error that every further call gets */
    int callers;

    struct zk_calls calls;
    size_t in_flight;       /* length of calls */
    struct zk_txns commits; /* in order of submission, until their callbacks are due */

    struct zk_items ready;
    size_t ready_count;
    pthread_cond_t due; /* ready is no longer empty, or stop */
    pthread_t thread;   /* runs callbacks when there is no wake */
    bool thread_runs, stop;
    bool dispatching;
    pthread_t dispatcher; /* while dispatching */

    enum zk_tags tags;
    struct zk_slots slots;
    struct zk_txns unresolved; /* commits whose connection broke, for the repair thread */
    pthread_t repairer;
    bool repairer_runs;

    struct zk_watched_nodes watched;
    uintptr_t last_watched_id;
};

static inline struct zk *zk_of(struct keeper *k)
{
    return (struct zk *)k;
}

/*
 * zookeeper_url.c: the scheme and the hosts with their ports, "zk://h1:2181,h2:2181", which is also
 * the name of the ensemble in messages; and the chroot.
 */
int zk_url_parse(const char *url, struct buf *ret_name, struct str *ret_chroot, struct err_info *e);
bool zk_url_is_tls(const char *name);
const char *zk_url_hosts(const char *name);

/* zookeeper.c: the error of a return code. */
int zk_err(int rc);

static inline bool zk_rc_is_lost(int rc)
{
    return zk_err(rc) == DROVER_UNKNOWN;
}

/* The full path has the chroot in front; the caller frees it. */
char *zk_full_path(const struct zk *zk, struct str path);
size_t zk_full_path_put(const struct zk *zk, struct str path, bool sequential, char *at);

struct keeper_stat zk_stat(const struct Stat *s);

/* The queue of callbacks, with the lock held. */
void zk_ready(struct zk *zk, struct zk_item *item);
void zk_unready(struct zk *zk, struct zk_item *item);

/*
 * zookeeper_call.c. Every call of the user runs between enter, which takes the lock or fails with
 * the error that ended the session, and leave.
 */
int zk_enter(struct zk *zk);
void zk_leave(struct zk *zk);
int64_t zk_deadline(const struct zk *zk);
bool zk_wait(struct zk *zk, int64_t deadline_ms); /* for `changed`; false: too late */
int zk_wait_connected(struct zk *zk, int64_t deadline_ms);

/*
 * Before sending; after it, with what libzookeeper said: 0, or the error and there is no call; for
 * each answer, on the reply thread and without the lock; to wait for the last one.
 */
void zk_call_start(struct zk *zk, struct zk_call *c);
int zk_call_sent(struct zk_call *c, int rc);
void zk_call_answer(struct zk_call *c, int rc);
int zk_call_wait(struct zk_call *c); /* returns ZooKeeper's answer */
void zk_calls_fail(struct zk *zk);   /* answers those that libzookeeper did not */

/*
 * A read, a new access list, or the creation of a node that may exist already: safe to repeat when
 * the connection breaks.
 */
struct zk_request {
    struct zk_call call;
    enum { ZK_GET, ZK_EXISTS, ZK_CHILDREN, ZK_SYNC, ZK_GET_ACL, ZK_SET_ACL, ZK_CREATE } kind;
    const char *full;
    int64_t deadline_ms;
    int flags;             /* create: enum keeper_flag */
    int64_t owner;         /* create: of a container or a TTL node; 0: neither */
    struct str content;    /* create: the data */
    struct ACL_vector acl; /* set ACL */
    struct buf *data;      /* get: the data; children: the names, each with a NUL, or NULL;
                           get ACL: the list, or NULL */
    size_t count;          /* of names */
    watcher_fn watcher;    /* exists, children: NULL: none */
    uintptr_t watcher_id;
    struct keeper_stat stat;
    bool world_writable; /* the ACL allows anybody to change the node */
};

/* With the lock held. send does not wait: an error if it could not be sent. */
int zk_request_send(struct zk *zk, struct zk_request *r);
int zk_request(struct zk *zk, struct zk_request *r);
int zk_exists(struct zk *zk, const char *full, int64_t deadline_ms, struct keeper_stat *ret_stat);
int zk_make_node(struct zk *zk, const char *full, int64_t deadline_ms, int flags);

int zk_get(struct keeper *k, struct str path, struct buf *ret_data, struct keeper_stat *ret_stat);
int zk_children(struct keeper *k, struct str path, struct buf *ret_text, size_t *ret_count,
                struct keeper_stat *ret_stat);
int zk_sync(struct keeper *k, struct str path);

/* zookeeper_txn.c */
struct zk_txn {
    struct zk_call call;
    struct arena arena; /* its operations with their paths, and their answers */
    struct zk_item item;
    TAILQ_ENTRY(zk_txn) order;  /* in zk->commits */
    TAILQ_ENTRY(zk_txn) repair; /* in zk->unresolved */
    keeper_done_fn *done;       /* NULL: keeper_multi, whose caller waits */
    void *arg;
    bool settled; /* err and results are final */
    int err;

    size_t count;
    struct keeper_result *results;
    zoo_op_t *zops; /* count + 1, for the tag; a commit's data is invalid once it was sent */
    zoo_op_result_t *zresults;
    struct Stat *stats;
    int64_t zxid, time_ms; /* of the transaction; 0: unknown */

    struct zk_slot *slot; /* NULL: not tagged */
    bool stat_needed;     /* of a create, and no operation of the user brings the zxid for it */
    bool findable;        /* if the connection breaks, its tag tells the outcome */
    bool tagged;          /* it wants a slot */
    int64_t deadline_ms;  /* for finding it */
    char tag[ZK_TAG_LEN + 1];
};

int zk_multi(struct keeper *k, const struct keeper_op *ops, size_t count,
             struct keeper_result *results);
int zk_commit(struct keeper *k, const struct keeper_op *ops, size_t count, keeper_done_fn *done,
              void *arg);

/* Every result becomes this error, which it returns. */
int zk_txn_fail(struct zk_txn *t, int err);

/* Fills in the result of a create that succeeded. */
void zk_txn_created(struct zk_txn *t, size_t i, const char *full);

/* A commit has its final result. */
void zk_txn_settle(struct zk_txn *t, int err);

static inline bool zk_op_is_sequential(const zoo_op_t *z)
{
    return z->type == ZOO_CREATE_OP && (z->create_op.flags & KEEPER_SEQUENTIAL);
}

/*
 * zookeeper_tag.c, with the lock held. take gives a transaction that wants one a slot, unless tags
 * are forbidden; draw writes a new tag; drop returns the slot; failed tells whether the tag alone
 * made the transaction fail. resolve waits until the outcome of a transaction whose connection
 * broke is known: 0 with its results filled in, NOT_TRIED if it certainly did not happen, else an
 * error.
 */
int zk_tag_take(struct zk *zk, struct zk_txn *t);
void zk_tag_draw(struct zk_txn *t);
void zk_tag_drop(struct zk *zk, struct zk_txn *t);
bool zk_tag_failed(struct zk *zk, struct zk_txn *t);
int zk_tag_resolve(struct zk *zk, struct zk_txn *t);
void zk_tag_repair(struct zk *zk, struct zk_txn *t); /* hands a commit to the repair thread */
void zk_tags_close(struct zk *zk);                   /* without the lock */

/* zookeeper_watch.c. The last three with the lock held. */
int zk_watch(struct keeper *k, struct str path, enum keeper_watch_kind kind, keeper_watch_fn *fn,
             void *arg, struct keeper_watch **ret_watch);
void zk_unwatch(struct keeper *k, struct keeper_watch *w);
void zk_watches_reconnected(struct zk *zk);
void zk_watches_end(struct zk *zk);
void zk_watches_free(struct zk *zk);

#endif
