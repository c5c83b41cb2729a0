/*
 * A crash at every keeper call of every operation, before it and after it, and a connection that
 * breaks at every call and comes back: the tree is as before or as after, never between, and what must
 * always hold holds. When the dead session is gone, the operation can be done by another.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "batch/access.h"
#include "batch/batch.h"
#include "batch/job.h"
#include "batch/lock.h"
#include "batch_tree.h"
#include "keeper/local.h"
#include "keeper_cutter.h"

struct scene {
    struct local *local;
    struct keeper *k, *victim; /* who looks, and who is killed */
    struct depot *depot;
    struct arena a;
    struct err_info why;
    struct call c;
    char bid[NAME_ID_LEN + 1], jids[3][NAME_ID_LEN + 1], qid[NAME_ID_LEN + 1];
    int64_t token;
};

static const struct json *parse(struct scene *s, const char *text)
{
    return json_parse(&s->a, str_of(text), &s->why);
}

static void ok(struct scene *s, int err)
{
    if (err < 0)
        fail_msg("%s (%s)", drover_err_name(err), s->why.text);
}

/* A batch with three jobs, and an access item. */
static void begin(struct scene *s)
{
    struct local_options lo = {.mode = LOCAL_NONE};
    struct depot_options o = {.machines = NULL};
    struct job_spec specs[3];

    memset(s, 0, sizeof *s);
    assert_int_equal(local_open(&lo, &s->local, &s->why), 0);
    assert_int_equal(local_connect(s->local, NULL, &s->k), 0);
    assert_int_equal(local_connect(s->local, NULL, &s->victim), 0);
    assert_int_equal(depot_open(&o, &s->depot), 0);
    s->c = (struct call){s->depot, s->k, &s->a, &s->why};
    ok(s, depot_init(&s->c));
    ok(s, batch_create(&s->c, parse(s, "{\"batchID\":\"u\"}"), s->bid));
    for (int i = 0; i < 3; i++)
        ok(s, job_read_spec(&s->c, parse(s, "{\"configuration\":{\"profile_name\":\"p\"}}"),
                            &specs[i]));
    ok(s, job_create(&s->c, str_of(s->bid), specs, 3, s->jids));
    ok(s, access_create(&s->c, ACCESS_SMALL, parse(s, "{}"), s->qid));
}

static void end(struct scene *s)
{
    if (s->victim)
        keeper_close(s->victim);
    keeper_close(s->k);
    depot_close(s->depot);
    local_close(s->local);
    arena_release(&s->a);
}

static int move_on(struct call *c, const char *jid, const char *state, int64_t token)
{
    struct job_move m = {.state = str_of(state), .priority = -1, .token = token};
    int to;

    return job_move(c, str_of(jid), &m, &to);
}

static void drive(struct scene *s, int job)
{
    for (int i = 0; i < 7; i++)
        ok(s, move_on(&s->c, s->jids[job], "next", 0));
}

static int move_batch(struct call *c, const char *bid, const char *state, int64_t token)
{
    struct batch_move m = {.state = str_of(state), .token = token};
    int to;

    return batch_move(c, str_of(bid), &m, &to);
}

/* What comes before each operation, done by others. */

static void nothing(struct scene *s)
{
    (void)s;
}

static void almost_done(struct scene *s)
{
    drive(s, 0);
    drive(s, 1);
    for (int i = 0; i < 6; i++)
        ok(s, move_on(&s->c, s->jids[2], "next", 0));
}

static void one_failed(struct scene *s)
{
    ok(s, move_on(&s->c, s->jids[0], "fail", 0));
}

static void held(struct scene *s)
{
    ok(s, job_hold(&s->c, str_of(s->jids[0]), STR("wait")));
}

static void due(struct scene *s)
{
    one_failed(s);
    drive(s, 1);
    drive(s, 2);
}

static void completed(struct scene *s)
{
    for (int i = 0; i < 3; i++)
        drive(s, i);
    ok(s, move_batch(&s->c, s->bid, "next", 0));
}

/* The operations. c is the victim's; the token was taken by it before the cutting begins. */

static int do_create_batch(struct scene *s, struct call *c)
{
    char bid[NAME_ID_LEN + 1];

    return batch_create(c, parse(s, "{\"batchID\":\"v\"}"), bid);
}

static int do_create_jobs(struct scene *s, struct call *c)
{
    struct job_spec specs[2];
    char jids[2][NAME_ID_LEN + 1];

    for (int i = 0; i < 2; i++)
        ok(s, job_read_spec(&s->c, parse(s, "{\"configuration\":{}}"), &specs[i]));
    return job_create(c, str_of(s->bid), specs, 2, jids);
}

static int do_acquire(struct scene *s, struct call *c)
{
    struct job j;
    int got = job_acquire(c, s->depot->machines.job.first, &j);

    return got < 0 ? got : 0;
}

static void take_job(struct scene *s, struct call *c)
{
    struct job j;

    assert_int_equal(job_acquire(c, s->depot->machines.job.first, &j), 1);
    s->token = j.token;
}

static int do_move(struct scene *s, struct call *c)
{
    struct job_move m = {
        .state = STR("next"), .message = STR("m"), .priority = 1, .token = s->token};
    int to;

    return job_move(c, str_of(s->jids[0]), &m, &to);
}

static int do_fail(struct scene *s, struct call *c)
{
    return move_on(c, s->jids[0], "fail", s->token);
}

static int do_last_move(struct scene *s, struct call *c)
{
    return move_on(c, s->jids[2], "next", 0);
}

static int do_hold(struct scene *s, struct call *c)
{
    return job_hold(c, str_of(s->jids[0]), STR("wait"));
}

static int do_release(struct scene *s, struct call *c)
{
    return job_release(c, str_of(s->jids[0]));
}

static int do_requeue(struct scene *s, struct call *c)
{
    return job_requeue(c, str_of(s->jids[0]), (struct str){0}, (struct str){0});
}

static int do_priority(struct scene *s, struct call *c)
{
    return job_set_priority(c, str_of(s->jids[0]), 3, 0);
}

static int do_field(struct scene *s, struct call *c)
{
    return job_set_field(c, str_of(s->jids[0]), "inventory", STR("{}"), 0);
}

static int do_acquire_batch(struct scene *s, struct call *c)
{
    char bid[NAME_ID_LEN + 1];
    int64_t token;
    int got = batch_acquire(c, s->depot->batch.pending, bid, &token);

    return got < 0 ? got : 0;
}

static void take_batch(struct scene *s, struct call *c)
{
    char bid[NAME_ID_LEN + 1];

    assert_int_equal(batch_acquire(c, s->depot->batch.reporting, bid, &s->token), 1);
}

static int do_report(struct scene *s, struct call *c)
{
    return move_batch(c, s->bid, "next", s->token);
}

static int do_hold_batch(struct scene *s, struct call *c)
{
    return move_batch(c, s->bid, "Held", 0);
}

static int do_delete_batch(struct scene *s, struct call *c)
{
    return batch_delete(c, str_of(s->bid));
}

static int do_delete_job(struct scene *s, struct call *c)
{
    return job_delete(c, str_of(s->jids[0]));
}

static int do_lock(struct scene *s, struct call *c)
{
    struct lock lock;

    (void)s;
    return lock_take(c, LOCK_STORAGE, STR("ark:/1/2"), STR("me"), &lock);
}

static int do_create_access(struct scene *s, struct call *c)
{
    char id[NAME_ID_LEN + 1];

    return access_create(c, ACCESS_LARGE, parse(s, "{}"), id);
}

static int do_acquire_access(struct scene *s, struct call *c)
{
    struct access a;
    int got = access_acquire(c, ACCESS_SMALL, &a);

    (void)s;
    return got < 0 ? got : 0;
}

static int do_move_access(struct scene *s, struct call *c)
{
    int to;

    return access_move(c, ACCESS_SMALL, str_of(s->qid), STR("next"), (struct str){0}, 0, &to);
}

static const struct {
    const char *name;
    void (*before)(struct scene *s);
    void (*take)(struct scene *s, struct call *c); /* by the victim */
    int (*op)(struct scene *s, struct call *c);
    bool steps; /* more than one transaction: only what always holds is checked */
} OPS[] = {
    {"create batch", nothing, NULL, do_create_batch, false},
    {"create jobs", nothing, NULL, do_create_jobs, false},
    {"acquire job", nothing, NULL, do_acquire, false},
    {"move job", nothing, take_job, do_move, false},
    {"fail job", nothing, take_job, do_fail, false},
    {"last move", almost_done, NULL, do_last_move, false},
    {"hold job", nothing, NULL, do_hold, false},
    {"release job", held, NULL, do_release, false},
    {"requeue job", one_failed, NULL, do_requeue, false},
    {"requeue after report", due, NULL, do_requeue, false},
    {"set priority", nothing, NULL, do_priority, false},
    {"set field", nothing, NULL, do_field, false},
    {"acquire batch", nothing, NULL, do_acquire_batch, false},
    {"report", due, take_batch, do_report, false},
    {"hold batch", nothing, NULL, do_hold_batch, false},
    {"delete batch", completed, NULL, do_delete_batch, true},
    {"delete job", completed, NULL, do_delete_job, false},
    {"lock", nothing, NULL, do_lock, false},
    {"create access", nothing, NULL, do_create_access, false},
    {"acquire access", nothing, NULL, do_acquire_access, false},
    {"move access", nothing, NULL, do_move_access, false},
};

enum { OP_COUNT = sizeof OPS / sizeof *OPS };

static void prepare(struct scene *s, int op)
{
    begin(s);
    OPS[op].before(s);
    if (OPS[op].take) {
        struct call c = {s->depot, s->victim, &s->a, &s->why};

        OPS[op].take(s, &c);
    }
}

/* The tree without the locks of the dead: what others see then. */
static char *text_without_victim(struct scene *s)
{
    keeper_close(s->victim);
    s->victim = NULL;
    return tree_text(s->k, "/");
}

static void references(int op, char **ret_before, char **ret_after)
{
    struct scene s;
    struct call c;

    prepare(&s, op);
    *ret_before = text_without_victim(&s);
    end(&s);
    prepare(&s, op);
    c = (struct call){s.depot, s.victim, &s.a, &s.why};
    ok(&s, OPS[op].op(&s, &c));
    *ret_after = text_without_victim(&s);
    end(&s);
}

/* True when the operation has no nth call. */
static bool cut_at(int op, int n, int err, bool after, bool once, const char *was, const char *is)
{
    struct scene s;
    struct cutter cut;
    struct call c;
    char *text;
    bool over;
    int got;

    prepare(&s, op);
    cutter_init(&cut, s.victim, n, err, after);
    cut.once = once;
    c = (struct call){s.depot, &cut.base, &s.a, &s.why};
    got = OPS[op].op(&s, &c);
    text = text_without_victim(&s);
    tree_check(s.k);
    if (!OPS[op].steps && strcmp(text, was) != 0 && strcmp(text, is) != 0)
        fail_msg("%s, cut at call %d%s: the tree is\n%s", OPS[op].name, n, after ? " after" : "",
                 text);
    if (!OPS[op].steps && got == 0 && strcmp(text, is) != 0)
        fail_msg("%s, cut at call %d: it said that it was done", OPS[op].name, n);
    over = !cut.cut;
    free(text);
    end(&s);
    return over;
}

static void cut_everywhere(int err, bool after, bool once)
{
    for (int op = 0; op < OP_COUNT; op++) {
        char *before, *is;
        int n = 0;

        references(op, &before, &is);
        while (!cut_at(op, n, err, after, once, before, is))
            n++;
        assert_true(n > 0);
        free(before);
        free(is);
    }
}

static void a_crash_before_every_call(void **state)
{
    (void)state;
    cut_everywhere(DROVER_SESSION_EXPIRED, false, false);
}

static void a_crash_after_every_call(void **state)
{
    (void)state;
    cut_everywhere(DROVER_SESSION_EXPIRED, true, false);
}

static void a_connection_that_breaks_before_every_call(void **state)
{
    (void)state;
    cut_everywhere(DROVER_UNKNOWN, false, true);
}

static void a_connection_that_breaks_after_every_call(void **state)
{
    (void)state;
    cut_everywhere(DROVER_UNKNOWN, true, true);
}

/* The report of a batch whose reporter dies goes to another, and the dead one is fenced. */
static void a_reporter_that_seemed_dead_reports_nothing(void **state)
{
    char bid[NAME_ID_LEN + 1];
    struct call victim;
    struct scene s;
    int64_t old_number, number, token;

    (void)state;
    begin(&s);
    due(&s);
    victim = (struct call){s.depot, s.victim, &s.a, &s.why};
    ok(&s, batch_report_number(&s.c, str_of(s.bid), s.depot->batch.reporting, &old_number));
    take_batch(&s, &victim);
    ok(&s, lock_drop(&s.c, "batches", s.bid, 0));
    assert_int_equal(batch_acquire(&s.c, s.depot->batch.reporting, bid, &token), 1);
    ok(&s, batch_report_number(&s.c, str_of(s.bid), s.depot->batch.reporting, &number));
    assert_int_equal(number, old_number);
    assert_int_equal(move_batch(&victim, s.bid, "next", s.token), DROVER_FENCED);
    ok(&s, move_batch(&s.c, s.bid, "next", token));
    assert_int_equal(move_batch(&victim, s.bid, "next", s.token), DROVER_FENCED);
    assert_int_equal(batch_acquire(&s.c, s.depot->batch.reporting, bid, &token), 0);
    tree_check(s.k);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_before_every_call),
        cmocka_unit_test(a_crash_after_every_call),
        cmocka_unit_test(a_connection_that_breaks_before_every_call),
        cmocka_unit_test(a_connection_that_breaks_after_every_call),
        cmocka_unit_test(a_reporter_that_seemed_dead_reports_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
