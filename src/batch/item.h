/*
 * item - batches, jobs and access items: first what they have in common (they are created with an
 * id, read, listed, acquired, moved from state to state, and deleted), then what only batches and
 * only jobs have, then the locks.
 *
 * Acquire. An acquire locks the first item of a state that is not locked and returns its token (see
 * Locks below). Jobs are ordered by priority and id, the others by id. It returns nothing while the
 * queue of the kind is locked.
 *
 * Move. A move is one transaction: it sets the status at the version that was read, moves the entry
 * from the list of the old state to the list of the new one, and unlocks the item unless the lock
 * is kept. A job also changes lists of its batch, and the batch itself if it was the last.
 *
 * Access items are Pending, or Processing; those whose worker died are acquired again. Their lock
 * stays while they are Processing.
 */
#ifndef BATCH_ITEM_H
#define BATCH_ITEM_H

#include "batch/store.h"

/*
 * Creates an access item or a batch. data is the JSON object of its token node, or its submission;
 * a batch with a batchID can be found by batch_find().
 */
int batch_item_new(struct batch_call *c, enum batch_kind_id kind, const struct json *data,
                   char ret_id[BATCH_ID_LEN + 1]);

/* Checks an id and sets kind, id and number; NO_NODE if the text is not an id. */
int batch_item_name(struct batch_call *c, enum batch_kind_id kind, struct str id,
                    struct batch_item *ret_item);

/* The status, and of a job the priority and the batch. */
int batch_item_read(struct batch_call *c, enum batch_kind_id kind, struct str id,
                    struct batch_item *ret_item);

/* The rest of an item that was read. */
int batch_item_read_rest(struct batch_call *c, struct batch_item *item);

/* All of it. */
int batch_item_get(struct batch_call *c, enum batch_kind_id kind, struct str id,
                   struct batch_item *ret_item);

struct batch_filter {
    int state;               /* BATCH_NO_STATE: any */
    struct str unknown;      /* a state that the machine does not know; p NULL: any */
    struct str bid, profile; /* of jobs; p NULL: any */
    int64_t from;            /* the lowest number */
    size_t start, limit;     /* of the items that match; start only for jobs */
    size_t len;              /* bytes: a list ends with the first item beyond; 0: no limit */
};

/* The bytes of an item that was read. */
size_t batch_item_len(const struct batch_item *item);

/*
 * Sets the state of a filter, or the unknown one. BAD_ARGUMENT if no job can be in such a state,
 * with a message that lists the states.
 */
int batch_filter_state(struct batch_call *c, enum batch_kind_id kind, struct str name,
                       struct batch_filter *f);

/*
 * Batches and access items by id; jobs by state and priority, those in states that the machine does
 * not know last. The items are as from batch_item_get(). BAD_ARGUMENT: the filter has an unknown
 * state, and no item is in it.
 */
int batch_item_list(struct batch_call *c, enum batch_kind_id kind, const struct batch_filter *f,
                    struct batch_item **ret_items, size_t *ret_count);

/* How many items are in each state. */
struct batch_counts {
    int64_t known[BATCH_STATES_MAX]; /* by state of the machine */
    struct batch_unknown_count {
        struct str name;
        int64_t count;
        struct batch_unknown_count *next;
    } * unknown; /* of states that it does not know */
    int64_t total;
};

/* Counts jobs by the lists; reads the status of each batch or access item. */
int batch_item_count(struct batch_call *c, enum batch_kind_id kind,
                     struct batch_counts *ret_counts);

/*
 * 1: ret_item, as read, with its token. 0: none is available, or the queue is locked. state is that
 * of the item; for access items it is BATCH_NO_STATE.
 */
int batch_item_acquire(struct batch_call *c, enum batch_kind_id kind, int state,
                       struct batch_item *ret_item);

/* Whether an acquire without a state, of access items, looks in that state. */
static inline bool batch_item_is_acquired(const struct batch_kind *kind, int state)
{
    return state == kind->machine->first || kind->machine->states[state].keeps_lock;
}

/* Locks one item that was read, and sets its token. A conflict means that it changed meanwhile. */
int batch_item_lock(struct batch_call *c, struct batch_item *item);

struct batch_move {
    struct str state;   /* a name, "next" or "fail" */
    struct str message; /* p NULL: none */
    int64_t token;      /* 0: the item must not be locked */
    bool keep;          /* keep the lock, for the next move */
    int64_t priority;   /* of a job; -1: unchanged */
    struct str from;    /* the one state that it may be in; p NULL: any */
    bool only_failed;   /* it must be a job in batch-failed */
    struct str failed; /* of a batch, JSON: the failed jobs that were reported; p NULL: read them */
};

/*
 * Moves an item. ret_state is its new state, or NULL: for a batch it can differ from the one asked
 * for, see Batches below.
 */
int batch_item_move(struct batch_call *c, enum batch_kind_id kind, struct str id,
                    const struct batch_move *m, int *ret_state);

/* Only in a final state. A batch is deleted with its jobs, unless one of them is locked. */
int batch_item_delete(struct batch_call *c, enum batch_kind_id kind, struct str id);

/*
 * The index: the lists below /drover that say which batches and access items are in a state.
 *
 * Drover's own operations update the index in the transaction that changes the status. index.c
 * also indexes items that foreign clients created or moved.
 *
 * A foreign client creates an item in steps: the node, then its children. An item that has no valid
 * status yet is incomplete. The process remembers it and looks at it again: at most every 100 ms
 * when somebody asks for such items, and in drover serve soon, then every second. There is
 * no watch for it: a client resends each watch when it reconnects, and an item that never gets a
 * status would keep one for ever.
 */

/*
 * Adds to a transaction that an item moves from the list of one state to that of another; a final
 * state has no list. Where it is not in the first list, or is in the second, nothing is added: a
 * foreign client's item may be in none. from BATCH_NO_STATE: it is in no list. From a state to
 * itself, its entry is created anew.
 */
int batch_index_move(struct batch_call *c, struct batch_txn *t, const struct batch_item *i,
                     int from, int to);

/*
 * For batches and access items: indexes those that are new, and those that were incomplete. now:
 * also those that were incomplete a moment ago.
 */
int batch_index_refresh(struct batch_call *c, enum batch_kind_id kind, bool now);

/* Whether there are incomplete items. */
bool batch_index_is_incomplete(struct batch_call *c, enum batch_kind_id kind);

/*
 * Corrects the entry of an item that is listed in a state and is not in that state, or does not
 * exist. BATCH_NO_STATE: it is new, and is remembered if it is incomplete. Returns 1 if it changed
 * the index; a conflict means that the item has changed meanwhile.
 */
int batch_index_correct(struct batch_call *c, struct batch_kind *kind, int64_t number, int listed);

/* Corrects the lists for items that were moved by their status alone. Reads every item listed. */
int batch_index_sweep(struct batch_call *c, enum batch_kind_id kind);

/* For the other files of batch. */

/* Sets kind, number, id and path. */
void batch_item_init(struct batch_item *i, struct batch_kind *kind, int64_t number);

/*
 * Creates items with new numbers, the first of which is *ret_number, in one transaction that `add`
 * adds to. EXISTS of OP_UNIQUE refuses the creation; other conflicts are retried.
 */
typedef int batch_add_fn(struct batch_call *c, struct batch_txn *t, int64_t number, void *arg);

int batch_item_create(struct batch_call *c, enum batch_kind_id kind, batch_add_fn *add, void *arg,
                      int64_t *ret_number);

/* Adds the creation of ITEM/NAME, or of ITEM itself when name is NULL. */
void batch_item_add_node(struct batch_txn *t, const struct batch_item *i, const char *name,
                         struct str data);

/*
 * Adds the deletion of a node and everything below it. LOCKED if one of the nodes is a lock,
 * TOO_BIG if there are too many levels.
 */
int batch_item_add_deletion(struct batch_call *c, struct batch_txn *t, const char *path);

/* Of a job; DAMAGED if there is none, or it is not valid. */
int batch_item_read_priority(struct batch_call *c, struct batch_item *job);
int batch_item_read_bid(struct batch_call *c, struct batch_item *job);

/* The text of a JSON value, in the arena; `otherwise` if v is NULL. */
struct str batch_json_text(struct batch_call *c, const struct json *v, struct str otherwise);

/*
 * Batches have a submission, completion, and reports.
 *
 * Completion. Every transaction that changes the members of batch-processing also sets that node at
 * the version that was read with its number of children. If two last jobs end at the same time, one
 * of them therefore fails, retries and sees that it is the last. The transaction that removes the
 * last job also moves the batch: Processing (or Pending) to Reporting, unless somebody has locked
 * it, Failed to UpdateReporting. If foreign clients have changed the list too (batch_lists.c), it
 * does not: such a batch may still be filled, and batch_settle() moves it. The status is the
 * durable mark that a report is due; /drover/batch/reporting and updatereporting list those
 * batches. A reporter acquires the batch, sends the report to the depositor, and moves the batch
 * with its token: that transaction commits the report and writes status-report. If a reporter dies,
 * its lock ends and another one acquires the batch; if it only seemed dead, its move is fenced.
 *
 * The number of a report is the czxid of the batch's entry in that list. It is the same for every
 * attempt to send the report, and no two reports share it.
 *
 * Moves. From Reporting and UpdateReporting, "next" is Completed if all jobs are, else Failed, and
 * status-report is written in the same transaction. The new state can differ from the one asked
 * for: a batch that is to be Processing and whose jobs have all ended becomes Reporting; one whose
 * jobs changed during its report and have ended again becomes UpdateReporting.
 */

int batch_find(struct batch_call *c, struct str uuid, char ret_bid[BATCH_ID_LEN + 1]);

/* The number of the report that is due. */
int batch_report_number(struct batch_call *c, struct str bid, int state, int64_t *ret_number);

/*
 * `states` and the lists below it. The library of the specification takes a batch as pending while
 * `states` does not exist, creates it when it takes the batch, and creates each list when it is
 * first needed. Drover does the same: a new batch has none; acquiring a batch and moving it out of
 * Pending create `states`; a batch that is Pending again, or that is unlocked while it is Pending,
 * loses it, unless it has jobs. A list that does not exist is an empty one.
 *
 * Each function adds to a transaction what is missing. batch_add_untaken() deletes `states` and its
 * lists and returns 1, or does nothing and returns 0 if there is none, or a list is not empty.
 */
int batch_add_states(struct batch_call *c, struct batch_txn *t, const char *bid);
int batch_add_list(struct batch_call *c, struct batch_txn *t, const char *bid,
                   enum batch_list list);
int batch_add_untaken(struct batch_call *c, struct batch_txn *t, const char *bid);

/* Adds a new status at the version that was read, and the change of the index. */
int batch_add_status(struct batch_call *c, struct batch_txn *t, const struct batch_item *i,
                     int state, struct str message);

/*
 * Adds to a transaction that `leaving` jobs leave batch-processing and `coming` ones enter it, as
 * described above. ret_state is the state that the batch gets by this, or BATCH_NO_STATE.
 */
int batch_count_change(struct batch_call *c, struct batch_txn *t, const char *bid, int leaving,
                       int coming, int *ret_state);

/* The jobs of a batch. Of a list that does not exist, the count and the stat are zero. */
struct batch_census {
    int64_t counts[BATCH_LIST_COUNT];
    struct keeper_stat processing; /* of batch-processing */
};

int batch_census(struct batch_call *c, const char *bid, struct batch_census *ret_census);

/*
 * Makes the report due that no transaction of Drover has: moves a batch whose jobs have all ended
 * from Processing or Pending to Reporting, if it is not locked; or from Failed, if jobs ended
 * since, to UpdateReporting. Returns 1 if it did; a conflict means that it changed meanwhile.
 */
int batch_settle(struct batch_call *c, const char *bid);

/*
 * Gives back a batch that is Pending, or Processing, has no jobs and is not locked: whoever took it
 * has died. It is Pending, without `states`. Returns 1 if it changed anything.
 */
int batch_untake(struct batch_call *c, const char *bid, int state);

/* The ids of the failed jobs, as a JSON list. */
int batch_failed_jobs(struct batch_call *c, const char *bid, struct str *ret_json);

/*
 * Jobs have a specification, a batch, a priority and fields, and can be held and requeued.
 */

enum { BATCH_PRIORITY_DEFAULT = 5 }; /* as the other clients of the tree have it */

/* A new job. JSON objects, or NULL; the configuration is required. */
struct batch_job_spec {
    const struct json *configuration, *identifiers, *metadata, *inventory;
    int64_t priority, space_needed;
};

/* Reads {"configuration", "priority", ...}. */
int batch_job_read_spec(struct batch_call *c, const struct json *v,
                        struct batch_job_spec *ret_spec);

/*
 * The identifiers of a job, without members that are null: a primary_id that is not known is
 * absent, because other clients take it for a text.
 */
struct str batch_identifiers_text(struct batch_call *c, const struct json *v);

/* What else happens in the transaction that creates a job. */
struct batch_job_extra {
    const char *mark;   /* created with the JID as its data; if it exists, EXISTS and no job */
    const char *remove; /* a node to delete; NULL: none */
};

/* Creates all of them or none, in one transaction. extra may be NULL. */
int batch_job_create(struct batch_call *c, struct str bid, const struct batch_job_spec *specs,
                     size_t count, const struct batch_job_extra *extra,
                     char (*ret_jids)[BATCH_ID_LEN + 1]);

/* Pending to Held, and back. */
int batch_job_hold(struct batch_call *c, struct str jid, struct str message);
int batch_job_release(struct batch_call *c, struct str jid);

/* Failed to a state (p NULL: the first one); retry_count goes up by one. */
int batch_job_requeue(struct batch_call *c, struct str jid, struct str state, struct str message);

/* Releases all held jobs of a profile. ret_count: how many. */
int batch_job_release_profile(struct batch_call *c, struct str profile, int64_t *ret_count);

int batch_job_set_priority(struct batch_call *c, struct str jid, int64_t priority, int64_t token);

/* Replaces "space_needed", "identifiers", "metadata" or "inventory". token 0: locked or not. */
int batch_job_set_field(struct batch_call *c, struct str jid, const char *field, struct str text,
                        int64_t token);

/*
 * Sets members of the token of an access item; those that are null are removed, the others stay.
 * token: of the lock; 0: locked or not.
 */
int batch_access_set(struct batch_call *c, enum batch_kind_id kind, struct str id,
                     const struct json *changes, int64_t token);

/*
 * The cache of jobs, as this process last read or wrote them. On an ensemble each read is a round
 * trip.
 *
 * It holds jobs that sessions of this process have locked, so that moving a job does not read again
 * what acquiring it has read; and jobs that they unlocked with a move, so that acquiring one for
 * its next step does not read what was just written.
 *
 * An entry is a hint. A transaction built from one insists on the versions in it, and the operation
 * starts again from the tree if they have changed. An entry of a locked job is used only for the
 * session that holds the lock: while that session lives, so does its lock, unless somebody breaks
 * it, and breaking a lock also sets the status.
 *
 * Direct-mapped with a fixed size: a new entry evicts the old one in its slot. Safe from any
 * thread.
 */
struct batch_job_cache *batch_job_cache_new(void);
void batch_job_cache_free(struct batch_job_cache *cache);

/* Stores a job; with a token, as locked by the session of the call. */
void batch_job_cache_put(struct batch_call *c, const struct batch_item *job);

/* ret_job is as from batch_item_read(), but without the JSON of its status. */
bool batch_job_cache_get(struct batch_call *c, int64_t number, int64_t token,
                         struct batch_item *ret_job);

void batch_job_cache_drop(struct batch_call *c, int64_t number);

/*
 * The priority of the job's entry in the list of its state, which may differ from the job's
 * priority; -1: it is not in that list.
 */
int batch_job_locate(struct batch_call *c, const struct batch_item *job, int *ret_entry);

/* The list of a state in a job's status, known or not. */
const char *batch_job_list(struct batch_call *c, const struct batch_status *s);

/* Adds the job's entry with a priority to the list of its state, or removes it. */
void batch_job_entry(struct batch_call *c, struct batch_txn *t, const struct batch_item *j,
                     int priority, bool add);

/* The same, but DAMAGED if it is not in the list. */
int batch_job_require_entry(struct batch_call *c, const struct batch_item *job, int *ret_entry);

/*
 * Locks: who may change what. There are two sorts. The lock of an item (a batch, a job, an access
 * item) is the ephemeral node ITEM/lock. Its token is the number of the transaction that created
 * the node (czxid), so each lock has a higher token than those before it. Locks by name are the
 * table of the specification:
 *
 *     queue/ingest, accessSmall, accessLarge; collections/MNEMONIC    by admins; persistent
 *     storage/ARK, inventory/ARK, localid/ID          of an object; ephemeral: end with the session
 *
 * The data of a lock by name is JSON: name (as given, before slashes became "_"), who, when. Those
 * that foreign clients create may have none.
 *
 * Fencing. The transaction that locks an item also sets its status to the same data, so that the
 * status gets a new version. A holder's change insists on the version that it read before it read
 * the lock: if another client locked the item in between, the change fails, and its token is not
 * valid.
 */

/*
 * Adds to a transaction that the caller may change the item at a path. With a token: the lock must
 * exist and have that token; the transaction deletes it unless it is kept. Without: there must be
 * no lock. Returns 0 or FENCED.
 *
 * version KEEPER_ANY_VERSION: reads the lock to compare the token. BATCH_LOCK_VERSION: the caller
 * knows that the lock had this token. The transaction that acquires a job sets its lock once, so
 * its version differs from that of a lock that a foreign client created in its place.
 */
enum { BATCH_LOCK_VERSION = 1 };

int batch_lock_guard(struct batch_call *c, struct batch_txn *t, const char *path, int64_t token,
                     int32_t version, bool keep);

/* FENCED or LOCKED if a transaction failed at the operation of batch_lock_guard(); else err. */
int batch_lock_refused(struct batch_call *c, const struct batch_txn *t, int err, int64_t token);

/* Unlocks an item: for its holder, or with token 0 for an admin. */
int batch_item_unlock(struct batch_call *c, enum batch_kind_id kind, struct str id, int64_t token);

/* Locks by name. */
enum batch_lock_kind {
    BATCH_LOCK_QUEUE,
    BATCH_LOCK_STORAGE,
    BATCH_LOCK_INVENTORY,
    BATCH_LOCK_COLLECTIONS,
    BATCH_LOCK_LOCALID,
    BATCH_LOCK_KINDS,
};

extern const char *const BATCH_LOCK_DIRS[BATCH_LOCK_KINDS]; /* "queue", ... */

/* Whether it is the lock of an object, which a session holds. */
static inline bool batch_lock_is_ephemeral(enum batch_lock_kind kind)
{
    return kind == BATCH_LOCK_STORAGE || kind == BATCH_LOCK_INVENTORY || kind == BATCH_LOCK_LOCALID;
}

struct batch_lock {
    enum batch_lock_kind kind;
    struct str name;      /* as it was given */
    struct str node;      /* in the tree */
    struct str who, when; /* p NULL: unknown */
    bool named;           /* else a foreign client took it, and the name is that of the node */
    int64_t token, age_ms;
    int32_t version;
    bool ephemeral;
};

/* LOCKED if another has it; the message says who. */
int batch_lock_take(struct batch_call *c, enum batch_lock_kind kind, struct str name,
                    struct str who, struct batch_lock *ret_lock);

/*
 * token 0: an admin breaks it. FENCED: the lock has another token. NO_NODE: there is no such lock,
 * or its node is taken by another name.
 */
int batch_lock_release(struct batch_call *c, enum batch_lock_kind kind, struct str name,
                       int64_t token);

int batch_lock_get(struct batch_call *c, enum batch_lock_kind kind, struct str name,
                   struct batch_lock *ret_lock);

/* All of a kind, in the arena, sorted by name. */
int batch_lock_list(struct batch_call *c, enum batch_lock_kind kind, struct batch_lock **ret_locks,
                    size_t *ret_count);

#endif
