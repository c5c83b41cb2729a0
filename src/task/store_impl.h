/*
 * store_impl - the inside of struct store: records by id, and the places where they stand in their
 * groups. store.c keeps them, txn.c changes them.
 *
 * A record is forty bytes and is named by a ref that does not change while the task lives; the refs of
 * a group stand either in its array of the available or in its heap by time. Data that the store keeps
 * itself lies in arrays beside the records, which a store that fetches it never makes.
 */
#ifndef TASK_STORE_IMPL_H
#define TASK_STORE_IMPL_H

#include "base/heap.h"
#include "base/map.h"
#include "task/store.h"

enum { RECORD_CHUNK_BITS = 12, RECORD_CHUNK_LEN = 1 << RECORD_CHUNK_BITS };

#define PLACE_HEAP (UINT32_C(1) << 31) /* in the heap, not in the array */
#define PLACE_MARK (UINT32_C(1) << 30) /* named once already by the transaction that is checked */
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
    uint32_t pins;   /* by transactions that are not settled: it does not vanish */
    uint32_t *array; /* the available */
    uint32_t array_count, array_cap;
    struct heap heap; /* the others, by timespec */

    /* All ids in their order, with some of the dead among them, once somebody asked for the order. */
    bool ordered;
    int64_t *order;
    size_t order_count, order_cap, order_dead;
};

struct store {
    store_fetch_fn *fetch;
    void *fetch_arg;
    int64_t last_id;
    size_t count;

    struct map by_id;
    struct map by_slot; /* managed tasks */
    struct task_record **chunks;
    struct task_data ***kept; /* chunk by chunk; NULL without keeping */
    uint32_t chunk_count, top, free;

    struct map by_name;
    struct task_group **groups; /* by number, from 1 on */
    uint32_t group_top, group_cap;
    uint32_t *free_groups;
    uint32_t free_group_count;
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

/* Whether the task belongs to its owner. A lease of a managed task ends only through the manager. */
static inline bool record_is_owned(const struct task_record *r, int64_t now_ms)
{
    return r->timespec > now_ms || (r->managed && r->ownerid != TASK_MANAGER);
}
struct task_group *store_find_group(const struct store *s, struct str name);
struct task_group *store_make_group(struct store *s, struct str name);
void store_drop_group(struct store *s, struct task_group *g); /* if nothing holds it */

/* Puts a record into the store and its group; kept is taken. */
uint32_t store_insert(struct store *s, const struct task_record *r, struct task_data *kept,
                      int64_t now_ms);

/* Takes one out. Its data is the caller's. The group stays, even when it is empty. */
struct task_data *store_remove(struct store *s, uint32_t ref);

struct task_data *data_new(struct str data);

/* Moves what time has made available from the heap to the array. */
void group_pass(struct store *s, struct task_group *g, int64_t now_ms);

static inline size_t group_count(const struct task_group *g)
{
    return (size_t)g->array_count + g->heap.count;
}

/* The data of a record, borrowed from the store or appended to scratch. */
int store_data(struct store *s, uint32_t ref, struct buf *scratch, struct str *ret_data);

#endif
