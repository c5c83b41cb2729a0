/* kept - what a keeper holds of the DAG, as it was read back. For the files of this folder only. */
#ifndef DAG_LOAD_H
#define DAG_LOAD_H

#include "dag/dag_impl.h"

/* The data of one keeper node: a chunk of specs, named by its first id, or a node's record. */
struct kept_text {
    uint64_t id;
    struct buf text;
};

struct kept_texts {
    struct kept_text *items; /* in the order of their ids */
    size_t count, cap;
};

struct kept_slot {
    uint64_t id;
    uint32_t number;
};

struct dag_kept {
    int64_t client;
    uint64_t last;
    struct kept_texts chunks, records;
    struct kept_slot *slots;
    size_t slot_count, slot_cap;
    uint64_t *buckets[BUCKET_KINDS];
    size_t bucket_counts[BUCKET_KINDS];
};

/* The record of a node, or NULL. */
const struct kept_text *dag_kept_record(const struct dag_kept *kept, uint64_t id);

#endif
