/* The error table: complete, without doubles, and every row usable at the edges. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/err.h"

static const struct {
    int code, http, cli;
    const char *name, *message;
} ROWS[] = {
#define X(name, number, http, cli, message) {DROVER_##name, http, cli, #name, message},
    DROVER_ERRORS(X)
#undef X
};

enum { ROW_COUNT = sizeof ROWS / sizeof *ROWS };

static void every_row_is_found(void **state)
{
    (void)state;
    for (int i = 0; i < ROW_COUNT; i++) {
        assert_string_equal(drover_err_name(ROWS[i].code), ROWS[i].name);
        assert_string_equal(drover_err_message(ROWS[i].code), ROWS[i].message);
        assert_int_equal(drover_err_http_status(ROWS[i].code), ROWS[i].http);
        assert_int_equal(drover_err_exit_status(ROWS[i].code), ROWS[i].cli);
    }
}

/* The numbers are part of the interface: a client may have them compiled in. */
static void numbers_have_no_gap_but_the_one_known(void **state)
{
    enum { FORMER_NO_MEMORY = 19 };

    (void)state;
    for (int i = 0; i < ROW_COUNT; i++)
        assert_int_equal(ROWS[i].code, -(i + 1 < FORMER_NO_MEMORY ? i + 1 : i + 2));
    assert_int_equal(DROVER_BAD_ARGUMENT, -1);
    assert_int_equal(DROVER_NO_NODE, -2);
    assert_int_equal(DROVER_UNKNOWN, -12);
}

static void names_and_messages_are_unique(void **state)
{
    (void)state;
    for (int i = 0; i < ROW_COUNT; i++)
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(ROWS[i].name, ROWS[j].name);
            assert_string_not_equal(ROWS[i].message, ROWS[j].message);
        }
}

static void statuses_are_those_of_failures(void **state)
{
    (void)state;
    for (int i = 0; i < ROW_COUNT; i++) {
        assert_in_range(ROWS[i].http, 400, 599);
        assert_in_range(ROWS[i].cli, 1, 2);
    }
}

static void success_is_no_failure(void **state)
{
    (void)state;
    assert_string_equal(drover_err_name(0), "OK");
    assert_int_equal(drover_err_http_status(0), 200);
    assert_int_equal(drover_err_exit_status(0), 0);
}

static void an_unlisted_number_is_a_failure(void **state)
{
    static const int numbers[] = {1, -1000, INT32_MIN, INT32_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        assert_string_equal(drover_err_name(numbers[i]), "UNLISTED");
        assert_int_equal(drover_err_http_status(numbers[i]), 500);
        assert_int_equal(drover_err_exit_status(numbers[i]), 1);
    }
}

static void err_set_writes_and_returns(void **state)
{
    struct err_info e;

    (void)state;
    assert_int_equal(err_set(&e, DROVER_TOO_BIG, "%d of %s", 3, "them"), DROVER_TOO_BIG);
    assert_string_equal(e.text, "3 of them");
    assert_int_equal(err_set(NULL, DROVER_IO, "nobody asks"), DROVER_IO);
}

static void err_set_errno_names_the_reason(void **state)
{
    static const struct {
        int errnum, code;
    } rows[] = {
        {ENOSPC, DROVER_DISK_FULL}, {EDQUOT, DROVER_DISK_FULL}, {ENOMEM, DROVER_IO},
        {EIO, DROVER_IO},           {EACCES, DROVER_IO},        {EMFILE, DROVER_TOO_MANY},
        {ENFILE, DROVER_TOO_MANY},
    };
    struct err_info e;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(err_set_errno(&e, rows[i].errnum, "file %s", "x"), rows[i].code);
        assert_memory_equal(e.text, "file x: ", 8);
        assert_string_equal(e.text + 8, strerror(rows[i].errnum));
        assert_int_equal(err_set_errno(NULL, rows[i].errnum, "nobody asks"), rows[i].code);
    }
}

static void a_long_line_is_cut(void **state)
{
    struct err_info e;
    char text[2000];

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    err_set(&e, DROVER_IO, "%s", text);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    err_set_errno(&e, EIO, "%s", text);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_found),
        cmocka_unit_test(numbers_have_no_gap_but_the_one_known),
        cmocka_unit_test(names_and_messages_are_unique),
        cmocka_unit_test(statuses_are_those_of_failures),
        cmocka_unit_test(success_is_no_failure),
        cmocka_unit_test(an_unlisted_number_is_a_failure),
        cmocka_unit_test(err_set_writes_and_returns),
        cmocka_unit_test(err_set_errno_names_the_reason),
        cmocka_unit_test(a_long_line_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
