/*
 * item - what batches, jobs and access items have in common: they are created with an id, read,
 * listed, acquired, moved from state to state, and deleted.
 *
 * Acquire. An acquire locks the first item of a state that is not locked and returns its token
 * (lock.h). Jobs are ordered by priority and id, the others by id. It returns nothing while the
 * queue of the kind is locked.
 *
 * Move. A move is one transaction: it sets the status at the version that was read, moves the entry
 * from the list of the old state to the list of the new one, and unlocks the item unless the lock
 * is kept. A job also changes lists of its batch, and the batch itself if it was the last
 * (batch.h).
 *
 * Access items are Pending, or Processing; those whose worker died are acquired again. Their lock
 * stays while they are Processing.
 */
#ifndef BATCH_ITEM_H
#define BATCH_ITEM_H

#include "batch/store.h"

/* The kind of "small" and "large" access items; BAD_ARGUMENT for any other name. */
int batch_access_kind(struct batch_call *c, struct str name, enum batch_kind_id *ret_kind);

/* data is the JSON object of its token node. */
int batch_access_create(struct batch_call *c, enum batch_kind_id kind, const struct json *data,
                        char ret_id[BATCH_ID_LEN + 1]);

/* Checks an id and sets kind, id and number; NO_NODE if the text is not an id. */
int batch_item_name(struct batch_call *c, enum batch_kind_id kind, struct str id,
                    struct batch_item *ret_item);

/* The status, and of a job the priority and the batch. */
int batch_item_read(struct batch_call *c, enum batch_kind_id kind, struct str id,
                    struct batch_item *ret_item);

/* All of it. */
int batch_item_get(struct batch_call *c, enum batch_kind_id kind, struct str id,
                   struct batch_item *ret_item);

struct batch_filter {
    int state;               /* BATCH_NO_STATE: any */
    struct str bid, profile; /* of jobs; p NULL: any */
    int64_t from;            /* the lowest number */
    size_t start, limit;     /* of the items that match; start only for jobs */
};

/*
 * Batches and access items by id; jobs by state and priority. The items are as from
 * batch_item_get().
 */
int batch_item_list(struct batch_call *c, enum batch_kind_id kind, const struct batch_filter *f,
                    struct batch_item **ret_items, size_t *ret_count);

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
    struct str failed; /* of a batch, JSON: the failed jobs that were reported; p NULL: read them */
};

/*
 * Moves an item. ret_state is its new state: for a batch it can differ from the one asked for, see
 * batch.h.
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
 * when somebody asks for such items, and in drover serve every second while there is one. There is
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

/* For batches and access items: indexes those that are new, and those that were incomplete. */
int batch_index_refresh(struct batch_call *c, enum batch_kind_id kind);

/* Whether there are incomplete items. */
bool batch_index_is_incomplete(struct batch_call *c, enum batch_kind_id kind);

/* Corrects the lists for items that were moved by their status alone. Reads every item listed. */
int batch_index_sweep(struct batch_call *c, enum batch_kind_id kind);

/* For the other files of batch. */

/* Adds a new status at the version that was read, and the change of the index. */
int batch_item_set_state(struct batch_call *c, struct batch_txn *t, const struct batch_item *i,
                         int state, struct str message);

/* Sets kind, number, id and path. */
void batch_item_init(struct batch_item *i, struct batch_kind *kind, int64_t number);

/* The status exactly as it was read. */
struct str batch_item_status(struct batch_call *c, const struct batch_item *i);

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

/* The text of a JSON value, in the arena; `otherwise` if v is NULL. */
struct str batch_json_text(struct batch_call *c, const struct json *v, struct str otherwise);

/* The transition of one item, while it is tried. */
struct batch_transition {
    struct batch_item item; /* before */
    const struct batch_move *move;
    int to;
    struct batch_status status; /* after */

    /* A job. */
    int only_from;      /* the one state that it may be in, or BATCH_NO_STATE: any */
    bool only_failed;   /* it must be in batch-failed */
    bool cached, fresh; /* from the cache; must be read */
    int entry;          /* priority of its entry in the list, -1: that of the job */
    int batch_to;       /* the state that its batch gets, or BATCH_NO_STATE */

    /* A batch. */
    struct keeper_stat processing; /* of batch-processing */
};

/* Moves with what is set above; item.kind and item.id are set. */
int batch_item_transition(struct batch_call *c, struct batch_transition *tr);

/* What the kinds add to the transaction. They set call->why on failure. */
int batch_job_add_move(struct batch_call *c, struct batch_txn *t, struct batch_transition *tr);
int batch_add_move(struct batch_call *c, struct batch_txn *t, struct batch_transition *tr);

#endif
