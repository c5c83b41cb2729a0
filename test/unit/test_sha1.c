/*
 * The examples of FIPS 180-4, each length around a block, and what ZooKeeper makes of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/sha1.h"

static void assert_sum(struct str text, const char *expected)
{
    unsigned char sum[SHA1_LEN];
    char hex[2 * SHA1_LEN + 1];

    sha1(text, sum);
    for (int i = 0; i < SHA1_LEN; i++)
        sprintf(hex + 2 * i, "%02x", sum[i]);
    assert_string_equal(hex, expected);
}

static void published_sums(void **state)
{
    char *million = malloc(1000000);

    (void)state;
    memset(million, 'a', 1000000);
    assert_sum(STR(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    assert_sum(STR("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_sum(STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
               "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    assert_sum((struct str){million, 1000000}, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    free(million);
}

/*
 * The sums of all lengths up to two blocks, summed: the padding changes its form at 56 and at 64.
 */
static void every_length_around_a_block(void **state)
{
    unsigned char sums[130 * SHA1_LEN];
    char text[130];

    (void)state;
    for (size_t len = 0; len < sizeof text; len++) {
        text[len] = (char)('a' + len % 26);
        sha1((struct str){text, len}, sums + len * SHA1_LEN);
    }
    assert_sum((struct str){(char *)sums, sizeof sums}, "c2b4771e708593524b5347cb64eb51dea1961a2b");
}

/* The digest of "super:secret", as org.apache.zookeeper's DigestAuthenticationProvider gives it. */
static void a_digest_of_zookeeper(void **state)
{
    unsigned char sum[SHA1_LEN];
    struct buf b = {0};

    (void)state;
    sha1(STR("super:secret"), sum);
    base64_put(&b, sum, sizeof sum);
    assert_string_equal(buf_text(&b), "lK75jTNcA+U9vtVEw5vB51mj/w4=");
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_sums),
        cmocka_unit_test(every_length_around_a_block),
        cmocka_unit_test(a_digest_of_zookeeper),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
