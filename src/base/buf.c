#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

void buf_release(struct buf *b)
{
    if (b->p) /* most are empty, and this is a call less */
        free(b->p);
    *b = (struct buf){0};
}

void buf_grow(struct buf *b, size_t more)
{
    size_t cap = b->cap ? b->cap : 64;
    while (cap - b->len < more)
        cap *= 2;
    b->p = mem_realloc(b->p, cap);
    b->cap = cap;
}

/* Prints into the free bytes, and a second time only if they were too few. */
void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    buf_reserve(b, 64);
    va_start(ap, fmt);
    va_copy(again, ap);
    int len = vsnprintf(b->p + b->len, b->cap - b->len, fmt, ap);
    va_end(ap);
    if (len > 0 && (size_t)len >= b->cap - b->len) {
        buf_reserve(b, (size_t)len + 1);
        vsnprintf(b->p + b->len, (size_t)len + 1, fmt, again);
    }
    b->len += len > 0 ? (size_t)len : 0;
    va_end(again);
}

const char *buf_text(struct buf *b)
{
    buf_reserve(b, 1);
    b->p[b->len] = '\0';
    return b->p;
}

struct str reader_bytes(struct reader *r, size_t len)
{
    struct str run = {r->p, len};
    if (r->bad || len > r->left) {
        r->bad = true;
        return (struct str){"", 0};
    }
    r->p += len;
    r->left -= len;
    return run;
}

struct str reader_bytes_or_none(struct reader *r, uint32_t len)
{
    return len == BUF_NONE ? (struct str){NULL, 0} : reader_bytes(r, len);
}

uint8_t reader_u8(struct reader *r)
{
    struct str s = reader_bytes(r, 1);
    return s.len ? (uint8_t)s.p[0] : 0;
}

uint32_t reader_u32(struct reader *r)
{
    struct str s = reader_bytes(r, 4);
    return s.len ? le_load32(s.p) : 0;
}

uint64_t reader_u64(struct reader *r)
{
    struct str s = reader_bytes(r, 8);
    return s.len ? le_load64(s.p) : 0;
}
