/*
 * load_impl - what was read of the stored state (load.c), for the start with it (begin.c).
 */
#ifndef DAG_LOAD_IMPL_H
#define DAG_LOAD_IMPL_H

#include "dag/service.h"

/* The data of keeper nodes: chunks of specs, or records, whose first_id is that of the node. */
struct saved_texts {
    struct chunk_text **items; /* in the order of their ids */
    size_t count, cap;
};

/* What was read. dag_begin() starts with it, and adds the tasks of nodes. */
struct dag_saved {
    struct dag *dag;
    struct arena arena;
    int64_t client, last, runs;
    struct saved_texts texts[BUCKET_SLOTS]; /* by kind: chunks, records */
    struct saved_slot {
        uint64_t id;
        uint32_t number;
    } * slots;
    size_t slot_count, slot_cap;
    struct map buckets[BUCKET_KINDS];
    struct graph graph;
    uint64_t damaged; /* the node whose record is; 0: none */
    int tasks_err;
    struct task_request request;
    struct saved_task {
        int64_t slot;
        struct task task;
    } * tasks;
    size_t task_count, task_cap;
};

#endif
