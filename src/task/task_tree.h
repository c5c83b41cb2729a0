/*
 * ledger - a transaction of the store as operations on the keeper's tree. Pure.
 *
 * A commit gathers operations: those of one transaction, or of several that go together. Buckets are
 * made when the first slot in them is, and go with their last one; the one that is being filled stays.
 * What the ledger knows about the tree (which buckets are there, how many slots they have, which
 * requests are remembered) runs ahead of the tree by the commit that is under way, and task_tree_undo()
 * takes that back.
 *
 * The head holds the last id. On the embedded keeper it holds a ceiling that ids stay below, TASK_TREE_STEP
 * ahead, so that it is written once in a thousand ids and not with each; a restart goes on above it.
 *
 * No id is given twice, not even one that a crash took back after it was answered: where that can happen
 * (opportunistic) the ceiling on disk is always TASK_TREE_LOSABLE above the ids at least. No more are given in
 * the time that a change needs to reach the disk, and a start has its ceiling on disk before its first id.
 */
#ifndef TASK_TASK_TREE_H
#define TASK_TASK_TREE_H

#include "keeper/keeper.h"
#include "task/request_log.h"
#include "task/store.h"
#include "task/task_node.h"

enum { TASK_TREE_STEP = 1000, TASK_TREE_LOSABLE = 1000 * 1000 };

struct task_tree_bucket {
    int64_t number;
    uint32_t slots;
};

struct task_tree {
    int64_t open_bucket; /* the newest that is there, -1: none */
    int64_t ceiling;     /* what the head says */
    int64_t losable;     /* so many ids may be answered and lost: 0 or TASK_TREE_LOSABLE */
    struct request_log requests;

    struct map by_number; /* buckets with slots */
    struct task_tree_bucket *buckets;
    uint32_t top, cap;
    uint32_t *unused;
    uint32_t unused_count;
};

void task_tree_init(struct task_tree *l);
void task_tree_release(struct task_tree *l);

/* Zero-initialise; reset to use again. */
struct task_commit {
    struct keeper_op *ops;
    size_t count, cap;
    size_t bytes; /* about what it is on the wire */
    struct arena arena;

    int64_t open_bucket, ceiling; /* before */
    bool begun;
    struct request_log_entry *
        *forgotten; /* whose places were taken, in order; NULL: the place was free */
    size_t remembered, remembered_cap;
};

void task_commit_release(struct task_commit *c);
void task_commit_reset(struct task_commit *c);
void task_commit_op(struct task_commit *c, struct keeper_op op);

/* Adds what a transaction changes. */
void task_tree_put(struct task_tree *l, struct task_commit *c, const struct task_txn *t);

/* Adds that a request is remembered, with the tasks of its answer. */
void task_tree_put_request(struct task_tree *l, struct task_commit *c,
                           const struct request_key *key, const struct task *tasks, size_t count);

/* What the head shall say when so many ids have been given. */
struct task_node_head task_tree_ceiling(const struct task_tree *l, int64_t last_id);

/* Adds the head, if the ids have come too close to the ceiling. */
void task_tree_put_ceiling(struct task_tree *l, struct task_commit *c, int64_t last_id);

/* Adds the head as it is: the last id and a tag. version: what it must be at. */
void task_tree_put_head(struct task_tree *l, struct task_commit *c, const struct task_node_head *h,
                        int32_t version);

/* The commit stands, or nothing of it has happened. txns: those that were put, in order. */
void task_tree_settle(struct task_tree *l, struct task_commit *c);
void task_tree_undo(struct task_tree *l, struct task_commit *c, const struct task_txn *const *txns,
                    size_t count);

/* What was found in the tree: a bucket, one slot in a bucket. */
void task_tree_found_bucket(struct task_tree *l, int64_t bucket);
void task_tree_found_slot(struct task_tree *l, int64_t slot);

#endif
