/*
 * lock - who may work on what.
 *
 * Two kinds. Locks of items (a batch, a job, an access item) are the ephemeral node ITEM/lock; with
 * them goes a token, the number of the transaction that made the node (its czxid), which rises with
 * every lock. Locks by name are the document's table:
 *
 *     queue/ingest, queue/accessSmall, queue/accessLarge, collections/MNEMONIC    an admin's: they stay
 *     storage/ARK, inventory/ARK                        an object's: ephemeral, they go with the session
 *
 * The data of a lock by name is JSON: name (as it was given, before slashes became "_"), who, when.
 *
 * Fencing. To take a lock on an item is also to set its status to what it is, so that the status gets
 * a new version. A holder's change insists on the version that it read before it looked at the lock:
 * if the lock has gone to another in between, the change fails, and its token is no longer valid.
 */
#ifndef BATCH_LOCK_H
#define BATCH_LOCK_H

#include "batch/store.h"

/*
 * Adds to a change what makes it fail unless the caller may change the item at dir: with a token, the
 * lock is there and is that one, and goes with the change unless it is kept; without, nobody holds a
 * lock. Returns 0, or FENCED.
 */
int batch_lock_guard(struct batch_call *c, struct batch_change *t, const char *dir, int64_t token,
                     bool keep);

/*
 * Only the operation, for who knows that the lock is its own. The lock of a job that was acquired here has
 * been set once, so that it differs from one that a foreign client made in its place without a word.
 */
enum { LOCK_VERSION = 1 };

void batch_lock_hold(struct batch_change *t, const char *dir, int32_t version, bool keep);

/* When a change failed at the operations of batch_lock_guard(): FENCED or LOCKED. Else err as it was. */
int batch_lock_refused(struct batch_call *c, const struct batch_change *t, int first_op, int err,
                       int64_t token);

/*
 * Commits a change that takes the lock of an item: status_op sets its status at a version, lock_op
 * creates the lock. When the connection broke, the tree is asked whether the lock is ours.
 */
int batch_lock_commit(struct batch_call *c, struct batch_change *t, int status_op, int lock_op,
                      int64_t *ret_token);

/* The lock of an item is taken back: by its holder, or with token 0 by an admin. */
int batch_lock_drop(struct batch_call *c, const char *what, const char *id, int64_t token);

/* Locks by name. */
enum batch_lock_kind {
    LOCK_QUEUE,
    LOCK_STORAGE,
    LOCK_INVENTORY,
    LOCK_COLLECTIONS,
    LOCK_KINDS,
};

extern const char *const LOCK_DIRS[LOCK_KINDS]; /* "queue", ... */

struct batch_lock {
    enum batch_lock_kind kind;
    struct str name;      /* as it was given */
    struct str node;      /* as it stands in the tree */
    struct str who, when; /* p NULL: not said */
    int64_t token, age_ms;
    bool ephemeral;
};

/* LOCKED when another has it, and why says who. */
int batch_lock_take(struct batch_call *c, enum batch_lock_kind kind, struct str name,
                    struct str who, struct batch_lock *ret_lock);

/* token 0: an admin breaks it. FENCED when the token is another's. NO_NODE when there is none. */
int batch_lock_release(struct batch_call *c, enum batch_lock_kind kind, struct str name,
                       int64_t token);

int batch_lock_get(struct batch_call *c, enum batch_lock_kind kind, struct str name,
                   struct batch_lock *ret_lock);

/* All of a kind, in the arena, in the order of their names. */
int batch_lock_list(struct batch_call *c, enum batch_lock_kind kind, struct batch_lock **ret_locks,
                    size_t *ret_count);

/* Whether a queue is locked: "ingest", "accessSmall", "accessLarge". 1, 0 or an error. */
int batch_lock_queue(struct batch_call *c, const char *name);

#endif
