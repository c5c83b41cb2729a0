/*
 * blocks - appends of any length, written as whole blocks.
 *
 * What goes past the system's cache (fs.direct) must be whole blocks, from memory that is aligned
 * like them. The block that an append ends in is kept and written again with the next one: its first
 * part is the same as on the disk, so that a write that is torn by a crash takes nothing away. Behind
 * the end a block is zero, as a new segment is.
 */
#ifndef KEEPER_JOURNAL_BLOCKS_H
#define KEEPER_JOURNAL_BLOCKS_H

#include <stdbool.h>

#include "base/fs.h"

struct blocks {
    char *space; /* begins with the block that the last append ended in */
    off_t at;    /* of that block */
};

/* Starts behind the first `at` bytes of the file, which are read. -1 with errno. */
int blocks_begin(struct blocks *b, int fd, off_t at);

/*
 * Writes behind what was written last. -1 with errno. *sync: it is wanted on disk; then, it is: where that
 * takes one write, the write does it.
 */
int blocks_append(struct blocks *b, const struct fs *fs, int fd, const void *data, size_t len,
                  off_t at, bool *sync);
void blocks_release(struct blocks *b);

#endif
