/*
 * workload - threads that write and record what was acknowledged, and the check of what must be
 * there afterwards.
 *
 * Each lane counts: its nth transaction sets /a<lane> and /b<lane> to n, makes /log/<lane>-<n> and
 * deletes the one that is LOG_KEPT older, all at once. So a tree shows for each lane how far it
 * came, and any half of a transaction. Odd lanes commit, even ones wait in the call. Readers read
 * the lanes' counters: what they were shown counts as acknowledged too. The records are on a board,
 * which may be in memory that outlives the process.
 */
#ifndef CRASH_WORKLOAD_H
#define CRASH_WORKLOAD_H

#include <stdatomic.h>

#include "keeper/local/local.h"
#include "support.h"

struct tree;

enum { LANES = 4, READERS = 1, NOTERS = LANES + READERS, NOTES_MAX = 65536, LOG_KEPT = 8 };

struct ack {
    int lane;
    int64_t number, zxid;
    int64_t before_ms, after_ms; /* the call, by clock_boot_ms */
};

struct notes {
    _Atomic uint64_t count; /* of acks that are complete */
    struct ack acks[NOTES_MAX];
    int64_t seen[LANES]; /* by a reader: the last zxid, so that the same is not noted twice */
};

/* First the lanes' own, then the readers'. */
struct board {
    struct notes notes[NOTERS];
};

/* Makes the nodes that the lanes need, where they are missing. */
int workload_prepare(struct keeper *k);

/* What a lane has reached. */
int workload_number(struct keeper *k, int lane, int64_t *ret_number);

/*
 * The next transaction of a lane. Returns 0 and notes it, or an error; TOO_BIG: the board is full.
 */
int workload_step(struct keeper *k, struct board *b, int lane, int64_t number);

/* Looks how far a lane is and notes it if it is news. reader is from 0. */
int workload_read(struct keeper *k, struct board *b, int reader, int lane);

/* Which acknowledgements count: those of each noter up to here. */
struct board_view {
    const struct board *board;
    uint64_t counts[NOTERS];
};

struct board_view board_view(const struct board *b);

/*
 * The tree shows whole transactions, and of those that were acknowledged a prefix by zxid. Gives
 * what each lane has reached.
 */
void expect_prefix(const struct tree *t, const struct board_view *v, int64_t *ret_numbers);

/* No acknowledged transaction is later than the tree. */
void expect_nothing_lost(const struct tree *t, const struct board_view *v);

/* What is lost was acknowledged in the last LOCAL_FLUSH_MS in which anything was. */
void expect_little_lost(const struct tree *t, const struct board_view *v);

#endif
