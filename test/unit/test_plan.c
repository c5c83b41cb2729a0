/* The plan of a graph: its rules, one by one. test_plan_model.c compares it with a model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dag/plan.h"

static uint32_t add(struct dag_plan *p, struct plan_spec s, int parent_count, ...)
{
    uint32_t parents[8], ref;
    struct plan_changes changes = {0};
    va_list ap;

    va_start(ap, parent_count);
    for (int i = 0; i < parent_count; i++)
        parents[i] = va_arg(ap, uint32_t);
    va_end(ap);
    s.parents = parents;
    s.parent_count = (uint32_t)parent_count;
    if (!s.node.id)
        s.node.id = p->used + 1;
    assert_true(plan_add(p, &s, 1, &ref, &changes));
    plan_changes_release(&changes);
    return ref;
}

static void end(struct dag_plan *p, uint32_t ref, enum node_state state, enum node_branch taken)
{
    struct plan_changes changes = {0};

    if (p->nodes[ref].state == NODE_INCIPIENT && p->nodes[ref].place)
        plan_start(p, ref);
    plan_end(p, ref, state, taken, &changes);
    plan_changes_release(&changes);
}

static void retry(struct dag_plan *p, uint32_t ref)
{
    struct plan_changes changes = {0};

    plan_retry(p, ref, &changes);
    plan_changes_release(&changes);
}

#define assert_state(p, ref, expected) assert_int_equal((p)->nodes[ref].state, expected)
#define assert_ready(p, ref) assert_true((p)->nodes[ref].place && !(p)->nodes[ref].state)
#define assert_waits(p, ref) assert_true(!(p)->nodes[ref].place && !(p)->nodes[ref].state)

static void a_child_waits_for_all_parents(void **state)
{
    struct dag_plan p = {0};
    uint32_t a = add(&p, (struct plan_spec){0}, 0), b = add(&p, (struct plan_spec){0}, 0);
    uint32_t c = add(&p, (struct plan_spec){0}, 2, a, b);

    (void)state;
    assert_ready(&p, a);
    assert_waits(&p, c);
    end(&p, a, NODE_FINISHED, 0);
    assert_waits(&p, c);
    end(&p, b, NODE_FINISHED, 0);
    assert_ready(&p, c);
    plan_release(&p);
}

static void what_can_no_longer_start_is_skipped_at_once(void **state)
{
    struct dag_plan p = {0};
    uint32_t a = add(&p, (struct plan_spec){0}, 0), b = add(&p, (struct plan_spec){0}, 0);
    uint32_t c = add(&p, (struct plan_spec){0}, 2, a, b);
    uint32_t d = add(&p, (struct plan_spec){0}, 1, c);
    uint32_t e = add(&p, (struct plan_spec){.node.when = WHEN_ALWAYS}, 1, d);

    (void)state;
    end(&p, a, NODE_FAILED, 0);
    assert_state(&p, c, NODE_SKIPPED);
    assert_state(&p, d, NODE_SKIPPED);
    assert_ready(&p, e);
    end(&p, b, NODE_FINISHED, 0);
    assert_state(&p, c, NODE_SKIPPED);
    plan_release(&p);
}

static void a_failure_node_wants_one_that_failed(void **state)
{
    static const struct {
        enum node_state a, b;
        bool starts;
    } cases[] = {
        {NODE_FINISHED, NODE_FINISHED, false}, {NODE_FINISHED, NODE_FAILED, true},
        {NODE_FAILED, NODE_FAILED, true},      {NODE_KILLED, NODE_FINISHED, false},
        {NODE_KILLED, NODE_FAILED, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dag_plan p = {0};
        uint32_t a = add(&p, (struct plan_spec){0}, 0), b = add(&p, (struct plan_spec){0}, 0);
        uint32_t c = add(&p, (struct plan_spec){.node.when = WHEN_FAILURE}, 2, a, b);

        end(&p, a, cases[i].a, 0);
        assert_waits(&p, c);
        end(&p, b, cases[i].b, 0);
        if (cases[i].starts)
            assert_ready(&p, c);
        else
            assert_state(&p, c, NODE_SKIPPED);
        plan_release(&p);
    }
}

static void an_if_takes_one_branch(void **state)
{
    for (int taken = BRANCH_THEN; taken <= BRANCH_ELSE; taken++) {
        struct dag_plan p = {0};
        uint32_t i = add(&p, (struct plan_spec){.node.type = NODE_IF}, 0);
        uint32_t then = add(&p, (struct plan_spec){.node.branch = BRANCH_THEN}, 1, i);
        uint32_t other =
            add(&p, (struct plan_spec){.node.branch = BRANCH_ELSE, .node.when = WHEN_ALWAYS}, 1, i);
        uint32_t both = add(&p, (struct plan_spec){0}, 1, i);

        (void)state;
        end(&p, i, NODE_FINISHED, taken);
        assert_ready(&p, taken == BRANCH_THEN ? then : other);
        assert_state(&p, taken == BRANCH_THEN ? other : then, NODE_SKIPPED);
        assert_ready(&p, both);
        plan_release(&p);
    }
}

static void groups_finish_by_themselves(void **state)
{
    struct dag_plan p = {0};
    uint32_t a = add(&p, (struct plan_spec){0}, 0), last = a, c;

    (void)state;
    for (int i = 0; i < 100000; i++)
        last = add(&p, (struct plan_spec){.node.type = NODE_GROUP}, 1, last);
    c = add(&p, (struct plan_spec){0}, 1, last);
    end(&p, a, NODE_FINISHED, 0);
    assert_state(&p, last, NODE_FINISHED);
    assert_ready(&p, c);
    plan_release(&p);
}

static void priority_then_age_decides(void **state)
{
    struct dag_plan p = {0};
    uint32_t a = add(&p, (struct plan_spec){.node.id = 1}, 0);
    uint32_t b = add(&p, (struct plan_spec){.node.id = 2, .node.priority = -5}, 0);
    uint32_t c = add(&p, (struct plan_spec){.node.id = 3, .node.priority = -5}, 0);
    uint32_t other =
        add(&p, (struct plan_spec){.node.id = 4, .node.group = 1, .node.priority = 1}, 0);

    (void)state;
    assert_int_equal(plan_best(&p, 0), b);
    plan_offer(&p, b);
    assert_int_equal(plan_best(&p, 0), b);
    assert_int_equal(plan_best_unoffered(&p, 0), c);
    plan_start(&p, b);
    assert_int_equal(plan_best(&p, 0), c);
    plan_start(&p, c);
    assert_int_equal(plan_best(&p, 0), a);
    plan_start(&p, a);
    assert_int_equal(plan_best(&p, 0), 0);
    assert_int_equal(plan_best(&p, 1), other);
    assert_int_equal(plan_best(&p, 7), 0);
    plan_release(&p);
}

static void cycles_are_refused_and_nothing_is_added(void **state)
{
    uint32_t one[] = {plan_in_batch(2)}, two[] = {plan_in_batch(0)}, three[] = {plan_in_batch(1)};
    struct plan_spec specs[] = {{.parents = one, .parent_count = 1},
                                {.parents = two, .parent_count = 1},
                                {.parents = three, .parent_count = 1},
                                {.parents = NULL}};
    uint32_t self[] = {plan_in_batch(0)}, below[] = {plan_in_batch(1)}, refs[4];
    struct plan_spec alone[] = {{.parents = below, .parent_count = 1},
                                {.parents = self, .parent_count = 1}};
    struct plan_changes changes = {0}, cycle = {0};
    struct dag_plan p = {0};

    (void)state;
    assert_false(plan_add(&p, specs, 4, refs, &changes));
    assert_true(plan_has_cycle(specs, 4, &cycle));
    assert_int_equal(cycle.count, 3); /* 0 waits for 2, 2 for 1, 1 for 0 */
    assert_int_equal(cycle.refs[0], 0);
    assert_int_equal(cycle.refs[1], 2);
    assert_int_equal(cycle.refs[2], 1);
    plan_changes_release(&cycle);
    assert_false(plan_add(&p, alone, 2, refs, &changes)); /* 0 waits for 1, and 1 for 0 */
    self[0] = plan_in_batch(1);
    assert_true(plan_has_cycle(alone, 2, &cycle)); /* 0 is below the cycle, not in it */
    assert_int_equal(cycle.count, 1);
    assert_int_equal(cycle.refs[0], 1);
    plan_changes_release(&cycle);
    assert_int_equal(p.used, 0);
    assert_int_equal(changes.count, 0);
    plan_release(&p);
}

static void retry_brings_back_what_was_skipped(void **state)
{
    struct dag_plan p = {0};
    uint32_t a = add(&p, (struct plan_spec){0}, 0), other = add(&p, (struct plan_spec){0}, 0);
    uint32_t b = add(&p, (struct plan_spec){0}, 2, a, other);
    uint32_t c = add(&p, (struct plan_spec){.node.type = NODE_GROUP}, 1, b);
    uint32_t late = add(&p, (struct plan_spec){.node.when = WHEN_ALWAYS}, 1, c);

    (void)state;
    end(&p, a, NODE_FAILED, 0);
    assert_state(&p, c, NODE_SKIPPED);
    assert_ready(&p, late);
    retry(&p, a);
    assert_ready(&p, a);
    assert_waits(&p, b);
    assert_waits(&p, c);
    assert_waits(&p, late);
    end(&p, a, NODE_FINISHED, 0);
    assert_waits(&p, b);
    end(&p, other, NODE_FINISHED, 0);
    assert_ready(&p, b);
    end(&p, b, NODE_FINISHED, 0);
    assert_state(&p, c, NODE_FINISHED);
    assert_ready(&p, late);
    retry(&p, b);
    assert_state(&p, c, NODE_FINISHED);
    plan_release(&p);
}

/*
 * A hundred layers of a thousand, three edges a node: planned and worked off, far under a second.
 */
static void a_large_graph_is_planned_fast(void **state)
{
    enum { WIDTH = 1000, LAYERS = 100, COUNT = WIDTH * LAYERS };
    struct plan_spec *specs = calloc(COUNT, sizeof *specs);
    uint32_t(*parents)[3] = calloc(COUNT, sizeof *parents), *refs = calloc(COUNT, sizeof *refs);
    struct plan_changes changes = {0};
    uint32_t done = 0;
    struct dag_plan p = {0};
    clock_t from;

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++) {
        specs[i] = (struct plan_spec){.node.id = i + 1, .parents = parents[i]};
        for (uint32_t k = 0; i >= WIDTH && k < 3; k++)
            parents[i][specs[i].parent_count++] =
                plan_in_batch((i / WIDTH - 1) * WIDTH + (i + k * 7) % WIDTH);
    }
    from = clock();
    assert_true(plan_add(&p, specs, COUNT, refs, &changes));
    for (uint32_t ref; (ref = plan_best(&p, 0)); done++) {
        plan_start(&p, ref);
        plan_end(&p, ref, NODE_FINISHED, 0, &changes);
    }
    assert_int_equal(done, COUNT);
    print_message("# %d nodes in %ld ms\n", COUNT,
                  (long)((clock() - from) * 1000 / CLOCKS_PER_SEC));
    assert_true(clock() - from < 3 * CLOCKS_PER_SEC);
    plan_changes_release(&changes);
    plan_release(&p);
    free(specs);
    free(parents);
    free(refs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_waits_for_all_parents),
        cmocka_unit_test(what_can_no_longer_start_is_skipped_at_once),
        cmocka_unit_test(a_failure_node_wants_one_that_failed),
        cmocka_unit_test(an_if_takes_one_branch),
        cmocka_unit_test(groups_finish_by_themselves),
        cmocka_unit_test(priority_then_age_decides),
        cmocka_unit_test(cycles_are_refused_and_nothing_is_added),
        cmocka_unit_test(retry_brings_back_what_was_skipped),
        cmocka_unit_test(a_large_graph_is_planned_fast),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
