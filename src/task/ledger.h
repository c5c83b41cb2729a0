/*
 * ledger - a transaction of the store as operations on the keeper's tree. Pure.
 *
 * A commit gathers operations: those of one transaction, or of several that go together. Buckets are
 * made when the first slot in them is, and go with their last one; the one that is being filled stays.
 * What the ledger knows about the tree (which buckets are there, how many slots they have, which
 * requests are remembered) runs ahead of the tree by the commit that is under way, and ledger_undo()
 * takes that back.
 *
 * The head holds the last id. On the embedded keeper it holds a ceiling that ids stay below, LEDGER_STEP
 * ahead, so that it is written once in a thousand ids and not with each; a restart goes on above it.
 *
 * No id is given twice, not even one that a crash took back after it was answered: where that can happen
 * (opportunistic) the ceiling on disk is always LEDGER_LOSABLE above the ids at least. No more are given in
 * the time that a change needs to reach the disk, and a start has its ceiling on disk before its first id.
 */
#ifndef TASK_LEDGER_H
#define TASK_LEDGER_H

#include "keeper/keeper.h"
#include "task/remember.h"
#include "task/slot.h"
#include "task/store.h"

enum { LEDGER_STEP = 1000, LEDGER_LOSABLE = 1000 * 1000 };

struct ledger_bucket {
    int64_t number;
    uint32_t slots;
};

struct ledger {
    int64_t open_bucket; /* the newest that is there, -1: none */
    int64_t ceiling;     /* what the head says */
    int64_t losable;     /* so many ids may be answered and lost: 0 or LEDGER_LOSABLE */
    struct remember remember;

    struct map by_number; /* buckets with slots */
    struct ledger_bucket *buckets;
    uint32_t top, cap;
    uint32_t *unused;
    uint32_t unused_count;
};

void ledger_init(struct ledger *l);
void ledger_release(struct ledger *l);

/* Zero-initialise; reset to use again. */
struct commit {
    struct keeper_op *ops;
    size_t count, cap;
    size_t bytes; /* about what it is on the wire */
    struct arena arena;

    int64_t open_bucket, ceiling; /* before */
    bool begun;
    struct memory **forgotten; /* whose places were taken, in order; NULL: the place was free */
    size_t remembered, remembered_cap;
};

void commit_release(struct commit *c);
void commit_reset(struct commit *c);
void commit_op(struct commit *c, struct keeper_op op);

/* Adds what a transaction changes. */
void ledger_put(struct ledger *l, struct commit *c, const struct task_txn *t);

/* Adds that a request is remembered, with the tasks of its answer. */
void ledger_remember(struct ledger *l, struct commit *c, const struct remember_key *key,
                     const struct task *tasks, size_t count);

/* What the head shall say when so many ids have been given. */
struct slot_head ledger_ceiling(const struct ledger *l, int64_t last_id);

/* Adds the head, if the ids have come too close to the ceiling. */
void ledger_put_ceiling(struct ledger *l, struct commit *c, int64_t last_id);

/* Adds the head as it is: the last id and a tag. version: what it must be at. */
void ledger_put_head(struct ledger *l, struct commit *c, const struct slot_head *h,
                     int32_t version);

/* The commit stands, or nothing of it has happened. txns: those that were put, in order. */
void ledger_settle(struct ledger *l, struct commit *c);
void ledger_undo(struct ledger *l, struct commit *c, const struct task_txn *const *txns,
                 size_t count);

/* What was found in the tree: a bucket, one slot in a bucket. */
void ledger_found_bucket(struct ledger *l, int64_t bucket);
void ledger_found_slot(struct ledger *l, int64_t slot);

#endif
