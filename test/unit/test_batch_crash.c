/*
 * A crash at every keeper call of every operation, before it and after it, and a connection that
 * breaks at every call and comes back: the tree is as before or as after the operation, and the
 * invariants hold. When the session of the crashed process has ended, another one can do the
 * operation.
 */
#include "batch/item.h"
#include "batch_ops.h"
#include "keeper_cutter.h"

static void prepare(struct scene *s, int op)
{
    begin(s);
    OPS[op].before(s);
    if (OPS[op].take) {
        struct batch_call c = {s->store, s->victim, &s->a, &s->why};

        OPS[op].take(s, &c);
    }
}

/* The tree after the session of the victim has ended. */
static char *text_without_victim(struct scene *s)
{
    keeper_close(s->victim);
    s->victim = NULL;
    return tree_text(s->k, "/");
}

static void references(int op, char **ret_before, char **ret_after)
{
    struct scene s;
    struct batch_call c;

    prepare(&s, op);
    *ret_before = text_without_victim(&s);
    end(&s);
    prepare(&s, op);
    c = (struct batch_call){s.store, s.victim, &s.a, &s.why};
    ok(&s, OPS[op].op(&s, &c));
    *ret_after = text_without_victim(&s);
    end(&s);
}

static void expect_whole(int op, int n, int got, const char *text, const char *was, const char *is)
{
    if (strcmp(text, was) != 0 && strcmp(text, is) != 0)
        fail_msg("%s, cut at call %d: the tree is\n%s", OPS[op].name, n, text);
    if (got == 0 && strcmp(text, is) != 0)
        fail_msg("%s, cut at call %d: it said that it was done", OPS[op].name, n);
}

/* Another session repeats the operation: it is then done exactly once. */
static void expect_finished(struct scene *s, int op, int n, const char *is)
{
    int err = OPS[op].op(s, &s->c);
    char *text = tree_text(s->k, "/");

    if (err && err != DROVER_NO_NODE)
        fail_msg("%s, cut at call %d, again: %s", OPS[op].name, n, s->why.text);
    if (strcmp(text, is) != 0)
        fail_msg("%s, cut at call %d and done again: the tree is\n%swanted\n%s", OPS[op].name, n,
                 text, is);
    free(text);
    tree_check(s->k);
}

/* Returns true if the operation makes fewer than n calls. */
static bool cut_at(int op, int n, int err, bool after, bool once, const char *was, const char *is)
{
    struct scene s;
    struct cutter cut;
    struct batch_call c;
    char *text;
    int64_t wrong;
    int got;

    prepare(&s, op);
    wrong = OPS[op].how == REPAIR ? findings(&s) : 0;
    cutter_init(&cut, s.victim, n, err, after);
    cut.once = once;
    c = (struct batch_call){s.store, &cut.base, &s.a, &s.why};
    got = OPS[op].op(&s, &c);
    text = text_without_victim(&s);
    if (OPS[op].how == WHOLE)
        expect_whole(op, n, got, text, was, is);
    if (OPS[op].how == REPAIR)
        assert_true(findings(&s) <= wrong);
    else
        tree_check(s.k);
    if (OPS[op].how != WHOLE)
        expect_finished(&s, op, n, is);
    free(text);
    end(&s);
    return !cut.cut;
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

/* If a reporter dies, another one acquires the batch, and the dead one is fenced. */
static void a_reporter_that_seemed_dead_reports_nothing(void **state)
{
    char bid[BATCH_ID_LEN + 1];
    struct batch_call victim;
    struct scene s;
    int64_t old_number, number, token;

    (void)state;
    begin(&s);
    due(&s);
    victim = (struct batch_call){s.store, s.victim, &s.a, &s.why};
    ok(&s, batch_report_number(&s.c, str_of(s.bid), s.store->batch.reporting, &old_number));
    take_batch(&s, &victim);
    ok(&s, batch_item_unlock(&s.c, BATCH_KIND_BATCH, str_of(s.bid), 0));
    assert_int_equal(acquire_batch(&s.c, s.store->batch.reporting, bid, &token), 1);
    ok(&s, batch_report_number(&s.c, str_of(s.bid), s.store->batch.reporting, &number));
    assert_int_equal(number, old_number);
    assert_int_equal(move_batch(&victim, s.bid, "next", s.token), DROVER_FENCED);
    ok(&s, move_batch(&s.c, s.bid, "next", token));
    assert_int_equal(move_batch(&victim, s.bid, "next", s.token), DROVER_FENCED);
    assert_int_equal(acquire_batch(&s.c, s.store->batch.reporting, bid, &token), 0);
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
