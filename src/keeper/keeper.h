/*
 * keeper - a small durable tree of nodes, on which everything in Drover stands.
 *
 * The model is ZooKeeper's: nodes named by paths, each with data and a stat; versions that a change
 * can insist on; ephemeral nodes that go with the session that made them; sequence numbers;
 * watches; transactions of several operations that happen together or not at all. Two
 * implementations stand behind this header: the embedded keeper (local.h) and a ZooKeeper ensemble
 * (zookeeper.h). Open one with their own calls; from then on there is only struct keeper, which is
 * one session.
 *
 * In order: open -> get, children, create, set, delete, multi, sync from any thread; commit and
 * watches with callbacks -> close.
 *
 * What always holds:
 *  - Calls may come from any thread. A call that returned 0 has happened and is as durable as the
 *    keeper promises, and a read never shows what could still be lost.
 *  - One session's requests take effect in the order in which they were made, commits included.
 *  - UNKNOWN means that the connection broke: the change may or may not have happened.
 *  - SESSION_EXPIRED is final for this struct keeper. Every ephemeral node it held is gone or
 *    going.
 *  - Callbacks of one keeper run one after the other: on the keeper's own thread, or, when options
 *    gave a `wake`, inside keeper_dispatch() on the thread that the user chose. They may call
 *    anything here except keeper_close() of the same keeper.
 *
 * Who owns what: arguments are borrowed for the call. Results are the caller's to release.
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

    /* What one request may be at most, encoded as ZooKeeper would: keeper_request_size(). */
    KEEPER_REQUEST_MAX = 1024 * 1024 - 1,
    KEEPER_MULTI_MAX = 10000, /* operations */

    KEEPER_TIMEOUT_MIN_MS = 1000,
    KEEPER_TIMEOUT_MAX_MS = 3600 * 1000,
    KEEPER_TIMEOUT_DEFAULT_MS = 10 * 1000,
};

struct keeper_stat {
    int64_t czxid, mzxid, pzxid; /* transactions that created it, set it, changed its children */
    int64_t ctime_ms, mtime_ms;
    int64_t ephemeral_owner; /* session, 0: none */
    int32_t version;         /* sets */
    int32_t cversion;        /* creations and deletions of children */
    int32_t aversion;        /* changes of the access list */
    int32_t data_len;
    int32_t child_count;
};

enum keeper_flag {
    KEEPER_EPHEMERAL = 1,  /* goes with the session */
    KEEPER_SEQUENTIAL = 2, /* ten digits, rising, are appended to the path */
    KEEPER_NO_STAT = 4,    /* its stat is not asked for: on an ensemble that saves an operation */
};

/* SET_ACL is for ZooKeeper's clients of the embedded keeper; no keeper of our own sends it. */
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
    int32_t version; /* set, delete, check: the one expected, or KEEPER_ANY_VERSION */
    struct str path;
    struct str data; /* create, set */
    struct str acl;  /* create, set ACL: as in acl.h; empty: open to all */
    int refused;     /* an error found when a request was decoded, told when its turn comes */
};

struct keeper_op keeper_op_create(const char *path, struct str data, int flags);
struct keeper_op keeper_op_set(const char *path, struct str data, int32_t version);
struct keeper_op keeper_op_delete(const char *path, int32_t version);
struct keeper_op keeper_op_check(const char *path, int32_t version);

/*
 * What became of one operation. When the transaction failed, err is 0 for the operations before the
 * one that failed (they would have passed), its error for that one, NOT_TRIED for those after it.
 */
struct keeper_result {
    int err;
    char *path;              /* of a create: the path that it got; else NULL */
    struct keeper_stat stat; /* of a create or set: right after this operation; else zeros. With
                                KEEPER_NO_STAT it may lack the numbers and times. */
};

void keeper_results_release(struct keeper_result *results, size_t count);

/* Names of children, sorted by bytes. Zero-initialise; release when done. */
struct keeper_names {
    char **names; /* NUL-terminated */
    size_t count;
    char *text; /* what they point into */
};

void keeper_names_release(struct keeper_names *n);

/* Reading. ret_stat may be NULL. keeper_get replaces what ret_data holds. */
int keeper_get(struct keeper *k, const char *path, struct buf *ret_data,
               struct keeper_stat *ret_stat);
int keeper_exists(struct keeper *k, const char *path, struct keeper_stat *ret_stat);
int keeper_children(struct keeper *k, const char *path, struct keeper_names *ret_names,
                    struct keeper_stat *ret_stat);

/*
 * Changing. ret_path, where given, receives the path of the node made, to be freed by the caller.
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
 * All of the operations or none. Returns 0 or the error of the operation that failed; results, when
 * not NULL, has room for count, is filled in either way and is the caller's to release. (For an
 * error that concerns no single operation, such as SESSION_EXPIRED or UNKNOWN, each gets it.)
 */
int keeper_multi(struct keeper *k, const struct keeper_op *ops, size_t count,
                 struct keeper_result *results);

/* Returns when this session will see everything that was done anywhere before the call. */
int keeper_sync(struct keeper *k, const char *path);

/*
 * A multi that does not wait: callbacks come in the order of submission. Returns 0, and done will
 * be called exactly once, whatever happens, keeper_close() included; or an error, and it will not.
 * results are borrowed for the callback. The operations are copied as needed.
 */
typedef void keeper_done_fn(void *arg, int err, const struct keeper_result *results, size_t count);

int keeper_commit(struct keeper *k, const struct keeper_op *ops, size_t count, keeper_done_fn *done,
                  void *arg);

/*
 * A watch says "look again" and stays until it is taken back. It fires when the answer of the call
 * it is named after may have changed, after that change is durable, and at least once for any
 * number of changes: several may be told as one, and one too many is allowed after a reconnection.
 */
enum keeper_watch_kind {
    KEEPER_WATCH_DATA,     /* keeper_get: created, set, deleted */
    KEEPER_WATCH_EXISTS,   /* keeper_exists: created, deleted */
    KEEPER_WATCH_CHILDREN, /* keeper_children: a child came or went; created, deleted */
};

enum keeper_event {
    KEEPER_EVENT_CREATED,
    KEEPER_EVENT_CHANGED,
    KEEPER_EVENT_DELETED,
    KEEPER_EVENT_CHILDREN,
    KEEPER_EVENT_RECONNECTED, /* anything may have happened: look again */
    KEEPER_EVENT_EXPIRED,     /* the session is over: the last one that this watch will tell */
};

typedef void keeper_watch_fn(void *arg, enum keeper_event event, const char *path);

struct keeper_watch;

/* The node need not exist. The watch is in force when the call returns. */
int keeper_watch(struct keeper *k, const char *path, enum keeper_watch_kind kind,
                 keeper_watch_fn *fn, void *arg, struct keeper_watch **ret_watch);

/* When this returns, fn is not running (unless it made this call itself) and never will again. */
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
bool keeper_may_lose(
    struct keeper *k); /* answers do not wait for the disk: a crash may undo the last ones */

/* A session: the name by which another struct keeper can go on with it. */
struct keeper_session {
    int64_t id;
    char password[KEEPER_PASSWORD_LEN];
    int32_t timeout_ms;
};

void keeper_session(struct keeper *k, struct keeper_session *ret_session);

/* Runs the callbacks that are due. Only with options that gave a wake. */
void keeper_dispatch(struct keeper *k);

/* Ends the session (its ephemeral nodes go) and frees the keeper. Safe after SESSION_EXPIRED. */
void keeper_close(struct keeper *k);

/* Frees the keeper and leaves the session to its timeout, as a crash would. */
void keeper_abandon(struct keeper *k);

/* What is common to every way of opening one. */
struct keeper_options {
    int32_t timeout_ms;           /* 0: KEEPER_TIMEOUT_DEFAULT_MS; clamped to the limits */
    struct keeper_session resume; /* id 0: a new session */
    void (*wake)(void *arg);      /* NULL: callbacks run on a thread of the keeper's own */
    void *wake_arg; /* wake is called from any thread, under locks, and only says "dispatch soon" */
};

/*
 * For implementations. The functions above check their arguments and then call these; paths are
 * valid, requests not too big, results never NULL and zeroed.
 */
struct keeper_gate_ops {
    int (*apply)(struct keeper *k, const struct keeper_op *ops, size_t count, int64_t *ret_zxid);
    int (*peek)(struct keeper *k, struct str path, struct buf *b);
    int (*passed)(struct keeper *k, int64_t zxid);
    int (*wait)(struct keeper *k, int64_t zxid);
    int (*flush)(struct keeper *k);
    bool (*may_lose)(struct keeper *k);
};

struct keeper_ops {
    int (*get)(struct keeper *k, struct str path, struct buf *ret_data_or_null,
               struct keeper_stat *ret_stat);
    int (*children)(struct keeper *k, struct str path, struct buf *ret_text, size_t *ret_count,
                    struct keeper_stat *ret_stat); /* names one after the other, each with a NUL */
    int (*multi)(struct keeper *k, const struct keeper_op *ops, size_t count,
                 struct keeper_result *results);
    int (*commit)(struct keeper *k, const struct keeper_op *ops, size_t count, keeper_done_fn *done,
                  void *arg);
    int (*sync)(struct keeper *k, struct str path);
    int (*watch)(struct keeper *k, struct str path, enum keeper_watch_kind kind,
                 keeper_watch_fn *fn, void *arg, struct keeper_watch **ret_watch);
    void (*unwatch)(struct keeper *k, struct keeper_watch *w);
    void (*session)(struct keeper *k, struct keeper_session *ret_session);
    void (*dispatch)(struct keeper *k);
    void (*close)(struct keeper *k, bool end_session);
    const struct keeper_gate_ops *gate; /* NULL: it has none */
};

struct keeper {
    const struct keeper_ops *ops;
};

/* The size that a transaction would have on ZooKeeper's wire. */
size_t keeper_request_size(const struct keeper_op *ops, size_t count);

#endif
