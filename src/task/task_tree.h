/*
 * task_tree - the tasks in the keeper's tree: their nodes, and transactions of the store as
 * operations on them. Pure.
 *
 *   /drover/tasks                     the head: ids, and the tag of the last commit
 *   /drover/tasks/<bucket>            at most 4,096 slots, to keep lists of children short
 *   /drover/tasks/<bucket>/<slot>     a task; slot is the first id it had, bucket is slot / 4096
 *   /drover/requests/<number>         an entry of the request log (request_log.h)
 *
 * A slot's data, version 1, numbers little-endian:
 *
 *   u8 version, u64 id, i64 timespec, i64 ownerid, u16 group length, group, payload up to the end
 *
 * The payload is the task's data, behind its tail if it has one (tail.h). Version 2 is the same for
 * a managed task (store.h). From 0x40 to 0x7f the lower bits of the version are flags: 1 managed, 2
 * with a tail, 4 claimed, 8 retrying, 16 dead, 32 done. Versions 1 and 2 are tasks without any
 * other flag, which drover 0.1 can read.
 *
 * The head's: u8 version, u64 last id, u64 tag; version 2 has also u64 ceiling. To change a format,
 * give it the next version and keep reading the old one.
 *
 * A commit collects the operations of one transaction, or of several. A bucket is created with its
 * first slot and deleted with its last one; the bucket being filled stays. struct task_tree (which
 * buckets exist, how many slots they have, the request log) is ahead of the keeper by the commit in
 * flight; task_tree_undo() undoes that.
 *
 * The ids, in which two things always hold, after a crash too:
 *
 *  - The last id that was given is the head's, or that of a slot if one is larger. Either the task
 *    with the last id exists, and its slot holds the id; or it was deleted, and the commit that did
 *    so set the head. On an ensemble every commit sets the head.
 *  - No id is given twice, not even one that a crash undid after it was answered. On the embedded
 *    keeper, ids are at most the head's ceiling, and a restart continues above it. The ceiling is
 *    TASK_TREE_STEP above the ids in use when it is set, so that it is set once in a thousand ids.
 *    Where a crash can undo what was answered (opportunistic), the ceiling on disk is at least
 *    TASK_TREE_LOSABLE above the ids in use: more than can be given before a change is on disk. A
 *    start has its ceiling on disk before its first id.
 *
 * Version 1 of the head has no ceiling. That of an ensemble is of version 1; that of an embedded
 * keeper was written by drover 0.1, and its last id is the ceiling.
 */
#ifndef TASK_TASK_TREE_H
#define TASK_TASK_TREE_H

#include "keeper/keeper.h"
#include "task/request_log.h"
#include "task/store.h"
#include "task/tail.h"

#define TASK_NODE_ROOT "/drover"
#define TASK_NODE_HEAD "/drover/tasks"

enum {
    TASK_NODE_BUCKET_LEN = 4096,
    TASK_NODE_PATH_SIZE = 64, /* with its NUL */
    TASK_NODE_OVERHEAD = 1 + 8 + 8 + 8 + 2,
    TASK_NODE_HEAD_LEN = 1 + 8 + 8, /* version 1 */
    TASK_NODE_HEAD_LEN_MAX = TASK_NODE_HEAD_LEN + 8,
};

static inline int64_t task_node_bucket(int64_t slot)
{
    return slot / TASK_NODE_BUCKET_LEN;
}

/* Both write the path and a NUL, and return its length. */
size_t task_node_path(char path[TASK_NODE_PATH_SIZE], int64_t slot);
size_t task_node_bucket_path(char path[TASK_NODE_PATH_SIZE], int64_t bucket);

/* A name as a number: digits only, no sign, no leading zero; -1: not a number. */
int64_t task_node_number(const char *name);

static inline size_t task_node_len(const struct task *t)
{
    return TASK_NODE_OVERHEAD + t->group.len + task_payload_len(t->extra, t->data);
}

/* Writes task_node_len() bytes. */
void task_node_encode(const struct task *t, char *bytes);

/*
 * Borrows from bytes. 0, DAMAGED or NEWER_VERSION. The task has no extra; the payload has it if
 * *ret_tail.
 */
int task_node_decode(struct str bytes, struct task *ret_task, struct str *ret_payload,
                     bool *ret_tail);

enum { TASK_NODE_NO_CEILING = -1 };

struct task_node_head {
    int64_t last_id;
    int64_t ceiling; /* TASK_NODE_NO_CEILING: none */
    uint64_t tag;
};

/* Returns the length. */
size_t task_node_head_encode(const struct task_node_head *h, char bytes[TASK_NODE_HEAD_LEN_MAX]);
int task_node_head_decode(struct str bytes, struct task_node_head *ret_head);

enum { TASK_TREE_STEP = 1000, TASK_TREE_LOSABLE = 1000 * 1000 };

struct task_tree_bucket {
    int64_t number;
    uint32_t slots; /* of an unused one: the next unused one */
};

struct task_tree {
    int64_t open_bucket; /* the newest bucket, -1: none */
    int64_t ceiling;     /* in the head */
    int64_t losable;     /* ids that a crash may lose after their answer: 0, TASK_TREE_LOSABLE */
    struct request_log requests;

    struct map by_number; /* buckets with slots */
    struct task_tree_bucket *buckets;
    uint32_t top, cap, free;
};

struct task_tree *task_tree_new(void);
void task_tree_free(struct task_tree *l);

/* Zero-initialise, begin; settle or undo begins the next one. */
struct task_commit {
    struct keeper_op *ops;
    size_t count, cap;
    size_t bytes; /* estimated size on the wire */
    struct arena arena;

    int64_t open_bucket, ceiling;         /* before */
    struct request_log_entry **forgotten; /* the replaced entries, in order; NULL: there was none */
    size_t remembered, remembered_cap;
};

void task_commit_release(struct task_commit *c);
void task_tree_begin(const struct task_tree *l, struct task_commit *c);
void task_commit_op(struct task_commit *c, struct keeper_op op);

/* Adds the changes of a transaction. */
void task_tree_put(struct task_tree *l, struct task_commit *c, const struct task_txn *t);

/* Adds an entry of the request log, with the tasks of its answer. */
void task_tree_put_request(struct task_tree *l, struct task_commit *c,
                           const struct request_key *key, const struct task *tasks, size_t count);

/* The head for these ids: the last one given, the largest one used. */
struct task_node_head task_tree_head(const struct task_tree *l, int64_t last_id, int64_t top_id);

/* Adds the head, if the ids are too close to the ceiling, or `must`. */
void task_tree_put_ids(struct task_tree *l, struct task_commit *c, int64_t last_id, int64_t top_id,
                       bool must);

/* Adds the head. version: the expected one. */
void task_tree_put_head(struct task_tree *l, struct task_commit *c, const struct task_node_head *h,
                        int32_t version);

/*
 * The commit has happened; or it has not, after task_tree_uncount() for each of its transactions,
 * the newest first.
 */
void task_tree_settle(struct task_tree *l, struct task_commit *c);
void task_tree_uncount(struct task_tree *l, const struct task_txn *t);
void task_tree_undo(struct task_tree *l, struct task_commit *c);

/* For loading: a bucket of the keeper's tree, a slot. */
void task_tree_found_bucket(struct task_tree *l, int64_t bucket);
void task_tree_found_slot(struct task_tree *l, int64_t slot);

#endif
