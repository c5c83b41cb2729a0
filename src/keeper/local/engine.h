/*
 * engine - the inside of struct local: a tree, its journal, its sessions and its snapshots, under
 * one lock. local.c connects keepers to it.
 *
 * Every answer passes the gate (journal/gate.h): whoever looked at the tree takes a ticket under
 * the lock and waits outside of it, or subscribes.
 */
#ifndef KEEPER_LOCAL_ENGINE_H
#define KEEPER_LOCAL_ENGINE_H

#include "keeper/journal/dirlock.h"
#include "keeper/journal/journal.h"
#include "keeper/local/local.h"
#include "keeper/tree/watch.h"

struct local_keeper;

struct local {
    struct local_options o;
    char *dir;
    struct dirlock dirlock;

    pthread_mutex_t lock; /* guards the rest, the journal's shared part included */
    struct gate gate;
    struct tree tree;
    struct acl_who inside;
    const struct acl_who
        *who; /* of the sessions of this process: inside; NULL: no list binds them */
    struct tree_watches watches;
    struct tree_changes changes; /* of the current transaction */
    struct journal journal;      /* zero with LOCAL_NONE */
    LIST_HEAD(, local_keeper) keepers;
    bool stop;

    pthread_cond_t tick; /* a session was added that may time out before the others */
    pthread_t ticker;
    int64_t reap_due_ms;  /* when to look for containers and TTL nodes that may go */
    bool reaping;         /* and a search is under way */
    int64_t quota_due_ms; /* when the next exceeded quota is noted */

    pthread_cond_t snapshot; /* wanted, or done */
    pthread_t snapshotter;
    int64_t since_snapshot; /* transactions */
    uint64_t snapshots_wanted, snapshots_tried;
    bool snapshotting;
    int64_t relief_due_ms;           /* when to look whether a snapshot makes room on a full disk */
    struct summary snapshot_ms;      /* how long they took */
    struct histogram snapshot_times; /* the same, since the start */
    int snapshot_error;              /* of the last attempt */
    uint64_t snapshot_segment;       /* the first to replay on the newest good one */

    struct local_stats stats; /* only the snapshots and what was recovered */

    void (*session_ended)(void *arg, int64_t session); /* engine_listen() */
    void *session_ended_arg;
};

static inline bool engine_has_journal(const struct local *l)
{
    return l->o.mode != LOCAL_NONE;
}

/*
 * tree_apply with the journal and the watches. who: NULL, or a ZooKeeper client, which access lists
 * apply to. Under the lock, which this and the next two may release and take again before they do
 * anything: a pointer to a session is invalid afterwards.
 */
int engine_apply(struct local *l, int64_t session, const struct acl_who *who,
                 const struct keeper_op *ops, size_t count, struct keeper_result *results,
                 enum journal_writer writer);
int engine_session_open(struct local *l, int32_t timeout_ms, struct tree_session **ret_session);
int engine_session_end(struct local *l, int64_t session);

/* In checkpoint.c: whether enough has changed for a snapshot; the thread that takes them. */
bool checkpoint_is_due(const struct local *l);
void *checkpoint_main(void *arg);

/* In local.c: marks every keeper of a session as expired. Under the lock. */
void local_session_ended(struct local *l, int64_t session);

/*
 * Has fn called, under the lock, when a session has ended. There is at most one listener; NULL
 * removes it. When this returns, the previous one is not called again.
 */
void engine_listen(struct local *l, void (*fn)(void *arg, int64_t session), void *arg);

#endif
