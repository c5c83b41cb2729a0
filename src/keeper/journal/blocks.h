/*
 * blocks - appends of any length, written as whole blocks.
 *
 * Writes that bypass the page cache (fs.direct) must be whole blocks, from aligned memory. The
 * block that an append ends in is kept and written again with the next append. Its first part is
 * the same as on disk, so a torn write loses nothing. The rest of the last block is zero, as in a
 * new segment.
 */
#ifndef KEEPER_JOURNAL_BLOCKS_H
#define KEEPER_JOURNAL_BLOCKS_H

#include <stdbool.h>

#include "base/fs.h"

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

#endif
