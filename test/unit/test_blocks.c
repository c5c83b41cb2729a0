/* Appends whole blocks: the file holds the appended bytes, and zeros after them. */
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
#include "keeper/journal/journal_impl.h"

enum { FILE_LEN = 1024 * 1024, HEAD_LEN = 40, SPACE_LEN = 65536 };

static bool whole_blocks; /* all writes so far */

static ssize_t watched_pwrite(const struct fs *fs, int fd, const void *data, size_t len, off_t at)
{
    (void)fs;
    whole_blocks &=
        len % FS_BLOCK_LEN == 0 && at % FS_BLOCK_LEN == 0 && (uintptr_t)data % FS_BLOCK_LEN == 0;
    return fs_system.pwrite(&fs_system, fd, data, len, at);
}

static ssize_t watched_pwrite_sync(const struct fs *fs, int fd, const void *data, size_t len,
                                   off_t at)
{
    return watched_pwrite(fs, fd, data, len, at);
}

/* A file of zeros behind a head. */
static int file_new(struct buf *ret_head)
{
    char name[] = "blocks.XXXXXX";
    int fd = mkstemp(name);

    assert_true(fd >= 0);
    unlink(name);
    for (int i = 0; i < HEAD_LEN; i++)
        buf_put_u8(ret_head, (uint8_t)(i + 1));
    assert_int_equal(pwrite(fd, ret_head->p, HEAD_LEN, 0), HEAD_LEN);
    assert_int_equal(ftruncate(fd, FILE_LEN), 0);
    assert_int_equal(fsync(fd), 0);
    return fd;
}

static void expect_file(int fd, const struct buf *want)
{
    char *all = test_malloc(FILE_LEN);

    assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_DIRECT), 0);
    assert_int_equal(pread(fd, all, FILE_LEN, 0), FILE_LEN);
    assert_memory_equal(all, want->p, want->len);
    for (size_t i = want->len; i < FILE_LEN; i++)
        assert_int_equal(all[i], 0);
    test_free(all);
}

/* Lengths below, at and beyond a block and the space that is kept for several. */
static void append_all(const struct fs *fs, int fd, struct buf *text)
{
    static const size_t lens[] = {
        1, 100, 4096 - HEAD_LEN - 101, 4096, 1, 4095, 4097, 65535, 65536, 8, 65537, 200000, 7, 300};
    struct blocks b = {0};
    bool synced;
    char byte = 0;

    assert_int_equal(blocks_begin(&b, fd, (off_t)text->len), 0);
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        size_t at = text->len;

        for (size_t k = 0; k < lens[i]; k++)
            buf_put_u8(text, (uint8_t)(++byte | 1));
        synced = i % 2;
        assert_int_equal(blocks_append(&b, fs, fd, text->p + at, lens[i], (off_t)at, &synced), 0);
        assert_int_equal(synced, i % 2 && at % FS_BLOCK_LEN + lens[i] <= SPACE_LEN);
    }
    blocks_release(&b);
}

static void appends_follow_each_other(void **state)
{
    struct fs fs = fs_system;
    struct buf text = {0};
    int fd = file_new(&text);

    (void)state;
    fs.pwrite = watched_pwrite;
    fs.pwrite_sync = watched_pwrite_sync;
    whole_blocks = true;
    append_all(&fs, fd, &text);
    assert_true(whole_blocks);
    expect_file(fd, &text);
    close(fd);
    buf_release(&text);
}

static void appends_go_past_the_cache(void **state)
{
    struct buf text = {0};
    int fd = file_new(&text);

    (void)state;
    if (fs_system.direct(&fs_system, fd) < 0) {
        close(fd);
        buf_release(&text);
        skip(); /* this file system cannot */
    }
    append_all(&fs_system, fd, &text);
    expect_file(fd, &text);
    close(fd);
    buf_release(&text);
}

static void a_file_that_is_too_short_is_an_error(void **state)
{
    struct blocks b = {0};
    struct buf text = {0};
    int fd = file_new(&text);

    (void)state;
    assert_int_equal(blocks_begin(&b, fd, FILE_LEN + 1), -1);
    assert_int_equal(errno, EIO);
    blocks_release(&b);
    close(fd);
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_follow_each_other),
        cmocka_unit_test(appends_go_past_the_cache),
        cmocka_unit_test(a_file_that_is_too_short_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
