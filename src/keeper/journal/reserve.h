/*
 * reserve - room on the disk that is kept back for the time when the disk is full.
 *
 * Journal segments are made ahead of need, so a full disk shows when the next one cannot be made.
 * From then on changes that add are refused. What must still be possible is written into the
 * reserve: a start, deletions, and the snapshot that replaces the journal and so makes room again.
 *
 * The reserve is RESERVE_PIECES files, reserve-1 and so on, each a quarter of a segment, filled
 * with zeros. A piece becomes a short segment by a header and a renaming. That takes no room, so no
 * other process can take the room in between. For a snapshot, pieces are removed instead.
 *
 *     what for             leaves at least so many pieces
 *     a start              0
 *     RESERVE_FREES        1: for the next start
 *     RESERVE_KEEPS        2: those, and one for deletions
 *     RESERVE_GROWS        all: it never takes one
 *
 * A start writes little (the mark in place, a few sessions), and it goes on in the last segment if
 * that has room, so restarts do not use up the reserve.
 *
 * What always holds: a piece has its full length and is on disk before it has its name. Its content
 * is never read. Missing pieces are made again as soon as there is room, before a segment is; until
 * all are there, the disk counts as full, also at a first start.
 *
 * After a power failure
 *   while a piece is made      journal.tmp, removed at the next start
 *   before a piece is renamed  a piece with a header, which the next use writes again
 *   after that                 an empty segment, which is a valid end of the journal
 *
 * One thread at a time.
 */
#ifndef KEEPER_JOURNAL_RESERVE_H
#define KEEPER_JOURNAL_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"

enum { RESERVE_PIECES = 4 };

/* What a change does to the tree, and so how much of the reserve it may use. */
enum reserve_use {
    RESERVE_GROWS, /* it adds: none */
    RESERVE_KEEPS, /* it changes what is there, or opens a session */
    RESERVE_FREES, /* it deletes more than it adds */
};

struct reserve {
    const struct fs *fs;
    const char *dir;
    uint64_t store; /* format.h */
    size_t piece_len;
    bool has[RESERVE_PIECES];
    unsigned count;
};

/* Looks for the pieces. A file of another length is none: it is replaced. */
void reserve_open(struct reserve *r, const struct fs *fs, const char *dir, uint64_t store,
                  size_t segment_len);

/* Whether a change may take a piece of so many. */
bool reserve_allows(enum reserve_use use, unsigned count);

/* Makes a missing piece. */
int reserve_make(struct reserve *r, struct err_info *ret_error);

/* A piece becomes an empty segment. DISK_FULL: there is none. A piece that fails is given up. */
int reserve_take(struct reserve *r, uint64_t segment, int *ret_fd, struct err_info *ret_error);

/* An empty segment that reserve_take() made, closed and not used, becomes a piece again. */
void reserve_put_back(struct reserve *r, uint64_t segment);

/* Removes all pieces but one. */
void reserve_release(struct reserve *r);

#endif
