/*
 * arena - memory that is freed whole: what one request needs, for as long as it lasts.
 *
 * Zero-initialise; release when done. What it gives out is aligned for anything and not zeroed.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/str.h"

struct arena_block;

struct arena {
    struct arena_block *blocks; /* the newest first */
    char *at, *end;             /* room in the newest */
};

void *arena_alloc(struct arena *a, size_t size);
void *arena_zalloc(struct arena *a, size_t size);

/* A copy, NUL-terminated. */
char *arena_text(struct arena *a, struct str s);
char *arena_printf(struct arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), nonnull(1, 2)));

/* Frees all that was given out. The arena can be used again and keeps one block for that. */
void arena_reset(struct arena *a);
void arena_release(struct arena *a);

#endif
