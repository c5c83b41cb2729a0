/*
 * chunk - decodes a body in chunked transfer coding. Pure.
 *
 * Strict: a size is one to eight hexadecimal digits and CR LF. Chunk extensions and trailers are
 * refused: our clients do not send them, and proxies disagree about their meaning.
 *
 * Zero-initialise. Feed it the bytes that arrive until `done`.
 */
#ifndef HTTP_CHUNK_H
#define HTTP_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

struct chunk {
    int state;
    int digits;
    uint32_t left; /* bytes of the present chunk */
    bool done;
};

/*
 * Appends the decoded bytes to body, up to max. Returns how many input bytes were used (all,
 * unless done), or the negative HTTP status to answer with: -400 malformed, -413 too long.
 */
ssize_t chunk_feed(struct chunk *c, const char *p, size_t len, struct buf *body, size_t max);

#endif
