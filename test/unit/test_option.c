/* Values of options, and values as people read them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <stdlib.h>

#include "base/address.h"
#include "base/human.h"
#include "base/option.h"

static struct option_addresses given;

static const struct option HTTP = {"http", "ADDR:PORT|none", "", option_addresses, &given};

static void addresses(void **state)
{
    static const struct {
        const char *text;
        int family, port;
        bool loopback;
    } rows[] = {
        {"127.0.0.1:8048", AF_INET, 8048, true},
        {"localhost:1", AF_INET, 1, true},
        {"127.255.0.9:65535", AF_INET, 65535, true},
        {"0.0.0.0:0", AF_INET, 0, false},
        {"128.0.0.1:80", AF_INET, 80, false},
        {"[::1]:8048", AF_INET6, 8048, true},
        {"[::]:1", AF_INET6, 1, false},
        {"[fe80::1]:1", AF_INET6, 1, false},
    };
    struct err_info e;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&given.items[i];

        assert_int_equal(option_addresses(&HTTP, rows[i].text, &e), 0);
        assert_false(given.none);
        assert_int_equal(given.count, i + 1);
        assert_int_equal(given.items[i].ss_family, rows[i].family);
        assert_int_equal(ntohs(v4->sin_port), rows[i].port); /* the same place in both */
        assert_int_equal(address_is_loopback(&given.items[i]), rows[i].loopback);
    }
    assert_int_equal(sizeof rows / sizeof *rows, OPTION_ADDRESSES_MAX);
    assert_int_equal(option_addresses(&HTTP, "127.0.0.1:1", &e), DROVER_BAD_ARGUMENT);
    assert_string_equal(e.text, "given more than 8 times");
    assert_int_equal(option_addresses(&HTTP, "none", &e), 0);
    assert_true(given.none && !given.count);
    assert_int_equal(option_addresses(&HTTP, "127.0.0.1:1", &e), 0);
    assert_true(!given.none && given.count == 1);
}

static void bad_addresses(void **state)
{
    static const char *const rows[] = {
        "",
        ":",
        "8048",
        ":8048",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:x",
        "127.0.0.1:-1",
        "127.0.0.1:65536",
        "127.0.0.1:80 ",
        "127.1:80",
        "example.org:80",
        "::1:80",
        "[::1]",
        "[::1:80",
        "[]:80",
        "None",
        "127.0.0.1:0x50",
        "[1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd:eeee]:80",
    };
    struct err_info e;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (option_addresses(&HTTP, rows[i], &e) != DROVER_BAD_ARGUMENT)
            fail_msg("'%s' should be refused", rows[i]);
}

static void spans(void **state)
{
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } rows[] = {
        {"500ms", 500},
        {"30s", 30000},
        {"1m30s", 90000},
        {"1h1m", 3660000},
        {"1d", 86400000},
        {"2d", 172800000},
        {"", -1},
        {"5", -1},
        {"s", -1},
        {"1x", -1},
        {"1m30", -1},
        {"-1s", -1},
        {"1 s", -1},
        {"0ms", -1},
        {"3d", -1},
        {"99999999999999999999d", -1},
        {"9223372036854775807ms1ms", -1},
    };
    int64_t ms;
    const struct option o = {"wait", "TIME", "", option_span, &ms, 1, 2 * 86400000};
    struct err_info e;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ms = -1;
        if (option_span(&o, rows[i].text, &e) != (rows[i].ms < 0 ? DROVER_BAD_ARGUMENT : 0))
            fail_msg("'%s': %s", rows[i].text, e.text);
        assert_int_equal(ms, rows[i].ms);
    }
    option_span(&o, "3d", &e);
    assert_string_equal(e.text, "'3d' is too long: at most 2d");
    assert_int_equal(option_span_or_never(&o, "never", &e), 0);
    assert_int_equal(ms, 0);
    assert_int_equal(option_span_or_never(&o, "2d", &e), 0);
    assert_int_equal(ms, 172800000);
    assert_int_equal(option_span_or_never(&o, "Never", &e), DROVER_BAD_ARGUMENT);
}

static void flags(void **state)
{
    bool flag = false;
    const struct option o = {"flag", NULL, "", option_flag, &flag};
    struct err_info e;

    (void)state;
    assert_int_equal(option_flag(&o, NULL, &e), 0);
    assert_true(flag);
    assert_int_equal(option_flag(&o, "no", &e), 0);
    assert_false(flag);
    assert_int_equal(option_flag(&o, "yes", &e), 0);
    assert_int_equal(option_flag(&o, "", &e), DROVER_BAD_ARGUMENT);
    assert_string_equal(e.text, "'' is neither yes nor no");
    assert_true(flag);
}

static void sizes(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes; /* -1: refused */
    } rows[] = {
        {"1024", 1024},      {"1K", 1024},      {"1KiB", 1024}, {"64M", 64 << 20},
        {"1G", 1 << 30},     {"1GiB", 1 << 30}, {"", -1},       {"K", -1},
        {"1k", -1},          {"1KB", -1},       {"1 K", -1},    {"-1", -1},
        {"1023", -1},        {"2G", -1},        {"1.5G", -1},   {"99999999999999999999", -1},
        {"9000000000T", -1},
    };
    int64_t bytes;
    const struct option o = {"memory", "SIZE", "", option_size, &bytes, 1024, 1 << 30};
    struct err_info e;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes = -1;
        if (option_size(&o, rows[i].text, &e) != (rows[i].bytes < 0 ? DROVER_BAD_ARGUMENT : 0))
            fail_msg("'%s': %s", rows[i].text, e.text);
        assert_int_equal(bytes, rows[i].bytes);
    }
    option_size(&o, "2G", &e);
    assert_string_equal(e.text, "'2G' is too large: at most 1 GiB");
}

static void what_people_read(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {0, "0s"},          {1, "1ms"},         {999, "999ms"},        {1000, "1s"},
        {1500, "1.5s"},     {59999, "59s"},     {60000, "1m"},         {90000, "1m30s"},
        {3600000, "1h"},    {3605000, "1h"},    {7500000, "2h5m"},     {86400000, "1d"},
        {90000000, "1d1h"}, {-90000, "-1m30s"}, {31536000000, "365d"},
    };
    char out[HUMAN_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(human_span(out, rows[i].ms), rows[i].text);
    assert_string_equal(human_size(out, 512), "512 B");
    assert_string_equal(human_size(out, 1536), "1.5 KiB");
    assert_string_equal(human_size(out, 16 << 20), "16 MiB");
    assert_string_equal(human_size(out, UINT64_MAX), "15.9 EiB");
    assert_string_equal(human_count(out, 1, "node"), "1 node");
    assert_string_equal(human_count(out, 0, "node"), "0 nodes");
    assert_string_equal(human_count(out, 2, "batch"), "2 batches");
    setenv("TZ", "UTC-2", 1);
    assert_string_equal(human_time(out, 1794850805123), "2026-11-16 19:40:05");
    assert_string_equal(human_clock(out, 1794850805123), "19:40:05");
    assert_string_equal(human_iso(out, 1794850805123), "2026-11-16T19:40:05.123+02:00");
    assert_string_equal(human_utc(out, 1794850805123), "2026-11-16T17:40:05");
    assert_string_equal(human_utc(out, INT64_MAX), "292278994-08-17T07:12:55");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses), cmocka_unit_test(bad_addresses),
        cmocka_unit_test(spans),     cmocka_unit_test(flags),
        cmocka_unit_test(sizes),     cmocka_unit_test(what_people_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
