/*
 * store_impl - the inside of struct store: records by id, and their positions in their groups.
 * store.c holds the records, store_group.c the groups, store_txn.c and store_claim.c change them.
 *
 * A record has 40 bytes and a number (ref) that does not change while the task exists. Of the tail
 * of a task, memory has only what decides its position (struct record_hot), for tasks that have it.
 * The payload, if the store holds it, is in arrays parallel to the records, and so is the hot part.
 *
 * A record is in one place:
 *
 *   done         in its group's list of tasks that are done
 *   PLACE_HEAP   in its group's heap, by the time when it becomes available
 *   PLACE_DRAWN  nowhere: a claim has drawn it and is about to replace it
 *   otherwise    available: in a class (a priority) of a lane (a share) of its group
 *
 * A group without settings that use shares has one lane, and without priorities one class.
 */
#ifndef TASK_STORE_IMPL_H
#define TASK_STORE_IMPL_H

#include "base/heap.h"
#include "base/map.h"
#include "task/store.h"
#include "task/tally.h"

enum { RECORD_CHUNK_BITS = 12, RECORD_CHUNK_LEN = 1 << RECORD_CHUNK_BITS };

#define PLACE_HEAP (UINT32_C(1) << 31)
#define PLACE_MARK (UINT32_C(1) << 30) /* already named by the transaction being checked */
#define PLACE_DRAWN (UINT32_C(1) << 29)
#define PLACE_AT (PLACE_DRAWN - 1)

struct task_record {
    int64_t id, timespec, ownerid, slot;
    uint32_t group : 26;
    uint32_t managed : 1;
    uint32_t tail : 1; /* the payload begins with a tail */
    uint32_t claimed : 1, retrying : 1, dead : 1, done : 1;
    uint32_t place; /* free records: the next free one */
};

/* What the position of a task with a tail depends on. One allocation with its texts. */
struct record_hot {
    int32_t priority;
    uint32_t expiry_at; /* in the heap of the store, plus 1; 0: it does not expire */
    int64_t expires;
    struct str key, share;
};

struct task_data {
    uint32_t len;
    char bytes[];
};

/* The available tasks of one priority. */
struct task_class {
    int32_t priority;
    uint32_t *array; /* random order */
    uint32_t count, cap;
    struct heap fifo; /* first in, first out: by timespec, then id */
};

/* The available tasks of one share, or of the whole group. */
struct task_lane {
    struct str share;
    uint32_t number;
    uint32_t available, claimed;
    struct task_class *classes; /* by priority */
    uint32_t class_count, class_cap;
    uint32_t ready_at; /* in the group's heap of ready lanes, plus 1 */
    uint32_t served;   /* the number of the last claim that took from it */
};

struct task_group {
    struct str name;
    uint32_t number;
    uint32_t pins; /* by transactions that are not settled: it is not freed */
    int64_t adds;  /* of the transaction being checked, less what it ends */
    const struct task_settings *settings;
    uint32_t available; /* in the lanes */
    uint32_t dead;      /* of these */
    uint32_t claimed;   /* in the heap, or drawn */
    uint32_t retrying;  /* in the heap */
    struct heap heap;   /* tasks that are not available, by when they will be */
    uint32_t *done;     /* tasks that are done */
    uint32_t done_count, done_cap;
    int64_t rate_ns; /* when the bucket of tokens is full again */

    struct task_lane whole; /* without shares */
    bool by_share;
    struct task_lane **lanes; /* with shares: by number, from 1 on */
    uint32_t lane_top, lane_cap, lane_count, lane_hint, served;
    struct map by_share_name;
    struct heap ready; /* lanes from which a task can be claimed */

    /* All ids in ascending order, with some removed ones; made on the first request for it. */
    bool ordered;
    int64_t *order;
    size_t order_count, order_cap, order_dead;
};

enum { TRACE_LEN = 1 << 16 };

/* What became of an id that was replaced or ended; slot 0: it was deleted, finished, expired. */
struct store_trace {
    int64_t id, slot;
};

struct store {
    store_fetch_fn *fetch;
    void *fetch_arg;
    int64_t last_id, top_id; /* given, used */
    size_t count, done;      /* living tasks, and those that are done */
    int64_t now_ns;          /* of the last transaction: how old the rates are */
    size_t available;        /* of all groups */

    struct map by_id;
    struct map by_slot; /* tasks whose id is not their slot, and managed tasks */
    struct map by_key;
    struct task_record **chunks;
    struct task_data ***kept; /* by chunk; NULL if data is fetched */
    struct record_hot ***hot; /* by chunk; NULL: no task of the chunk has any */
    uint32_t chunk_count, top, free;
    struct heap expiry; /* refs of tasks that expire */

    struct map by_name;
    struct task_group **groups; /* by number, from 1 on */
    uint32_t group_top, group_cap;
    uint32_t *free_groups, free_group_count, free_group_cap;

    struct settings_table settings;
    struct store_trace *trace; /* by id modulo TRACE_LEN; NULL: no task was changed yet */
};

/* What a removed record leaves. */
struct record_rest {
    struct task_data *kept;
    struct record_hot *hot;
};

static inline struct task_record *record_at(const struct store *s, uint32_t ref)
{
    return &s->chunks[ref >> RECORD_CHUNK_BITS][ref & (RECORD_CHUNK_LEN - 1)];
}

static inline struct task_data **data_at(const struct store *s, uint32_t ref)
{
    return &s->kept[ref >> RECORD_CHUNK_BITS][ref & (RECORD_CHUNK_LEN - 1)];
}

static inline struct record_hot *hot_at(const struct store *s, uint32_t ref)
{
    struct record_hot **chunk = s->hot[ref >> RECORD_CHUNK_BITS];
    return chunk ? chunk[ref & (RECORD_CHUNK_LEN - 1)] : NULL;
}

static inline struct task_group *group_of(const struct store *s, uint32_t ref)
{
    return s->groups[record_at(s, ref)->group];
}

/* By id, by slot, by key among the tasks that hold one. 0: none. */
uint32_t store_find(const struct store *s, int64_t id);
uint32_t store_find_slot(const struct store *s, int64_t slot);
uint32_t store_find_any(const struct store *s, int64_t id); /* or TASK_FIRST(slot) */
uint32_t store_find_key(const struct store *s, const struct task_group *g, struct str key);

/* Whether it belongs to its owner. A lease of a managed task ends only through the manager. */
static inline bool record_is_owned(const struct task_record *r, int64_t now_ms)
{
    return r->timespec > now_ms || (r->managed && r->ownerid != TASK_MANAGER);
}

/* The record as a task, without data and extra. */
struct task record_task(const struct store *s, const struct task_record *r);

/*
 * Adds a record to the store and its group; takes ownership of kept and hot. A record with a later
 * time than now_ms is not available.
 */
void store_insert(struct store *s, const struct task_record *r, struct record_rest rest,
                  int64_t now_ms);

/* Removes a record. What it leaves is the caller's. The group stays, even an empty one. */
struct record_rest store_remove(struct store *s, uint32_t ref);
void record_rest_release(struct record_rest *rest);

struct task_data *data_new(struct str payload);
struct record_hot *hot_new(const struct task_extra *x); /* NULL: nothing in it is hot */

/* The extra and the data of a record, borrowed from the store or from scratch. */
int store_payload(struct store *s, uint32_t ref, struct buf *scratch, struct task_extra *ret_extra,
                  struct str *ret_data);

/* Groups. */

struct task_group *store_find_group(const struct store *s, struct str name);
struct task_group *store_make_group(struct store *s, struct str name);
void store_drop_group(struct store *s, struct task_group *g); /* if it is empty and not pinned */
void group_free(struct task_group *g);

/* Adds a record to its place, and takes it out. */
void group_insert(struct store *s, struct task_group *g, uint32_t ref, int64_t now_ms);
void group_remove(struct store *s, struct task_group *g, uint32_t ref);

/* Moves the tasks whose time has come from the heap to the lanes. */
void group_pass(struct store *s, struct task_group *g, int64_t now_ms);

/* The lane and the class from which the next claim takes; NULL: there is none. */
struct task_lane *group_lane(const struct task_group *g);
static inline struct task_class *lane_class(const struct task_lane *lane)
{
    return &lane->classes[0]; /* empty classes are removed */
}

/* Takes a task of the lane's first class: it counts as claimed. And puts a drawn one back. */
uint32_t group_draw(struct store *s, struct task_group *g, struct task_lane *lane,
                    struct store_random *random);
void group_put_back(struct store *s, uint32_t ref);

/* Applies the settings of its name, after they have changed. */
void group_set_settings(struct store *s, struct task_group *g);

/* The sorted ids of a group, if it has them: a new id, a removed one. */
void group_order_add(struct task_group *g, int64_t id);
void group_order_bury(struct store *s, struct task_group *g);
size_t group_order_after(struct store *s, struct task_group *g, int64_t id); /* makes it first */

/* Calls fn with every living task's ref. */
void group_each(const struct task_group *g, void (*fn)(void *arg, uint32_t ref), void *arg);

static inline size_t group_count(const struct task_group *g)
{
    return (size_t)g->available + g->heap.count;
}

#endif
