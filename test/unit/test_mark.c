/* The file of the mark: its bytes, its two slots, and what is left of it by a torn write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "keeper/journal/format.h"
#include "keeper/journal/mark.h"

static const struct mark_claims FIRST = {
    .store = 77, .lsn = 5, .segment = 1, .at = 640, .begun = 1, .sealed = 0};
static const struct mark_claims SECOND = {
    .store = 77, .lsn = 9, .segment = 2, .at = 1024, .begun = 2, .sealed = 2};

static char dir[64];
static char *path;

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/drover-mark-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    path = format_path_of(dir, "mark");
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    free(path);
    return rmdir(dir);
}

static struct mark_file open_mark(const struct fs *fs)
{
    return (struct mark_file){.fs = fs, .dir = dir, .fd = -1};
}

static void put(struct mark_file *m, const struct mark_claims *claims, bool sync)
{
    struct err_info why = {""};
    if (mark_put(m, claims, sync, &why))
        fail_msg("%s", why.text);
}

static void read_bytes(char bytes[MARK_LEN])
{
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, bytes, MARK_LEN, 0), MARK_LEN);
    assert_int_equal(lseek(fd, 0, SEEK_END), MARK_LEN);
    close(fd);
}

static void expect_claims(const struct mark_claims *want)
{
    struct mark_claims got;
    struct err_info why = {""};
    if (mark_read(dir, &got, &why) != 1)
        fail_msg("no mark: %s", why.text);
    got.serial = 0;
    assert_memory_equal(&got, want, sizeof got);
}

static void no_file(void **state)
{
    struct mark_claims got;
    struct err_info why = {""};
    (void)state;
    assert_int_equal(mark_read(dir, &got, &why), 0);
}

static void claims_come_back(void **state)
{
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        struct mark_file m = open_mark(&fs_system);
        put(&m, &FIRST, sync);
        expect_claims(&FIRST);
        put(&m, &SECOND, sync);
        expect_claims(&SECOND);
        mark_close(&m);
        m = open_mark(&fs_system); /* what is written later counts, also after a restart */
        put(&m, &FIRST, sync);
        expect_claims(&FIRST);
        mark_close(&m);
    }
}

static void the_bytes_of_a_slot(void **state)
{
    char bytes[MARK_LEN], expected[MARK_SLOT_LEN] = "DROVERMK\1\0\0\0";
    struct mark_file m = open_mark(&fs_system);
    (void)state;
    put(&m, &FIRST, true);
    mark_close(&m);
    le_store64(expected + 16, 77);
    le_store64(expected + 24, 0);
    le_store64(expected + 32, 5);
    le_store64(expected + 40, 1);
    le_store64(expected + 48, 640);
    le_store64(expected + 56, 1);
    le_store64(expected + 64, 0);
    le_store32(expected + 12, crc32c(0, expected, sizeof expected));
    read_bytes(bytes);
    assert_memory_equal(bytes, expected, sizeof expected);
    assert_memory_equal(bytes + MARK_SLOT_LEN, expected, sizeof expected);
}

/* A write that is not synced may be torn, so the slot that is on disk stays as it is. */
static void the_first_slot_waits_for_a_sync(void **state)
{
    char before[MARK_LEN], after[MARK_LEN];
    struct mark_file m = open_mark(&fs_system);
    struct mark_claims got;
    (void)state;
    put(&m, &FIRST, true);
    read_bytes(before);
    for (int i = 0; i < 3; i++) {
        put(&m, &SECOND, false);
        read_bytes(after);
        assert_memory_equal(before, after, MARK_SLOT_LEN);
    }
    after[MARK_SLOT_LEN + 40] ^= 1;
    assert_int_equal(mark_parse(after, sizeof after, &got), 0);
    assert_int_equal(got.lsn, FIRST.lsn);
    put(&m, &SECOND, true);
    mark_close(&m);
    read_bytes(after);
    for (int slot = 0; slot < 2; slot++) { /* now either of them is enough */
        after[slot * MARK_SLOT_LEN + 40] ^= 1;
        assert_int_equal(mark_parse(after, sizeof after, &got), 0);
        assert_int_equal(got.lsn, SECOND.lsn);
        after[slot * MARK_SLOT_LEN + 40] ^= 1;
    }
}

/* The slots at the time of each sync. */
static char synced[4][MARK_LEN];
static int syncs;

static int see_fdatasync(const struct fs *fs, int fd)
{
    (void)fs;
    assert_int_equal(pread(fd, synced[syncs++], MARK_LEN, 0), MARK_LEN);
    return fdatasync(fd);
}

static void one_slot_at_a_time_is_written(void **state)
{
    struct fs fs = fs_system;
    struct mark_file m = open_mark(&fs);
    char before[MARK_LEN];
    struct mark_claims got;
    (void)state;
    fs.fdatasync = see_fdatasync;
    put(&m, &FIRST, true);
    read_bytes(before);
    syncs = 0;
    put(&m, &SECOND, true);
    mark_close(&m);
    assert_int_equal(syncs, 2);
    assert_memory_equal(synced[0], before, MARK_SLOT_LEN);
    assert_memory_not_equal(synced[0] + MARK_SLOT_LEN, before + MARK_SLOT_LEN, MARK_SLOT_LEN);
    assert_memory_equal(synced[1] + MARK_SLOT_LEN, synced[0] + MARK_SLOT_LEN, MARK_SLOT_LEN);
    assert_int_equal(mark_parse(synced[1], MARK_SLOT_LEN, &got), 0);
    assert_int_equal(got.lsn, SECOND.lsn);
}

static void what_cannot_be_read(void **state)
{
    char bytes[MARK_LEN];
    struct mark_file m = open_mark(&fs_system);
    struct mark_claims got = {.lsn = 42};
    (void)state;
    put(&m, &FIRST, true);
    mark_close(&m);
    read_bytes(bytes);
    assert_int_equal(mark_parse(bytes, MARK_SLOT_LEN - 1, &got), DROVER_DAMAGED);
    assert_int_equal(mark_parse(bytes, 0, &got), DROVER_DAMAGED);
    bytes[100] ^= 1;
    bytes[MARK_SLOT_LEN + 20] ^= 1;
    assert_int_equal(mark_parse(bytes, sizeof bytes, &got), DROVER_DAMAGED);
    assert_int_equal(got.lsn, 42); /* untouched on failure */
}

static ssize_t no_room(const struct fs *fs, int fd, const void *data, size_t len, off_t at)
{
    (void)fs, (void)fd, (void)data, (void)len, (void)at;
    errno = ENOSPC;
    return -1;
}

static void no_room_for_a_new_file(void **state)
{
    struct fs fs = fs_system;
    struct mark_file m = open_mark(&fs);
    struct err_info why = {""};
    struct mark_claims got;
    (void)state;
    fs.pwrite = no_room;
    assert_int_equal(mark_put(&m, &FIRST, false, &why), DROVER_DISK_FULL);
    assert_int_equal(m.fd, -1);
    assert_int_equal(mark_read(dir, &got, &why), 0);
    fs.pwrite = fs_system.pwrite;
    put(&m, &FIRST, false);
    expect_claims(&FIRST);
    mark_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_file, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(claims_come_back, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(the_bytes_of_a_slot, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(the_first_slot_waits_for_a_sync, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(one_slot_at_a_time_is_written, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(what_cannot_be_read, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(no_room_for_a_new_file, make_dir, remove_dir),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
