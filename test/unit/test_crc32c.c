/* The checksum: the published values, and the instruction against the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/str.h"

enum { LEN_MAX = 300, OFFSET_MAX = 16 };

/* Bytes without a pattern that a wrong table could share. */
static void fill(unsigned char *p, size_t len)
{
    uint32_t x = 12345;

    for (size_t i = 0; i < len; i++) {
        x = x * 1664525 + 1013904223;
        p[i] = (unsigned char)(x >> 24);
    }
}

/* RFC 3720, B.4, and the check value of the catalogues. */
static void known_values(void **state)
{
    unsigned char zeros[32] = {0}, ones[32], rising[32], falling[32];
    const struct {
        const void *data;
        size_t len;
        uint32_t sum;
    } rows[] = {
        {"", 0, 0},
        {"a", 1, 0xc1d04330},
        {"123456789", 9, 0xe3069283},
        {zeros, 32, 0x8a9136aa},
        {ones, 32, 0x62a8ab43},
        {rising, 32, 0x46dd794e},
        {falling, 32, 0x113fdb5c},
    };

    (void)state;
    for (unsigned char i = 0; i < 32; i++) {
        ones[i] = 0xff;
        rising[i] = i;
        falling[i] = (unsigned char)(31 - i);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(crc32c(0, rows[i].data, rows[i].len), rows[i].sum);
        assert_int_equal(crc32c_portable(0, rows[i].data, rows[i].len), rows[i].sum);
    }
}

static void both_ways_give_the_same(void **state)
{
    unsigned char data[LEN_MAX + OFFSET_MAX];

    (void)state;
    fill(data, sizeof data);
    for (size_t offset = 0; offset < OFFSET_MAX; offset++)
        for (size_t len = 0; len <= LEN_MAX; len++)
            assert_int_equal(crc32c(7, data + offset, len), crc32c_portable(7, data + offset, len));
}

static void a_sum_can_be_continued(void **state)
{
    unsigned char data[100];
    uint32_t whole;

    (void)state;
    fill(data, sizeof data);
    whole = crc32c(0, data, sizeof data);
    for (size_t cut = 0; cut <= sizeof data; cut++) {
        uint32_t front = crc32c(0, data, cut);

        assert_int_equal(crc32c(front, data + cut, sizeof data - cut), whole);
        front = crc32c_portable(0, data, cut);
        assert_int_equal(crc32c_portable(front, data + cut, sizeof data - cut), whole);
    }
}

static void every_bit_counts(void **state)
{
    unsigned char data[64];
    uint32_t whole;

    (void)state;
    fill(data, sizeof data);
    whole = crc32c(0, data, sizeof data);
    for (size_t bit = 0; bit < sizeof data * 8; bit++) {
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_not_equal(crc32c(0, data, sizeof data), whole);
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(both_ways_give_the_same),
        cmocka_unit_test(a_sum_can_be_continued),
        cmocka_unit_test(every_bit_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
