/*
 * index - the lists below /drover that say which batches and access items are in a state.
 *
 * Drover's own operations update the index in the transaction that changes the status. This file
 * also indexes items that foreign clients created or moved.
 *
 * A foreign client creates an item in steps: the node, then its children. An item that has no valid
 * status yet is incomplete. The process remembers it and looks at it again: at most every 100 ms
 * when somebody asks for such items, and every second for batches in drover serve. There is no
 * watch for it: a client resends each watch when it reconnects, and an item that never gets a
 * status would keep one for ever.
 */
#ifndef BATCH_INDEX_H
#define BATCH_INDEX_H

#include <stdbool.h>
#include <stdint.h>

enum { BATCH_INCOMPLETE_MAX = 256, BATCH_INCOMPLETE_RETRY_MS = 100 };

struct batch_call;
struct batch_txn;
struct batch_item;

/* What this process has seen of a kind. Guarded by the lock of the store. */
struct batch_index_state {
    int64_t next; /* items below this number were indexed */
    int64_t incomplete[BATCH_INCOMPLETE_MAX];
    int incomplete_count;
    bool missed; /* there were more: the next sweep looks at all items */
    int64_t retried_ms;
};

/*
 * Adds to a transaction that an item moves from the list of one state to that of another; a final
 * state has no list. Where it is not in the first list, or is in the second, nothing is added: a
 * foreign client's item may be in none. from BATCH_NO_STATE: it is in no list. From a state to
 * itself, its entry is created anew.
 */
int batch_index_move(struct batch_call *c, struct batch_txn *t, const struct batch_item *i,
                     int from, int to);

/*
 * kind is an enum batch_kind_id of store.h, not that of jobs. Indexes items that are new, and those
 * that were incomplete.
 */
int batch_index_refresh(struct batch_call *c, int kind);

/* Corrects the lists for items that were moved by their status alone. Reads every item listed. */
int batch_index_sweep(struct batch_call *c, int kind);

#endif
