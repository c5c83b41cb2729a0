/* Marks of starts: they survive the process that made them, and count within one boot only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "dag/started.h"

static char dir[] = "/tmp/drover-started-XXXXXX";
static char path[64];

static int make_dir(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/runs", mkdtemp(dir));
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static struct started *fresh(void)
{
    struct started *s;

    unlink(path);
    s = started_open(dir);
    assert_non_null(s);
    assert_false(started_is_reliable(s));
    started_settle(s);
    return s;
}

static void marks_outlive_their_process(void **state)
{
    struct started *s = fresh();
    uint32_t seven = started_mark(s, 7, 1), eight = started_mark(s, 8, 2);

    (void)state;
    assert_true(seven && eight && seven != eight);
    assert_int_equal(started_find(s, 7, 1), seven);
    assert_int_equal(started_find(s, 7, 2), 0);
    started_clear(s, seven);
    assert_int_equal(started_find(s, 7, 1), 0);
    started_close(s);

    s = started_open(dir); /* the server after it: node 9 was claimed and not started */
    assert_true(started_is_reliable(s));
    assert_int_equal(started_find(s, 8, 2), eight);
    assert_int_equal(started_find(s, 9, 1), 0);
    assert_int_equal(started_keep(s, 8, 2), eight);
    started_settle(s);
    assert_int_equal(started_find(s, 8, 2), eight);
    assert_int_not_equal(started_mark(s, 9, 1), eight);
    started_clear(s, eight);
    started_close(s);

    s = started_open(dir);
    started_settle(s); /* drops the marks that were not kept */
    assert_int_equal(started_find(s, 9, 1), 0);
    started_close(s);
}

static void another_boot_is_not_believed(void **state)
{
    struct started *s = fresh();
    int fd = open(path, O_RDWR);

    (void)state;
    started_mark(s, 7, 1);
    started_close(s);
    assert_int_equal(pwrite(fd, "0", 1, 16), 1);
    assert_int_equal(pwrite(fd, "x", 1, 17), 1);
    close(fd);
    s = started_open(dir);
    assert_false(started_is_reliable(s));
    assert_int_not_equal(started_keep(s, 7, 1), 0); /* until its end is durable */
    started_settle(s);
    assert_true(started_is_reliable(s));
    assert_int_not_equal(started_find(s, 7, 1), 0);
    started_close(s);
}

static void too_many_are_not_believed(void **state)
{
    struct started *s = fresh();

    (void)state;
    for (uint32_t i = 1; i <= STARTED_MAX; i++)
        assert_int_not_equal(started_mark(s, i, 1), 0);
    assert_true(started_is_reliable(s));
    assert_int_equal(started_mark(s, 1 << 20, 1), 0);
    assert_false(started_is_reliable(s));
    started_close(s);
    assert_null(started_open("/no/such/directory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_outlive_their_process),
        cmocka_unit_test(another_boot_is_not_believed),
        cmocka_unit_test(too_many_are_not_believed),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
