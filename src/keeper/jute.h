/*
 * jute - ZooKeeper's encoding: big-endian numbers, text and bytes after a 32-bit length.
 *
 * Reading uses struct reader (base/buf.h): reading past the end makes it bad and returns zeros.
 * The length -1, which ZooKeeper uses for "none", reads as empty; any other below 0 is bad.
 */
#ifndef KEEPER_JUTE_H
#define KEEPER_JUTE_H

#include <endian.h>

#include "base/buf.h"
#include "keeper/keeper.h"

/* Fills in a length that was written as a placeholder. */
static inline void jute_store_i32(char *at, int32_t v)
{
    uint32_t be = htobe32((uint32_t)v);
    memcpy(at, &be, sizeof be);
}

static inline void jute_put_bool(struct buf *b, bool v)
{
    buf_put_u8(b, v);
}

static inline void jute_put_i32(struct buf *b, int32_t v)
{
    char be[4];
    jute_store_i32(be, v);
    buf_put(b, be, sizeof be);
}

static inline void jute_put_i64(struct buf *b, int64_t v)
{
    uint64_t be = htobe64((uint64_t)v);
    buf_put(b, &be, sizeof be);
}

/* Text is the same. p NULL: null. */
static inline void jute_put_bytes(struct buf *b, struct str s)
{
    jute_put_i32(b, s.p ? (int32_t)s.len : -1);
    buf_put_str(b, s);
}

static inline void jute_put_stat(struct buf *b, const struct keeper_stat *s)
{
    jute_put_i64(b, s->czxid);
    jute_put_i64(b, s->mzxid);
    jute_put_i64(b, s->ctime_ms);
    jute_put_i64(b, s->mtime_ms);
    jute_put_i32(b, s->version);
    jute_put_i32(b, s->cversion);
    jute_put_i32(b, s->aversion);
    jute_put_i64(b, s->ephemeral_owner);
    jute_put_i32(b, s->data_len);
    jute_put_i32(b, s->child_count);
    jute_put_i64(b, s->pzxid);
}

static inline bool jute_bool(struct reader *r)
{
    return reader_u8(r) != 0;
}

static inline uint64_t jute_number(struct reader *r, size_t len)
{
    struct str s = reader_bytes(r, len);
    uint64_t v = 0;
    for (size_t i = 0; i < s.len; i++)
        v = v << 8 | (uint8_t)s.p[i];
    return v;
}

static inline int32_t jute_i32(struct reader *r)
{
    return (int32_t)jute_number(r, 4);
}

static inline int64_t jute_i64(struct reader *r)
{
    return (int64_t)jute_number(r, 8);
}

/* Of null, p is NULL. */
static inline struct str jute_data(struct reader *r)
{
    int32_t len = jute_i32(r);
    if (len == -1)
        return (struct str){NULL, 0};
    if (len < -1)
        r->bad = true;
    return len > 0 ? reader_bytes(r, (size_t)len) : STR("");
}

/* Null is the same as empty. */
static inline struct str jute_bytes(struct reader *r)
{
    struct str s = jute_data(r);
    return s.p ? s : STR("");
}

#endif
