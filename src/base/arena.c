/*
 * Blocks double from FIRST_LEN to BLOCK_LEN: most requests need little, and thousands of them may
 * wait at the same time. An allocation of more than LARGE_LEN gets a block of its own.
 */
#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum {
    FIRST_LEN = 1024 - 32,
    BLOCK_LEN = 16 * 1024 - 64,
    LARGE_LEN = BLOCK_LEN / 4,
};

struct arena_block {
    _Alignas(ARENA_ALIGNMENT) struct arena_block *next;
    size_t len;
    bool large;
    _Alignas(ARENA_ALIGNMENT) char bytes[];
};

static struct arena_block *block_new(size_t len)
{
    struct arena_block *b = mem_alloc(sizeof *b + len);
    *b = (struct arena_block){.len = len};
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
    struct arena_block *b = block_new(size), **at = a->blocks ? &a->blocks->next : &a->blocks;
    b->large = true;
    b->next = *at;
    *at = b;
    return b->bytes;
}

static size_t next_len(const struct arena *a, size_t size)
{
    size_t len = a->blocks && !a->blocks->large ? a->blocks->len * 2 : FIRST_LEN;
    if (len < size)
        len = BLOCK_LEN;
    return len < BLOCK_LEN ? len : BLOCK_LEN;
}

void *arena_alloc_more(struct arena *a, size_t size)
{
    if (size > LARGE_LEN)
        return alloc_large(a, size);
    struct arena_block *b = block_new(next_len(a, size));
    b->next = a->blocks;
    a->blocks = b;
    block_use(a, b);
    return arena_alloc(a, size);
}

char *arena_text(struct arena *a, struct str s)
{
    char *text = arena_alloc(a, s.len + 1);
    if (s.len)
        memcpy(text, s.p, s.len);
    text[s.len] = '\0';
    return text;
}

/*
 * A format of plain text and %s, which paths are made of, joined without printf: that takes five
 * times as long. False: it has other conversions, or is longer than size.
 */
static bool join(const char *fmt, va_list ap, char *text, size_t size, size_t *ret_len)
{
    size_t len = 0;
    while (*fmt) {
        bool is_text = fmt[0] == '%' && fmt[1] == 's';
        const char *part = is_text ? va_arg(ap, const char *) : fmt;
        size_t part_len = is_text ? strlen(part) : strcspn(fmt, "%");
        if ((!is_text && !part_len) || part_len > size - len)
            return false;
        memcpy(text + len, part, part_len);
        len += part_len;
        fmt += is_text ? 2 : part_len;
    }
    *ret_len = len;
    return true;
}

char *arena_vprintf(struct arena *a, const char *fmt, va_list ap)
{
    char joined[256];
    va_list again;
    size_t len;
    va_copy(again, ap);
    bool is_joined = join(fmt, again, joined, sizeof joined, &len);
    va_end(again);
    if (is_joined)
        return arena_text(a, (struct str){joined, len});
    va_copy(again, ap);
    len = (size_t)vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    char *text = arena_alloc(a, len + 1);
    vsnprintf(text, len + 1, fmt, ap);
    return text;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return text;
}

size_t arena_size(const struct arena *a)
{
    size_t size = 0;
    for (const struct arena_block *b = a->blocks; b; b = b->next)
        size += sizeof *b + b->len;
    return size;
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
    arena_reset(a);
    free(a->blocks);
    *a = (struct arena){0};
}

struct str arena_take(struct arena *a, struct buf *b)
{
    struct str s = {arena_text(a, buf_str(b)), b->len};
    buf_release(b);
    return s;
}
