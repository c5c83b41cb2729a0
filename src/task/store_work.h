/*
 * store_work - the transaction being made: what store_txn.c, store_edit.c and store_claim.c share.
 *
 * First everything is checked and every error collected, then everything is applied, which fails
 * only if a payload cannot be fetched. Each step leaves an undo entry: the new id, the old record.
 * A transaction may name an id only once; a mark in the record detects repetitions without a table.
 */
#ifndef TASK_STORE_WORK_H
#define TASK_STORE_WORK_H

#include "base/err.h"
#include "task/store_impl.h"

struct txn_work {
    struct store *s;
    struct task_txn *t;
    int64_t clientid, now_ms;
    bool manage; /* by the manager of managed tasks */
    bool operate;
    bool hides; /* changed tasks are not part of the answer */
    bool skips; /* edits that are not possible are left out */
    const struct identity *who;
    bool forbidden; /* it changes the task of a node, without the role */
    struct store_random *random;
    uint32_t named; /* the group of `name`; 0: none yet */
    struct str name;
    struct buf scratch; /* payloads */
    int64_t top_id;     /* before it: tasks with larger ids are its own */
    size_t full;        /* reasons that are full groups */
};

/* Begins a transaction with at most so many changes, and ends it: releases what w has. */
void work_begin(struct txn_work *w, size_t changes);
int work_end(struct txn_work *w, int err);

/*
 * Collects every error of the request: REFUSED, GROUP_FULL if that is the only reason, or 0.
 * NO_AUTH: it takes the role `run`.
 */
int work_check(struct txn_work *w, const struct task_update *u);

/*
 * Applies the request, which was checked: first what ends tasks, so that an add can have the key of
 * a task that the same transaction ends.
 */
int work_apply(struct txn_work *w, const struct task_update *u);

/* Adds a reason to refuse the transaction. */
void work_object(struct txn_work *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The reason that there is no such task, and what became of it. */
void work_object_missing(struct txn_work *w, const char *what, int64_t id);

/* A task by its id, or, for the manager, by its slot. 0: none, or none within the limits. */
uint32_t work_find(const struct txn_work *w, int64_t id);

/* Whether it may claim and change the task of a node: for others, a task is not a way to a node. */
bool work_may(const struct txn_work *w, const struct task_record *r);

/* Checks that a task to be changed exists, is available or the client's, and is named only once. */
void work_check_change(struct txn_work *w, const char *what, int64_t id, bool ends);

/*
 * Replaces the task `ref` by `to` in the same slot, with a new id unless it is done. keeps_data: it
 * is a plain task and its data stays. No other ref may be used after it.
 */
void work_replace(struct txn_work *w, uint32_t ref, struct task *to, bool keeps_data,
                  enum task_event event);

void work_add(struct txn_work *w, const struct task *add);
void work_delete(struct txn_work *w, uint32_t ref, enum task_event event);

/* The task as it is, with its extra (zeros if it has none), for a change of it. */
int work_read(struct txn_work *w, uint32_t ref, struct task *ret_task,
              struct task_extra *ret_extra);

/* Removes a task for good, or keeps it as done, or its key, as the settings say. */
int work_end_task(struct txn_work *w, uint32_t ref, struct str result, enum task_event event);

/* What the rate of the last changed task's group was before the transaction took from it. */
void work_set_rate(struct txn_work *w, int64_t rate_ns);

/* store_edit.c */
void work_check_edits(struct txn_work *w, const struct task_edit *edits, size_t count);
bool work_ends(const struct task_edit *e); /* whether it takes no new id */
int work_edit(struct txn_work *w, const struct task_edit *e);

/* Moves a task to where its group keeps dead ones. */
void work_bury(struct txn_work *w, uint32_t ref, struct task *t, struct task_extra *x);

#endif
