/*
 * keeper - a small durable tree of nodes, which stores everything in Drover.
 *
 * The model is ZooKeeper's: nodes with paths, data and a stat; changes at an expected version;
 * ephemeral nodes, which are deleted with the session that created them; sequence numbers; watches;
 * transactions of several operations that all happen or none. There are two implementations: the
 * embedded keeper (local.h) and a ZooKeeper ensemble (zookeeper.h). Each has its own call to open
 * one; from then on there is only struct keeper, which is one session.
 *
 * In order: open -> get, children, create, set, delete, multi, sync from any thread; commit and
 * watches with callbacks -> close.
 *
 * What always holds:
 *  - Calls may come from any thread. A call that returned 0 has happened and is as durable as the
 *    keeper promises, and a read never shows a change that could still be lost.
 *  - The requests of one session, commits included, take effect in the order in which they were
 *    made.
 *  - UNKNOWN means that the connection broke: the change may or may not have happened.
 *  - SESSION_EXPIRED is final for this struct keeper. Its ephemeral nodes are deleted, now or soon.
 *  - Callbacks of one keeper run one after the other: on the keeper's own thread, or, if the
 *    options have a `wake`, inside keeper_dispatch() on a thread of the user. They may call
 *    anything here except keeper_close() of the same keeper.
 *
 * Arguments are borrowed for the call. The caller releases results.
 */
#ifndef KEEPER_KEEPER_H
#define KEEPER_KEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct keeper;

enum {
    KEEPER_ANY_VERSION = -1,
    KEEPER_PASSWORD_LEN = 16,

    /* The largest request, in ZooKeeper's encoding: keeper_request_size(). */
    KEEPER_REQUEST_MAX = 1024 * 1024 - 1,
    KEEPER_MULTI_MAX = 10000, /* operations */

    KEEPER_TIMEOUT_MIN_MS = 1000,
    KEEPER_TIMEOUT_MAX_MS = 3600 * 1000,
    KEEPER_TIMEOUT_DEFAULT_MS = 10 * 1000,
};

struct keeper_stat {
    int64_t czxid, mzxid, pzxid; /* zxids of its creation, last set, last change of its children */
    int64_t ctime_ms, mtime_ms;
    int64_t ephemeral_owner; /* session; 0: none */
    int32_t version;         /* sets */
    int32_t cversion;        /* creations and deletions of children */
    int32_t aversion;        /* changes of the access list */
    int32_t data_len;
    int32_t child_count;
};

enum keeper_flag {
    KEEPER_EPHEMERAL = 1,  /* deleted with the session */
    KEEPER_SEQUENTIAL = 2, /* ten rising digits are appended to the path */
    KEEPER_NO_STAT = 4,    /* its stat is not needed: saves an operation on an ensemble */
};

/*
 * Containers and nodes with a time to live, as ZooKeeper encodes them in the owner of a node. A
 * container is deleted some time after its last child, a TTL node when it has no children and was
 * not changed for that long. Only clients of the ZooKeeper port make them.
 */
#define KEEPER_CONTAINER INT64_MIN
#define KEEPER_TTL_MAX_MS INT64_C(0xffffffffff)

static inline int64_t keeper_ttl(int64_t ms)
{
    return (int64_t)(UINT64_C(0xff) << 56) | ms;
}

/* SET_ACL is for clients of the ZooKeeper port only. */
enum keeper_op_kind {
    KEEPER_CREATE,
    KEEPER_SET,
    KEEPER_DELETE,
    KEEPER_CHECK,
    KEEPER_SET_ACL,
};

/* One operation of a transaction. Make them with the functions below. */
struct keeper_op {
    enum keeper_op_kind kind;
    int flags;       /* create: enum keeper_flag */
    int32_t version; /* set, delete, check: the expected one, or KEEPER_ANY_VERSION */
    struct str path;
    struct str data; /* create, set */
    struct str acl;  /* create, set ACL: as in acl.h; empty: open to all */
    int64_t owner;   /* create: KEEPER_CONTAINER or keeper_ttl(); 0: neither */
    int refused;     /* the error of a request that was malformed, reported when it is its turn */
    int bad_name;    /* create: likewise of the last name, after all checks of the parent */
};

struct keeper_op keeper_op_create(const char *path, struct str data, int flags);
struct keeper_op keeper_op_set(const char *path, struct str data, int32_t version);
struct keeper_op keeper_op_delete(const char *path, int32_t version);
struct keeper_op keeper_op_check(const char *path, int32_t version);

/*
 * The result of one operation. If the transaction failed, err is 0 for the operations before the
 * one that failed, its error for that one, and NOT_TRIED for those after it.
 */
struct keeper_result {
    int err;
    char *path;              /* of a create: the new path; else NULL */
    struct keeper_stat stat; /* of a create or set: right after this operation; else zeros. With
                                KEEPER_NO_STAT it may lack the numbers and times. */
};

void keeper_results_release(struct keeper_result *results, size_t count);

/* Names of children, sorted by bytes. Zero-initialise; release when done. */
struct keeper_names {
    char **names; /* NUL-terminated */
    size_t count;
    char *text; /* the memory of the names */
};

void keeper_names_release(struct keeper_names *n);

/* Reading. ret_stat may be NULL. keeper_get replaces what ret_data holds. */
int keeper_get(struct keeper *k, const char *path, struct buf *ret_data,
               struct keeper_stat *ret_stat);
int keeper_exists(struct keeper *k, const char *path, struct keeper_stat *ret_stat);
int keeper_children(struct keeper *k, const char *path, struct keeper_names *ret_names,
                    struct keeper_stat *ret_stat);

/*
 * Changes. ret_path, if not NULL, gets the path of the new node, which the caller frees.
 */
int keeper_create(struct keeper *k, const char *path, struct str data, int flags, char **ret_path);
int keeper_set(struct keeper *k, const char *path, struct str data, int32_t version,
               struct keeper_stat *ret_stat);
int keeper_delete(struct keeper *k, const char *path, int32_t version);

/*
 * Makes a node unless it is there, with whatever data. Where that is UNKNOWN, it is looked for and
 * made.
 */
int keeper_ensure(struct keeper *k, const char *path, struct str data);

/*
 * Executes all operations or none. Returns 0 or the error of the operation that failed. results, if
 * not NULL, has space for count; it is filled in either way, and the caller releases it. (An error
 * of no single operation, such as SESSION_EXPIRED or UNKNOWN, is in every result.)
 */
int keeper_multi(struct keeper *k, const struct keeper_op *ops, size_t count,
                 struct keeper_result *results);

/* When it returns, this session sees every change that any client made before the call. */
int keeper_sync(struct keeper *k, const char *path);

/*
 * A multi that does not wait: callbacks come in the order of submission. Returns 0, and done is
 * called exactly once, even if the keeper is closed; or an error, and done is not called. results
 * are borrowed for the callback. The operations are copied.
 */
typedef void keeper_done_fn(void *arg, int err, const struct keeper_result *results, size_t count);

int keeper_commit(struct keeper *k, const struct keeper_op *ops, size_t count, keeper_done_fn *done,
                  void *arg);

/*
 * A watch means "read again" and stays until it is removed. It fires when the result of the call in
 * its name may have changed, after that change is durable. Several changes may give one event, and
 * a reconnection may give one too many.
 */
enum keeper_watch_kind {
    KEEPER_WATCH_DATA,     /* keeper_get: created, set, deleted */
    KEEPER_WATCH_EXISTS,   /* keeper_exists: created, deleted */
    KEEPER_WATCH_CHILDREN, /* keeper_children: a child, or the node, created, deleted */
};

enum keeper_event {
    KEEPER_EVENT_CREATED,
    KEEPER_EVENT_CHANGED,
    KEEPER_EVENT_DELETED,
    KEEPER_EVENT_CHILDREN,
    KEEPER_EVENT_RECONNECTED, /* any change may have been missed: read again */
    KEEPER_EVENT_EXPIRED,     /* the session has ended: the last event of this watch */
};

typedef void keeper_watch_fn(void *arg, enum keeper_event event, const char *path);

struct keeper_watch;

/* The node need not exist. The watch is set when the call returns. */
int keeper_watch(struct keeper *k, const char *path, enum keeper_watch_kind kind,
                 keeper_watch_fn *fn, void *arg, struct keeper_watch **ret_watch);

/* When it returns, fn is not running (unless it made this call) and will not run again. */
void keeper_unwatch(struct keeper *k, struct keeper_watch *w);

/*
 * The durability gate: an answer may leave when the keeper is durable up to the last transaction
 * that the answer saw. All calls above wait for that. The calls below are for a server that decides
 * requests on one thread and must not wait. The embedded keeper has them; a ZooKeeper ensemble does
 * not (keeper_has_gate()).
 */
bool keeper_has_gate(const struct keeper *k);

/*
 * A multi that returns when it is decided. An answer that depends on it, or on anything that was
 * done before, has seen *ret_zxid. The operations must be valid. One call at a time for each
 * keeper.
 */
int keeper_apply(struct keeper *k, const struct keeper_op *ops, size_t count, int64_t *ret_zxid);

/* Appends the data of a node as it is now, durable or not. */
int keeper_peek(struct keeper *k, struct str path, struct buf *b);

/*
 * 1: an answer that saw zxid may leave. 0: not yet; `wake` is called when it may. IO: the journal
 * has failed. keeper_wait() blocks instead: 0 or IO.
 */
int keeper_passed(struct keeper *k, int64_t zxid);
int keeper_wait(struct keeper *k, int64_t zxid);

/* Returns when everything that was done is on disk, also if answers do not wait for it: 0 or IO. */
int keeper_flush(struct keeper *k);

/* Answers do not wait for the disk: a crash may undo the last ones. */
bool keeper_may_lose(struct keeper *k);

/* Identifies a session, so that another struct keeper can resume it. */
struct keeper_session {
    int64_t id;
    char password[KEEPER_PASSWORD_LEN];
    int32_t timeout_ms;
};

void keeper_session(struct keeper *k, struct keeper_session *ret_session);

/* Runs the callbacks that are due. Only if the options have a wake. */
void keeper_dispatch(struct keeper *k);

/* Ends the session, deletes its ephemeral nodes, frees the keeper. Safe after SESSION_EXPIRED. */
void keeper_close(struct keeper *k);

/* Frees the keeper and leaves the session to its timeout, as a crash would. */
void keeper_abandon(struct keeper *k);

/* Options of every keeper. */
struct keeper_options {
    int32_t timeout_ms;           /* 0: KEEPER_TIMEOUT_DEFAULT_MS; clamped to the limits */
    struct keeper_session resume; /* id 0: a new session */
    void (*wake)(void *arg);      /* NULL: callbacks run on a thread of the keeper's own */
    void *wake_arg; /* wake is called from any thread, under locks, and only says "dispatch soon" */
};

/*
 * For implementations. The functions above check their arguments and then call these: paths are
 * valid, requests not too big, results not NULL and zeroed.
 */
struct keeper_ops {
    int (*get)(struct keeper *k, struct str path, struct buf *ret_data_or_null,
               struct keeper_stat *ret_stat);
    int (*children)(struct keeper *k, struct str path, struct buf *ret_text, size_t *ret_count,
                    struct keeper_stat *ret_stat); /* the names, each with a NUL */
    int (*multi)(struct keeper *k, const struct keeper_op *ops, size_t count,
                 struct keeper_result *results);
    int (*commit)(struct keeper *k, const struct keeper_op *ops, size_t count, keeper_done_fn *done,
                  void *arg);
    int (*sync)(struct keeper *k, struct str path);
    int (*watch)(struct keeper *k, struct str path, enum keeper_watch_kind kind,
                 keeper_watch_fn *fn, void *arg, struct keeper_watch **ret_watch);
    void (*unwatch)(struct keeper *k, struct keeper_watch *w);
    void (*dispatch)(struct keeper *k);
    void (*close)(struct keeper *k, bool end_session);
    bool has_gate; /* only the embedded keeper, which defines keeper_apply() to keeper_may_lose() */
};

struct keeper {
    const struct keeper_ops *ops;
    struct keeper_session session;
};

/* A session timeout within the limits. */
static inline int32_t keeper_granted_timeout(int32_t wanted_ms)
{
    int32_t max_ms = wanted_ms < KEEPER_TIMEOUT_MAX_MS ? wanted_ms : KEEPER_TIMEOUT_MAX_MS;
    return max_ms > KEEPER_TIMEOUT_MIN_MS ? max_ms : KEEPER_TIMEOUT_MIN_MS;
}

/* Sorts the names of a `children`, and takes their text. */
void keeper_names_take(struct keeper_names *ret_names, struct buf *text, size_t count);

/* The size of a transaction in ZooKeeper's encoding. */
size_t keeper_request_size(const struct keeper_op *ops, size_t count);

#endif
