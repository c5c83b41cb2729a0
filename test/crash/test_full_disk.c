/*
 * A disk that stays full for a while, or a process without descriptors, at each operation that can
 * meet it. Where the next segment is made, changes are refused with DISK_FULL or TOO_MANY and work
 * again by themselves once there is room; reads are not affected. Where a snapshot is written,
 * changes go on, a message is reported, and a later snapshot succeeds. Where a record is written,
 * room was reserved before, so ENOSPC is a final failure.
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

/* Version n of the node is the nth change: a refused change has no effect. */
static int change(struct full_disk *d)
{
    static const char data[DATA_LEN];
    struct keeper_stat stat;
    int err = keeper_set(d->s->k, "/n", (struct str){data, sizeof data}, d->changes, &stat);

    if (err)
        return err;
    d->changes++;
    assert_int_equal(d->changes, stat.version);
    return 0;
}

static void close_disk(struct full_disk *d)
{
    struct keeper_stat stat;

    assert_int_equal(0, atomic_load(&d->s->fatals));
    store_leave(d->s);
    assert_int_equal(0, fs_faulty_open_count(d->f));
    fs_faulty_arm(d->f, NULL);
    must(store_open(d->s, d->dir, &d->f->fs));
    must(store_connect(d->s));
    must(keeper_exists(d->s->k, "/n", &stat));
    assert_int_equal(d->changes, stat.version);
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

static void expect_reads(struct full_disk *d)
{
    struct keeper_names names = {0};
    struct keeper_stat stat;
    struct buf data = {0};

    must(keeper_get(d->s->k, "/n", &data, &stat));
    assert_int_equal(d->changes, stat.version);
    must(keeper_children(d->s->k, "/", &names, NULL));
    expect_err(DROVER_NO_NODE, keeper_exists(d->s->k, "/none", NULL));
    must(keeper_sync(d->s->k, "/"));
    buf_release(&data);
    keeper_names_release(&names);
}

/* The segments that there are fill up; then changes wait for room. */
static void no_room_for_a_segment(const struct fs_fault *fault)
{
    struct full_disk d;

    doing("no room for a segment: %s %s", fs_op_name(fault->op), fault->name);
    open_disk(&d, 0, fault->errnum);
    fs_faulty_arm(d.f, fault);
    wait_until(is_refused, &d);
    expect_reads(&d);
    expect_err(d.err, local_snapshot(d.s->l));
    expect_reads(&d);
    expect_err(d.err, change(&d));
    fs_faulty_arm(d.f, NULL);
    wait_until(is_accepted, &d);
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

static bool has_snapshot(void *arg)
{
    struct full_disk *d = arg;
    struct local_stats stats;

    must(change(d));
    local_stats(d->s->l, &stats);
    return stats.snapshots > 0;
}

static bool has_note(void *arg)
{
    struct full_disk *d = arg;

    must(change(d));
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
        cmocka_unit_test(a_snapshot_cannot_be_written),
        cmocka_unit_test(a_snapshot_is_tried_again),
        cmocka_unit_test(a_record_cannot_be_written),
    };

    return run_group(tests);
}
