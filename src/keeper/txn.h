/*
 * txn - builds one transaction on a keeper, and tells by name which operation failed.
 *
 *     enum { STATUS = 1, LOCK };
 *     struct txn t = {.a = arena};
 *     txn_set(&t, STATUS, text, version, "/jobs/%s/status", jid);
 *     txn_create(&t, LOCK, STR(""), KEEPER_EPHEMERAL, "/jobs/%s/lock", jid);
 *     txn_check(&t, 0, KEEPER_ANY_VERSION, "/jobs/%s", jid);
 *     err = txn_commit(&t, k, STATUS);
 *     if (err && t.failed == LOCK) ...
 *     else if (!err) token = txn_stat(&t, LOCK)->czxid;
 *
 * A name is a positive number that the caller chooses; 0 stands for an operation that nobody asks
 * about. Several operations may have the same name; txn_stat() and the witness then mean the first
 * of them.
 *
 * The arena holds the operations, the printed paths and the results. Data, and the paths of
 * operations that came by txn_add(), are borrowed until the commit.
 */
#ifndef KEEPER_TXN_H
#define KEEPER_TXN_H

#include "base/arena.h"
#include "keeper/keeper.h"

struct txn {
    struct arena *a;
    struct keeper_op *ops;
    struct keeper_result *results; /* after the commit; without paths */
    int *names;
    int count, cap;
    int failed; /* after the commit: the name of the operation that failed; 0: none, or none in
                   particular (UNKNOWN, SESSION_EXPIRED) */
};

void txn_add(struct txn *t, int name, struct keeper_op op);
void txn_create(struct txn *t, int name, struct str data, int flags, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
void txn_set(struct txn *t, int name, struct str data, int32_t version, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
void txn_delete(struct txn *t, int name, int32_t version, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void txn_check(struct txn *t, int name, int32_t version, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Adds the creation of a node, without data, unless it exists or the transaction creates it. */
int txn_create_missing(struct txn *t, struct keeper *k, const char *path);

/*
 * Commits: 0, or the error of the operation that failed. A transaction without operations succeeds.
 *
 * The witness names an operation that sets a node at a version; 0: none. When the connection breaks
 * and the outcome is not known, the witness decides it: if the node holds what was set, the
 * transaction has happened (0, but only the witness has a stat); if it still has the old version,
 * it has not (BAD_VERSION); otherwise the outcome stays UNKNOWN.
 */
int txn_commit(struct txn *t, struct keeper *k, int witness);

/* The stat of a node that was created or set. */
const struct keeper_stat *txn_stat(const struct txn *t, int name);

#endif
