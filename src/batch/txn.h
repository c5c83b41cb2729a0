/*
 * txn - a keeper transaction (keeper/txn.h) that also notes its changes in the views of lists.
 *
 *     struct batch_txn t = BATCH_TXN(c);
 *     txn_set(&t.txn, OP_STATUS, text, version, "%s/status", item.path);
 *     batch_txn_list_add(&t, OP_ANY, &kind->views[state], key);
 *     err = batch_txn_commit(&t, c->k, OP_STATUS);
 */
#ifndef BATCH_TXN_H
#define BATCH_TXN_H

#include "batch/list_view.h"
#include "keeper/txn.h"

#define NO_BYTES ((struct str){"", 0})

/* Names of operations. */
enum {
    OP_ANY,    /* nobody asks about it */
    OP_STATUS, /* sets the status of the item: decides if the outcome is unknown */
    OP_LOCK,   /* creates the lock of the item */
    OP_GUARD,  /* checks or removes the lock of the item */
    OP_ENTRY,  /* the entry of a job in the list of its state */
    OP_LISTS,  /* the other lists of a job */
    OP_HOLDS,  /* the locks of queues and collections */
    OP_UNIQUE, /* creates a node whose EXISTS refuses the whole transaction */
};

struct batch_txn {
    struct txn txn;
    struct batch_txn_list {
        struct batch_view *view;
        int64_t key;
        bool add;
        struct batch_txn_list *next;
    } * lists, *last_list; /* its changes to lists, in order */
};

#define BATCH_TXN(call)                                                                            \
    {                                                                                              \
        .txn = {.a = (call)->a }                                                                   \
    }

/* Adds an entry to a list, or removes it. */
void batch_txn_list_add(struct batch_txn *t, int name, struct batch_view *v, int64_t key);
void batch_txn_list_remove(struct batch_txn *t, int name, struct batch_view *v, int64_t key);

/* As txn_commit(). */
int batch_txn_commit(struct batch_txn *t, struct keeper *k, int witness);

#endif
