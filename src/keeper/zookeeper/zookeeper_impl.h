/*
 * zookeeper_impl - what the files of the ZooKeeper keeper share; nothing else includes this, and
 * nothing else sees libzookeeper.
 *
 * Threads. libzookeeper has two: one for the socket, and one, here "the reply thread", on which it
 * calls us. Nothing on the reply thread waits or runs a user's callback: it writes down what came
 * and wakes somebody. Calls of the user are sent with the asynchronous functions and waited for on
 * the user's thread. Callbacks of the user wait in a queue for the keeper's own thread, or for
 * keeper_dispatch(). A third thread, the mender, is started when the first commit is in doubt.
 *
 * One lock guards everything in struct zk. It is held while a request is handed to libzookeeper,
 * which does not block, so that the order of our lists is the order on the wire. It is never held
 * while a callback of the user runs, and never taken in an authentication callback, which
 * libzookeeper calls under locks of its own.
 *
 * libzookeeper forgets to answer some requests when a handle is closed, therefore every request
 * that it has is in zk->calls, and what is left there when its threads are gone is answered by us.
 */
#ifndef KEEPER_ZOOKEEPER_ZOOKEEPER_IMPL_H
#define KEEPER_ZOOKEEPER_ZOOKEEPER_IMPL_H

#include <pthread.h>
#include <sys/queue.h>
#include <zookeeper/zookeeper.h>

#include "keeper/keeper.h"
#include "keeper/zookeeper/zookeeper.h"

struct zk;

enum {
    /*
     * libzookeeper breaks the connection when 64 Ki requests wait for its socket thread, so a
     * commit waits when this many are on their way.
     */
    ZK_IN_FLIGHT_MAX = 16 * 1024,

    ZK_TAG_LEN = 32,
    ZK_DOUBT_TIMEOUTS = 3, /* of the session, to find out what became of a transaction */

    ZK_CLOSE_MS = 2000, /* how long closing waits for answers and for a connection to close with */
    ZK_ABANDON_MS = 1000, /* how long abandoning waits for the server to hang up */
};

/* A request that libzookeeper has. */
struct zk_call {
    TAILQ_ENTRY(zk_call) link; /* in zk->calls */
    struct zk *zk;
    int replies;                       /* still to come */
    int rc;                            /* ZooKeeper's answer */
    void (*finish)(struct zk_call *c); /* NULL: somebody waits for done */
    bool done;
    pthread_cond_t answered;
};
TAILQ_HEAD(zk_calls, zk_call);

/* A callback of the user that is due. run() is called with the lock, and lets go of it inside. */
struct zk_item {
    TAILQ_ENTRY(zk_item) link; /* in zk->ready */
    bool queued;
    void (*run)(struct zk *zk, struct zk_item *item);
};
TAILQ_HEAD(zk_items, zk_item);

struct zk_txn;
TAILQ_HEAD(zk_txns, zk_txn);

/* A node of ours whose data is the tag of the latest transaction that used it (zookeeper_tag.c). */
struct zk_slot {
    SLIST_ENTRY(zk_slot) link; /* in zk->slots while nobody uses it */
    bool made;
    char *path; /* with the chroot */
};
SLIST_HEAD(zk_slots, zk_slot);

enum zk_tags { ZK_TAGS_UNTRIED, ZK_TAGS_READY, ZK_TAGS_FORBIDDEN };

struct zk_spot;
TAILQ_HEAD(zk_spots, zk_spot);

struct zk {
    struct keeper keeper; /* first: this is what users hold */
    zhandle_t *handle;
    char *chroot; /* "" or a path */
    size_t chroot_len;
    const struct ACL_vector *acl; /* of what we create */
    struct keeper_session session;
    void (*wake)(void *arg);
    void *wake_arg;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* the connection, over, callers, in_flight is 0, a watch's state */
    pthread_cond_t room;    /* in_flight fell below its limit */
    bool connected_before;
    bool closing;
    int over; /* 0, or what every further call gets */
    int callers;

    struct zk_calls calls;
    size_t in_flight;       /* how many of them */
    struct zk_txns commits; /* in order of submission, until their callbacks are due */

    struct zk_items ready;
    size_t ready_count;
    bool wake_due;      /* by whoever lets go of the lock */
    pthread_cond_t due; /* ready is no longer empty, or stop */
    pthread_t thread;   /* runs callbacks when there is no wake */
    bool thread_runs, stop;
    bool dispatching;
    pthread_t dispatcher; /* while dispatching */

    enum zk_tags tags;
    struct zk_slots slots;
    struct zk_txns doubts; /* commits whose connection broke, for the mender */
    pthread_t mender;
    bool mender_runs;

    struct zk_spots spots;
    uintptr_t last_spot_id;
};

static inline struct zk *zk_of(struct keeper *k)
{
    return (struct zk *)k;
}

/* zookeeper.c: one table of errors. */
int zk_err(int rc);

static inline bool zk_rc_is_lost(int rc)
{
    return zk_err(rc) == DROVER_UNKNOWN;
}

/* The path as the ensemble knows it, to be freed, and back. */
char *zk_full_path(const struct zk *zk, struct str path);
size_t zk_full_path_put(const struct zk *zk, struct str path, bool sequential, char *at);
const char *zk_user_path(const struct zk *zk, const char *full);

struct keeper_stat zk_stat(const struct Stat *s);

/*
 * zookeeper_queue.c. The lock is let go of by zk_unlock() only, or by waiting for a condition after
 * zk_wake(): both call the user's wake, if it is due, without the lock.
 */
void zk_lock(struct zk *zk);
void zk_unlock(struct zk *zk);
void zk_wake(struct zk *zk);
void zk_ready(struct zk *zk, struct zk_item *item);
void zk_unready(struct zk *zk, struct zk_item *item);
bool zk_is_dispatcher(struct zk *zk);
void zk_dispatch(struct keeper *k);
int zk_queue_start(struct zk *zk, struct err_info *ret_error);
void zk_queue_close(struct zk *zk); /* runs what is left */

/*
 * zookeeper_call.c. Every call of the user is between enter, which takes the lock or fails with
 * what ended the session, and leave.
 */
int zk_enter(struct zk *zk);
void zk_leave(struct zk *zk);
int64_t zk_deadline(const struct zk *zk);
void zk_cond_init(pthread_cond_t *c);
bool zk_wait(struct zk *zk, pthread_cond_t *c, int64_t deadline_ms); /* false: time is over */
int zk_wait_connected(struct zk *zk, int64_t deadline_ms);

/* Before sending; after a failed sending; when an answer came; waiting for the last one. */
void zk_call_start(struct zk *zk, struct zk_call *c);
void zk_call_cancel(struct zk_call *c);
void zk_call_reply(struct zk_call *c);
int zk_call_wait(struct zk_call *c); /* returns ZooKeeper's answer */
void zk_calls_fail(struct zk *zk);   /* answers what libzookeeper will not */

/*
 * Reads with the lock held, by full path, repeated while the connection breaks. What is not NULL is
 * filled in. zk_make_node makes an empty node, with enum keeper_flag, that may be there already,
 * and so is repeated like a read.
 */
int zk_read_data(struct zk *zk, const char *full, int64_t deadline_ms, struct buf *ret_data,
                 struct keeper_stat *ret_stat);
int zk_read_children(struct zk *zk, const char *full, int64_t deadline_ms, struct buf *ret_text,
                     size_t *ret_count, struct keeper_stat *ret_stat);
int zk_read_sync(struct zk *zk, const char *full, int64_t deadline_ms);
int zk_read_world_writable(struct zk *zk, const char *full, int64_t deadline_ms,
                           bool *ret_writable);
int zk_make_node(struct zk *zk, const char *full, int64_t deadline_ms, int flags);

int zk_get(struct keeper *k, struct str path, struct buf *ret_data, struct keeper_stat *ret_stat);
int zk_children(struct keeper *k, struct str path, struct buf *ret_text, size_t *ret_count,
                struct keeper_stat *ret_stat);
int zk_sync(struct keeper *k, struct str path);

/* zookeeper_txn.c */
struct zk_txn {
    struct zk_call call;
    struct zk_item item;
    TAILQ_ENTRY(zk_txn) order;    /* in zk->commits */
    TAILQ_ENTRY(zk_txn) in_doubt; /* in zk->doubts */
    keeper_done_fn *done;         /* NULL: keeper_multi, whose caller waits */
    void *arg;
    bool settled; /* err and results are final */
    int err;

    size_t count;
    struct keeper_result *results;
    zoo_op_t *zops; /* count, and one for the tag; a commit's data is gone once it was sent */
    zoo_op_result_t *zresults;
    struct Stat *stats;
    int64_t zxid, time_ms; /* of the transaction; 0: not known */

    struct zk_slot *slot; /* NULL: not tagged */
    bool stat_wanted;     /* of a create */
    bool findable;        /* when the connection breaks, its tag is looked for */
    int64_t deadline_ms;  /* until then */
    char tag[ZK_TAG_LEN + 1];
};

int zk_multi(struct keeper *k, const struct keeper_op *ops, size_t count,
             struct keeper_result *results);
int zk_commit(struct keeper *k, const struct keeper_op *ops, size_t count, keeper_done_fn *done,
              void *arg);

/* Fills in the result of a create that happened. */
void zk_txn_created(struct zk_txn *t, size_t i, const char *full);

/* A commit has its final answer. */
void zk_txn_settle(struct zk_txn *t, int err);

static inline bool zk_op_is_sequential(const zoo_op_t *z)
{
    return z->type == ZOO_CREATE_OP && (z->create_op.flags & KEEPER_SEQUENTIAL);
}

/*
 * zookeeper_tag.c, with the lock held. take gives a transaction a slot, unless tags are forbidden;
 * draw writes a new tag; drop gives the slot back; failed tells whether the transaction failed by
 * its tag alone. resolve waits until it is known what became of a transaction whose connection
 * broke: 0 and its results are filled in, NOT_TRIED when it certainly did not happen, else an
 * error.
 */
int zk_tag_take(struct zk *zk, struct zk_txn *t);
void zk_tag_draw(struct zk_txn *t);
void zk_tag_drop(struct zk *zk, struct zk_txn *t);
bool zk_tag_failed(struct zk *zk, struct zk_txn *t);
int zk_tag_resolve(struct zk *zk, struct zk_txn *t);
void zk_tag_mend(struct zk *zk, struct zk_txn *t); /* leaves a commit to the mender */
void zk_tags_close(struct zk *zk);                 /* without the lock */

/* zookeeper_watch.c. The last three with the lock held. */
int zk_watch(struct keeper *k, struct str path, enum keeper_watch_kind kind, keeper_watch_fn *fn,
             void *arg, struct keeper_watch **ret_watch);
void zk_unwatch(struct keeper *k, struct keeper_watch *w);
void zk_watches_reconnected(struct zk *zk);
void zk_watches_over(struct zk *zk);
void zk_watches_free(struct zk *zk);

#endif
