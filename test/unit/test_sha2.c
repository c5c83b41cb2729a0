/* SHA-2 and SHA-3: the examples of FIPS 180-4 and 202, and each length around a block. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha2.h"
#include "base/sha3.h"

enum { LENGTHS = 260 };

struct variant {
    void (*sum)(struct str text, unsigned char *ret_sum);
    size_t len;
};

static const struct variant S256 = {sha256, SHA256_LEN}, S512 = {sha512, SHA512_LEN},
                            S3 = {sha3_256, SHA3_256_LEN};

static void assert_sum(const struct variant *v, struct str text, const char *expected)
{
    unsigned char sum[SHA512_LEN];
    char hex[2 * SHA512_LEN + 1];

    v->sum(text, sum);
    for (size_t i = 0; i < v->len; i++)
        sprintf(hex + 2 * i, "%02x", sum[i]);
    assert_string_equal(hex, expected);
}

static void published_sums(void **state)
{
    char *million = malloc(1000000);

    (void)state;
    memset(million, 'a', 1000000);
    assert_sum(&S256, STR(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_sum(&S256, STR("abc"),
               "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_sum(&S256, STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
               "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_sum(&S256, (struct str){million, 1000000},
               "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    assert_sum(&S512, STR(""),
               "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"
               "47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e");
    assert_sum(&S512, STR("abc"),
               "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
               "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f");
    assert_sum(&S512, STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
               "204a8fc6dda82f0a0ced7beb8e08a41657c16ef468b228a8279be331a703c335"
               "96fd15c13b1b07f9aa1d3bea57789ca031ad85c7a71dd70354ec631238ca3445");
    assert_sum(&S512, (struct str){million, 1000000},
               "e718483d0ce769644e2e42c7bc15b4638e1f98b13b2044285632a803afa973eb"
               "de0ff244877ea60a4cb0432ce577c31beb009c5c2c49aa2e4eadb217ad8cc09b");
    assert_sum(&S3, STR(""), "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a");
    assert_sum(&S3, STR("abc"), "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532");
    assert_sum(&S3, (struct str){million, 1000000},
               "5c8875ae474a3634ba4fd55ec85bffd661f32aca75c6d699d0cdcb6c115891c1");
    free(million);
}

/* The sums of all lengths up to two blocks and more, summed. */
static void assert_lengths(const struct variant *v, const char *expected)
{
    unsigned char *sums = malloc(LENGTHS * v->len);
    char text[LENGTHS];

    for (size_t len = 0; len < LENGTHS; len++) {
        text[len] = (char)('a' + len % 26);
        v->sum((struct str){text, len}, sums + len * v->len);
    }
    assert_sum(v, (struct str){(char *)sums, LENGTHS * v->len}, expected);
    free(sums);
}

static void every_length_around_a_block(void **state)
{
    (void)state;
    assert_lengths(&S256, "e1490972ddc52bb7420696d23a6f85cca5f74928251368662120df810f3921bd");
    assert_lengths(&S512, "984c164dc21828ceb63d77b1dba10769029f42411f962b17d6f8f70805dc0a9d"
                          "d284e7d92cf858c2a9cd5847b2e2068cdca2ac226a55c52a1fbbb687f207aa74");
    assert_lengths(&S3, "680db3adbc4f25fb58c79bbdc34bbf749411fab6cdc704c98d646d1756b3ccaa");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_sums),
        cmocka_unit_test(every_length_around_a_block),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
