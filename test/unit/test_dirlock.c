/* The lock of a data directory: what keeps a second process out, and what it is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/mem.h"
#include "keeper/journal/dirlock.h"
#include "keeper/journal/format.h"

static char dir[64];
static char *file;

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/drover-dirlock-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    file = format_path_of(dir, "lock");
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(file);
    free(file);
    return rmdir(dir);
}

static void take(struct dirlock *lock)
{
    struct err_info e = {""};
    dirlock_init(lock);
    if (dirlock_take(lock, dir, true, &e))
        fail_msg("%s", e.text);
}

/* For a server and for a reader alike; the second fails as the first does. */
static void expect_in_use(const char *by)
{
    for (int create = 0; create < 2; create++) {
        struct dirlock second;
        struct err_info e = {""};
        dirlock_init(&second);
        assert_int_equal(dirlock_take(&second, dir, create, &e), DROVER_IN_USE);
        assert_non_null(strstr(e.text, dir));
        if (!strstr(e.text, by))
            fail_msg("\"%s\" does not say \"%s\"", e.text, by);
        assert_int_equal(second.dir_fd, -1);
        assert_int_equal(second.file_fd, -1);
    }
}

static void one_at_a_time(void **state)
{
    struct dirlock lock;
    char by[64];
    (void)state;
    for (int i = 0; i < 2; i++) { /* it can be taken again */
        take(&lock);
        snprintf(by, sizeof by, "is in use by process %ld", (long)getpid());
        expect_in_use(by);
        dirlock_release(&lock);
        dirlock_release(&lock); /* does nothing */
    }
}

static void the_file_is_removed(void **state)
{
    struct dirlock lock;
    (void)state;
    take(&lock);
    assert_int_equal(unlink(file), 0);
    expect_in_use("is in use by another process");
    assert_int_equal(access(file, F_OK), -1); /* whoever was refused has created nothing */
    dirlock_release(&lock);
    take(&lock);
    dirlock_release(&lock);
}

static void the_file_is_replaced(void **state)
{
    struct dirlock lock;
    (void)state;
    take(&lock);
    assert_int_equal(unlink(file), 0);
    int fd = open(file, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0 && write(fd, "17\n", 3) == 3);
    close(fd);
    expect_in_use("is in use by process 17");
    dirlock_release(&lock);
}

/* 0.1 locks the file and not the directory. */
static void an_older_version_has_it(void **state)
{
    int fd = open(file, O_RDWR | O_CREAT, 0600);
    (void)state;
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_true(write(fd, "4711\n", 5) == 5);
    expect_in_use("is in use by process 4711");
    close(fd);
    struct dirlock lock;
    take(&lock);
    dirlock_release(&lock);
}

static void an_older_version_notices_it(void **state)
{
    struct dirlock lock;
    char pid[32] = "", want[32];
    (void)state;
    take(&lock);
    int fd = open(file, O_RDWR | O_CREAT, 0600);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1);
    assert_true(pread(fd, pid, sizeof pid - 1, 0) > 0);
    snprintf(want, sizeof want, "%ld\n", (long)getpid());
    assert_string_equal(pid, want);
    close(fd);
    dirlock_release(&lock);
}

/* A longer pid than this one's leaves nothing behind. */
static void the_pid_replaces_the_old_one(void **state)
{
    struct dirlock lock;
    int fd = open(file, O_RDWR | O_CREAT, 0600);
    (void)state;
    assert_true(write(fd, "123456789012345\n", 16) == 16);
    close(fd);
    take(&lock);
    char by[64];
    snprintf(by, sizeof by, "process %ld", (long)getpid());
    expect_in_use(by);
    dirlock_release(&lock);
}

static void a_reader_leaves_nothing(void **state)
{
    struct dirlock lock;
    struct err_info e = {""};
    (void)state;
    dirlock_init(&lock);
    assert_int_equal(dirlock_take(&lock, dir, false, &e), 0);
    assert_int_equal(access(file, F_OK), -1);
    expect_in_use("another process");
    dirlock_release(&lock);
}

static void no_directory(void **state)
{
    CLEANUP(mem_free) char *missing = format_path_of(dir, "missing");
    struct dirlock lock;
    struct err_info e = {""};
    (void)state;
    dirlock_init(&lock);
    assert_int_equal(dirlock_take(&lock, missing, true, &e), DROVER_IO);
    assert_non_null(strstr(e.text, missing));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_at_a_time, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(the_file_is_removed, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(the_file_is_replaced, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(an_older_version_has_it, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(an_older_version_notices_it, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(the_pid_replaces_the_old_one, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_reader_leaves_nothing, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(no_directory, make_dir, remove_dir),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
