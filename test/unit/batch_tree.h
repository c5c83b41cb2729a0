/*
 * batch_tree - the tree as text, and its invariants, derived from the specification independently
 * of the code.
 */
#ifndef TEST_BATCH_TREE_H
#define TEST_BATCH_TREE_H

#include "batch/item.h"
#include "keeper/keeper.h"

/*
 * Everything below a path as lines "path data", in order of their paths, "(ephemeral)" after those
 * that are. Times are shown as T. To be freed.
 */
char *tree_text(struct keeper *k, const char *path);

/*
 * Fails the test unless each job is in exactly one state list, that of its status, and in exactly
 * one list of its batch, the one that the state belongs to; every entry belongs to a job; and a
 * batch with jobs, of which none is in batch-processing, is not Processing. A batch that is not
 * Pending has `states`.
 */
void tree_check(struct keeper *k);

/* The number of children of a node. */
int tree_count(struct keeper *k, const char *path);

/* Acquires a batch: 1 with its id and token, or 0. */
int acquire_batch(struct batch_call *c, int state, char ret_bid[BATCH_ID_LEN + 1],
                  int64_t *ret_token);

#endif
