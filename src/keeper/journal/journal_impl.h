/* journal_impl - shared by the files of the journal. */
#ifndef KEEPER_JOURNAL_JOURNAL_IMPL_H
#define KEEPER_JOURNAL_JOURNAL_IMPL_H

#include "base/fs.h"
#include "keeper/journal/journal.h"

/*
 * Blocks: appends of any length, written as whole blocks.
 *
 * Writes that bypass the page cache (fs.direct) must be whole blocks, from aligned memory. The
 * block that an append ends in is kept and written again with the next append. Its first part is
 * the same as on disk, so a torn write loses nothing. The rest of the last block is zero, as in a
 * new segment.
 */
struct blocks {
    char *space; /* starts with the last block of the last append */
    off_t at;    /* of that block */
};

/*
 * Starts after the first `at` bytes of the file; reads the block that they end in. -1 with errno.
 */
int blocks_begin(struct blocks *b, int fd, off_t at);

/*
 * Appends at `at`, the end of the last append. -1 with errno. In: *sync asks for the data to be
 * synced. Out: whether it is, which holds if a single write was enough.
 */
int blocks_append(struct blocks *b, const struct fs *fs, int fd, const void *data, size_t len,
                  off_t at, bool *sync);
void blocks_release(struct blocks *b);

enum { JOURNAL_PENDING_MAX = 8 * 1024 * 1024 };

/* Consecutive records of one segment. */
struct journal_run {
    struct buf bytes;
    int fd;
    uint64_t segment;
    size_t segment_len;
    off_t at;
    int64_t last_lsn;
    int64_t since_ms; /* when its first record was appended */
    struct journal_run *next;
};

/*
 * Writes the claims to the mark. 0, or IO. Without room (for a new file, or on a file system that
 * never writes over old blocks) the mark claims what it did before, and the next call tries again.
 */
int journal_mark(struct journal *j, bool sync, struct err_info *ret_error);

/* The state of writing: belongs to the thread that holds the token, see journal_write.c. */
struct write_token {
    int fd;
    uint64_t segment;
    int64_t wrote_ms; /* end of the last round */
    int64_t since_ms; /* of the oldest record written and not synced, 0: none */
    bool dirty;       /* something was written and not synced, possibly only a mark */
    bool direct;      /* bypasses the page cache, with `blocks` */
    struct blocks blocks;
};

static inline bool run_has_records(const struct journal_run *b)
{
    return b->last_lsn != 0;
}

/* An empty one of the same segment. Under the lock. */
struct journal_run *run_new(struct journal *j, const struct journal_run *like, off_t at);

/* Bytes that are left in the open segment. */
static inline size_t journal_room(const struct journal *j)
{
    return j->open->segment_len - (size_t)j->open->at - j->open->bytes.len;
}

static inline bool journal_failed(const struct journal *j)
{
    return atomic_load(&j->gate->failed);
}

static inline int64_t journal_durable(const struct journal *j)
{
    return atomic_load(&j->gate->durable);
}

/* The journal's own threads. */
void *journal_writer_main(void *arg);
void *journal_preparer_main(void *arg);

/*
 * Asks the preparer to make a piece of the reserve the next segment, and the caller to wait for
 * progress. False: the change may not have one. Under the lock.
 */
bool journal_want_piece(struct journal *j, size_t record_len, enum reserve_use use);

/* Writes and syncs a round. The token must be free. Under the lock, which it releases meanwhile. */
void journal_write_round(struct journal *j);

#endif
