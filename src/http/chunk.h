/*
 * chunk - decodes a body that comes in chunks. Pure.
 *
 * Strict: a size is one to eight hexadecimal digits and CR LF; extensions and trailers, which no
 * client of ours sends and which proxies read in different ways, are refused.
 *
 * Zero-initialise. Feed it what arrives until `done`.
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
    uint32_t left; /* bytes of the chunk at hand */
    bool done;
};

/*
 * Appends what the bytes hold to body, which may grow to max. Returns how many were used (all,
 * unless done), or the negative HTTP status to answer with: -400 malformed, -413 too long.
 */
ssize_t chunk_feed(struct chunk *c, const char *p, size_t len, struct buf *body, size_t max);

#endif
