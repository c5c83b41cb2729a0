/* What the files of the journal share. */
#ifndef KEEPER_JOURNAL_JOURNAL_IMPL_H
#define KEEPER_JOURNAL_JOURNAL_IMPL_H

#include "keeper/journal/blocks.h"
#include "keeper/journal/journal.h"

enum { JOURNAL_PENDING_MAX = 8 * 1024 * 1024 };

/* A run of records for one place in one segment. */
struct batch {
    struct buf bytes;
    int fd;
    uint64_t segment;
    off_t at;
    int64_t last_lsn;
    int64_t since_ms; /* when its first record came */
    struct batch *next;
};

/* What only the one who writes knows: see journal_write.c. */
struct write_token {
    int fd;
    uint64_t segment;
    int64_t written_lsn;
    int64_t wrote_ms; /* when a round was last written */
    int64_t since_ms; /* of the oldest record written and not synced, 0: none */
    bool dirty;       /* something was written and not synced, if only a mark */
    bool direct;      /* past the cache, by `blocks` */
    struct blocks blocks;
};

static inline bool batch_has_records(const struct batch *b)
{
    return b->last_lsn != 0;
}

/* An empty one. Under the lock. */
struct batch *batch_new(struct journal *j, int fd, uint64_t segment, off_t at);

/* Lets those go who wait for a round. */
void journal_open_gate(struct journal *j, unsigned gate);

/* The journal's own thread. */
void *journal_writer_main(void *arg);

/*
 * Writes and syncs what has gathered if it holds this record and nobody else is writing. Not under the
 * lock.
 */
void journal_write_oneself(struct journal *j, int64_t lsn);

#endif
