/*
 * arena - memory that is freed as a whole, such as that of one request.
 *
 * Zero-initialise; release when done. Allocations are aligned for any type and not zeroed.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first */
    char *at, *end;             /* free bytes of the newest */
};

enum { ARENA_ALIGNMENT = 16 };

/* The slow path: a new block. `size` is a multiple of the alignment. */
void *arena_alloc_more(struct arena *a, size_t size);

/* Inline, because a request allocates a few dozen times. */
static inline void *arena_alloc(struct arena *a, size_t size)
{
    size = (size + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1);
    if (size > (size_t)(a->end - a->at))
        return arena_alloc_more(a, size);
    void *given = a->at;
    a->at += size;
    return given;
}

static inline void *arena_zalloc(struct arena *a, size_t size)
{
    void *given = arena_alloc(a, size);
    return size ? memset(given, 0, size) : given;
}

/* Copies and prints text, NUL-terminated. */
char *arena_text(struct arena *a, struct str s);
char *arena_printf(struct arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), nonnull(1, 2)));
char *arena_vprintf(struct arena *a, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0), nonnull(1, 2)));

/* Moves what a buffer holds into the arena, with a NUL after it, and releases the buffer. */
struct str arena_take(struct arena *a, struct buf *b);

/* How much memory it has. */
size_t arena_size(const struct arena *a);

/* Frees all allocations. The arena can be used again, and keeps one block for that. */
void arena_reset(struct arena *a);
void arena_release(struct arena *a);

#endif
