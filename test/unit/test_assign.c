/*
 * The assignment: balanced, moving no more than any balanced one must, and stable during the moves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue/membership.h"

enum { WORKERS_MAX = 40, QUEUES_MAX = 200, ROUNDS = 20000 };

static uint64_t seed;

static int pick(int bound)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (int)((seed >> 33) % (uint64_t)bound);
}

struct scene {
    int workers, queues;
    int32_t holders[QUEUES_MAX], owners[QUEUES_MAX];
};

/* Any holders: the state after any number of deaths and joins. */
static void random_scene(struct scene *s)
{
    int favourite;

    s->workers = 1 + pick(WORKERS_MAX);
    s->queues = pick(QUEUES_MAX);
    favourite = pick(s->workers);
    for (int q = 0; q < s->queues; q++) {
        int kind = pick(4);

        s->holders[q] = kind == 0 ? ASSIGN_NOBODY : kind == 1 ? favourite : pick(s->workers);
    }
    assign((size_t)s->workers, (size_t)s->queues, s->holders, s->owners);
}

static void count(const struct scene *s, const int32_t *who, int *counts)
{
    memset(counts, 0, WORKERS_MAX * sizeof *counts);
    for (int q = 0; q < s->queues; q++)
        if (who[q] != ASSIGN_NOBODY)
            counts[who[q]]++;
}

static void everything_is_balanced_to_within_one(void **state)
{
    struct scene s;
    int counts[WORKERS_MAX];

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        random_scene(&s);
        count(&s, s.owners, counts);
        for (int q = 0; q < s.queues; q++)
            assert_in_range(s.owners[q], 0, s.workers - 1);
        for (int w = 0; w < s.workers; w++) {
            assert_true(counts[w] >= s.queues / s.workers);
            assert_true(counts[w] <= (s.queues + s.workers - 1) / s.workers);
        }
    }
}

static int compare(const void *a, const void *b)
{
    return *(const int *)b - *(const int *)a;
}

/*
 * What any balanced assignment must move: a worker above its share releases the rest, and at best
 * the larger shares belong to the workers that hold most.
 */
static int must_move(const struct scene *s)
{
    int counts[WORKERS_MAX], moves = 0;

    count(s, s->holders, counts);
    qsort(counts, (size_t)s->workers, sizeof *counts, compare);
    for (int w = 0; w < s->workers; w++) {
        int share = s->queues / s->workers + (w < s->queues % s->workers);

        moves += counts[w] > share ? counts[w] - share : 0;
    }
    return moves;
}

static int moved(const struct scene *s)
{
    int moves = 0;

    for (int q = 0; q < s->queues; q++)
        moves += s->holders[q] != ASSIGN_NOBODY && s->holders[q] != s->owners[q];
    return moves;
}

static void no_balanced_assignment_moves_less(void **state)
{
    struct scene s;

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        random_scene(&s);
        assert_int_equal(moved(&s), must_move(&s));
    }
}

/* Trying all assignments, the fewest moves are what must_move computes. */
static void try_all(struct scene *s, int q, int *counts, int moves, int *least)
{
    if (q == s->queues) {
        for (int w = 0; w < s->workers; w++)
            if (counts[w] < s->queues / s->workers ||
                counts[w] > (s->queues + s->workers - 1) / s->workers)
                return;
        *least = moves < *least ? moves : *least;
        return;
    }
    for (int w = 0; w < s->workers; w++) {
        counts[w]++;
        try_all(s, q + 1, counts, moves + (s->holders[q] != ASSIGN_NOBODY && s->holders[q] != w),
                least);
        counts[w]--;
    }
}

static void the_least_is_the_least_of_all(void **state)
{
    struct scene s;
    int counts[WORKERS_MAX] = {0}, least;

    (void)state;
    for (int i = 0; i < 300; i++) {
        random_scene(&s);
        s.workers = 1 + s.workers % 3;
        s.queues %= 7;
        for (int q = 0; q < s.queues; q++)
            s.holders[q] = s.holders[q] < 0 ? ASSIGN_NOBODY : s.holders[q] % s.workers;
        assign((size_t)s.workers, (size_t)s.queues, s.holders, s.owners);
        least = QUEUES_MAX;
        try_all(&s, 0, counts, 0, &least);
        assert_int_equal(moved(&s), least);
        assert_int_equal(must_move(&s), least);
    }
}

/* Some queues were released, some of those taken: the result is the same. */
static void whoever_looks_on_the_way_sees_the_same(void **state)
{
    struct scene s;
    int32_t again[QUEUES_MAX];

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        random_scene(&s);
        for (int q = 0; q < s.queues; q++) {
            int progress = pick(3);

            if (s.owners[q] != s.holders[q] && progress)
                s.holders[q] = progress == 1 ? ASSIGN_NOBODY : s.owners[q];
        }
        assign((size_t)s.workers, (size_t)s.queues, s.holders, again);
        assert_memory_equal(again, s.owners, (size_t)s.queues * sizeof *again);
    }
}

static void without_workers_nobody_has_anything(void **state)
{
    int32_t holders[2] = {ASSIGN_NOBODY, ASSIGN_NOBODY}, owners[2] = {7, 7};

    (void)state;
    assign(0, 2, holders, owners);
    assert_int_equal(owners[0], ASSIGN_NOBODY);
    assert_int_equal(owners[1], ASSIGN_NOBODY);
    assign(3, 0, holders, owners);
}

/* The lists, as they are read. */

static const char *const NAMES[] = {
    "00000000000000000000000000000000", "11111111111111111111111111111111",
    "22222222222222222222222222222222", "33333333333333333333333333333333"};

static void of_two_that_claim_a_queue_the_later_holds_it(void **state)
{
    struct str claimed[] = {{NAMES[0], 32}};
    struct queue_member workers[] = {
        {.name = "worker-1", .mzxid = 9, .queues = claimed, .queue_count = 1},
        {.name = "worker-2", .mzxid = 5, .queues = claimed, .queue_count = 1},
    };
    const char *queues[] = {NAMES[0], NAMES[1]};
    struct queue_membership c = {
        .workers = workers, .worker_count = 2, .queues = queues, .queue_count = 2};
    int32_t owners[2];

    (void)state;
    queue_membership_assign(&c, owners);
    assert_int_equal(owners[0], 0);
    assert_int_equal(owners[1], 1);
    workers[1].mzxid = 10;
    queue_membership_assign(&c, owners);
    assert_int_equal(owners[0], 1);
    assert_int_equal(owners[1], 0);
}

static void who_wants_only_some_gets_no_others(void **state)
{
    struct str only[] = {{NAMES[2], 32}, {"no queue at all", 15}};
    struct queue_member workers[] = {
        {.name = "worker-1"},
        {.name = "worker-2", .only = only, .only_count = 2},
        {.name = "worker-3", .only = only, .only_count = 0},
    };
    const char *queues[] = {NAMES[0], NAMES[1], NAMES[2], NAMES[3]};
    struct queue_membership c = {
        .workers = workers, .worker_count = 3, .queues = queues, .queue_count = 4};
    int32_t owners[4];

    (void)state;
    workers[0].only = only;
    workers[0].only_count = 0;
    queue_membership_assign(&c, owners);
    for (int q = 0; q < 4; q++)
        assert_int_equal(owners[q], q == 2 ? 1 : ASSIGN_NOBODY);
    workers[0].only = NULL;
    queue_membership_assign(&c, owners);
    assert_int_equal(owners[0], 0);
    assert_int_equal(owners[1], 0);
    assert_int_equal(owners[3], 0);
    assert_in_range(owners[2], 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_balanced_to_within_one),
        cmocka_unit_test(no_balanced_assignment_moves_less),
        cmocka_unit_test(the_least_is_the_least_of_all),
        cmocka_unit_test(whoever_looks_on_the_way_sees_the_same),
        cmocka_unit_test(without_workers_nobody_has_anything),
        cmocka_unit_test(of_two_that_claim_a_queue_the_later_holds_it),
        cmocka_unit_test(who_wants_only_some_gets_no_others),
    };

    seed = 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
