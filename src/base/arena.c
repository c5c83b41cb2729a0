/*
 * Blocks double from FIRST_LEN to BLOCK_LEN: most requests need little, and thousands of them may
 * wait at the same time. An allocation of more than LARGE_LEN gets a block of its own.
 */
#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

enum {
    FIRST_LEN = 1024 - 32,
    BLOCK_LEN = 16 * 1024 - 64,
    LARGE_LEN = BLOCK_LEN / 4,
    ALIGNMENT = 16,
};

struct arena_block {
    _Alignas(16) struct arena_block *next;
    size_t len;
    bool large;
    _Alignas(16) char bytes[];
};

static struct arena_block *block_new(size_t len)
{
    struct arena_block *b = mem_alloc(sizeof *b + len);

    b->len = len;
    b->large = false;
    return b;
}

static void block_use(struct arena *a, struct arena_block *b)
{
    a->at = b->bytes;
    a->end = b->bytes + b->len;
}

/* The large block goes behind the newest one, whose free bytes stay in use. */
static void *alloc_large(struct arena *a, size_t size)
{
    struct arena_block *b = block_new(size);

    b->large = true;
    if (!a->blocks) {
        b->next = NULL;
        a->blocks = b;
        a->at = a->end = b->bytes + size;
    } else {
        b->next = a->blocks->next;
        a->blocks->next = b;
    }
    return b->bytes;
}

static size_t next_len(const struct arena *a, size_t size)
{
    size_t len = a->blocks && !a->blocks->large ? a->blocks->len * 2 : FIRST_LEN;

    if (len < size)
        len = BLOCK_LEN;
    return len < BLOCK_LEN ? len : BLOCK_LEN;
}

void *arena_alloc(struct arena *a, size_t size)
{
    void *given;

    size = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (size > (size_t)(a->end - a->at)) {
        struct arena_block *b;

        if (size > LARGE_LEN)
            return alloc_large(a, size);
        b = block_new(next_len(a, size));
        b->next = a->blocks;
        a->blocks = b;
        block_use(a, b);
    }
    given = a->at;
    a->at += size;
    return given;
}

void *arena_zalloc(struct arena *a, size_t size)
{
    return memset(arena_alloc(a, size), 0, size);
}

char *arena_text(struct arena *a, struct str s)
{
    char *text = arena_alloc(a, s.len + 1);

    if (s.len)
        memcpy(text, s.p, s.len);
    text[s.len] = '\0';
    return text;
}

char *arena_vprintf(struct arena *a, const char *fmt, va_list ap)
{
    va_list again;
    char *text;
    int len;

    va_copy(again, ap);
    len = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    text = arena_alloc(a, (size_t)len + 1);
    vsnprintf(text, (size_t)len + 1, fmt, ap);
    return text;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    char *text;

    va_start(ap, fmt);
    text = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return text;
}

void arena_reset(struct arena *a)
{
    struct arena_block *kept = NULL, *next;

    for (struct arena_block *b = a->blocks; b; b = next) {
        next = b->next;
        if (!kept && !b->large)
            kept = b;
        else
            free(b);
    }
    *a = (struct arena){.blocks = kept};
    if (kept) {
        kept->next = NULL;
        block_use(a, kept);
    }
}

void arena_release(struct arena *a)
{
    struct arena_block *next;

    for (struct arena_block *b = a->blocks; b; b = next) {
        next = b->next;
        free(b);
    }
    *a = (struct arena){0};
}

struct str arena_take(struct arena *a, struct buf *b)
{
    struct str s = {arena_text(a, (struct str){b->p ? b->p : "", b->len}), b->len};

    buf_release(b);
    return s;
}
