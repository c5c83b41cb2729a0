/* Simple rather than fast: the input is a password, once per connection. */
#include "base/sha1.h"

#include <string.h>

enum { BLOCK_LEN = 64, LENGTH_AT = 56, ROUNDS = 80 };

static uint32_t rotate(uint32_t v, int bits)
{
    return v << bits | v >> (32 - bits);
}

static uint32_t read_u32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void write_u32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (24 - 8 * i));
}

/* The function and the constant of a round; they change every 20 rounds. */
static uint32_t mix(int round, uint32_t b, uint32_t c, uint32_t d)
{
    if (round < 20)
        return ((b & c) | (~b & d)) + 0x5a827999;
    if (round < 40)
        return (b ^ c ^ d) + 0x6ed9eba1;
    if (round < 60)
        return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    return (b ^ c ^ d) + 0xca62c1d6;
}

static void add_block(uint32_t h[5], const unsigned char *block)
{
    uint32_t w[ROUNDS], v[5];
    for (int i = 0; i < 16; i++)
        w[i] = read_u32(block + 4 * i);
    for (int i = 16; i < ROUNDS; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(v, h, sizeof v);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t next = rotate(v[0], 5) + mix(i, v[1], v[2], v[3]) + v[4] + w[i];
        v[4] = v[3];
        v[3] = v[2];
        v[2] = rotate(v[1], 30);
        v[1] = v[0];
        v[0] = next;
    }
    for (int i = 0; i < 5; i++)
        h[i] += v[i];
}

void sha1(struct str text, unsigned char ret_sum[SHA1_LEN])
{
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    const unsigned char *p = (const unsigned char *)text.p;
    unsigned char last[2 * BLOCK_LEN] = {0};
    uint64_t bits = (uint64_t)text.len * 8;
    size_t left = text.len;
    for (; left >= BLOCK_LEN; p += BLOCK_LEN, left -= BLOCK_LEN)
        add_block(h, p);
    if (left)
        memcpy(last, p, left);
    last[left] = 0x80;
    size_t padded = left < LENGTH_AT ? BLOCK_LEN : 2 * BLOCK_LEN;
    write_u32(last + padded - 8, (uint32_t)(bits >> 32));
    write_u32(last + padded - 4, (uint32_t)bits);
    for (size_t at = 0; at < padded; at += BLOCK_LEN)
        add_block(h, last + at);
    for (int i = 0; i < 5; i++)
        write_u32(ret_sum + 4 * i, h[i]);
}
