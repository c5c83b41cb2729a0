/*
 * local - the embedded keeper: a tree in memory, a journal and snapshots on the local disk.
 *
 * struct local is the store; each keeper connected to it is a session of its own. Open it, connect
 * keepers, close the keepers, close it.
 *
 * Modes: STRICT answers when the journal is on disk up to what the answer saw. OPPORTUNISTIC
 * answers from memory and is on disk at most LOCAL_FLUSH_MS later. NONE has no journal and no
 * directory.
 *
 * A failed write or sync is final: nothing is acknowledged any more (every call gets IO), the
 * reason goes to `fatal`, whose default prints it and ends the process. A full disk is not: changes
 * that add are refused with DISK_FULL, reads and deletions go on (journal/reserve.h), and all works
 * again once there is room.
 *
 * The session of an open keeper does not time out. Any other (left by keeper_abandon, or by an
 * earlier process) ends after its timeout.
 */
#ifndef KEEPER_LOCAL_LOCAL_H
#define KEEPER_LOCAL_LOCAL_H

#include <stdio.h>

#include "base/fs.h"
#include "base/histogram.h"
#include "keeper/keeper.h"

enum local_mode { LOCAL_STRICT, LOCAL_OPPORTUNISTIC, LOCAL_NONE };

enum {
    LOCAL_FLUSH_MS = 100,
    LOCAL_SNAPSHOT_EVERY = 200000,
    LOCAL_REAP_MS = 60 * 1000,
    LOCAL_SEGMENT_LEN = 16 * 1024 * 1024,
    LOCAL_SEGMENT_LEN_MIN = 256 * 1024,
};

struct local_options {
    enum local_mode mode;
    const char *dir;        /* created if it is missing; unused with NONE */
    int64_t snapshot_every; /* transactions; 0: LOCAL_SNAPSHOT_EVERY. Never fewer than nodes. */
    size_t segment_len;     /* 0: LOCAL_SEGMENT_LEN */
    int64_t reap_ms;        /* empty containers and expired TTL nodes: 0: LOCAL_REAP_MS */
    const struct fs *fs;    /* NULL: the system's */
    int64_t (*wall_ms)(void *arg); /* NULL: the system's */

    void (*fatal)(void *arg, const char *line);    /* NULL: print, end the process with status 1 */
    void (*note)(void *arg, const char *line);     /* messages for the operator; NULL: dropped */
    void (*progress)(void *arg, const char *what); /* local_open() begins a file; NULL: dropped */
    void *arg;
};

struct local;

int local_open(const struct local_options *o, struct local **ret_local, struct err_info *ret_error);
void local_close(struct local *l);

int local_connect(struct local *l, const struct keeper_options *o, struct keeper **ret_keeper);

/*
 * Clients of the ZooKeeper port may read this node and everything below, and change nothing. The
 * path is borrowed for as long as the store is open. At most TREE_RESERVED_MAX.
 */
void local_reserve(struct local *l, const char *path);

/* Another snapshot_every and reap_ms, as in the options. Any thread. */
void local_set_intervals(struct local *l, int64_t snapshot_every, int64_t reap_ms);

/*
 * From now on access lists bind the sessions of this process as well, as an ensemble does: they are
 * world:anyone. Before the first local_connect().
 */
void local_bind(struct local *l);

/* How many sessions there are, of all kinds. */
size_t local_sessions(struct local *l);

/* Whether a write or sync has failed: `fatal` was called for it, or is just about to be. */
bool local_has_failed(struct local *l);

/* Takes a snapshot now and returns when it is complete: 0, DISK_FULL or IO. */
int local_snapshot(struct local *l);

/*
 * Group commit for a loop. In strict mode, changes made with keeper_apply() may be deferred: they
 * are written when local_write_deferred() is called, so that they share a sync, or so that the loop
 * writes a single one itself without a thread switch (journal.h says when). The loop calls that
 * when it has nothing else to do. local_deferred() is the number of changes that wait for it; a
 * thread that waits for one of them causes it to be written at once. Nothing is deferred at first.
 */
void local_set_defers(struct local *l, bool defers);
int64_t local_deferred(struct local *l);
bool local_write_deferred(struct local *l); /* true: they were written before it returned */

/* Whether a snapshot is being taken. */
bool local_snapshotting(struct local *l);

struct local_stats {
    int64_t zxid, durable_zxid;
    uint64_t nodes, sessions, ephemerals, watches;
    uint64_t journal_records, journal_bytes, journal_syncs; /* since the start */
    uint64_t reserve_bytes;                                 /* journal/reserve.h */
    uint64_t snapshots;                                     /* since the start */
    int64_t snapshot_zxid;                                  /* of the newest, 0: none */
    int64_t snapshot_ms;                                    /* wall time of its end, 0: none */
    uint64_t replay_segments;                               /* a start would read them */
    uint64_t is_full;                                       /* 1: local_shortage() */
    uint64_t recovered_records, recovered_nodes;            /* at the start */

    /* How long rounds of the journal and snapshots took. NULL: there is no journal. */
    const struct histogram *rounds, *snapshot_times;
};

void local_stats(struct local *l, struct local_stats *ret_stats);

/* Why changes that add are refused: DISK_FULL or TOO_MANY. 0: they are not. */
int local_shortage(struct local *l);

/*
 * fsck checks a data directory and reports its content; on request cuts the journal at the first
 * damage.
 *
 * Checking changes nothing. Salvaging loses every transaction from the damage on, so it asks first.
 * Before it cuts, it saves what it cuts off in files whose names begin with "salvaged-":
 *
 *   1. the rest of the damaged segment is copied (a segment without a readable header is renamed)
 *   2. the segments after it are renamed, last one first, and so are snapshots that show later
 *      transactions than are left
 *   3. the damaged segment is cut
 *   4. the mark (journal/mark.h) is removed, and made anew of what is left
 *
 * A crash before the last step leaves the damage where it was: salvage again. A journal that ends
 * before its mark is damaged there, and a damaged mark is made anew.
 */
struct fsck_options {
    const char *dir;
    bool dump;    /* print every transaction of the journal */
    bool salvage; /* cut at the first damage, after `confirm` has agreed */
    bool (*confirm)(void *arg, const char *question);
    void *arg;
    FILE *out;
};

/* 0: valid, or salvaged. Otherwise the error; the reason was printed to out. */
int fsck_run(const struct fsck_options *o, struct err_info *ret_error);

#endif
