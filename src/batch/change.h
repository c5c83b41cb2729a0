/*
 * change - one keeper transaction being put together.
 *
 * Zero-initialise with the arena that its paths live in; add operations; commit once. Each adding
 * function returns the number of the operation, by which its result is asked for afterwards.
 *
 *     struct batch_change t = {.a = arena};
 *     lock = batch_change_create(&t, NO_BYTES, KEEPER_EPHEMERAL, "/jobs/%s/lock", jid);
 *     err = batch_change_commit(&t, k);
 *     if (err && t.failed == lock) ...
 *     else token = batch_change_stat(&t, lock)->czxid;
 */
#ifndef BATCH_CHANGE_H
#define BATCH_CHANGE_H

#include "base/arena.h"
#include "batch/list_view.h"
#include "keeper/keeper.h"

#define NO_BYTES ((struct str){"", 0})

struct batch_change {
    struct arena *a;
    struct keeper_op *ops;
    struct keeper_result *results; /* after the commit; without paths */
    struct batch_change_list {
        struct batch_view *view;
        int64_t key;
        bool add;
        struct batch_change_list *next;
    } * lists, *last_list; /* what it does to lists that are viewed, in order */
    int count, cap;
    int failed; /* the operation that failed, or -1: none, or it concerns no single one */
};

int batch_change_create(struct batch_change *t, struct str data, int flags, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
int batch_change_set(struct batch_change *t, struct str data, int32_t version, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
int batch_change_delete(struct batch_change *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int batch_change_check(struct batch_change *t, int32_t version, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts an entry into a list, or takes it out, and tells the view of it when that has happened. */
int batch_change_list_add(struct batch_change *t, struct batch_view *v, int64_t key);
int batch_change_list_remove(struct batch_change *t, struct batch_view *v, int64_t key);

/*
 * witness: an operation that sets a node at a version, or -1. When the connection breaks and the
 * outcome is not known, that node tells: it holds what was set, and the change has happened (0, but
 * without stats); or its version is still the old one, and it has not (BAD_VERSION). Else UNKNOWN.
 */
int batch_change_commit(struct batch_change *t, struct keeper *k, int witness);

static inline const struct keeper_stat *batch_change_stat(const struct batch_change *t, int op)
{
    return &t->results[op].stat;
}

#endif
