/* The files of a data directory: names, headers, and what a listing makes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crc32c.h"
#include "keeper/journal/format.h"

static const struct format_header SEGMENT = {
    .kind = FORMAT_SEGMENT, .store = UINT64_MAX - 1, .number = 7};
static const struct format_header SNAPSHOT = {
    .kind = FORMAT_SNAPSHOT, .store = 3, .number = 200000, .replay_from = 9};

static void sum_again(char *header)
{
    le_store32(header + 12, 0);
    le_store32(header + 12, crc32c(0, header, FORMAT_HEADER_LEN));
}

static void names(void **state)
{
    static const struct {
        enum format_kind kind;
        uint64_t number;
        const char *path;
    } rows[] = {
        {FORMAT_SEGMENT, 7, "dir/journal-0000000007"},
        {FORMAT_SEGMENT, 9999999999, "dir/journal-9999999999"},
        {FORMAT_SNAPSHOT, 200000, "dir/snapshot-00000000000000200000"},
        {FORMAT_SNAPSHOT, UINT64_MAX, "dir/snapshot-18446744073709551615"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *path = format_path("dir", rows[i].kind, rows[i].number);
        enum format_kind kind;
        uint64_t number;

        assert_string_equal(path, rows[i].path);
        assert_true(format_parse_name(path + 4, &kind, &number));
        assert_true(kind == rows[i].kind && number == rows[i].number);
        free(path);
    }
}

static void names_that_are_not_ours(void **state)
{
    static const char *const rows[] = {
        "",
        "journal-",
        "journal-7",
        "journal-000000007",
        "journal-00000000007",
        "journal-000000000x",
        "journal-+000000007",
        "journal-0000000007.tmp",
        "Journal-0000000007",
        "xjournal-0000000007",
        "snapshot-0000000007",
        "snapshot-0000000000000020000",
        "snapshot-000000000000002000000",
        "journal- 000000007",
    };
    enum format_kind kind;
    uint64_t number;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (format_parse_name(rows[i], &kind, &number))
            fail_msg("%s", rows[i]);
}

static void headers_come_back(void **state)
{
    const struct format_header *const rows[] = {&SEGMENT, &SNAPSHOT};
    char bytes[FORMAT_HEADER_LEN];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct format_header h = {0};

        format_header_put(bytes, rows[i]);
        assert_int_equal(format_header_read(bytes, rows[i]->kind, &h), 0);
        assert_memory_equal(&h, rows[i], sizeof h);
    }
}

static void the_bytes_of_a_header(void **state)
{
    char bytes[FORMAT_HEADER_LEN], expected[FORMAT_HEADER_LEN] = "DROVERSN\1\0\0\0";

    (void)state;
    format_header_put(bytes, &SNAPSHOT);
    le_store64(expected + 16, 3);
    le_store64(expected + 24, 200000);
    le_store64(expected + 32, 9);
    sum_again(expected);
    assert_memory_equal(bytes, expected, sizeof bytes);
}

static void the_other_kind_is_refused(void **state)
{
    char bytes[FORMAT_HEADER_LEN];
    struct format_header h;

    (void)state;
    format_header_put(bytes, &SEGMENT);
    assert_int_equal(format_header_read(bytes, FORMAT_SNAPSHOT, &h), DROVER_DAMAGED);
    format_header_put(bytes, &SNAPSHOT);
    assert_int_equal(format_header_read(bytes, FORMAT_SEGMENT, &h), DROVER_DAMAGED);
}

static void every_flipped_bit_is_refused(void **state)
{
    char bytes[FORMAT_HEADER_LEN];
    struct format_header h = {.number = 42};

    (void)state;
    format_header_put(bytes, &SEGMENT);
    for (size_t bit = 0; bit < sizeof bytes * 8; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        if (format_header_read(bytes, FORMAT_SEGMENT, &h) != DROVER_DAMAGED)
            fail_msg("bit %zu of byte %zu", bit % 8, bit / 8);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
    }
    assert_int_equal(h.number, 42); /* untouched on failure */
}

static void a_newer_version_is_told_apart(void **state)
{
    char bytes[FORMAT_HEADER_LEN];
    struct format_header h = {.number = 42};

    (void)state;
    format_header_put(bytes, &SEGMENT);
    le_store32(bytes + 8, FORMAT_VERSION + 1);
    assert_int_equal(format_header_read(bytes, FORMAT_SEGMENT, &h), DROVER_DAMAGED);
    sum_again(bytes);
    assert_int_equal(format_header_read(bytes, FORMAT_SEGMENT, &h), DROVER_NEWER_VERSION);
    assert_int_equal(h.number, 42);
    le_store32(bytes + 8, FORMAT_VERSION);
    sum_again(bytes);
    assert_int_equal(format_header_read(bytes, FORMAT_SEGMENT, &h), 0);
}

/* A directory of the test's own, emptied and removed at the end. */
static int make_dir(void **state)
{
    static char dir[64];

    strcpy(dir, "/tmp/drover-format-XXXXXX");
    *state = mkdtemp(dir);
    return *state ? 0 : -1;
}

static void touch(const char *dir, const char *name)
{
    char *path = format_path_of(dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

    assert_true(fd >= 0);
    close(fd);
    free(path);
}

static void untouch(const char *dir, const char *name)
{
    char *path = format_path_of(dir, name);

    unlink(path);
    free(path);
}

static const char *const FILES[] = {
    "journal-0000000010",
    "journal-0000000009",
    "journal-0000000002",
    "snapshot-00000000000000000005",
    "journal.tmp",
    "snapshot.tmp",
    "removed.tmp",
    "lock",
    ".hidden",
    "salvaged-journal-0000000001",
    "notes.txt",
};

static int remove_dir(void **state)
{
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++)
        untouch(*state, FILES[i]);
    return rmdir(*state);
}

static void a_directory_is_sorted_out(void **state)
{
    struct format_dir d;
    struct err_info why;

    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++)
        touch(*state, FILES[i]);
    assert_int_equal(format_dir_read(*state, &d, &why), 0);
    assert_int_equal(d.files[FORMAT_SEGMENT].count, 3);
    assert_int_equal(d.files[FORMAT_SEGMENT].numbers[0], 2);
    assert_int_equal(d.files[FORMAT_SEGMENT].numbers[1], 9);
    assert_int_equal(d.files[FORMAT_SEGMENT].numbers[2], 10);
    assert_int_equal(d.files[FORMAT_SNAPSHOT].count, 1);
    assert_int_equal(d.files[FORMAT_SNAPSHOT].numbers[0], 5);
    assert_int_equal(d.foreign, 1);
    assert_string_equal(d.foreign_name, "notes.txt");
    format_dir_release(&d);
}

static void unfinished_files_are_removed(void **state)
{
    struct err_info why;

    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++)
        touch(*state, FILES[i]);
    for (int i = 0; i < 2; i++) /* the second time there are none */
        assert_int_equal(format_remove_tmp(&fs_system, *state, &why), 0);
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        char *path = format_path_of(*state, FILES[i]);

        assert_int_equal(access(path, F_OK), strstr(FILES[i], ".tmp") ? -1 : 0);
        free(path);
    }
}

static void a_directory_that_is_none(void **state)
{
    char *missing = format_path_of(*state, "missing");
    struct format_dir d;
    struct err_info why = {""};

    assert_int_equal(format_dir_read(missing, &d, &why), DROVER_IO);
    assert_non_null(strstr(why.text, missing));
    assert_int_equal(format_dir_read(*state, &d, &why), 0);
    assert_int_equal(d.foreign + d.files[0].count + d.files[1].count, 0);
    format_dir_release(&d);
    free(missing);
}

/* What the steps of a removal were. */
static struct {
    int truncated, synced;
    off_t last_len;
} seen;

static int see_ftruncate(const struct fs *fs, int fd, off_t len)
{
    (void)fs;
    seen.truncated++;
    seen.last_len = len;
    return ftruncate(fd, len);
}

static int see_fsync(const struct fs *fs, int fd)
{
    (void)fs;
    seen.synced++;
    return fsync(fd);
}

/* A sparse file: only its length is large. */
static void make_file(const char *dir, off_t len)
{
    char *path = format_path(dir, FORMAT_SNAPSHOT, 5);

    touch(dir, strrchr(path, '/') + 1);
    assert_int_equal(truncate(path, len), 0);
    free(path);
}

static void a_large_file_goes_step_by_step(void **state)
{
    static const struct {
        off_t len;
        int steps;
    } rows[] = {{0, 0},
                {FORMAT_REMOVE_STEP, 0},
                {FORMAT_REMOVE_STEP + 1, 1},
                {3 * (off_t)FORMAT_REMOVE_STEP + 1, 3}};
    struct fs fs = fs_system;

    fs.ftruncate = see_ftruncate;
    fs.fsync = see_fsync;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memset(&seen, 0, sizeof seen);
        make_file(*state, rows[i].len);
        assert_int_equal(format_remove(&fs, *state, FORMAT_SNAPSHOT, 5), 0);
        assert_int_equal(seen.truncated, rows[i].steps);
        assert_int_equal(seen.synced, rows[i].steps);
        assert_int_equal(seen.last_len, rows[i].steps ? 1 : 0);
        assert_int_equal(format_remove(&fs, *state, FORMAT_SNAPSHOT, 5), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(names_that_are_not_ours),
        cmocka_unit_test(headers_come_back),
        cmocka_unit_test(the_bytes_of_a_header),
        cmocka_unit_test(the_other_kind_is_refused),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(a_newer_version_is_told_apart),
        cmocka_unit_test_setup_teardown(a_directory_is_sorted_out, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(unfinished_files_are_removed, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_directory_that_is_none, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_large_file_goes_step_by_step, make_dir, remove_dir),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
