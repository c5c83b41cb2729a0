/*
 * journal - transactions to disk, many at a time.
 *
 * The owner appends under its lock; a thread of the journal's own, or one that waits, takes whatever has
 * gathered, writes and syncs it (one sync for all of it), and lets those go who wait for it. A second
 * thread makes the next segment, filled with zeros, ahead of need.
 *
 *     lock -> journal_admit -> change the tree -> journal_append -> journal_ticket -> unlock
 *          -> journal_wait
 *
 * What holds: records are appended in the order of their LSNs without a gap. A segment is synced
 * before the first record of the next one is written. After a failed write or sync nothing is ever
 * written, synced or acknowledged again: the outcome of that sync cannot be learnt, and a second one
 * may succeed without having written anything.
 *
 * Where the power can fail, and what is then there:
 *   while a segment is made   a .tmp file, removed at the next start
 *   after its renaming        an empty segment, which is a valid end of the journal
 *   while a round is written  any part of records that nobody was told of: a torn tail, cut off
 *   after its sync            everything
 */
#ifndef KEEPER_JOURNAL_JOURNAL_H
#define KEEPER_JOURNAL_JOURNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "keeper/local/local.h"
#include "keeper/tree/tree.h"

struct batch;
struct write_token;

struct journal_options {
    const struct fs *fs;
    const char *dir;
    enum local_mode mode;
    size_t segment_len;
    uint64_t store;
    uint64_t oldest;  /* segment that is still there */
    uint64_t segment; /* the first one to make */
    int64_t last_lsn; /* what is on disk already */
    void (*fatal)(void *arg, const char *line);
    void *arg;
};

struct journal {
    struct journal_options o;
    uint32_t salt;
    pthread_mutex_t *lock; /* the owner's; guards everything up to the gates */
    pthread_cond_t work;   /* for the writer */
    pthread_cond_t room;   /* for those whom journal_admit holds back */
    pthread_cond_t prepare;
    pthread_t writer, preparer;
    bool stop;
    bool writer_rests;               /* and wants to be told of the next record */
    bool writer_sleeps;              /* it rests, and nothing but being told will wake it */
    struct write_token *write_token; /* belongs to whoever has taken it */

    struct batch *open;             /* takes records */
    struct batch *full, **full_end; /* of segments that are full, to be written first */
    struct batch *spare;
    uint32_t round;    /* the one that the open batch will be part of */
    int64_t taken_lsn; /* what the rounds before it hold */
    int64_t last_lsn, marked_lsn;
    int64_t unsynced_since_ms; /* when the oldest record that is not on disk came, 0: none */
    int64_t sync_wanted;       /* LSN that somebody waits for although the mode does not */
    bool holds;                /* JOURNAL_HELD is heeded */
    int64_t lag, last_lag;     /* most records at once not on disk: in this round, in the last */
    size_t pending;            /* bytes appended and not yet written */

    int prepared_fd; /* -1: none yet */
    uint64_t prepared, first_segment;
    int prepare_error; /* DISK_FULL: why there is none */

    uint64_t records, bytes, syncs;
    void (*on_durable)(void *arg); /* called under the lock after each sync; NULL: nobody */
    void *on_durable_arg;

    _Atomic int64_t durable;    /* LSN up to which everything is on disk */
    _Atomic int64_t wanted_lsn; /* the records behind it are held; changed under the lock */
    _Atomic uint32_t gates[2];  /* futexes: one for the round under way, one for the next */
    _Atomic bool pen_taken;     /* changed under the lock */
    _Atomic bool crowded;       /* many records were in the last round; changed when one is taken */
    _Atomic bool failed;
};

/* What somebody waits for. */
struct journal_ticket {
    int64_t lsn;
    unsigned gate;
};

int journal_open(struct journal *j, const struct journal_options *o, pthread_mutex_t *lock,
                 struct err_info *ret_error);

/* Writes and syncs what is left, leaves the mark, ends the threads. Not under the lock. */
void journal_close(struct journal *j);

/*
 * Makes sure that a record of so many bytes can be appended. Under the lock, which it may release
 * and take again. 0, DISK_FULL, TOO_BIG or IO.
 */
int journal_admit(struct journal *j, size_t record_len);

/* Who sees to it that a record is written. */
enum journal_care {
    JOURNAL_NOW,    /* the thread, at once */
    JOURNAL_WAITED, /* he who appends and then calls journal_wait(): no thread is woken for it */
    JOURNAL_HELD,   /* he who calls journal_want(), soon: until then it may wait for others */
};

void journal_append(struct journal *j, const struct changes *c, enum journal_care care);

/*
 * In strict mode a sync takes as much of the processors as a dozen changes do. Where many changes are
 * under way at a time, whoever makes them without waiting may hold them until he has no more to make.
 * All under the lock.
 */
void journal_hold(struct journal *j, bool holds);
int64_t journal_held(const struct journal *j); /* records that are wanted by nobody */
void journal_want(struct journal *j);          /* all there are */

/* Something has failed for good: tells the reason, the first time, and lets go whoever waits. */
void journal_fail(struct journal *j, const char *line);

/* Under the lock: what to wait for so that lsn is on disk. */
struct journal_ticket journal_ticket(const struct journal *j, int64_t lsn);

/* Not under the lock. In strict mode returns when it is on disk; else at once. 0 or IO. */
int journal_wait(struct journal *j, struct journal_ticket t);

/* The same in any mode. */
int journal_wait_durable(struct journal *j, int64_t lsn);

/* Under the lock, after journal_admit: later records go into a new segment, whose number it gives. */
int journal_rotate(struct journal *j, uint64_t *ret_segment);

/* Removes the segments before this one. Not under the lock; one caller at a time. */
int journal_drop(struct journal *j, uint64_t segment, struct err_info *ret_error);

#endif
