/*
 * A disk that stays full for a while, or a process without descriptors, at each operation that can
 * meet it. Where the next segment is made, changes that add are refused with DISK_FULL or TOO_MANY
 * and work again by themselves once there is room; reads are not affected. With a full disk the
 * reserve lets the store delete, take a snapshot and start. Where a snapshot is written, changes go
 * on, a message is reported, and a later snapshot succeeds. Where a record is written, room was
 * reserved before, so ENOSPC is a final failure.
 */
#include <errno.h>
#include <stdio.h>

#include "fs_faulty.h"
#include "keeper/local/local.h"
#include "store.h"

enum { DATA_LEN = 16 * 1024 };

struct full_disk {
    char *dir;
    struct fs_faulty *f;
    struct store *s;
    int changes; /* that went through */
    int err;     /* what the others get */
};

static void open_disk(struct full_disk *d, int64_t snapshot_every, int errnum)
{
    struct local_options o;

    *d = (struct full_disk){.dir = dir_make(),
                            .f = fs_faulty_new(),
                            .s = store_new(),
                            .err = errnum == EMFILE ? DROVER_TOO_MANY : DROVER_DISK_FULL};
    o = store_options(d->s, d->dir, &d->f->fs);
    if (snapshot_every)
        o.snapshot_every = snapshot_every;
    must(store_open_with(d->s, &o));
    must(store_connect(d->s));
    must(keeper_create(d->s->k, "/n", STR(""), 0, NULL));
}

/* Each change adds a node: a refused one has no effect. */
static const char *path_of(int change, char path[32])
{
    snprintf(path, 32, "/n/%d", change);
    return path;
}

static int change(struct full_disk *d)
{
    static const char data[DATA_LEN];
    char path[32];
    int err =
        keeper_create(d->s->k, path_of(d->changes, path), (struct str){data, sizeof data}, 0, NULL);

    d->changes += !err;
    return err;
}

static int take_back(struct full_disk *d)
{
    char path[32];
    int err = keeper_delete(d->s->k, path_of(d->changes - 1, path), KEEPER_ANY_VERSION);

    d->changes -= !err;
    return err;
}

static void expect_reads(struct full_disk *d)
{
    struct keeper_names names = {0};
    struct keeper_stat stat;
    struct buf data = {0};

    must(keeper_get(d->s->k, "/n", &data, &stat));
    assert_int_equal(d->changes, stat.child_count);
    must(keeper_children(d->s->k, "/", &names, NULL));
    expect_err(DROVER_NO_NODE, keeper_exists(d->s->k, "/none", NULL));
    must(keeper_sync(d->s->k, "/"));
    buf_release(&data);
    keeper_names_release(&names);
}

static void reopen(struct full_disk *d)
{
    store_leave(d->s);
    assert_int_equal(0, fs_faulty_open_count(d->f));
    must(store_open(d->s, d->dir, &d->f->fs));
    must(store_connect(d->s));
    expect_reads(d);
}

static void close_disk(struct full_disk *d)
{
    assert_int_equal(0, atomic_load(&d->s->fatals));
    fs_faulty_arm(d->f, NULL);
    reopen(d);
    store_leave(d->s);
    fs_faulty_free(d->f);
    store_free(d->s);
    dir_remove(d->dir);
}

static bool is_refused(void *arg)
{
    int err = change(arg);

    if (err)
        expect_err(((struct full_disk *)arg)->err, err);
    return err;
}

static bool is_accepted(void *arg)
{
    int err = change(arg);

    if (err)
        expect_err(((struct full_disk *)arg)->err, err);
    return !err;
}

static unsigned reserve_bytes(struct full_disk *d)
{
    struct local_stats stats;

    local_stats(d->s->l, &stats);
    return (unsigned)stats.reserve_bytes;
}

static bool has_reserve(void *arg)
{
    return reserve_bytes(arg) == LOCAL_SEGMENT_LEN_MIN;
}

/* The segments that there are fill up; then changes that add wait for room. */
static void no_room_for_a_segment(const struct fs_fault *fault)
{
    bool has_room = fault->errnum == EMFILE || fault->name[0] == '.'; /* and no other trouble */
    struct full_disk d;
    char note[600];

    doing("no room for a segment: %s %s", fs_op_name(fault->op), fault->name);
    open_disk(&d, 0, fault->errnum);
    wait_until(has_reserve, &d);
    expect_err(0, local_shortage(d.s->l));
    fs_faulty_arm(d.f, fault);
    wait_until(is_refused, &d);
    expect_err(d.err, local_shortage(d.s->l));
    expect_reads(&d);
    if (!has_room)
        for (int i = 0; i < 5; i++)
            must(take_back(&d));
    expect_err(has_room ? d.err : 0, local_snapshot(d.s->l));
    expect_reads(&d);
    expect_err(d.err, change(&d));
    fs_faulty_arm(d.f, NULL);
    wait_until(is_accepted, &d);
    expect_err(0, local_shortage(d.s->l));
    wait_until(has_reserve, &d);
    store_last_note(d.s, note, sizeof note);
    assert_non_null(strstr(note, "there is room"));
    for (int i = 0; i < 40; i++)
        must(change(&d));
    must(local_snapshot(d.s->l));
    close_disk(&d);
    done();
}

static void a_segment_cannot_be_made(void **state)
{
    static const struct fs_fault FAULTS[] = {
        {FS_OPEN, 1, FAULT_FAIL, ENOSPC, true, "journal.tmp"},
        {FS_PWRITE, 1, FAULT_FAIL, ENOSPC, true, "journal.tmp"},
        {FS_PWRITE, 1, FAULT_TORN, EDQUOT, true, "journal.tmp"},
        {FS_FSYNC, 1, FAULT_FAIL, ENOSPC, true, "journal.tmp"},
        {FS_RENAME, 1, FAULT_FAIL, ENOSPC, true, "journal.tmp"},
        {FS_OPEN, 1, FAULT_FAIL, ENOSPC, true, "."},
        {FS_FSYNC, 1, FAULT_FAIL, ENOSPC, true, "."},
        {FS_OPEN, 1, FAULT_FAIL, EMFILE, true, "journal.tmp"},
        {FS_OPEN, 1, FAULT_FAIL, EMFILE, true, "."},
    };

    (void)state;
    for (size_t i = 0; i < sizeof FAULTS / sizeof *FAULTS; i++)
        no_room_for_a_segment(&FAULTS[i]);
}

static void no_room_for_a_snapshot(const struct fs_fault *fault)
{
    struct full_disk d;
    char note[600];

    doing("no room for a snapshot: %s %s", fs_op_name(fault->op), fault->name);
    open_disk(&d, 0, fault->errnum);
    must(change(&d));
    must(local_snapshot(d.s->l));
    must(change(&d));
    fs_faulty_arm(d.f, fault);
    expect_err(d.err, local_snapshot(d.s->l));
    assert_int_equal(1, atomic_load(&d.s->notes));
    store_last_note(d.s, note, sizeof note);
    assert_non_null(strstr(note, "snapshot"));
    assert_non_null(strstr(note, strerror(fault->errnum)));
    must(change(&d));
    expect_err(d.err, local_snapshot(d.s->l));
    must(change(&d));
    fs_faulty_arm(d.f, NULL);
    must(local_snapshot(d.s->l));
    must(change(&d));
    close_disk(&d);
    done();
}

static void a_snapshot_cannot_be_written(void **state)
{
    static const struct fs_fault FAULTS[] = {
        {FS_OPEN, 1, FAULT_FAIL, ENOSPC, true, "snapshot.tmp"},
        {FS_OPEN, 1, FAULT_FAIL, EMFILE, true, "snapshot.tmp"},
        {FS_PWRITE, 1, FAULT_FAIL, ENOSPC, true, "snapshot.tmp"},
        {FS_PWRITE, 3, FAULT_TORN, ENOSPC, true, "snapshot.tmp"},
        {FS_FSYNC, 1, FAULT_FAIL, ENOSPC, true, "snapshot.tmp"},
        {FS_RENAME, 1, FAULT_FAIL, ENOSPC, true, "snapshot.tmp"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof FAULTS / sizeof *FAULTS; i++)
        no_room_for_a_snapshot(&FAULTS[i]);
}

/* Replaces a node by a smaller one, in a record that is almost as long as before. */
static int shrink(struct full_disk *d, size_t *len)
{
    static const char data[DATA_LEN];
    struct keeper_op ops[] = {keeper_op_delete("/n/1", KEEPER_ANY_VERSION),
                              keeper_op_create("/n/1", (struct str){data, *len - 8}, 0)};
    int err = keeper_multi(d->s->k, ops, 2, NULL);

    *len -= err ? 0 : 8;
    return err;
}

static void expect_deletions_only(struct full_disk *d)
{
    expect_err(DROVER_DISK_FULL, local_shortage(d->s->l));
    expect_err(DROVER_DISK_FULL, change(d));
    must(take_back(d));
}

/* What the reserve is for, and in which order: adds nothing, keeps less than frees, starts last. */
static void the_reserve_is_for_deletions(void **state)
{
    static const char data[DATA_LEN];
    struct fs_fault fault = {FS_OPEN, 1, FAULT_FAIL, ENOSPC, true, "journal.tmp"};
    struct keeper_op cheat[] = {keeper_op_delete("/n/2", KEEPER_ANY_VERSION),
                                keeper_op_create("/n/2", (struct str){data, DATA_LEN}, 0),
                                keeper_op_create("/n/x", STR(""), 0)};
    struct full_disk d;
    size_t len = DATA_LEN;
    int err;

    (void)state;
    open_disk(&d, 0, ENOSPC);
    wait_until(has_reserve, &d);
    fs_faulty_arm(d.f, &fault);
    wait_until(is_refused, &d);
    expect_err(DROVER_DISK_FULL, keeper_create(d.s->k, "/small", STR(""), 0, NULL));
    expect_err(DROVER_EXISTS, keeper_create(d.s->k, "/n", STR(""), 0, NULL));
    expect_err(DROVER_DISK_FULL, keeper_multi(d.s->k, cheat, 3, NULL));
    do
        err = keeper_set(d.s->k, "/n/0", (struct str){data, DATA_LEN}, KEEPER_ANY_VERSION, NULL);
    while (!err);
    expect_err(DROVER_DISK_FULL, err);
    assert_int_equal(LOCAL_SEGMENT_LEN_MIN / 2, reserve_bytes(&d));
    do
        err = shrink(&d, &len);
    while (!err);
    expect_err(DROVER_DISK_FULL, err);
    assert_int_equal(LOCAL_SEGMENT_LEN_MIN / 4, reserve_bytes(&d));
    for (int i = 0; i < 3; i++) { /* more often than there are pieces */
        reopen(&d);
        expect_deletions_only(&d);
        assert_true(reserve_bytes(&d) <= LOCAL_SEGMENT_LEN_MIN / 4);
    }
    fs_faulty_arm(d.f, NULL);
    wait_until(is_accepted, &d);
    wait_until(has_reserve, &d);
    close_disk(&d);
}

/* A start takes the last piece when the last segment has no room, and without one it is refused. */
static void a_start_takes_the_last_piece(void **state)
{
    struct fs_fault fault = {FS_OPEN, 1, FAULT_FAIL, ENOSPC, true, "journal.tmp"};
    struct full_disk d;

    (void)state;
    open_disk(&d, 0, ENOSPC);
    wait_until(has_reserve, &d);
    for (int i = 0; i < 5; i++)
        must(change(&d));
    for (int pieces = 3; pieces >= -1; pieces--) {
        struct image im;
        struct buf *last;
        size_t end;

        store_leave(d.s);
        image_read(&im, d.dir);
        last = image_find(&im, image_name(&im, "journal-", -1));
        for (end = last->len; !last->p[end - 1]; end--)
            ;
        last->len = (end + 7) / 8 * 8; /* cut, as a start does that fails later */
        image_write(&im, d.dir);
        image_release(&im);
        fs_faulty_arm(d.f, &fault);
        expect_err(pieces < 0 ? DROVER_DISK_FULL : 0, store_open(d.s, d.dir, &d.f->fs));
        if (pieces < 0)
            break;
        assert_int_equal(LOCAL_SEGMENT_LEN_MIN / 4 * pieces, reserve_bytes(&d));
        must(store_connect(d.s));
        expect_deletions_only(&d);
    }
    fs_faulty_arm(d.f, NULL);
    must(store_open(d.s, d.dir, &d.f->fs));
    must(store_connect(d.s));
    wait_until(is_accepted, &d);
    close_disk(&d);
}

/* Nothing at all can be written. */
static void a_start_is_refused(void **state)
{
    static const struct fs_fault FAULTS[] = {
        {FS_OPEN, 1, FAULT_FAIL, ENOSPC, true, NULL},
        {FS_PWRITE, 1, FAULT_FAIL, ENOSPC, true, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof FAULTS / sizeof *FAULTS; i++) {
        struct full_disk d;

        doing("no room anywhere: %s", fs_op_name(FAULTS[i].op));
        open_disk(&d, 0, ENOSPC);
        wait_until(has_reserve, &d);
        must(change(&d));
        store_leave(d.s);
        fs_faulty_arm(d.f, &FAULTS[i]);
        expect_err(DROVER_DISK_FULL, store_open(d.s, d.dir, &d.f->fs));
        fs_faulty_arm(d.f, NULL);
        must(store_open(d.s, d.dir, &d.f->fs));
        must(store_connect(d.s));
        wait_until(has_reserve, &d);
        close_disk(&d);
        done();
    }
}

/* The disk is almost full before the first start. */
static void the_reserve_cannot_be_made(void **state)
{
    struct fs_fault fault = {FS_OPEN, 4, FAULT_FAIL, ENOSPC, true, "journal.tmp"};
    struct full_disk d = {.dir = dir_make(), .f = fs_faulty_new(), .s = store_new()};
    int err = 0;

    (void)state;
    fs_faulty_arm(d.f, &fault);
    must(store_open(d.s, d.dir, &d.f->fs));
    must(store_connect(d.s));
    while (!err) /* until the preparer has met it */
        err = keeper_create(d.s->k, "/n", STR(""), KEEPER_SEQUENTIAL, NULL);
    expect_err(DROVER_DISK_FULL, err);
    expect_err(DROVER_DISK_FULL, local_shortage(d.s->l));
    assert_int_equal(LOCAL_SEGMENT_LEN_MIN / 2, reserve_bytes(&d));
    fs_faulty_arm(d.f, NULL);
    wait_until(has_reserve, &d);
    store_leave(d.s);
    fs_faulty_free(d.f);
    store_free(d.s);
    dir_remove(d.dir);
}

static bool has_snapshot(void *arg)
{
    struct full_disk *d = arg;
    struct local_stats stats;

    must(keeper_set(d->s->k, "/n", STR("again"), KEEPER_ANY_VERSION, NULL));
    local_stats(d->s->l, &stats);
    return stats.snapshots > 0;
}

static bool has_note(void *arg)
{
    struct full_disk *d = arg;

    must(keeper_set(d->s->k, "/n", STR("again"), KEEPER_ANY_VERSION, NULL));
    return atomic_load(&d->s->notes) > 0;
}

/* A periodic snapshot is retried without a request. */
static void a_snapshot_is_tried_again(void **state)
{
    struct fs_fault fault = {FS_PWRITE, 1, FAULT_FAIL, ENOSPC, false, "snapshot.tmp"};
    struct full_disk d;

    (void)state;
    open_disk(&d, 10, ENOSPC);
    fs_faulty_arm(d.f, &fault);
    wait_until(has_note, &d);
    wait_until(has_snapshot, &d);
    assert_int_equal(1, atomic_load(&d.s->notes));
    close_disk(&d);
}

/* There was room when the segment was made, so this is a final failure. */
static void a_record_cannot_be_written(void **state)
{
    struct fs_fault fault = {FS_PWRITE, 1, FAULT_FAIL, ENOSPC, false, "journal-"};
    struct full_disk d;

    (void)state;
    open_disk(&d, 0, fault.errnum);
    must(change(&d));
    fs_faulty_arm(d.f, &fault);
    expect_err(DROVER_IO, change(&d));
    assert_int_equal(1, atomic_load(&d.s->fatals));
    assert_non_null(strstr(d.s->fatal, strerror(fault.errnum)));
    expect_err(DROVER_IO, keeper_exists(d.s->k, "/n", NULL));
    atomic_store(&d.s->fatals, 0);
    close_disk(&d);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_cannot_be_made),
        cmocka_unit_test(the_reserve_is_for_deletions),
        cmocka_unit_test(a_start_takes_the_last_piece),
        cmocka_unit_test(a_start_is_refused),
        cmocka_unit_test(the_reserve_cannot_be_made),
        cmocka_unit_test(a_snapshot_cannot_be_written),
        cmocka_unit_test(a_snapshot_is_tried_again),
        cmocka_unit_test(a_record_cannot_be_written),
    };

    return run_group(tests);
}
