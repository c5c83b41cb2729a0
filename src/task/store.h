/*
 * store - tasks in groups, and the transactions on them. Pure: no disk, no clock, no thread; time
 * and random numbers are parameters, so the same calls give the same store.
 *
 * A task is immutable. An update or a claim replaces it by one with a new id. The task's slot stays
 * the same: it is the first id of the task, and names its node in the keeper.
 *
 * In order: store_new -> store_restore for each stored task, store_set_last_id, store_set_top_id ->
 * transactions -> store_free. A transaction is store_update() or store_claim() with a struct
 * task_txn: it is refused, then txn.errors has every reason and nothing has changed; or applied,
 * then txn.tasks is the answer and txn.changes lists the slots to create, set and delete. When the
 * changes are stored, store_settle() drops the undo information; when they are refused,
 * store_undo() undoes them (the newest transaction first, if several are not settled).
 *
 * What always holds:
 *  - Ids rise strictly and are never given twice, not even those of a transaction that was undone.
 *  - A task whose timespec is after now belongs to its owner; otherwise it is available.
 *  - A claim, an add and a removal cost the same with a thousand tasks and with ten million: each
 *    group has an array of its available tasks, from which any can be drawn and removed in constant
 *    time, and a heap of the others by time. Tasks move from the heap to the array when the group
 *    is next used after their time.
 *  - A group exists while it has tasks.
 *  - A managed task (the DAG's) becomes available only through its manager: not when a lease ends.
 *    Only the manager deletes it. The manager names it by its slot, which renewals do not change.
 *
 * Who owns what: the answer in a txn borrows from the request and is valid as long as that is,
 * until the txn is used again. The result of a read without an arena is valid until the store
 * changes.
 */
#ifndef TASK_STORE_H
#define TASK_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/identity.h"
#include "base/str.h"

enum {
    TASK_GROUP_LEN_MAX = 1024,
    TASK_IDS_MAX = 10000,  /* of each kind in one transaction, and tasks in one claim */
    TASK_ERRORS_MAX = 100, /* reasons that are listed; the rest is counted */

    /* A transaction must fit into one of the keeper's, with what the service adds. */
    TASK_CHANGES_MAX = 9900,
    TASK_CLAIM_BYTES_MAX = 512 * 1024, /* a claim takes no more, once it has one task */
};

/* Longer leases and waits (about 285 years) are limited to this, so that sums do not overflow. */
#define TASK_MS_MAX (INT64_C(1) << 53)

/* The client id of the manager of managed tasks. No client may use it. */
#define TASK_MANAGER (-INT64_MAX)

struct task {
    int64_t id;
    struct str group, data;
    int64_t timespec; /* ms since the epoch: when it becomes available */
    int64_t ownerid;
    bool managed;
};

/*
 * Adds have no id, updates no group. timespec as in a request: 0 is now, negative is relative to
 * now, positive is absolute.
 */
struct task_update {
    int64_t clientid;
    const struct task *adds, *updates;
    const int64_t *deletes, *depends;
    size_t add_count, update_count, delete_count, depend_count;

    /* The client is TASK_MANAGER: adds are managed; updates, deletes name slots of any owner. */
    bool manage;

    const struct identity *who; /* to whom tasks beyond its limits do not exist; NULL: no limits */
};

struct task_claim {
    int64_t clientid, duration_ms;
    const struct str *groups;
    const int64_t *deletes, *depends;
    size_t group_count, delete_count, depend_count;
    size_t limit;               /* 0: 1 */
    const struct identity *who; /* as in an update */
};

enum task_txn_kind { TXN_CREATE, TXN_SET, TXN_DELETE };

struct task_txn_change {
    enum task_txn_kind kind;
    uint32_t task; /* create, set: which of txn.tasks */
    int64_t slot;
};

struct task_txn_undo;

/* Zero-initialise; may be reused; release when done. */
struct task_txn {
    struct task *tasks; /* adds and updates, or the claimed tasks */
    struct task_txn_change *changes;
    const char **errors;
    size_t task_count, change_count, error_count;
    size_t reasons;  /* all reasons, listed or not */
    bool ended_last; /* the task with the last id given was deleted */

    struct task_txn_undo *undo;
    size_t undo_count;
    struct arena arena;
};

void task_txn_release(struct task_txn *t);

/* Uniform random numbers from a seed (splitmix64). */
struct store_random {
    uint64_t state;
};

struct store;

/* Appends the data of a slot, which is in a keeper, to b. An error fails the transaction. */
typedef int store_fetch_fn(void *arg, int64_t slot, struct buf *b);

/* fetch NULL: the store keeps the data itself. */
struct store *store_new(store_fetch_fn *fetch, void *arg);
void store_free(struct store *s);

/* Adds a stored task. EXISTS: there is one with this id. */
int store_restore(struct store *s, int64_t slot, const struct task *t, int64_t now_ms);

/*
 * The last id that was given, by a transaction that is settled; and the largest that was used at
 * all, above which ids are free. Setting either to a lower value has no effect.
 */
int64_t store_last_id(const struct store *s);
int64_t store_top_id(const struct store *s);
void store_set_last_id(struct store *s, int64_t id);
void store_set_top_id(struct store *s, int64_t id);

/* Both return 0, REFUSED with the reasons in t, TOO_BIG, or what fetching failed with. */
int store_update(struct store *s, const struct task_update *u, int64_t now_ms, struct task_txn *t);
int store_claim(struct store *s, const struct task_claim *c, int64_t now_ms, struct store_random *r,
                struct task_txn *t);
void store_undo(struct store *s, struct task_txn *t);
void store_settle(struct store *s, struct task_txn *t);

/* Reads. Fetched data is appended to scratch, which must live as long as the result. */
int store_get(struct store *s, int64_t id, struct buf *scratch,
              struct task *ret_task); /* NO_TASK */
size_t store_count(const struct store *s);

/* The slot of a task. 0: there is no such task. */
int64_t store_slot_of(const struct store *s, int64_t id);

/* The group of a task, without its data. False: there is no such task. */
bool store_group_of(const struct store *s, int64_t id, struct str *ret_group);

struct store_list {
    struct task *tasks; /* in the arena */
    size_t count;
};

/*
 * The tasks of a group: at most limit (0: all), with the owned ones if owned. after >= 0: only
 * larger ids, in ascending order; -1: in no order.
 */
int store_list(struct store *s, struct str group, int64_t after, size_t limit, bool owned,
               int64_t now_ms, struct arena *a, struct store_list *ret_list);

struct store_group {
    struct str name;
    size_t available, owned;
};

/* All groups, in no order. */
void store_groups(struct store *s, int64_t now_ms, struct arena *a, struct store_group **ret_groups,
                  size_t *ret_count);

/* Whether a claim would find a task now; if not, when one becomes available: INT64_MAX never. */
bool store_available(struct store *s, struct str group, int64_t now_ms, int64_t *ret_due_ms);

/* Makes the timespec of a request absolute. */
int64_t store_time(int64_t timespec, int64_t now_ms);

#endif
