/*
 * txn - a keeper transaction (keeper/txn.h) that also notes its changes in the views of state
 * lists.
 *
 *     struct batch_txn t = BATCH_TXN(c);
 *     txn_set(&t.txn, OP_STATUS, text, version, "%s/status", item.path);
 *     batch_txn_list_add(&t, OP_ANY, &kind->views[state], key);
 *     err = batch_txn_commit(&t, c->k, OP_STATUS);
 */
#ifndef BATCH_TXN_H
#define BATCH_TXN_H

#include <stdatomic.h>

#include "batch/name.h"
#include "keeper/list_view.h"
#include "keeper/txn.h"

#define NO_BYTES ((struct str){"", 0})

/* The list of a state, and the view of it that the acquirers of this process share. */
struct batch_view {
    char dir[96];
    const char *prefix; /* of the ids */
    bool priority;      /* entries are PP-ID */
    const char *items;  /* parent of the items: "/jobs" */
    struct list_view *list;
    void (*available)(void *arg, const struct batch_view *v, uint32_t count); /* or NULL */
    void (*stale)(void *arg);                                                 /* or NULL */
    void *arg;

    /* For acquires that wait, see watch.c. */
    atomic_bool wanted;       /* one is about to wait, or an item was locked while one waits */
    atomic_bool changed;      /* a watch fired */
    bool attended;            /* watches are set */
    int64_t rest_ms, next_ms; /* nothing is done before, and again at the latest */
};

#define BATCH_VIEW_GROUP STR("all") /* of every entry of a view */

/* The members above except dir and list are set. */
void batch_view_open(struct batch_view *v, const char *parent, const char *state);
void batch_view_close(struct batch_view *v);

/* The name of an entry. */
struct batch_entry_name {
    char text[BATCH_ENTRY_LEN + 1];
};

struct batch_entry_name batch_view_entry(const struct batch_view *v, int64_t key);
bool batch_view_has(const struct batch_view *v, int64_t key);

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
