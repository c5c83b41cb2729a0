/*
 * store_impl - the inside of struct store: records by id, and their positions in their groups.
 * store.c holds them, store_txn.c changes them.
 *
 * A record has 40 bytes and a number (ref) that does not change while the task exists. A group has
 * each ref either in its array of available tasks or in its heap by time. Data, if the store holds
 * it, is in arrays parallel to the records.
 */
#ifndef TASK_STORE_IMPL_H
#define TASK_STORE_IMPL_H

#include "base/heap.h"
#include "base/map.h"
#include "task/store.h"

enum { RECORD_CHUNK_BITS = 12, RECORD_CHUNK_LEN = 1 << RECORD_CHUNK_BITS };

#define PLACE_HEAP (UINT32_C(1) << 31) /* in the heap, not in the array */
#define PLACE_MARK (UINT32_C(1) << 30) /* already named by the transaction being checked */
#define PLACE_AT (PLACE_MARK - 1)

struct task_record {
    int64_t id, timespec, ownerid, slot;
    uint32_t group : 31;
    uint32_t managed : 1;
    uint32_t place; /* free records: the next free one */
};

struct task_data {
    uint32_t len;
    char bytes[];
};

struct task_group {
    struct str name;
    uint32_t number;
    uint32_t pins;   /* by transactions that are not settled: it is not freed */
    uint32_t *array; /* the available tasks */
    uint32_t array_count, array_cap;
    struct heap heap; /* the others, by timespec */

    /* All ids in ascending order, with some removed ones; made on the first request for it. */
    bool ordered;
    int64_t *order;
    size_t order_count, order_cap, order_dead;
};

struct store {
    store_fetch_fn *fetch;
    void *fetch_arg;
    int64_t last_id, top_id; /* given, used */
    size_t count;

    struct map by_id;
    struct map by_slot; /* managed tasks */
    struct task_record **chunks;
    struct task_data ***kept; /* by chunk; NULL if data is fetched */
    uint32_t chunk_count, top, free;

    struct map by_name;
    struct task_group **groups; /* by number, from 1 on */
    uint32_t group_top, group_cap;
    uint32_t *free_groups, free_group_count, free_group_cap;
};

static inline struct task_record *record_at(const struct store *s, uint32_t ref)
{
    return &s->chunks[ref >> RECORD_CHUNK_BITS][ref & (RECORD_CHUNK_LEN - 1)];
}

static inline struct task_data **data_at(const struct store *s, uint32_t ref)
{
    return &s->kept[ref >> RECORD_CHUNK_BITS][ref & (RECORD_CHUNK_LEN - 1)];
}

uint32_t store_find(const struct store *s, int64_t id);        /* 0: none */
uint32_t store_find_slot(const struct store *s, int64_t slot); /* of a managed task; 0: none */

/* Whether it belongs to its owner. A lease of a managed task ends only through the manager. */
static inline bool record_is_owned(const struct task_record *r, int64_t now_ms)
{
    return r->timespec > now_ms || (r->managed && r->ownerid != TASK_MANAGER);
}
struct task_group *store_find_group(const struct store *s, struct str name);
struct task_group *store_make_group(struct store *s, struct str name);
void store_drop_group(struct store *s, struct task_group *g); /* if it is empty and not pinned */

/* Adds a record to the store and its group, and takes ownership of the data. */
void store_insert(struct store *s, const struct task_record *r, struct task_data *kept,
                  int64_t now_ms);

/* Removes a record and returns its data, for the caller. The group stays, even an empty one. */
struct task_data *store_remove(struct store *s, uint32_t ref);

struct task_data *data_new(struct str data);

/* Moves the tasks whose time has come from the heap to the array. */
void group_pass(struct store *s, struct task_group *g, int64_t now_ms);

static inline size_t group_count(const struct task_group *g)
{
    return (size_t)g->array_count + g->heap.count;
}

/* The data of a record, borrowed from the store or appended to scratch. */
int store_data(struct store *s, uint32_t ref, struct buf *scratch, struct str *ret_data);

#endif
