/*
 * Keccak with a state of 25 words of 64 bits. Each block of RATE bytes is added to the state, which
 * is then permuted by 24 rounds; the sum is the beginning of the state.
 *
 * The constants of a round and the rotations are computed as the standard defines them: constants
 * are bits of a linear feedback shift register, rotations are triangular numbers.
 */
#include "base/sha3.h"

#include <stdint.h>

enum { WORDS = 25, ROUNDS = 24, RATE = 8 * WORDS - 2 * SHA3_256_LEN };

static uint64_t rotated(uint64_t x, int bits)
{
    return bits ? x << bits | x >> (64 - bits) : x;
}

/* Each word is changed by the parity of two columns next to its own. */
static void theta(uint64_t s[WORDS])
{
    uint64_t c[5];
    for (int x = 0; x < 5; x++)
        c[x] = s[x] ^ s[x + 5] ^ s[x + 10] ^ s[x + 15] ^ s[x + 20];
    for (int i = 0; i < WORDS; i++)
        s[i] ^= c[(i + 4) % 5] ^ rotated(c[(i + 1) % 5], 1);
}

/* Words are rotated, and each takes the place of the next one on a walk over all but the first. */
static void rho_and_pi(uint64_t s[WORDS])
{
    uint64_t moved = s[1];
    int x = 1, y = 0;
    for (int t = 1; t <= 24; t++) {
        int to = (2 * x + 3 * y) % 5;
        x = y;
        y = to;
        uint64_t next = s[x + 5 * y];
        s[x + 5 * y] = rotated(moved, t * (t + 1) / 2 % 64);
        moved = next;
    }
}

static void chi(uint64_t s[WORDS])
{
    for (int y = 0; y < WORDS; y += 5) {
        uint64_t row[5];
        memcpy(row, s + y, sizeof row);
        for (int x = 0; x < 5; x++)
            s[y + x] = row[x] ^ (~row[(x + 1) % 5] & row[(x + 2) % 5]);
    }
}

/* The bits of a round's constant are at the positions 0, 1, 3, 7, ... 63. */
static uint64_t next_constant(unsigned *lfsr)
{
    uint64_t constant = 0;
    for (int j = 0; j < 7; j++) {
        if (*lfsr & 1)
            constant |= UINT64_C(1) << ((1 << j) - 1);
        *lfsr = *lfsr & 0x80 ? (*lfsr << 1 ^ 0x171) : *lfsr << 1;
    }
    return constant;
}

static void permute(uint64_t s[WORDS])
{
    unsigned lfsr = 1;
    for (int round = 0; round < ROUNDS; round++) {
        theta(s);
        rho_and_pi(s);
        chi(s);
        s[0] ^= next_constant(&lfsr);
    }
}

static void add_byte(uint64_t s[WORDS], size_t at, unsigned char byte)
{
    s[at / 8] ^= (uint64_t)byte << at % 8 * 8;
}

void sha3_256(struct str text, unsigned char ret_sum[SHA3_256_LEN])
{
    uint64_t s[WORDS] = {0};
    size_t at = 0;
    for (size_t i = 0; i < text.len; i++) {
        add_byte(s, at++, (unsigned char)text.p[i]);
        if (at == RATE) {
            permute(s);
            at = 0;
        }
    }
    add_byte(s, at, 0x06); /* the suffix of SHA-3, and the first bit of the padding */
    add_byte(s, RATE - 1, 0x80);
    permute(s);
    for (size_t i = 0; i < SHA3_256_LEN; i++)
        ret_sum[i] = (unsigned char)(s[i / 8] >> i % 8 * 8);
}
