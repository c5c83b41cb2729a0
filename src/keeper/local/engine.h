/*
 * engine - the inside of struct local: a tree, its journal, its sessions and its snapshots, under one
 * lock. local.c puts keepers on it, checkpoint.c writes its snapshots.
 *
 * One rule covers every answer, read or write: it leaves when the journal is durable up to what it
 * saw. Whoever looked at the tree takes a ticket under the lock and waits for it outside.
 */
#ifndef KEEPER_LOCAL_ENGINE_H
#define KEEPER_LOCAL_ENGINE_H

#include "keeper/journal/journal.h"
#include "keeper/local/local.h"
#include "keeper/tree/watch.h"

struct local_keeper;

/* Somebody beside the keepers who follows what happens: the ZooKeeper port. */
struct engine_listener {
    void (*session_ended)(void *arg, int64_t session); /* both are called under the lock */
    void (*durable)(void *arg);                        /* the journal has got further */
    void *arg;
};

struct local {
    struct local_options o;
    char *dir;
    int lock_fd; /* -1: none */

    pthread_mutex_t lock; /* guards the rest, the journal's shared part included */
    struct tree tree;
    struct watches watches;
    struct changes changes; /* of the transaction under way */
    struct journal journal; /* unused with LOCAL_NONE */
    struct local_keeper *keepers;
    bool stop;

    pthread_cond_t tick; /* a session came up that may end before the others */
    pthread_t ticker;

    pthread_cond_t snapshot; /* wanted, or done */
    pthread_t snapshotter;
    int64_t since_snapshot; /* transactions */
    uint64_t snapshots_wanted, snapshots_tried, snapshots_done;
    bool snapshotting;
    int snapshot_error;        /* of the last try */
    int64_t snapshot_zxid;     /* the newest good one, 0: none */
    uint64_t snapshot_segment; /* that it is replayed from */
    uint64_t store;

    uint64_t recovered_records, recovered_nodes;

    struct engine_listener listener;
    void (*follow)(void *arg); /* local_follow() */
    void *follow_arg;
};

static inline bool engine_has_journal(const struct local *l)
{
    return l->o.mode != LOCAL_NONE;
}

/* Under the lock. */
struct journal_ticket engine_ticket(const struct local *l, int64_t lsn);

/* Outside of it. */
int engine_wait(struct local *l, struct journal_ticket t);

/*
 * Under the lock, which they may release and take again before they do anything: a pointer to a
 * session is void afterwards. engine_apply is tree_apply with the journal and the watches.
 */
int engine_apply(struct local *l, int64_t session, const struct acl_who *who,
                 const struct keeper_op *ops, size_t count, struct keeper_result *results);

/* The same, as no one in particular, with a record that may wait until it is wanted. */
int engine_apply_held(struct local *l, int64_t session, const struct keeper_op *ops, size_t count,
                      struct keeper_result *results);

/*
 * Takes the lock, applies as no one in particular, and waits until that is durable: 0, or what failed for
 * good. *ret_err is the outcome of the operations.
 */
int engine_apply_and_wait(struct local *l, int64_t session, const struct keeper_op *ops,
                          size_t count, struct keeper_result *results, int *ret_err);
int engine_session_open(struct local *l, int32_t timeout_ms, struct session **ret_session);
int engine_session_end(struct local *l, int64_t session);

/* Given by local.c: tells every keeper that is connected as a session that it is over. */
void local_session_ended(struct local *l, int64_t session);

/* One at most; NULL: nobody any more. When it returns, the one before is not called again. */
void engine_listen(struct local *l, const struct engine_listener *listener);

/* Given by checkpoint.c. */
void *checkpoint_main(void *arg);

void engine_note(const struct local *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
