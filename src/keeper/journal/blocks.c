#include "keeper/journal/journal_impl.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

enum { SPACE_LEN = 16 * FS_BLOCK_LEN };

static off_t block_of(off_t at)
{
    return at - at % FS_BLOCK_LEN;
}

int blocks_begin(struct blocks *b, int fd, off_t at)
{
    ssize_t n;

    if (!b->space)
        b->space = mem_aligned_alloc(FS_BLOCK_LEN, SPACE_LEN);
    b->at = block_of(at);
    do
        n = pread(fd, b->space, FS_BLOCK_LEN, b->at);
    while (n < 0 && errno == EINTR);
    if (n >= 0 && n < at - b->at)
        errno = EIO;
    return n < at - b->at ? -1 : 0;
}

int blocks_append(struct blocks *b, const struct fs *fs, int fd, const void *data, size_t len,
                  off_t at, bool *sync)
{
    const char *p = data;

    assert(block_of(at) == b->at);
    *sync = *sync && fs->pwrite_sync && (size_t)(at - b->at) + len <= SPACE_LEN;
    while (len) {
        size_t before = (size_t)(at - b->at);
        size_t part = len < SPACE_LEN - before ? len : SPACE_LEN - before, end = before + part;
        size_t whole = (end + FS_BLOCK_LEN - 1) / FS_BLOCK_LEN * FS_BLOCK_LEN;
        size_t last = end / FS_BLOCK_LEN * FS_BLOCK_LEN;

        memcpy(b->space + before, p, part);
        memset(b->space + end, 0, whole - end);
        if ((*sync ? fs_write_all_sync : fs_write_all)(fs, fd, b->space, whole, b->at) < 0)
            return -1;
        memmove(b->space, b->space + last, end - last);
        b->at += (off_t)last;
        p += part;
        at += (off_t)part;
        len -= part;
    }
    return 0;
}

void blocks_release(struct blocks *b)
{
    free(b->space);
    b->space = NULL;
}
