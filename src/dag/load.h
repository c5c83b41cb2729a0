/* load - the stored state of the DAG, as read back from a keeper. Private to this directory. */
#ifndef DAG_LOAD_H
#define DAG_LOAD_H

#include "dag/dag_impl.h"

/* The data of one keeper node: a chunk of specs, named by its first id, or a node's record. */
struct saved_text {
    uint64_t id;
    struct buf text;
};

struct saved_texts {
    struct saved_text *items; /* in the order of their ids */
    size_t count, cap;
};

struct saved_slot {
    uint64_t id;
    uint32_t number;
};

struct dag_saved {
    int64_t client;
    uint64_t last;
    struct saved_texts chunks, records;
    struct saved_slot *slots;
    size_t slot_count, slot_cap;
    uint64_t *buckets[BUCKET_KINDS];
    size_t bucket_counts[BUCKET_KINDS];
};

/* The record of a node, or NULL. */
const struct saved_text *dag_saved_record(const struct dag_saved *saved, uint64_t id);

#endif
