/* Big-endian, both ways. */
#include "keeper/jute.h"

#include <endian.h>

void jute_store_i32(char *at, int32_t v)
{
    uint32_t be = htobe32((uint32_t)v);
    memcpy(at, &be, sizeof be);
}

void jute_put_bool(struct buf *b, bool v)
{
    buf_put_u8(b, v);
}

void jute_put_i32(struct buf *b, int32_t v)
{
    char be[4];
    jute_store_i32(be, v);
    buf_put(b, be, sizeof be);
}

void jute_put_i64(struct buf *b, int64_t v)
{
    uint64_t be = htobe64((uint64_t)v);
    buf_put(b, &be, sizeof be);
}

void jute_put_bytes(struct buf *b, struct str s)
{
    jute_put_i32(b, s.p ? (int32_t)s.len : -1);
    buf_put_str(b, s);
}

void jute_put_stat(struct buf *b, const struct keeper_stat *s)
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

bool jute_bool(struct reader *r)
{
    return reader_u8(r) != 0;
}

static uint64_t read_number(struct reader *r, size_t len)
{
    struct str s = reader_bytes(r, len);
    uint64_t v = 0;
    for (size_t i = 0; i < s.len; i++)
        v = v << 8 | (uint8_t)s.p[i];
    return v;
}

int32_t jute_i32(struct reader *r)
{
    return (int32_t)read_number(r, 4);
}

int64_t jute_i64(struct reader *r)
{
    return (int64_t)read_number(r, 8);
}

struct str jute_data(struct reader *r)
{
    int32_t len = jute_i32(r);
    if (len == -1)
        return (struct str){NULL, 0};
    if (len < -1)
        r->bad = true;
    return len > 0 ? reader_bytes(r, (size_t)len) : STR("");
}

struct str jute_bytes(struct reader *r)
{
    struct str s = jute_data(r);
    return s.p ? s : STR("");
}
