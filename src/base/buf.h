/*
 * buf - a growing array of bytes, and a bounded reader.
 *
 * Numbers are little-endian on disk. A reader that is asked for more bytes than are left sets `bad`
 * and from then on returns zeros and empty strings: check `bad` once, at the end.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/str.h"

struct buf {
    char *p;
    size_t len, cap;
};

void buf_release(struct buf *b);
void buf_grow(struct buf *b, size_t more);
void buf_printf(struct buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), nonnull(1, 2)));

/* The bytes with a NUL after them, which does not count. */
const char *buf_text(struct buf *b);

/* Inline, because most calls are a few instructions. */

static inline void buf_reserve(struct buf *b, size_t more)
{
    if (b->cap - b->len < more)
        buf_grow(b, more);
}

static inline void buf_put(struct buf *b, const void *data, size_t len)
{
    if (!len)
        return;
    buf_reserve(b, len);
    memcpy(b->p + b->len, data, len);
    b->len += len;
}

/* What it holds, until it changes. */
static inline struct str buf_str(const struct buf *b)
{
    return (struct str){b->p ? b->p : "", b->len};
}

static inline void buf_put_str(struct buf *b, struct str s)
{
    buf_put(b, s.p, s.len);
}

/* At a fixed position, for headers that are filled in later. */
static inline void le_store32(char *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (char)(v >> (8 * i));
}

static inline void le_store64(char *at, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        at[i] = (char)(v >> (8 * i));
}

static inline uint32_t le_load32(const char *at)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++)
        v |= (uint32_t)(unsigned char)at[i] << (8 * i);
    return v;
}

static inline uint64_t le_load64(const char *at)
{
    return le_load32(at) | (uint64_t)le_load32(at + 4) << 32;
}

static inline void buf_put_u8(struct buf *b, uint8_t v)
{
    buf_put(b, &v, 1);
}

static inline void buf_put_u32(struct buf *b, uint32_t v)
{
    buf_reserve(b, 4);
    le_store32(b->p + b->len, v);
    b->len += 4;
}

static inline void buf_put_u64(struct buf *b, uint64_t v)
{
    buf_reserve(b, 8);
    le_store64(b->p + b->len, v);
    b->len += 8;
}

struct reader {
    const char *p;
    size_t left;
    bool bad;
};

uint8_t reader_u8(struct reader *r);
uint32_t reader_u32(struct reader *r);
uint64_t reader_u64(struct reader *r);
struct str reader_bytes(struct reader *r, size_t len);

/*
 * No data (p is NULL) is not the same as empty data: its length is written as BUF_NONE.
 */
#define BUF_NONE UINT32_MAX

static inline uint32_t buf_len_or_none(struct str s)
{
    return s.p ? (uint32_t)s.len : BUF_NONE;
}

struct str reader_bytes_or_none(struct reader *r, uint32_t len);

#endif
