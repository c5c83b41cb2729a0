/*
 * Backups taken while the tree changes, and restored: the result is exactly the state after one
 * transaction, with everything that was acknowledged before. Files that are removed meanwhile,
 * full disks and damage; and a restore that fails or dies at each of its file operations.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "keeper/local/backup.h"
#include "scene.h"

enum { PIECE = 4096, SMALL_PIECE = 200 };

/* Reads a backup to its end; between the pieces `between` is called. */
static int read_all(struct local *l, size_t piece, void (*between)(void *arg), void *arg,
                    struct buf *to, struct err_info *e)
{
    struct local_backup *b;
    bool more = true;
    TRY(backup_open(l, &b, e));
    int err = 0;
    while (more && !err) {
        size_t before = to->len;
        err = backup_read(b, piece, to, &more, e);
        assert_true(to->len - before <= piece);
        if (between)
            between(arg);
    }
    backup_close(b);
    return err;
}

/* A source that gives pieces of odd lengths. */
struct memory {
    struct str left;
};

static ssize_t from_memory(void *arg, char *to, size_t size, struct err_info *e)
{
    struct memory *m = arg;
    size_t len = m->left.len < 777 ? m->left.len : 777;
    (void)e;
    assert_true(len <= size);
    memcpy(to, m->left.p, len);
    m->left = (struct str){m->left.p + len, m->left.len - len};
    return (ssize_t)len;
}

static int restore(struct str bytes, const char *dir, const struct fs *fs, struct err_info *e)
{
    struct memory m = {bytes};
    struct backup_restored r;
    struct backup_restore_options o = {
        .dir = dir, .source = from_memory, .source_arg = &m, .fs = fs};
    TRY(backup_restore(&o, &r, e));
    assert_int_equal(r.bytes, bytes.len);
    return 0;
}

/* The paths of a test: a directory to restore into, which is not there yet. */
struct place {
    char *above, dir[256], tmp[300];
};

static struct place place_new(void)
{
    struct place p = {.above = dir_make()};
    snprintf(p.dir, sizeof p.dir, "%s/new", p.above);
    snprintf(p.tmp, sizeof p.tmp, "%s.restoring", p.dir);
    return p;
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/* The restored directory holds a state of the past, not older than at_least. */
static void check_restored(struct scene *sc, struct str bytes, int64_t at_least, const char *label)
{
    struct place p = place_new();
    struct err_info e = {""};
    char *text;
    int64_t zxid;
    doing("%s", label);
    expect_err(0, restore(bytes, p.dir, NULL, &e));
    must(dir_text(p.dir, &text, &zxid, &e));
    assert_true(zxid >= at_least);
    assert_non_null(history_at(&sc->past, zxid));
    expect_text(label, history_at(&sc->past, zxid), text);
    assert_false(exists(p.tmp));
    free(text);
    dir_remove(p.above);
    done();
}

static void step(void *arg)
{
    scene_step(arg);
}

static void step_and_snapshot(void *arg)
{
    struct scene *sc = arg;
    scene_step(sc);
    must(local_snapshot(sc->s->l));
}

static void take_and_check(struct scene *sc, size_t piece, void (*between)(void *arg),
                           const char *label)
{
    struct buf bytes = {0};
    struct err_info e = {""};
    int64_t before = store_zxid(sc->s);
    atomic_store(&sc->eager, true); /* the snapshot is fuzzy */
    expect_err(0, read_all(sc->s->l, piece, between, sc, &bytes, &e));
    atomic_store(&sc->eager, false);
    check_restored(sc, buf_str(&bytes), before, label);
    buf_release(&bytes);
}

static void in_each_mode(void (*test)(struct scene *sc))
{
    static const enum local_mode modes[] = {LOCAL_STRICT, LOCAL_OPPORTUNISTIC};
    for (size_t i = 0; i < 2; i++) {
        char *dir = dir_make();
        struct scene *sc = scene_open(dir, modes[i]);
        test(sc);
        assert_int_equal(0, atomic_load(&sc->failed));
        assert_int_equal(0, atomic_load(&sc->s->fatals));
        scene_close(sc);
        scene_free(sc);
        dir_remove(dir);
    }
}

static void backups_in_turn(struct scene *sc)
{
    take_and_check(sc, PIECE, NULL, "of a new store");
    take_and_check(sc, PIECE, NULL, "again, without a change");
    for (int i = 0; i < 5; i++) {
        for (int n = 0; n < 9; n++)
            scene_step(sc);
        take_and_check(sc, PIECE, NULL, "at rest");
        take_and_check(sc, PIECE, step, "with a change between any two pieces");
    }
    take_and_check(sc, SMALL_PIECE, step, "in small pieces");
}

static void it_is_the_state_after_a_transaction(void **state)
{
    (void)state;
    in_each_mode(backups_in_turn);
}

/* Each snapshot removes files that the backup is reading. */
static void backups_of_removed_files(struct scene *sc)
{
    for (int n = 0; n < 20; n++)
        scene_step(sc);
    take_and_check(sc, 16 * 1024, step_and_snapshot, "while its files are removed");
}

static void removed_files_are_read_to_their_end(void **state)
{
    (void)state;
    in_each_mode(backups_of_removed_files);
}

/* A snapshot so large that it is truncated in steps when it is removed. */
static void a_large_snapshot_is_not_truncated_under_its_reader(void **state)
{
    enum { NODES = 40, LEN = 500 * 1024 };
    char *dir = dir_make(), *data = mem_alloc(LEN), *want, *got;
    struct store *s = store_new();
    struct place p = place_new();
    struct local_backup *b;
    struct buf bytes = {0};
    struct err_info e = {""};
    bool more = true;
    int64_t zxid;
    (void)state;
    struct local_options o = store_options(s, dir, &fs_system);
    o.segment_len = LOCAL_SEGMENT_LEN;
    must(store_open_with(s, &o));
    must(store_connect(s));
    for (int i = 0; i < NODES; i++) {
        char path[32];
        memset(data, 'a' + i % 26, LEN);
        snprintf(path, sizeof path, "/large%d", i);
        must(keeper_create(s->k, path, (struct str){data, LEN}, 0, NULL));
    }
    must(backup_open(s->l, &b, &e));
    want = store_text(s);
    must(backup_read(b, 100 * 1024, &bytes, &more, &e));
    for (int i = 0; i < 3; i++) {
        must(keeper_set(s->k, "/large0", STR("small"), KEEPER_ANY_VERSION, NULL));
        must(local_snapshot(s->l));
    }
    while (more)
        expect_err(0, backup_read(b, 512 * 1024, &bytes, &more, &e));
    backup_close(b);
    expect_err(0, restore(buf_str(&bytes), p.dir, NULL, &e));
    must(dir_text(p.dir, &got, &zxid, &e));
    expect_text("the restored tree", want, got);
    store_close(s);
    store_free(s);
    free(want);
    free(got);
    free(data);
    buf_release(&bytes);
    dir_remove(p.above);
    dir_remove(dir);
}

/* Without room for a snapshot, the last one and the journal serve. */
static void backups_of_a_full_disk(struct scene *sc)
{
    static const struct fs_fault full = {.op = FS_PWRITE,
                                         .nth = 1,
                                         .kind = FAULT_FAIL,
                                         .errnum = ENOSPC,
                                         .stays = true,
                                         .name = "snapshot"};
    for (int i = 0; i < 2; i++) {
        for (int n = 0; n < 9; n++)
            scene_step(sc);
        fs_faulty_arm(sc->f, &full);
        take_and_check(sc, PIECE, step, "with a full disk");
        assert_true(fs_faulty_hit(sc->f).count > 0);
        fs_faulty_arm(sc->f, NULL);
        must(local_snapshot(sc->s->l));
    }
}

static void a_full_disk_does_not_prevent_one(void **state)
{
    (void)state;
    in_each_mode(backups_of_a_full_disk);
}

static void memory_has_no_backup(void **state)
{
    struct store *s = store_new();
    struct local_options o = store_options(s, NULL, &fs_system);
    struct local_backup *b;
    struct err_info e = {""};
    (void)state;
    o.mode = LOCAL_NONE;
    must(store_open_with(s, &o));
    expect_err(DROVER_BAD_ARGUMENT, backup_open(s->l, &b, &e));
    store_close(s);
    store_free(s);
}

/* A bit of the snapshot or of the journal is wrong on the disk. */
static void damage_gives_no_backup(void **state)
{
    char *dir = dir_make();
    struct scene *sc = scene_open(dir, LOCAL_STRICT);
    struct image im = {0};
    int found = 0;
    (void)state;
    for (int n = 0; n < 20; n++)
        scene_step(sc);
    must(local_snapshot(sc->s->l));
    image_read(&im, dir);
    const char *name = image_name(&im, "snapshot-", -1);
    size_t bits = image_find(&im, name)->len * 8, stride = short_run_stride(97) * 31;
    for (size_t bit = 0; bit < bits; bit += stride) {
        struct buf bytes = {0};
        struct err_info e = {""};
        doing("bit %zu of %s", bit, name);
        file_flip(dir, name, bit);
        expect_err(DROVER_DAMAGED, read_all(sc->s->l, PIECE, NULL, NULL, &bytes, &e));
        assert_non_null(strstr(e.text, name));
        file_flip(dir, name, bit);
        buf_release(&bytes);
        done();
        found++;
    }
    assert_true(found > 10);
    image_release(&im);
    scene_close(sc);
    scene_free(sc);
    dir_remove(dir);
}

/* A backup to restore, of a store that has a snapshot and a segment with records after it. */
static struct buf usual_backup(char **ret_text)
{
    char *dir = dir_make();
    struct scene *sc = scene_open(dir, LOCAL_STRICT);
    struct buf bytes = {0};
    struct err_info e = {""};
    for (int n = 0; n < 20; n++)
        scene_step(sc);
    atomic_store(&sc->eager, true);
    expect_err(0, read_all(sc->s->l, PIECE, NULL, NULL, &bytes, &e));
    atomic_store(&sc->eager, false);
    struct memory m = {buf_str(&bytes)};
    struct archive_reader r;
    must(backup_check(from_memory, &m, &r, &e));
    *ret_text = mem_dup(history_at(&sc->past, r.info.last_zxid),
                        strlen(history_at(&sc->past, r.info.last_zxid)));
    scene_close(sc);
    scene_free(sc);
    dir_remove(dir);
    return bytes;
}

static void expect_whole(const char *dir, const char *want)
{
    struct err_info e = {""};
    char *text;
    int64_t zxid;
    expect_err(0, dir_text(dir, &text, &zxid, &e));
    expect_text("the restored tree", want, text);
    free(text);
}

/* One file operation after the other fails: nothing is left, and the next try works. */
static void a_failed_restore_leaves_nothing(void **state)
{
    char *want;
    struct buf bytes = usual_backup(&want);
    (void)state;
    for (int op = 0; op < FS_NOTE; op++) {
        for (int nth = 1;; nth++) {
            struct place p = place_new();
            struct fs_faulty *f = fs_faulty_new();
            struct fs_fault fault = {
                .op = (enum fs_op)op, .nth = nth, .kind = FAULT_FAIL, .errnum = EIO};
            struct err_info e = {""};
            doing("%s number %d fails", fs_op_name((enum fs_op)op), nth);
            fs_faulty_arm(f, &fault);
            int err = restore(buf_str(&bytes), p.dir, &f->fs, &e);
            bool hit = fs_faulty_hit(f).count > 0;
            fs_faulty_arm(f, NULL);
            if (exists(p.dir)) /* the sync after the renaming, or what does not matter */
                expect_whole(p.dir, want);
            else
                assert_true(err == DROVER_IO && e.text[0]);
            assert_false(exists(p.tmp));
            if (!exists(p.dir))
                must(restore(buf_str(&bytes), p.dir, &f->fs, &e));
            expect_whole(p.dir, want);
            assert_int_equal(0, fs_faulty_open_count(f));
            fs_faulty_free(f);
            dir_remove(p.above);
            done();
            if (!hit)
                break;
        }
    }
    free(want);
    buf_release(&bytes);
}

static int deadly; /* how many operations are left to live */

static void die_at_last(void *arg, enum fs_op op, const char *name)
{
    (void)arg, (void)op, (void)name;
    if (!--deadly)
        _exit(77);
}

/* The process dies before each file operation. Returns whether it did. */
static bool die_while_restoring(struct str bytes, const char *dir, int nth)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        struct fs_faulty *f = fs_faulty_new();
        struct err_info e;
        f->before = die_at_last;
        deadly = nth;
        _exit(restore(bytes, dir, &f->fs, &e) ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 0));
    return WEXITSTATUS(status) == 77;
}

static void a_restore_that_dies_leaves_the_directory_as_it_was(void **state)
{
    char *want;
    struct buf bytes = usual_backup(&want);
    bool died = true;
    int whole = 0, missing = 0;
    (void)state;
    for (int nth = 1; died; nth++) {
        struct place p = place_new();
        struct err_info e = {""};
        doing("dies before operation %d", nth);
        if (nth % 2)
            assert_int_equal(mkdir(p.dir, 0750), 0); /* empty is as good as missing */
        died = die_while_restoring(buf_str(&bytes), p.dir, nth);
        if (!died || !exists(p.tmp)) {
            expect_whole(p.dir, want);
            whole++;
        } else {
            missing++;
            assert_true(nth % 2 ? rmdir(p.dir) == 0 : !exists(p.dir));
            expect_err(0, restore(buf_str(&bytes), p.dir, NULL, &e));
            expect_whole(p.dir, want);
        }
        assert_false(exists(p.tmp));
        dir_remove(p.above);
        done();
    }
    assert_true(whole > 1 && missing > 5);
    free(want);
    buf_release(&bytes);
}

static void a_cut_or_flipped_backup_leaves_nothing(void **state)
{
    char *want;
    struct buf bytes = usual_backup(&want);
    size_t stride = short_run_stride(7) * 1009;
    struct place p = place_new();
    struct err_info e = {""};
    (void)state;
    for (size_t len = 0; len < bytes.len; len += stride) {
        expect_err(DROVER_DAMAGED, restore((struct str){bytes.p, len}, p.dir, NULL, &e));
        assert_false(exists(p.dir) || exists(p.tmp));
    }
    for (size_t bit = 0; bit < bytes.len * 8; bit += stride * 8 + 1) {
        bytes.p[bit / 8] ^= (char)(1 << bit % 8);
        expect_err(DROVER_DAMAGED, restore(buf_str(&bytes), p.dir, NULL, &e));
        assert_false(exists(p.dir) || exists(p.tmp));
        bytes.p[bit / 8] ^= (char)(1 << bit % 8);
    }
    expect_err(0, restore(buf_str(&bytes), p.dir, NULL, &e));
    expect_err(DROVER_EXISTS, restore(buf_str(&bytes), p.dir, NULL, &e));
    expect_whole(p.dir, want);
    free(want);
    buf_release(&bytes);
    dir_remove(p.above);
}

/* Right sums, and content that is none of drover's, or not what the header says. */
static void nonsense_with_right_sums_is_refused(void **state)
{
    static const struct str nonsense = STR("nonsense");
    struct buf bytes = {0};
    struct place p = place_new();
    struct err_info e = {""};
    (void)state;
    archive_put_header(&bytes, &(struct archive_info){.store = 1, .last_zxid = 1});
    archive_put_part(&bytes, FORMAT_SEGMENT, 1, nonsense.len);
    buf_put_str(&bytes, nonsense);
    archive_put_sum(&bytes, crc32c(0, nonsense.p, nonsense.len));
    archive_put_end(&bytes, 1, bytes.len);
    expect_err(DROVER_DAMAGED, restore(buf_str(&bytes), p.dir, NULL, &e));
    assert_false(exists(p.dir) || exists(p.tmp));
    buf_release(&bytes);
    dir_remove(p.above);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_state_after_a_transaction),
        cmocka_unit_test(removed_files_are_read_to_their_end),
        cmocka_unit_test(a_large_snapshot_is_not_truncated_under_its_reader),
        cmocka_unit_test(a_full_disk_does_not_prevent_one),
        cmocka_unit_test(memory_has_no_backup),
        cmocka_unit_test(damage_gives_no_backup),
        cmocka_unit_test(a_failed_restore_leaves_nothing),
        cmocka_unit_test(a_restore_that_dies_leaves_the_directory_as_it_was),
        cmocka_unit_test(a_cut_or_flipped_backup_leaves_nothing),
        cmocka_unit_test(nonsense_with_right_sums_is_refused),
    };
    return run_group(tests);
}
