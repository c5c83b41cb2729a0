/* The first line of a file, in every form that a file can have, and who can read it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/secret.h"

enum { SIZE = 8 };

static char path[] = "/tmp/drover-secret-XXXXXX";

static void write_file(const char *text)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

static void the_first_line(void **state)
{
    static const char *const cases[][2] = {
        {"secret\n", "secret"},
        {"secret", "secret"},
        {"a\r\n", "a"},
        {"a\nb\n", "a"},
        {"", ""},
        {"\n", ""},
        {"\nb\n", ""},
        {"1234567", "1234567"},
        {"1234567\n", ""},
        {"123456\n", "123456"},
        {"12345678", ""},
        {" a \n", " a "},
    };
    struct err_info e;
    char line[SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file(cases[i][0]);
        assert_int_equal(secret_read(path, line, sizeof line, &e), 0);
        assert_string_equal(line, cases[i][1]);
    }
    assert_int_not_equal(secret_read("/nowhere/at/all", line, sizeof line, &e), 0);
    assert_string_equal(e.text, "cannot read /nowhere/at/all: No such file or directory");
    assert_int_not_equal(secret_read("/", line, sizeof line, &e), 0);
    assert_string_equal(e.text, "cannot read /: Is a directory");
}

static void who_can_read_it(void **state)
{
    (void)state;
    for (mode_t mode = 0600; mode < 0700; mode++) {
        assert_int_equal(chmod(path, mode), 0);
        assert_int_equal(secret_is_exposed(path), (mode & 04) != 0);
    }
    assert_false(secret_is_exposed("/nowhere/at/all"));
    assert_false(secret_is_exposed("/dev/null"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_line),
        cmocka_unit_test(who_can_read_it),
    };
    int fd = mkstemp(path), failed;

    if (fd < 0)
        return 1;
    close(fd);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
