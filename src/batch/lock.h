/*
 * lock - who may change what.
 *
 * There are two sorts. The lock of an item (a batch, a job, an access item) is the ephemeral node
 * ITEM/lock. Its token is the number of the transaction that created the node (czxid), so each lock
 * has a higher token than those before it. Locks by name are the table of the specification:
 *
 *     queue/ingest, accessSmall, accessLarge; collections/MNEMONIC    by admins; persistent
 *     storage/ARK, inventory/ARK                      of an object; ephemeral: end with the session
 *
 * The data of a lock by name is JSON: name (as given, before slashes became "_"), who, when.
 *
 * Fencing. The transaction that locks an item also sets its status to the same data, so that the
 * status gets a new version. A holder's change insists on the version that it read before it read
 * the lock: if another client locked the item in between, the change fails, and its token is not
 * valid.
 */
#ifndef BATCH_LOCK_H
#define BATCH_LOCK_H

#include "batch/item.h"

/*
 * Adds to a transaction that the caller may change the item at a path. With a token: the lock must
 * exist and have that token; the transaction deletes it unless it is kept. Without: there must be
 * no lock. Returns 0 or FENCED.
 */
int batch_lock_guard(struct batch_call *c, struct batch_txn *t, const char *path, int64_t token,
                     bool keep);

/*
 * Only the operation, for a caller that knows the lock. The transaction that acquires a job sets
 * its lock once, so its version differs from that of a lock that a foreign client created in its
 * place.
 */
enum { BATCH_LOCK_VERSION = 1 };

void batch_lock_hold(struct batch_txn *t, const char *path, int32_t version, bool keep);

/* FENCED or LOCKED if a transaction failed at the operation of batch_lock_guard(); else err. */
int batch_lock_refused(struct batch_call *c, const struct batch_txn *t, int err, int64_t token);

/*
 * Commits a transaction that locks an item: OP_STATUS sets its status, OP_LOCK creates the lock. If
 * the connection breaks, reads whether the lock is ours. Sets the token and the new version of the
 * item.
 */
int batch_lock_commit(struct batch_call *c, struct batch_txn *t, struct batch_item *i);

/* Unlocks an item: for its holder, or with token 0 for an admin. */
int batch_item_unlock(struct batch_call *c, enum batch_kind_id kind, struct str id, int64_t token);

/* Locks by name. */
enum batch_lock_kind {
    BATCH_LOCK_QUEUE,
    BATCH_LOCK_STORAGE,
    BATCH_LOCK_INVENTORY,
    BATCH_LOCK_COLLECTIONS,
    BATCH_LOCK_KINDS,
};

extern const char *const BATCH_LOCK_DIRS[BATCH_LOCK_KINDS]; /* "queue", ... */

/* Whether it is the lock of an object, which a session holds. */
static inline bool batch_lock_is_ephemeral(enum batch_lock_kind kind)
{
    return kind == BATCH_LOCK_STORAGE || kind == BATCH_LOCK_INVENTORY;
}

struct batch_lock {
    enum batch_lock_kind kind;
    struct str name;      /* as it was given */
    struct str node;      /* in the tree */
    struct str who, when; /* p NULL: unknown */
    int64_t token, age_ms;
    bool ephemeral;
};

/* LOCKED if another has it; the message says who. */
int batch_lock_take(struct batch_call *c, enum batch_lock_kind kind, struct str name,
                    struct str who, struct batch_lock *ret_lock);

/* token 0: an admin breaks it. FENCED: the lock has another token. NO_NODE: no such lock. */
int batch_lock_release(struct batch_call *c, enum batch_lock_kind kind, struct str name,
                       int64_t token);

int batch_lock_get(struct batch_call *c, enum batch_lock_kind kind, struct str name,
                   struct batch_lock *ret_lock);

/* All of a kind, in the arena, sorted by name. */
int batch_lock_list(struct batch_call *c, enum batch_lock_kind kind, struct batch_lock **ret_locks,
                    size_t *ret_count);

#endif
