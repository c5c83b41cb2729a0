/*
 * Time zones: names, files that are missing or damaged, rules, gaps and repeated times. Whether
 * Debian's zones are read correctly is for cron_judge to say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/civil.h"
#include "base/time_zone.h"

static int64_t utc(int64_t year, int month, int day, int hour, int minute)
{
    return civil_days((struct civil_date){year, month, day}) * CIVIL_DAY_S + hour * 3600 +
           minute * 60;
}

static void put_be(struct buf *b, uint64_t v, int len)
{
    while (len--)
        buf_put_u8(b, (uint8_t)(v >> (8 * len)));
}

struct zone_file {
    char version;
    uint32_t leaps, count, types;
    int64_t at[4];
    uint8_t type[4];
    int32_t offset[4];
    const char *rule;
};

static void put_block(struct buf *b, const struct zone_file *f, int time_len)
{
    buf_put(b, "TZif", 4);
    buf_put_u8(b, (uint8_t)f->version);
    buf_put(b, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 15);
    put_be(b, 0, 8);
    put_be(b, f->leaps, 4);
    put_be(b, f->count, 4);
    put_be(b, f->types, 4);
    put_be(b, 4, 4);
    for (uint32_t i = 0; i < f->count; i++)
        put_be(b, (uint64_t)f->at[i], time_len);
    for (uint32_t i = 0; i < f->count; i++)
        buf_put_u8(b, f->type[i]);
    for (uint32_t i = 0; i < f->types; i++) {
        put_be(b, (uint32_t)f->offset[i], 4);
        put_be(b, 0, 2);
    }
    buf_put(b, "ABC", 4);
    for (uint32_t i = 0; i < f->leaps; i++) {
        put_be(b, 0, time_len);
        put_be(b, 0, 4);
    }
}

static void put_file(struct buf *b, const struct zone_file *f)
{
    put_block(b, f, 4);
    if (!f->version)
        return;
    put_block(b, f, 8);
    buf_printf(b, "\n%s\n", f->rule);
}

static struct time_zone *parse(const struct zone_file *f, struct err_info *e)
{
    struct buf b = {0};
    struct time_zone *z = NULL;
    put_file(&b, f);
    int err = time_zone_parse(buf_str(&b), &z, e);
    assert_true(err == (z ? 0 : DROVER_DAMAGED));
    buf_release(&b);
    return z;
}

/* A zone without times. NULL: the rule is refused. */
static struct time_zone *by_rule(const char *rule)
{
    struct err_info e;
    struct zone_file f = {'3', .types = 1, .rule = rule};
    return parse(&f, &e);
}

static int32_t offset(const struct time_zone *z, int64_t utc_s)
{
    return time_zone_at(z, utc_s).offset;
}

static void names(void **state)
{
    static const char *const wrong[] = {
        "", "/etc/localtime", "../passwd", "a/../b", "a//b", "a/", "a.", "a b", "a\nb", "Z\xc3"};
    struct time_zone *z = NULL;
    struct err_info e;
    char longest[TIME_ZONE_NAME_MAX + 2] = "";

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(time_zone_load(NULL, str_of(wrong[i]), &z, &e), DROVER_BAD_ARGUMENT);
        assert_non_null(strstr(e.text, "not the name of a time zone"));
    }
    memset(longest, 'a', TIME_ZONE_NAME_MAX + 1);
    assert_int_equal(time_zone_load(NULL, str_of(longest), &z, &e), DROVER_BAD_ARGUMENT);
    assert_non_null(strstr(e.text, "not the name of a time zone"));
    longest[TIME_ZONE_NAME_MAX] = '\0';
    assert_int_equal(time_zone_load(NULL, str_of(longest), &z, &e), DROVER_BAD_ARGUMENT);
    assert_non_null(strstr(e.text, "there is no time zone aaaa"));
    assert_null(z);
}

static void write_file(const char *dir, const char *name, struct str bytes)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes.p, 1, bytes.len, out), bytes.len);
    assert_int_equal(fclose(out), 0);
}

static void assert_load(const char *dir, const char *name, int expected_err, const char *expected)
{
    struct time_zone *z = NULL;
    struct err_info e = {""};
    assert_int_equal(time_zone_load(dir, str_of(name), &z, &e), expected_err);
    assert_string_equal(e.text, expected);
    assert_true(!z == !!expected_err);
    time_zone_free(z);
}

static void directories(void **state)
{
    char dir[] = "/tmp/drover-zone-XXXXXX", text[256], path[256];
    struct zone_file f = {'2', .types = 1, .offset = {3600}, .rule = "CET-1"};
    struct buf b = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_load("/nowhere", "UTC", 0, "");
    assert_load("/nowhere", "Europe/Berlin", DROVER_BAD_ARGUMENT,
                "the time zone Europe/Berlin cannot be looked up: there is no directory /nowhere "
                "with zone files; install tzdata");
    put_file(&b, &f);
    write_file(dir, "Here", buf_str(&b));
    write_file(dir, "Text", STR("# not a zone\n"));
    assert_load(dir, "Here", 0, "");
    snprintf(text, sizeof text, "there is no time zone There in %s", dir);
    assert_load(dir, "There", DROVER_BAD_ARGUMENT, text);
    snprintf(text, sizeof text, "there is no time zone Here/There in %s", dir);
    assert_load(dir, "Here/There", DROVER_BAD_ARGUMENT, text);
    snprintf(text, sizeof text, "%s/Text: it is not a zone file (TZif)", dir);
    assert_load(dir, "Text", DROVER_DAMAGED, text);
    snprintf(path, sizeof path, "%s/Fifo", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(text, sizeof text, "there is no time zone Fifo in %s", dir);
    assert_load(dir, "Fifo", DROVER_BAD_ARGUMENT, text);
    buf_reserve(&b, TIME_ZONE_FILE_MAX);
    memset(b.p + b.len, '\n', TIME_ZONE_FILE_MAX + 1 - b.len);
    b.len = TIME_ZONE_FILE_MAX + 1;
    write_file(dir, "Large", buf_str(&b));
    snprintf(text, sizeof text, "%s/Large: it is too large for a zone file", dir);
    assert_load(dir, "Large", DROVER_DAMAGED, text);

    setenv("TZDIR", dir, 1);
    assert_load(NULL, "Here", 0, "");
    unsetenv("TZDIR");
    for (const char *const *name = (const char *const[]){"Here", "Text", "Fifo", "Large", NULL};
         *name; name++) {
        snprintf(path, sizeof path, "%s/%s", dir, *name);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(dir), 0);
    buf_release(&b);
}

/* Each file is refused with its reason; and so is every file that ends too early. */
static void damaged_files(void **state)
{
    static const struct zone_file good = {
        '2', 0, 2, 2, {0, 100}, {1, 0}, {0, 3600}, "CET-1CEST,M3.5.0,M10.5.0/3"};
    struct {
        struct zone_file file;
        const char *reason;
    } cases[] = {{good, "leap seconds"},   {good, "no types"},
                 {good, "offset"},         {good, "out of order"},
                 {good, "out of range"},   {good, "type of time is missing"},
                 {good, "rule at its end"}};
    struct err_info e;
    struct buf b = {0};

    (void)state;
    cases[0].file.leaps = 1;
    cases[1].file.types = 0;
    cases[2].file.offset[1] = TIME_ZONE_OFFSET_MAX_S + 1;
    cases[3].file.at[1] = 0;
    cases[4].file.at[0] = INT64_MIN;
    cases[5].file.type[1] = 2;
    cases[6].file.rule = "CET";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(parse(&cases[i].file, &e));
        assert_non_null(strstr(e.text, cases[i].reason));
    }
    put_file(&b, &good);
    for (size_t len = 0; len <= b.len; len++) {
        struct time_zone *z = NULL;
        char *exact = mem_dup(b.p, len);
        int err = time_zone_parse((struct str){exact, len}, &z, &e);
        assert_int_equal(err, len < b.len ? DROVER_DAMAGED : 0);
        time_zone_free(z);
        free(exact);
    }
    buf_release(&b);
}

static void old_files_have_no_rule(void **state)
{
    static const struct zone_file f = {'\0', 0, 2, 2, {-100, 100}, {1, 0}, {0, -3600}, NULL};
    struct err_info e;
    struct time_zone *z = parse(&f, &e);

    (void)state;
    assert_int_equal(offset(z, -101), 0);
    assert_int_equal(offset(z, -100), -3600);
    assert_int_equal(offset(z, 99), -3600);
    assert_int_equal(offset(z, 100), 0);
    assert_int_equal(offset(z, INT64_MAX / 1000), 0);
    time_zone_free(z);
}

static void refused_rules(void **state)
{
    static const char *const wrong[] = {
        "E5",
        "EST",
        "EST25",
        "EST5:60",
        "EST5EDT",
        "EST5EDT,M3.2.0",
        "EST5EDT,M3.2.0,M11.1.0x",
        "EST5EDT,M13.2.0,M11.1.0",
        "EST5EDT,M3.6.0,M11.1.0",
        "EST5EDT,M3.2.7,M11.1.0",
        "EST5EDT,J0,J5",
        "EST5EDT,J1,J366",
        "EST5EDT,0,366",
        "EST5EDT,J1/168,J5",
        "<+3-3",
        "EST5EDT,0/-167,J365/167", /* daylight saving ends after it has begun again */
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_null(by_rule(wrong[i]));
}

/* The offset just before an instant, and at it. */
static void assert_change(struct time_zone *z, int64_t at, int32_t before, int32_t after)
{
    assert_int_equal(offset(z, at - 1), before);
    assert_int_equal(offset(z, at), after);
    assert_int_equal(time_zone_at(z, at - 1).until, at);
    assert_int_equal(time_zone_at(z, at).from, at);
}

static void rules(void **state)
{
    struct time_zone *z = by_rule("<+0330>-3:30:15");

    (void)state;
    assert_int_equal(offset(z, 0), 3 * 3600 + 30 * 60 + 15);
    assert_true(time_zone_at(z, 0).until == INT64_MAX);
    time_zone_free(z);

    z = by_rule("EST5EDT,M3.2.0,M11.1.0");
    assert_change(z, utc(2024, 3, 10, 7, 0), -18000, -14400);
    assert_change(z, utc(2024, 11, 3, 6, 0), -14400, -18000);
    assert_change(z, utc(1999, 3, 14, 7, 0), -18000, -14400);
    assert_change(z, utc(2824, 3, 10, 7, 0), -18000, -14400); /* two eras later */
    assert_change(z, utc(400002, 11, 3, 6, 0), -14400, -18000);
    time_zone_free(z);

    z = by_rule("IST-1GMT0,M10.5.0,M3.5.0/1"); /* Dublin: daylight saving in winter, behind */
    assert_change(z, utc(2025, 3, 30, 1, 0), 0, 3600);
    assert_change(z, utc(2025, 10, 26, 1, 0), 3600, 0);
    time_zone_free(z);

    z = by_rule("<-02>2<-01>,M3.5.0/-1,M10.5.0/0"); /* Nuuk: on the evening before */
    assert_change(z, utc(2025, 3, 30, 1, 0), -7200, -3600);
    time_zone_free(z);

    z = by_rule("AAA0BBB,J60/0,59/0:30:15"); /* March 1 always; February 29 or March 1 */
    assert_change(z, utc(2023, 3, 1, 0, 0), 0, 3600);
    assert_change(z, utc(2024, 3, 1, 0, 0), 0, 3600);
    assert_change(z, utc(2024, 2, 28, 23, 30) + 15, 3600, 0);
    time_zone_free(z);

    z = by_rule("XXX3EDT4,0/0,J365/23"); /* all year */
    assert_int_equal(offset(z, utc(2025, 1, 1, 3, 0)), -14400);
    assert_true(time_zone_at(z, 0).until == INT64_MAX);
    time_zone_free(z);
}

/*
 * The last time in this file changes the name only. The rule holds after that time, not after the
 * last change of the offset.
 */
static void rule_after_last_time(void **state)
{
    struct zone_file f = {'2', 0, 2, 3, {0}, {1, 2}, {0, 3600, 3600}, "CET-1CEST,M3.5.0,M10.5.0/3"};
    struct err_info e;

    (void)state;
    f.at[1] = utc(2000, 12, 1, 0, 0);
    struct time_zone *z = parse(&f, &e);
    assert_int_equal(offset(z, utc(2000, 7, 1, 0, 0)), 3600);
    assert_int_equal(offset(z, utc(2001, 7, 1, 0, 0)), 7200);
    time_zone_free(z);
}

static void local_times(void **state)
{
    struct time_zone *z = by_rule("EST5EDT,M3.2.0,M11.1.0");
    int64_t gap = utc(2024, 3, 10, 7, 0), fold = utc(2024, 11, 3, 6, 0);

    (void)state;
    assert_int_equal(time_zone_reach(z, utc(2024, 3, 10, 2, 0) - 1), gap - 1);
    assert_int_equal(time_zone_reach(z, utc(2024, 3, 10, 2, 0)), gap);
    assert_int_equal(time_zone_reach(z, utc(2024, 3, 10, 3, 0)), gap);
    assert_int_equal(time_zone_reach(z, utc(2024, 3, 10, 3, 0) + 1), gap + 1);
    assert_int_equal(time_zone_passed(z, gap - 1), utc(2024, 3, 10, 2, 0) - 1);
    assert_int_equal(time_zone_passed(z, gap), utc(2024, 3, 10, 3, 0));

    assert_int_equal(time_zone_reach(z, utc(2024, 11, 3, 1, 30)), fold - 1800);
    assert_int_equal(time_zone_reach(z, utc(2024, 11, 3, 2, 0)), fold + 3600);
    assert_int_equal(time_zone_passed(z, fold - 1), utc(2024, 11, 3, 2, 0) - 1);
    assert_int_equal(time_zone_passed(z, fold + 1800), utc(2024, 11, 3, 2, 0) - 1);
    assert_int_equal(time_zone_passed(z, fold + 3600), utc(2024, 11, 3, 2, 0));
    time_zone_free(z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),         cmocka_unit_test(directories),
        cmocka_unit_test(damaged_files), cmocka_unit_test(old_files_have_no_rule),
        cmocka_unit_test(refused_rules), cmocka_unit_test(rules),
        cmocka_unit_test(local_times),   cmocka_unit_test(rule_after_last_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
