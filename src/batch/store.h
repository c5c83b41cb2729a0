/*
 * store - what all of batch shares: the machines, the kinds of items, and the layout of the tree.
 *
 * One struct batch_store per process serves any number of keepers and threads. Order of use:
 * batch_store_open(); batch_store_init() once there is a keeper, which creates the nodes that all
 * others are under; operations; batch_store_close().
 *
 * Every operation takes a struct batch_call: the store, the keeper of the calling session, an arena
 * that lives as long as the result, and room for an error message. Operations return 0 or a
 * negative enum drover_err, and on failure call->why holds a sentence for people.
 *
 * The tree is that of the specification:
 *
 *     /batches/BID/submission, status, status-report, lock, states/batch-processing/JID, ...
 *     /batch-uuids/UUID
 *     /jobs/JID/bid, configuration, status, priority, space_needed, identifiers, metadata,
 *               inventory, store, lock
 *     /jobs/states/STATE/PP-JID
 *     /locks/queue/..., storage/..., inventory/..., collections/..., localid/...
 *     /access/small/ID/token, status, lock and /access/large/ID/...
 *
 * Drover adds an index, so that finding a batch in some state does not read all of them:
 *
 *     /drover/batch/STATE/BID                    for each state of a batch that is not final
 *     /drover/access/small/STATE/ID, large/...   for each state of an access item that is not final
 *
 * Invariants after any operation, even an interrupted one, because each operation is one
 * transaction: a job is in exactly one state list, the one that its status names; it is in exactly
 * one list of its batch, the one that its state belongs to; and a batch whose batch-processing
 * became empty is Reporting (or UpdateReporting), or was reported since, or is locked, or foreign
 * clients have changed that list as well: then the report becomes due a moment later (active.c).
 */
#ifndef BATCH_STORE_H
#define BATCH_STORE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/json.h"
#include "batch/machine.h"
#include "batch/name.h"
#include "keeper/list_view.h"
#include "keeper/txn.h"

struct batch_call {
    struct batch_store *store;
    struct keeper *k;
    struct arena *a;
    struct err_info *why;
};

#define NO_BYTES ((struct str){"", 0})

/* The list of a state, and the view of it that the acquirers of this process share. */
struct batch_view {
    char dir[96];
    const struct batch_kind *kind;
    struct list_view *list;

    /* For acquires that wait, see watch.c. */
    atomic_bool wanted;       /* one is about to wait, or an item was locked while one waits */
    atomic_bool changed;      /* a watch fired */
    bool attended;            /* watches are set */
    int64_t rest_ms, next_ms; /* nothing is done before, and again at the latest */
};

#define BATCH_VIEW_GROUP STR("all") /* of every entry of a view */

/* The name of an entry. */
struct batch_entry_name {
    char text[BATCH_ENTRY_LEN + 1];
};

struct batch_entry_name batch_view_entry(const struct batch_view *v, int64_t key);
bool batch_view_has(const struct batch_view *v, int64_t key);

/* Names of operations. */
enum {
    OP_ANY,    /* nobody asks about it */
    OP_STATUS, /* sets the status of the item: decides if the outcome is unknown */
    OP_LOCK,   /* creates the lock of the item */
    OP_GUARD,  /* checks or removes the lock of the item */
    OP_ENTRY,  /* the entry of a job in the list of its state */
    OP_LISTS,  /* the other lists of a job */
    OP_HOLDS,  /* the locks of queues and collections */
    OP_UNIQUE, /* creates a node whose EXISTS refuses the whole transaction */
};

struct batch_txn {
    struct txn txn;
    struct batch_txn_list {
        struct batch_view *view;
        int64_t key;
        bool add;
        struct batch_txn_list *next;
    } * lists, *last_list; /* its changes to lists, in order */
};

#define BATCH_TXN(call) ((struct batch_txn){.txn = {.a = (call)->a}})

/* Adds an entry to a list, or removes it. */
void batch_txn_list_add(struct batch_txn *t, int name, struct batch_view *v, int64_t key);
void batch_txn_list_remove(struct batch_txn *t, int name, struct batch_view *v, int64_t key);

/* Adds a job to a list of its batch, or removes it. */
void batch_txn_job_list(struct batch_txn *t, int name, const char *bid, enum batch_list list,
                        const char *jid, bool add);

/* As txn_commit(), and a failure sets call->why. */
int batch_txn_commit(struct batch_call *c, struct batch_txn *t, int witness);

enum { BATCH_TRIES = 50 }; /* attempts at a transaction that conflicts with others */

/* A change of state, after it was committed. */
struct batch_event {
    const char *key;          /* "batch", "job" or "access" */
    const char *id, *batch;   /* batch: that of a job; else NULL */
    const char *from, *state; /* from NULL: the item is new */
};

struct batch_store_options {
    const struct batch_machines *machines; /* NULL: the built-in ones; must outlive the store */
    int64_t (*wall_ms)(void *arg);         /* NULL: the system's clock */
    /* Called after each change, on the thread that made it; may be NULL. */
    void (*changed)(void *arg, const struct batch_event *e);
    /* Called when items of a list can be acquired, from any thread; may be NULL. */
    void (*available)(void *arg, const struct batch_view *v, uint32_t count);
    void (*stale)(void *arg); /* A watch on a list or a lock fired; may be NULL. */
    void *arg;
};

enum batch_kind_id {
    BATCH_KIND_BATCH,
    BATCH_KIND_JOB,
    BATCH_KIND_SMALL, /* access items, by queue */
    BATCH_KIND_LARGE,
    BATCH_KINDS,
};

enum { BATCH_NODES_MAX = 6, BATCH_PATH_LEN = 31 };
enum { BATCH_NODE_STORE = 5 }; /* of a job: only in a pipeline with the state Storing */
enum { BATCH_INCOMPLETE_MAX = 256, BATCH_INCOMPLETE_RETRY_MS = 100 };

/* What this process has seen of a kind. Guarded by the lock of the store. */
struct batch_index_state {
    int64_t next; /* items below this number were indexed */
    int64_t incomplete[BATCH_INCOMPLETE_MAX];
    int incomplete_count;
    bool missed; /* there were more: the next sweep looks at all items */
    int64_t retried_ms;
};

/* A kind of item: where it is in the tree, its states, and the list of each state. */
struct batch_kind {
    enum batch_kind_id id;
    const struct batch_store *store;
    const char *key, *plural;               /* in JSON and events: "batch", "batches" */
    const char *prefix;                     /* of its ids */
    bool priority;                          /* entries of its lists are PP-ID */
    const char *dir;                        /* "/batches" */
    const char *lists;                      /* parent of its lists: "/drover/batch" */
    const char *queue;                      /* the queue lock that stops acquiring, or NULL */
    const char *nodes[BATCH_NODES_MAX + 1]; /* besides the status, shown to people */

    const struct batch_machine *machine;
    struct batch_view views[BATCH_STATES_MAX]; /* by state; final states only for jobs */
    uint32_t
        blocks_seen[BATCH_STATES_MAX]; /* generation of the reasons for blocks, see acquire.c */
    struct batch_index_state index;    /* not for jobs */
};

/* The parents of the locks by name that stop acquires, as they were last read. */
enum batch_hold_list_id { BATCH_HOLD_QUEUES, BATCH_HOLD_COLLECTIONS, BATCH_HOLD_LISTS };

struct batch_hold_list {
    bool known_empty;  /* else they are read for each acquire */
    int32_t version;   /* raised by what Drover locks */
    uint32_t cversion; /* counts locks and unlocks */
    int64_t pzxid;     /* of the last lock or unlock, by whomever */
};

struct batch_store {
    struct batch_machines machines;
    struct batch_store_options options;
    struct {
        int pending, held, processing, reporting, failed, update_reporting, completed, deleted;
    } batch; /* the states of a batch, by name */

    struct batch_kind kinds[BATCH_KINDS];
    struct batch_job_cache *job_cache;
    pthread_mutex_t creating; /* one new id at a time */
    pthread_mutex_t indexing; /* one thread at a time indexes new items */

    pthread_mutex_t lock; /* guards the index of each kind, and: */
    struct batch_hold_list holds[BATCH_HOLD_LISTS];
};

/* A batch, a job or an access item, as it was read. */
struct batch_item {
    struct batch_kind *kind;
    int64_t number;
    char id[BATCH_ID_LEN + 1],
        path[BATCH_PATH_LEN + 1]; /* "jid0000000007", "/jobs/jid0000000007" */
    struct batch_status status;
    int32_t version; /* of the status node */
    int64_t token;   /* of its lock (item.h), 0: not locked; not from batch_item_read() */

    /* Only from batch_item_get(). */
    struct str nodes[BATCH_NODES_MAX]; /* data of kind->nodes; p NULL: no such node */
    int64_t counts[BATCH_LIST_COUNT];  /* of a batch: the number of jobs in each list */

    /* Of a job. */
    char bid[BATCH_ID_LEN + 1];
    int priority;
    int32_t priority_version;
    int32_t batch_version; /* of the status of its batch when that was not Held; -1: not read */
};

struct batch_store *batch_store_open(const struct batch_store_options *o);
void batch_store_close(struct batch_store *r);

/* Calls fn with the path of every node that the module needs, parents first, until it fails. */
int batch_store_nodes(struct batch_store *r, int (*fn)(void *arg, const char *path), void *arg);

/* Creates the nodes that are missing. */
int batch_store_init(struct batch_call *c);

/* The time as the specification writes it, "2026-01-31T23:59:59.123Z", in the arena. */
struct str batch_now(struct batch_call *c);

/* Tells options.changed that an item changed its state. from BATCH_NO_STATE: the item is new. */
void batch_publish(struct batch_call *c, const struct batch_item *i, int from, int to);

/* Reads a node into the arena. Returns the keeper's error, which also sets call->why. */
int batch_node_get(struct batch_call *c, struct str *ret_data, struct keeper_stat *ret_stat,
                   const char *fmt, ...) __attribute__((format(printf, 4, 5)));
int batch_node_exists(struct batch_call *c, struct keeper_stat *ret_stat, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* For a node that need not exist: 0, and the stat is zero (so is its czxid). */
#define batch_node_stat(...) batch_optional(batch_node_exists(__VA_ARGS__))

/* The names of a node's children, in the arena. */
int batch_node_children(struct batch_call *c, struct keeper_names *ret_names,
                        struct keeper_stat *ret_stat, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* For nodes that need not exist: NO_NODE becomes 0. */
static inline int batch_optional(int err)
{
    return err == DROVER_NO_NODE ? 0 : err;
}

/* Sets call->why to the general message of an error (0: none), or to one of ours. Returns err. */
int batch_fail(struct batch_call *c, int err);
#define BATCH_FAIL(c, err, ...) err_set((c)->why, err, __VA_ARGS__)

/* The number of the next new item, and the version of the parent to insist on. */
int batch_next_number(struct batch_call *c, const struct batch_kind *kind, int64_t *ret_number,
                      int32_t *ret_version);

/* Whether a transaction failed because another client was faster: read again and retry. */
static inline bool batch_is_conflict(int err)
{
    return err == DROVER_BAD_VERSION || err == DROVER_NO_NODE || err == DROVER_EXISTS ||
           err == DROVER_NOT_EMPTY;
}

#endif
