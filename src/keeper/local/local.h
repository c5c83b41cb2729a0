/*
 * local - the embedded keeper: a tree in memory, a journal and snapshots on the local disk.
 *
 * struct local is the store; each keeper that is connected to it is a session of its own. Open it,
 * connect keepers, close the keepers, close it.
 *
 * Modes: STRICT answers when the journal is on disk up to what the answer saw. OPPORTUNISTIC answers
 * from memory and is on disk at most LOCAL_FLUSH_MS later. NONE has no journal and no directory.
 *
 * A failed write or sync is final: nothing is acknowledged any more (every call gets IO), the reason
 * goes to `fatal`, whose default prints it and ends the process. A full disk is not: changes are
 * refused with DISK_FULL, reads go on, and changes work again once there is room.
 *
 * A session that a keeper holds open in this process lives as long as it is open; any other (left by
 * keeper_abandon, or by the process before this one) ends when its timeout is over.
 */
#ifndef KEEPER_LOCAL_LOCAL_H
#define KEEPER_LOCAL_LOCAL_H

#include "base/fs.h"
#include "keeper/keeper.h"

enum local_mode { LOCAL_STRICT, LOCAL_OPPORTUNISTIC, LOCAL_NONE };

enum {
    LOCAL_FLUSH_MS = 100,
    LOCAL_SNAPSHOT_EVERY = 200000,
    LOCAL_SEGMENT_LEN = 16 * 1024 * 1024,
    LOCAL_SEGMENT_LEN_MIN = 256 * 1024,
};

struct local_options {
    enum local_mode mode;
    const char *dir;        /* made if it is missing; unused with NONE */
    int64_t snapshot_every; /* transactions; 0: LOCAL_SNAPSHOT_EVERY. Never fewer than nodes. */
    size_t segment_len;     /* 0: LOCAL_SEGMENT_LEN */
    const struct fs *fs;    /* NULL: the system's */
    int64_t (*wall_ms)(void *arg); /* NULL: the system's */

    void (*fatal)(void *arg, const char *line); /* NULL: print, end the process with status 1 */
    void (*note)(void *arg, const char *line);  /* what an operator should know; NULL: dropped */
    void *arg;
};

struct local;

int local_open(const struct local_options *o, struct local **ret_local, struct err_info *ret_error);
void local_close(struct local *l);

int local_connect(struct local *l, const struct keeper_options *o, struct keeper **ret_keeper);

/* Takes a snapshot now and returns when it is complete: 0, DISK_FULL or IO. */
int local_snapshot(struct local *l);

/*
 * For a loop that may not wait: the parts of a commit, one by one. local_submit() applies the operations
 * (which must be valid; one call at a time on one keeper) and returns what became of them; everything that
 * was done or seen so far is durable, as the mode understands it, when local_durable() has reached
 * *ret_zxid. local_peek() appends the data of a node as it is now, durable or not. local_await() waits: 0
 * or IO. local_follow() has fn called, under locks, whenever local_durable() has moved; one at most, fn
 * NULL: nobody any more.
 */
int local_submit(struct keeper *k, const struct keeper_op *ops, size_t count, int64_t *ret_zxid);
int local_peek(struct keeper *k, struct str path, struct buf *b);
int64_t local_durable(struct local *l); /* INT64_MAX where answers do not wait */
bool local_failed(struct local *l);
bool local_may_lose(struct local *l); /* opportunistic: a crash takes what was answered last */
int local_flush(struct local *l);     /* all that was done is on disk, in any mode: 0 or IO */
int local_await(struct local *l, int64_t zxid);
void local_follow(struct local *l, void (*fn)(void *arg), void *arg);

/*
 * In strict mode what local_submit() has done may be held: it is written when local_want() is called, so
 * that it shares the sync of what follows. A loop calls that when it has nothing else to do. local_held()
 * is how many changes wait for it; whoever else waits for one of them wants it too. Not held at first.
 */
void local_hold(struct local *l, bool holds);
int64_t local_held(struct local *l);
void local_want(struct local *l);

/* Whether one is being taken. */
bool local_snapshotting(struct local *l);

struct local_stats {
    int64_t zxid, durable_zxid;
    uint64_t nodes, sessions, ephemerals, watches;
    uint64_t journal_records, journal_bytes, journal_syncs; /* since the start */
    uint64_t snapshots;                                     /* since the start */
    int64_t snapshot_zxid;                                  /* of the newest, 0: none */
    uint64_t recovered_records, recovered_nodes;            /* what the start found */
};

void local_stats(struct local *l, struct local_stats *ret_stats);

#endif
