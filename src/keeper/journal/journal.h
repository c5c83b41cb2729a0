/*
 * journal - transactions to disk, many with one sync.
 *
 * The owner appends records under its lock. A thread of the journal's own (the writer), or a caller
 * that waits, takes all records that were appended since the last round, writes and syncs them, and
 * raises the gate (gate.h). A second thread (the preparer) makes the next segment, filled with
 * zeros, ahead of need. If there is no room for it, changes that add are refused, and others may
 * use the reserve (reserve.h).
 *
 *     lock -> journal_admit -> change the tree -> journal_append -> gate_ticket -> unlock
 *          -> gate_wait
 *
 * What always holds: records are appended in the order of their LSNs without a gap. A segment is
 * synced before the first record of the next one is written. After a failed write or sync nothing
 * is ever written, synced or acknowledged again: the outcome of that sync is unknown, and a second
 * one may succeed without having written anything.
 *
 * What the mark claims (mark.h) is changed when a segment is begun and when the journal is closed.
 *
 * What is on disk after a power failure
 *   while a segment is made   a .tmp file, removed at the next start
 *   after its renaming        an empty segment, which is a valid end of the journal
 *   while a round is written  any part of records that were not acknowledged: a torn tail, cut off
 *   after its sync            everything
 */
#ifndef KEEPER_JOURNAL_JOURNAL_H
#define KEEPER_JOURNAL_JOURNAL_H

#include "base/buf.h"
#include "base/histogram.h"
#include "base/summary.h"
#include "keeper/journal/gate.h"
#include "keeper/journal/mark.h"
#include "keeper/journal/reserve.h"
#include "keeper/tree/tree.h"

struct journal_run;
struct recover_segment;
struct write_token;

struct journal_options {
    const struct fs *fs;
    const char *dir;
    bool strict;      /* answers wait for the sync */
    int64_t flush_ms; /* otherwise: after this a record is on disk, or changes wait */
    size_t segment_len;
    uint64_t segment;                   /* the first one to make */
    const struct recover_segment *last; /* the one before it, not yet cut; NULL: none */
    struct mark_claims mark;            /* what is on disk already */
    void (*fatal)(void *arg, const char *line);
    void *arg;
    void (*shortage_changed)(void *arg); /* under the lock: journal_shortage() is another */
    void *shortage_arg;
};

struct journal {
    struct journal_options o;
    uint32_t salt;
    struct gate *gate;       /* the owner's */
    pthread_mutex_t *lock;   /* the owner's; guards the rest */
    pthread_cond_t work;     /* for the writer */
    pthread_cond_t progress; /* for callers that journal_admit blocks */
    pthread_cond_t prepare;
    pthread_t writer, preparer;
    bool stop;
    bool writer_waits;               /* and is to be signalled for the next record */
    bool writer_sleeps;              /* it waits without a timeout */
    struct write_token *write_token; /* belongs to the thread that writes */
    struct mark_file mark;           /* so do this */
    struct mark_claims claims;       /* and this: its lsn is the last that was written */

    struct journal_run *first; /* not yet written: those of full segments, then the open one */
    struct journal_run *open;  /* the last: takes records */
    struct journal_run *spare;
    uint32_t round;    /* the one that the open run will be part of */
    int64_t taken_lsn; /* last of the rounds before it */
    int64_t last_lsn, marked_lsn;
    int64_t unsynced_since_ms; /* when the oldest record not on disk was appended, 0: none */
    int64_t sync_wanted;       /* LSN that a caller waits for although the mode does not */
    bool defers;               /* JOURNAL_DEFER has an effect */
    int64_t lag, last_lag;     /* most records at once not on disk: in this round, in the last */
    int64_t round_us;          /* moving average of the time to write and sync a round */
    size_t pending;            /* bytes appended and not yet written */

    struct reserve reserve; /* belongs to the preparer */
    unsigned reserved;      /* its pieces */
    int prepared_fd;        /* -1: none yet */
    uint64_t prepared;
    size_t prepared_len;
    int prepare_error; /* DISK_FULL, TOO_MANY: why the next segment or a piece is missing */
    struct err_info prepare_why;
    int64_t prepare_due_ms;
    int shortage_told;
    bool piece_wanted;    /* a piece is to be the next segment */
    bool yields, yielded; /* journal_yield(): wanted, done */

    uint64_t records, bytes, syncs;
    struct histogram rounds; /* how long each took: the write, and the sync if it was due */
    struct summary sync_ms;  /* of rounds that were synced: how long the write and the sync took */

    _Atomic int64_t released_lsn; /* the records behind it are deferred; changed under the lock */
    _Atomic bool token_taken;     /* changed under the lock */
    _Atomic bool crowded;         /* the last round had many records; changed under the lock */
};

/* The gate is the owner's, and so is its lock. From now on the journal raises it. */
int journal_open(struct journal *j, const struct journal_options *o, struct gate *gate,
                 struct err_info *ret_error);

/* Writes and syncs the remaining records, writes the mark, ends the threads. Not under the lock. */
void journal_close(struct journal *j);

/*
 * Makes sure that a record of so many bytes can be appended. Under the lock, which it may release
 * and take again. 0, DISK_FULL, TOO_MANY, TOO_BIG or IO.
 */
int journal_admit(struct journal *j, size_t record_len, enum reserve_use use);

/*
 * Why changes that add are refused: DISK_FULL or TOO_MANY, with the details in prepare_why; 0: they
 * are not. Under the lock.
 */
int journal_shortage(const struct journal *j);

/*
 * During a shortage: leaves the room on the disk to the caller, the reserve except its last piece
 * included, until journal_resume(). Under the lock; journal_yield() releases it.
 */
void journal_yield(struct journal *j);
void journal_resume(struct journal *j);

/* Who writes a record. */
enum journal_writer {
    JOURNAL_WRITER, /* the writer, at once */
    JOURNAL_WAITER, /* the caller, in gate_wait(): in strict mode no thread is woken */
    JOURNAL_DEFER,  /* nobody until journal_write_deferred(), which the caller must call soon */
};

void journal_append(struct journal *j, const struct tree_changes *c, enum journal_writer who);

/*
 * Deferring, for a loop that makes changes without waiting for them. In strict mode
 *  - with many changes in flight, records wait to share a sync, which costs as much CPU time as a
 *    dozen changes do;
 *  - with one change in flight on a fast disk, the loop writes it itself, which saves two thread
 *    switches.
 * Otherwise JOURNAL_DEFER is JOURNAL_WRITER. All under the lock; journal_write_deferred() may
 * release it.
 */
void journal_set_defers(struct journal *j, bool defers);
int64_t journal_deferred(const struct journal *j); /* how many records */
bool journal_write_deferred(struct journal *j);    /* true: this thread wrote them */

/* Final failure: reports the reason, the first time, and shuts the gate. Not under the lock. */
void journal_fail(struct journal *j, const char *line);

/*
 * For the gate. Not under the lock: a caller is about to wait for lsn, in strict mode; in any mode.
 */
void journal_hasten(struct journal *j, int64_t lsn);
struct gate_ticket journal_request_sync(struct journal *j, int64_t lsn);
unsigned journal_round(const struct journal *j, int64_t lsn); /* under the lock */

/*
 * Under the lock: later records go into a segment that has none yet, whose number it returns. 0,
 * DISK_FULL or IO.
 */
int journal_rotate(struct journal *j, uint64_t *ret_segment);

/* The segment that takes records now. Under the lock. */
uint64_t journal_segment(const struct journal *j);

#endif
