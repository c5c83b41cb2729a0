/*
 * Every file operation of a run fails once, one after the other: the first pwrite, the second, and
 * so on until a run has no more of them; the same for every other kind.
 *
 * EIO in the journal or in a snapshot is final: the reason is reported once, nothing is
 * acknowledged any more, nothing acknowledged is lost. A full disk is final only where a record is
 * written; where files are made, the store waits for room. A short write is continued. A start that
 * fails leaves no lock, no descriptor and no memory behind.
 */
#include <errno.h>
#include <stdio.h>

#include "fault_run.h"

static struct image before;

static bool begins(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Whether a hit must be a final failure. */
static bool is_final(const struct fs_fault *fault, const struct fs_hit *hit)
{
    if (fault->kind == FAULT_SHORT)
        return false;
    if (fault->errnum != ENOSPC)
        return true;
    return (hit->op == FS_PWRITE || hit->op == FS_FDATASYNC) && begins(hit->name, "journal-");
}

static void describe(const struct fs_fault *fault, const struct fs_hit *hit)
{
    static const char *const KINDS[] = {"fails", "is short", "is torn"};

    doing("%s %d (%s) %s: %s%s", fs_op_name(fault->op), fault->nth, hit->name, KINDS[fault->kind],
          strerror(fault->errnum), fault->stays ? ", from then on" : "");
}

/* A fault during the opening of the store. */
static void check_opening(const struct fault_run *r, const struct fs_fault *fault)
{
    expect_err(fault->errnum == ENOSPC ? DROVER_DISK_FULL : DROVER_IO, r->open_err);
    if (!strstr(r->s->error.text, strerror(fault->errnum)) || !strstr(r->s->error.text, r->dir))
        fail_msg("the reason is not clear: \"%s\"", r->s->error.text);
    assert_int_equal(0, atomic_load(&r->s->fatals));
}

/* The journal is not touched again after the operation that failed. */
static void check_nothing_more_is_written(const struct fault_run *r)
{
    for (size_t i = r->hit.event; i < r->f->event_count; i++) {
        const struct fs_event *e = &r->f->events[i];

        if (begins(e->name, "journal-") && !e->failed &&
            (e->op == FS_PWRITE || e->op == FS_FDATASYNC) && i > r->hit.event)
            fail_msg("%s %s after the failure", fs_op_name(e->op), e->name);
    }
}

static void check_end(const struct fault_run *r, const struct fs_fault *fault)
{
    assert_int_equal(1, atomic_load(&r->s->fatals));
    if (!strstr(r->s->fatal, strerror(fault->errnum)) || !strstr(r->s->fatal, r->dir))
        fail_msg("the reason is not clear: \"%s\"", r->s->fatal);
    if (r->not_silent)
        fail_msg("after the failure some call did not get IO");
    if (begins(r->hit.name, "journal-") && (r->hit.op == FS_PWRITE || r->hit.op == FS_FDATASYNC))
        check_nothing_more_is_written(r);
}

static void check_outcome(const struct fault_run *r, const struct fs_fault *fault)
{
    bool in_time = r->hit.count > 0; /* before the store was closed */

    if (r->open_err)
        check_opening(r, fault);
    else if (in_time && is_final(fault, &r->hit))
        check_end(r, fault);
    else if (in_time || fault->op == FS_UNLINK)
        assert_int_equal(0, atomic_load(&r->s->fatals));
    if (!r->open_err && !r->fatals)
        expect_err(0, r->err);
    assert_int_equal(0, fs_faulty_open_count(r->f));
}

/* The nth operation for n = 1, 2, ... Returns how many there were, or a little less. */
static int each_operation(struct fs_fault fault)
{
    int step = (int)short_run_stride(7);
    bool more = true;

    for (fault.nth = 1; more; fault.nth += step) {
        struct fault_run r;

        fault_run(&r, &before, &fault);
        more = r.end_hit.count > 0;
        describe(&fault, &r.end_hit);
        check_outcome(&r, &fault);
        fault_run_check(&r);
        fault_run_release(&r);
        done();
    }
    return fault.nth - 1 - step;
}

/* The least number of operations of each kind in a run. */
static const struct {
    enum fs_op op;
    int at_least;
} OPERATIONS[] = {
    {FS_OPEN, 15},     {FS_PWRITE, 35}, {FS_FDATASYNC, 20}, {FS_FSYNC, 15},
    {FS_FTRUNCATE, 1}, {FS_RENAME, 7},  {FS_UNLINK, 4},
};

enum { OPERATION_COUNT = sizeof OPERATIONS / sizeof *OPERATIONS };

static void each_operation_of_each_kind(struct fs_fault fault)
{
    for (size_t i = 0; i < OPERATION_COUNT; i++) {
        int count;

        fault.op = OPERATIONS[i].op;
        count = each_operation(fault);

        assert_true(count >= OPERATIONS[i].at_least || is_short_run());
    }
}

static void input_or_output_fails(void **state)
{
    (void)state;
    each_operation_of_each_kind((struct fs_fault){.errnum = EIO});
}

static void input_or_output_fails_from_then_on(void **state)
{
    (void)state;
    each_operation_of_each_kind((struct fs_fault){.errnum = EIO, .stays = true});
}

static void the_disk_is_full(void **state)
{
    (void)state;
    each_operation_of_each_kind((struct fs_fault){.errnum = ENOSPC});
}

static void a_write_is_torn(void **state)
{
    (void)state;
    each_operation((struct fs_fault){.op = FS_PWRITE, .kind = FAULT_TORN, .errnum = EIO});
    each_operation((struct fs_fault){.op = FS_PWRITE, .kind = FAULT_TORN, .errnum = ENOSPC});
}

static void a_write_is_short(void **state)
{
    (void)state;
    each_operation((struct fs_fault){.op = FS_PWRITE, .kind = FAULT_SHORT});
}

/* Every write, and every repeated write after a short one. */
static void all_writes_are_short(void **state)
{
    struct fs_fault fault = {.op = FS_PWRITE, .nth = 1, .kind = FAULT_SHORT, .stays = true};
    struct fault_run r;

    (void)state;
    fault_run(&r, &before, &fault);
    assert_true(r.hit.count > 100);
    check_outcome(&r, &fault);
    fault_run_check(&r);
    fault_run_release(&r);
}

static void nothing_fails(void **state)
{
    struct fault_run r;

    (void)state;
    fault_run(&r, &before, &(struct fs_fault){0});
    expect_err(0, r.open_err);
    expect_err(0, r.err);
    assert_int_equal(0, r.refused);
    assert_int_equal(0, atomic_load(&r.s->fatals));
    assert_int_equal(0, fs_faulty_open_count(r.f));
    fault_run_check(&r);
    fault_run_release(&r);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_fails),
        cmocka_unit_test(input_or_output_fails),
        cmocka_unit_test(input_or_output_fails_from_then_on),
        cmocka_unit_test(the_disk_is_full),
        cmocka_unit_test(a_write_is_torn),
        cmocka_unit_test(a_write_is_short),
        cmocka_unit_test(all_writes_are_short),
    };

    int failed;

    fault_run_before(&before);
    failed = run_group(tests);
    image_release(&before);
    return failed;
}
