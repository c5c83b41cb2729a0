/*
 * Tests of the test tools: a fault hits where it should, and a disk after a crash holds what a disk
 * may hold.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "disk.h"
#include "fs_faulty.h"
#include "support.h"

struct bench {
    char *dir;
    struct fs_faulty *f;
};

static void bench_open(struct bench *b)
{
    *b = (struct bench){dir_make(), fs_faulty_new()};
    b->f->recording = true;
}

static void bench_close(struct bench *b)
{
    fs_faulty_free(b->f);
    dir_remove(b->dir);
}

static int open_file(struct bench *b, const char *name, int flags)
{
    char path[200];

    snprintf(path, sizeof path, "%s/%s", b->dir, name);
    return b->f->fs.open(&b->f->fs, path, flags, 0600);
}

static ssize_t write_file(struct bench *b, int fd, const char *text, off_t at)
{
    return b->f->fs.pwrite(&b->f->fs, fd, text, strlen(text), at);
}

static void move_file(struct bench *b, const char *from, const char *to)
{
    char paths[2][200];

    snprintf(paths[0], sizeof paths[0], "%s/%s", b->dir, from);
    snprintf(paths[1], sizeof paths[1], "%s/%s", b->dir, to);
    if (*to)
        assert_int_equal(0, b->f->fs.rename(&b->f->fs, paths[0], paths[1]));
    else
        assert_int_equal(0, b->f->fs.unlink(&b->f->fs, paths[0]));
}

/* The third write to a file of this name, and no other. */
static void strikes_the_nth_of_a_name(void **state)
{
    struct fs_fault fault = {FS_PWRITE, 3, FAULT_FAIL, ENOSPC, false, "aim"};
    struct bench b;
    int aim, other;

    (void)state;
    bench_open(&b);
    aim = open_file(&b, "aim", O_RDWR | O_CREAT);
    other = open_file(&b, "other", O_RDWR | O_CREAT);
    fs_faulty_arm(b.f, &fault);
    for (int i = 1; i <= 5; i++) {
        assert_int_equal(1, write_file(&b, other, "x", 0));
        errno = 0;
        assert_int_equal(i == 3 ? -1 : 1, write_file(&b, aim, "x", i));
        assert_int_equal(i == 3 ? ENOSPC : 0, errno);
    }
    assert_int_equal(1, fs_faulty_hit(b.f).count);
    assert_string_equal("aim", fs_faulty_hit(b.f).name);
    assert_int_equal(2, fs_faulty_open_count(b.f));
    b.f->fs.close(&b.f->fs, aim);
    b.f->fs.close(&b.f->fs, other);
    assert_int_equal(0, fs_faulty_open_count(b.f));
    bench_close(&b);
}

static void strikes_from_then_on(void **state)
{
    struct fs_fault fault = {FS_FSYNC, 2, FAULT_FAIL, EIO, true, NULL};
    struct bench b;
    int fd;

    (void)state;
    bench_open(&b);
    fd = open_file(&b, "file", O_RDWR | O_CREAT);
    fs_faulty_arm(b.f, &fault);
    for (int i = 1; i <= 4; i++)
        assert_int_equal(i >= 2 ? -1 : 0, b.f->fs.fsync(&b.f->fs, fd));
    assert_int_equal(3, fs_faulty_hit(b.f).count);
    fs_faulty_arm(b.f, NULL);
    assert_int_equal(0, b.f->fs.fsync(&b.f->fs, fd));
    b.f->fs.close(&b.f->fs, fd);
    bench_close(&b);
}

static void expect_content(struct bench *b, const char *name, const char *want)
{
    struct image im;
    struct buf *bytes;

    image_read(&im, b->dir);
    bytes = image_find(&im, name);
    assert_non_null(bytes);
    assert_int_equal(strlen(want), bytes->len);
    assert_memory_equal(want, bytes->p, bytes->len);
    image_release(&im);
}

static void writes_are_short_or_torn(void **state)
{
    struct fs_fault fault = {FS_PWRITE, 1, FAULT_SHORT, EIO, false, NULL};
    struct bench b;
    int fd;

    (void)state;
    bench_open(&b);
    fd = open_file(&b, "file", O_RDWR | O_CREAT);
    fs_faulty_arm(b.f, &fault);
    assert_int_equal(4, write_file(&b, fd, "12345678", 0));
    expect_content(&b, "file", "1234");
    fault.kind = FAULT_TORN;
    fs_faulty_arm(b.f, &fault);
    assert_int_equal(-1, write_file(&b, fd, "abcdefgh", 4));
    expect_content(&b, "file", "1234abcd");
    fs_faulty_arm(b.f, NULL);
    assert_int_equal(0, fs_write_all(&b.f->fs, fd, "ABCDEFGH", 8, 0, false));
    expect_content(&b, "file", "ABCDEFGH");
    b.f->fs.close(&b.f->fs, fd);
    bench_close(&b);
}

/* What the disk holds after all that was recorded, as "name=content name=content ". */
static void expect_disk(struct bench *b, enum disk_left left, const char *want)
{
    struct image nothing = {0}, im;
    struct buf text = {0};
    struct disk d;

    disk_init(&d, &nothing);
    for (size_t i = 0; i < b->f->event_count; i++)
        disk_apply(&d, &b->f->events[i]);
    disk_image(&d, left, NULL, &im);
    for (size_t i = 0; i < im.count; i++)
        buf_printf(&text, "%s=%.*s ", im.files[i].name, (int)im.files[i].bytes.len,
                   im.files[i].bytes.p ? im.files[i].bytes.p : "");
    assert_string_equal(want, buf_text(&text));
    buf_release(&text);
    image_release(&im);
    disk_release(&d);
}

/* Content is synced with the file, names with the directory, neither with the other. */
static void a_crash_leaves_what_was_synced(void **state)
{
    struct bench b;
    int fd;

    (void)state;
    bench_open(&b);
    fd = open_file(&b, "a", O_RDWR | O_CREAT | O_TRUNC);
    write_file(&b, fd, "one", 0);
    expect_disk(&b, DISK_ALL, "a=one ");
    expect_disk(&b, DISK_SYNCED, "");
    fs_sync_dir(&b.f->fs, b.dir);
    expect_disk(&b, DISK_SYNCED, "a= ");
    b.f->fs.fdatasync(&b.f->fs, fd);
    expect_disk(&b, DISK_SYNCED, "a=one ");
    write_file(&b, fd, "two", 0);
    b.f->fs.ftruncate(&b.f->fs, fd, 2);
    move_file(&b, "a", "b");
    expect_disk(&b, DISK_ALL, "b=tw ");
    expect_disk(&b, DISK_SYNCED, "a=one ");
    b.f->fs.fsync(&b.f->fs, fd);
    expect_disk(&b, DISK_SYNCED, "a=tw ");
    fs_sync_dir(&b.f->fs, b.dir);
    expect_disk(&b, DISK_SYNCED, "b=tw ");
    move_file(&b, "b", "");
    expect_disk(&b, DISK_ALL, "");
    expect_disk(&b, DISK_SYNCED, "b=tw ");
    b.f->fs.close(&b.f->fs, fd);
    bench_close(&b);
}

/* Every sector of a mixture is old or new, and both happen. */
static void a_mixture_is_made_of_sectors(void **state)
{
    enum { SECTORS = 64, LEN = SECTORS * 512 };
    static char old[LEN], new[LEN];
    struct disk_file file = {{old, LEN, LEN}, {old, LEN, LEN}};
    char *name = "f";
    size_t number = 0;
    struct disk d = {.files = &file, .file_count = 1, .synced = {&name, &number, 1}};
    struct rng rng = {1};
    struct image im;
    int renewed = 0;

    (void)state;
    memset(old, 'o', LEN);
    memset(new, 'n', LEN);
    file.now.p = new;
    disk_image(&d, DISK_MIXED, &rng, &im);
    assert_int_equal(1, im.count);
    for (int i = 0; i < SECTORS; i++) {
        const char *sector = im.files[0].bytes.p + i * 512;

        assert_memory_equal(sector, *sector == 'n' ? new : old, 512);
        renewed += *sector == 'n';
    }
    assert_in_range(renewed, SECTORS / 4, SECTORS * 3 / 4);
    image_release(&im);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(strikes_the_nth_of_a_name),
        cmocka_unit_test(strikes_from_then_on),
        cmocka_unit_test(writes_are_short_or_torn),
        cmocka_unit_test(a_crash_leaves_what_was_synced),
        cmocka_unit_test(a_mixture_is_made_of_sectors),
    };

    return run_group(tests);
}
