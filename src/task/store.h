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
#include "task/settings.h"
#include "task/task.h"

enum {
    TASK_IDS_MAX = 10000,  /* of each kind in one transaction, and tasks in one claim */
    TASK_ERRORS_MAX = 100, /* reasons that are listed; the rest is counted */

    /* A transaction must fit into one of the keeper's, with what the service adds. */
    TASK_CHANGES_MAX = 9900,
    TASK_CLAIM_BYTES_MAX = 512 * 1024, /* a claim takes no more, once it has one task */
};

/* Longer leases and waits (about 285 years) are limited to this, so that sums do not overflow. */
#define TASK_MS_MAX (INT64_C(1) << 53)

/* The client ids of the manager of managed tasks, and of messages. No client may use them. */
#define TASK_MANAGER (-INT64_MAX)
#define TASK_MESSAGES (-INT64_MAX + 1)
#define TASK_CLIENT_MIN (TASK_MESSAGES + 1)

/* Where an id is taken, this names the task by the first id it had. */
#define TASK_FIRST(slot) ((slot) + INT64_MIN)

/* What happens to a task beside an update and a delete. */
enum task_edit_kind {
    EDIT_FAIL,     /* text: what went wrong. By the settings of its group it waits, or dies */
    EDIT_FINISH,   /* text: the result. Ends the task; the group's settings may keep it as done */
    EDIT_RELEASE,  /* available at once */
    EDIT_RETRY,    /* available at once, as if it had never failed; a dead one where it died */
    EDIT_MOVE,     /* text: to another group. From G/retry/3 to G: it has failed 3 times more */
    EDIT_PRIORITY, /* number: its priority */
    EDIT_DELETE,   /* as by deletes */
    EDIT_EXPIRE,   /* its time to expire has come: it is removed, or dies */
    EDIT_NONE,     /* nothing */
};

struct task_edit {
    enum task_edit_kind kind;
    int64_t id;
    struct str text;
    int64_t number;   /* a priority; after a failure: wait so many ms, -1: by the settings */
    bool dead;        /* after a failure: do not try again */
    int64_t attempts; /* after a failure: it dies after so many; 0: by the settings */
};

/*
 * Adds have no id, updates no group. timespec as in a request: 0 is now, negative is relative to
 * now, positive is absolute.
 */
struct task_update {
    int64_t clientid;
    const struct task *adds, *updates;
    const int64_t *deletes, *depends;
    const struct task_edit *edits;
    size_t add_count, update_count, delete_count, depend_count, edit_count;

    /* The client is TASK_MANAGER: adds are managed; updates, deletes name slots of any owner. */
    bool manage;

    bool operate; /* an operator's: tasks of any owner may be changed */

    /*
     * Edits that are not possible become EDIT_NONE, in the caller's array, and refuse nothing. The
     * changed tasks are not part of the answer. EDIT_RETRY and EDIT_MOVE need it.
     */
    bool skips;

    const struct identity *who; /* to whom tasks beyond its limits do not exist; NULL: no limits */
};

struct task_claim {
    int64_t clientid, duration_ms;
    const struct str *groups;
    const int64_t *deletes, *depends;
    const struct task_edit *edits;
    size_t group_count, delete_count, depend_count, edit_count;
    size_t limit;    /* 0: 1 */
    bool tasks_only; /* refused where it would get a message of a queue or the task of a node */
    const struct identity *who; /* as in an update */
};

enum task_txn_kind { TXN_CREATE, TXN_SET, TXN_DELETE };

/* What a change means to those who watch tasks. */
enum task_event {
    TASK_EVENT_ADDED,
    TASK_EVENT_UPDATED,
    TASK_EVENT_CLAIMED,
    TASK_EVENT_RELEASED,
    TASK_EVENT_FAILED,
    TASK_EVENT_DEAD,
    TASK_EVENT_FINISHED,
    TASK_EVENT_DELETED,
    TASK_EVENTS,
};

struct task_txn_change {
    enum task_txn_kind kind;
    enum task_event event;
    int64_t slot;
    const struct task *task; /* as it is now; of a deletion: as it was, without its data */
    struct str from;         /* the group that it has left for another one; empty: none */
};

struct task_txn_undo;

/* Zero-initialise; may be reused; release when done. */
struct task_txn {
    struct task *tasks; /* the answer: adds, updates, edits; or the claimed tasks */
    struct task_txn_change *changes;
    const char **errors;
    size_t task_count, change_count, error_count;
    size_t reasons;  /* all reasons, listed or not */
    int64_t last_id; /* the largest id that was given; 0: none */
    bool ended_last; /* the task with the last id given was deleted */

    struct task *others; /* changed tasks that are not part of the answer */
    size_t other_count;
    struct task_txn_undo *undo;
    size_t undo_count;
    struct arena arena;
};

void task_txn_release(struct task_txn *t);

struct store;

/* Appends the payload (tail.h) of a slot, which is in a keeper, to b. An error fails the call. */
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

/*
 * Both return 0, REFUSED or GROUP_FULL with the reasons in t, TOO_BIG, or what fetching failed
 * with.
 */
int store_update(struct store *s, const struct task_update *u, int64_t now_ms,
                 struct store_random *r, struct task_txn *t);
int store_claim(struct store *s, const struct task_claim *c, int64_t now_ms, struct store_random *r,
                struct task_txn *t);
void store_undo(struct store *s, struct task_txn *t);
void store_settle(struct store *s, struct task_txn *t);

/* When the next task expires; INT64_MAX: none does. And edits for those that have, at most max. */
int64_t store_expiry_ms(const struct store *s);
size_t store_expired(const struct store *s, int64_t now_ms, struct task_edit *edits, size_t max);

/* Settings of groups, which are in effect at once. NULL: those of the pattern are removed. */
void store_set_settings(struct store *s, struct str pattern, const struct task_settings *settings);
const struct settings_table *store_settings(const struct store *s);

/* A task, in the arena; NO_TASK. */
int store_get(struct store *s, int64_t id, struct arena *a, struct task *ret_task);
/* For metrics (tally.h). Counts what a transaction did, before it is settled. */
struct task_tally;
struct task_tallies;

void store_tally(const struct store *s, const struct task_txn *t, struct task_tallies *to);

/*
 * The tasks of the group of a tally; false: there are none. age_ms: how long the oldest available
 * one is available, by its timespec; 0: there is none. To find it, max tasks are looked at, and the
 * next call goes on: with more of them, the result may be too low.
 */
struct store_depth {
    size_t available, owned;
    size_t due; /* of the available ones: their time has come since the group was last used */
    int64_t age_ms;
};

bool store_depth(struct store *s, struct task_tally *t, int64_t now_ms, size_t max,
                 struct store_depth *ret_depth);

/* Of all groups. A task whose time has come counts when its group is next used. */
size_t store_available_count(const struct store *s);

/* Gives names to groups that have none, if there is room; looks at max groups. */
void store_name_groups(const struct store *s, struct task_tallies *t, size_t max);

size_t store_count(const struct store *s);

/* Copies an extra into an arena. */
const struct task_extra *task_extra_copy(struct arena *a, const struct task_extra *x);

/*
 * Appends that there is no such task, and what became of it: as far as that is remembered, and
 * within the limits of who.
 */
void store_put_missing(const struct store *s, int64_t id, const struct identity *who,
                       struct buf *b);

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

/* Which tasks are looked for: those that have all that is given. */
struct store_filter {
    struct str group, key;
    struct str text, error; /* part of the data, of the last error */
    struct str origin;      /* the group where it died */
    const int64_t *ids;     /* NULL: any */
    size_t id_count;
    unsigned states; /* 1 << enum task_state; 0: any */
    bool internal;   /* also messages of queues and tasks of nodes */
    const struct identity *who;
};

/* Where a search goes on; begins with zeros. */
struct store_cursor {
    int64_t at;
    bool done; /* among those that are done */
    bool end;  /* there is no more */
};

/*
 * At most limit tasks, in the arena. A call looks at a bounded part of the store: fewer than limit
 * tasks do not mean that there are no more; cursor->end does.
 */
int store_find_tasks(struct store *s, const struct store_filter *f, int64_t now_ms,
                     struct store_cursor *cursor, size_t limit, struct arena *a,
                     struct store_list *ret_list);

/* The claimed tasks of a group, at most max, without their data. */
void store_holders(struct store *s, struct str group, size_t max, int64_t now_ms, struct arena *a,
                   struct store_list *ret_list);

/*
 * The ids of the tasks of a group, as store_list() with after -1 would list them: for lists that
 * are made in slices.
 */
void store_list_ids(struct store *s, struct str group, size_t limit, bool owned, int64_t now_ms,
                    struct arena *a, int64_t **ret_ids, size_t *ret_count);

struct store_group {
    struct str name;
    size_t available, owned; /* dead ones are available, too; delayed ones are owned */
    size_t states[TASK_STATES];
    bool internal; /* messages of a queue, tasks of nodes */
};

/*
 * The groups in so many places from a place on, in no order: a group keeps its place. False: there
 * are no more places.
 */
bool store_some_groups(struct store *s, uint32_t at, uint32_t max, int64_t now_ms, struct arena *a,
                       struct store_group **ret_groups, size_t *ret_count);

/* All groups, in no order. */
void store_groups(struct store *s, int64_t now_ms, struct arena *a, struct store_group **ret_groups,
                  size_t *ret_count);

/* One group. False: it has no tasks. */
bool store_count_group(struct store *s, struct str name, int64_t now_ms, struct arena *a,
                       struct store_group *ret_group);

/* Whether a claim would find a task now; if not, when one becomes available: INT64_MAX never. */
bool store_available(struct store *s, struct str group, int64_t now_ms, int64_t *ret_due_ms);

/* Makes the timespec of a request absolute. */
int64_t store_time(int64_t timespec, int64_t now_ms);

#endif
