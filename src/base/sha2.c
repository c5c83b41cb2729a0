/*
 * Both are the same function of words of 32 and of 64 bits; they differ in the number of rounds and
 * in how far words are rotated. The constants of SHA-256 are the upper halves of those of SHA-512.
 * Simple rather than fast: the input is a password, once per connection.
 */
#include "base/sha2.h"

#include <assert.h>

enum { WORDS = 16, ROUNDS_MAX = 80, WORD_LEN_MAX = 8 };

/* Two rotations, and a third one or, for the schedule of the words, a shift. */
struct sha2_mix {
    int first, second, third;
};

struct sha2 {
    size_t word_len;
    int rounds;
    struct sha2_mix schedule[2], state[2];
};

static const struct sha2 SHA256 = {4, 64, {{7, 18, 3}, {17, 19, 10}}, {{2, 13, 22}, {6, 11, 25}}};
static const struct sha2 SHA512 = {8, 80, {{1, 8, 7}, {19, 61, 6}}, {{28, 34, 39}, {14, 18, 41}}};

/* The fractions of the cube roots of the first primes. */
static const uint64_t K[ROUNDS_MAX] = {
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
    0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
    0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
    0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
    0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
    0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
    0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
    0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
    0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
    0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
    0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
    0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
    0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
    0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
    0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};

/* The fractions of their square roots. */
static const uint64_t START[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

/* The word in a number whose upper bits may be anything, and the upper part of a constant. */
static uint64_t word(const struct sha2 *s, uint64_t v)
{
    return s->word_len == 8 ? v : (uint32_t)v;
}

static uint64_t constant(const struct sha2 *s, uint64_t v)
{
    return s->word_len == 8 ? v : v >> 32;
}

static uint64_t rotate(const struct sha2 *s, uint64_t v, int bits)
{
    return word(s, v >> bits | v << (8 * (int)s->word_len - bits));
}

static uint64_t mix(const struct sha2 *s, const struct sha2_mix *m, uint64_t v, bool shifts)
{
    uint64_t third = shifts ? v >> m->third : rotate(s, v, m->third);
    return rotate(s, v, m->first) ^ rotate(s, v, m->second) ^ third;
}

static void add_block(const struct sha2 *s, uint64_t h[8], const unsigned char *block)
{
    uint64_t w[ROUNDS_MAX] = {0}, v[8];
    for (size_t i = 0; i < WORDS * s->word_len; i++)
        w[i / s->word_len] = w[i / s->word_len] << 8 | block[i];
    for (int i = WORDS; i < s->rounds; i++)
        w[i] = word(s, w[i - 16] + mix(s, &s->schedule[0], w[i - 15], true) + w[i - 7] +
                           mix(s, &s->schedule[1], w[i - 2], true));
    memcpy(v, h, sizeof v);
    for (int i = 0; i < s->rounds; i++) {
        uint64_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint64_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        uint64_t one = v[7] + mix(s, &s->state[1], v[4], false) + choice + constant(s, K[i]) + w[i];
        uint64_t two = mix(s, &s->state[0], v[0], false) + majority;
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] = word(s, v[4] + one);
        v[0] = word(s, one + two);
    }
    for (int i = 0; i < 8; i++)
        h[i] = word(s, h[i] + v[i]);
}

static void sum(const struct sha2 *s, struct str text, unsigned char *ret_sum)
{
    size_t block_len = WORDS * s->word_len, left = text.len;
    unsigned char last[2 * WORDS * WORD_LEN_MAX] = {0};
    uint64_t h[8], bits = (uint64_t)text.len * 8;
    const unsigned char *p = (const unsigned char *)text.p;
    for (int i = 0; i < 8; i++)
        h[i] = constant(s, START[i]);
    for (; left >= block_len; p += block_len, left -= block_len)
        add_block(s, h, p);
    if (left)
        memcpy(last, p, left);
    last[left] = 0x80;
    /* The length takes two words, of which the upper one of SHA-512 is always 0. */
    size_t padded = left + 1 + 2 * s->word_len <= block_len ? block_len : 2 * block_len;
    for (size_t i = 0; i < 8; i++)
        last[padded - 1 - i] = (unsigned char)(bits >> 8 * i);
    for (size_t at = 0; at < padded; at += block_len)
        add_block(s, h, last + at);
    for (size_t i = 0; i < 8 * s->word_len; i++)
        ret_sum[i] = (unsigned char)(h[i / s->word_len] >> 8 * (s->word_len - 1 - i % s->word_len));
}

void sha256(struct str text, unsigned char ret_sum[SHA256_LEN])
{
    sum(&SHA256, text, ret_sum);
}

void sha512(struct str text, unsigned char ret_sum[SHA512_LEN])
{
    sum(&SHA512, text, ret_sum);
}

void hmac_sha256(struct str key, struct str text, unsigned char ret_sum[SHA256_LEN])
{
    char inner[HMAC_KEY_MAX + HMAC_TEXT_MAX], outer[HMAC_KEY_MAX + SHA256_LEN];
    assert(key.len <= HMAC_KEY_MAX && text.len <= HMAC_TEXT_MAX);
    for (size_t i = 0; i < HMAC_KEY_MAX; i++) {
        char byte = i < key.len ? key.p[i] : 0;
        inner[i] = byte ^ 0x36;
        outer[i] = byte ^ 0x5c;
    }
    memcpy(inner + HMAC_KEY_MAX, text.p, text.len);
    sha256((struct str){inner, HMAC_KEY_MAX + text.len}, ret_sum);
    memcpy(outer + HMAC_KEY_MAX, ret_sum, SHA256_LEN);
    sha256((struct str){outer, sizeof outer}, ret_sum);
}
