/*
 * batch_tree - what the tests of batch look at: the tree as text, and what must always hold in it,
 * written down a second time from the document and not from the code.
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
 * Each job in exactly one state list, the one of its status; in exactly one list of its batch, the one
 * that goes with it; every entry belongs to a job; every batch that is no longer to be filled and has
 * no job in batch-processing is not Processing. Fails the test with what it found.
 */
void tree_check(struct keeper *k);

/* The number of children of a node. */
int tree_count(struct keeper *k, const char *path);

/* Acquires a batch: 1 with its id and token, or 0. */
int acquire_batch(struct batch_call *c, int state, char ret_bid[BATCH_ID_LEN + 1],
                  int64_t *ret_token);

#endif
