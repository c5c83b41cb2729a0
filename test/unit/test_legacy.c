/* Records of older queues: names, times, statuses and payloads, valid and invalid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "batch/tools.h"

#define PENDING_AT_1 "\0\0\0\0\0\0\0\0\1"

static void a_record(void **state)
{
    struct batch_legacy r;

    (void)state;
    assert_int_equal(
        batch_legacy_read(STR("mrtQ-02100000000003"), STR("\3\0\0\0\0\x65\x53\xf1\0a=b"), &r), 0);
    assert_int_equal(r.number, 3);
    assert_int_equal(r.priority, 2);
    assert_int_equal(r.status, 3);
    assert_int_equal(r.time_ms, INT64_C(1700000000000));
    assert_int_equal(r.kind, LEGACY_PROPERTIES);
    assert_true(str_eq(r.payload, STR("a=b")));
}

static void times(void **state)
{
    struct batch_legacy r;

    (void)state;
    assert_int_equal(
        batch_legacy_read(STR("mrtQ-0000000003"), STR("\0\0\0\1\x8b\xcf\xe5\x68\0"), &r), 0);
    assert_int_equal(r.time_ms, INT64_C(1700000000000)); /* milliseconds */
    assert_int_equal(r.priority, 0);
    assert_int_equal(batch_legacy_read(STR("mrtQ-0000000003"), STR("\0\xff\0\0\0\0\0\0\0"), &r),
                     DROVER_DAMAGED);
}

static void wrong_records(void **state)
{
    static const struct {
        struct str name, data;
        int err;
    } rows[] = {
        {STR(""), STR(PENDING_AT_1), DROVER_BAD_ARGUMENT},
        {STR("mrtQ"), STR(PENDING_AT_1), DROVER_BAD_ARGUMENT},
        {STR("mrtQ-"), STR(PENDING_AT_1), DROVER_BAD_ARGUMENT},
        {STR("mrtQ-123456789"), STR(PENDING_AT_1), DROVER_BAD_ARGUMENT},
        {STR("mrtQ-01x0000000003"), STR(PENDING_AT_1), DROVER_BAD_ARGUMENT},
        {STR("other"), STR(PENDING_AT_1), DROVER_BAD_ARGUMENT},
        {STR("mrtQ-010000000003"), STR(""), DROVER_DAMAGED},
        {STR("mrtQ-010000000003"), STR("\0\0\0\0\0\0\0\0"), DROVER_DAMAGED},
        {STR("mrtQ-0123456789012345678901234567890"), STR(PENDING_AT_1), DROVER_DAMAGED},
    };
    struct batch_legacy r;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(batch_legacy_read(rows[i].name, rows[i].data, &r), rows[i].err);
}

static void payloads(void **state)
{
    static const struct {
        const char *payload, *configuration;
    } rows[] = {
        {"", "{}"},
        {"# c\n! d\n\n  a = b \nc:d\ne f\ng\n",
         "{\"a\":\"b \",\"c\":\"d\",\"e\":\"f\",\"g\":\"\"}"},
        {"a=1\r\na=2", "{\"a\":\"2\"}"},
        {"long=one \\\n   two", "{\"long\":\"one two\"}"},
        {"k\\=y=v\\tw\\u00e9\\:", "{\"k=y\":\"v\\tw\xc3\xa9:\"}"},
        {"latin=\xe9", "{\"latin\":\"\xc3\xa9\"}"},
        {"bad=\\u12", "{\"bad\":\"u12\"}"},
        {"end=\\", "{\"end\":\"\"}"},
        {" {\"a\": [1, 2]}", "{\"a\":[1,2]}"},
        {"{broken", "{\"payload\":\"{broken\"}"},
        {"<q><a>1</a></q>", "{\"payload\":\"<q><a>1</a></q>\"}"},
    };
    struct arena a = {0};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char data[200] = {0};
        struct batch_legacy r;
        struct str text;

        memcpy(data + 9, rows[i].payload, strlen(rows[i].payload));
        assert_int_equal(batch_legacy_read(STR("mrtQ-010000000003"),
                                           (struct str){data, 9 + strlen(rows[i].payload)}, &r),
                         0);
        text = batch_legacy_configuration(&a, &r);
        assert_string_equal(arena_text(&a, text), rows[i].configuration);
    }
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record),
        cmocka_unit_test(times),
        cmocka_unit_test(wrong_records),
        cmocka_unit_test(payloads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
