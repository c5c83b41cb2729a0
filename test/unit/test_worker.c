/* The worker's state machine, step by step. The simulation tests it among others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "queue/worker.h"

/* How many queues the worker owns, as far as it knows; with a name: whether it owns that one. */
static size_t owned(const struct queue_worker *w, const char *queue)
{
    size_t count = 0;

    for (size_t i = 0; i < w->assignment_count; i++)
        if (!queue || !strcmp(w->assignments[i].queue, queue))
            count += queue_assignment_is_held(&w->assignments[i]);
    return count;
}

static const char A[] = "0000000000000000000000000000000a",
                  B[] = "0000000000000000000000000000000b";

/* The lists: this worker, perhaps another, and queues. */
struct lists {
    struct queue_membership membership;
    struct queue_member workers[2];
    const char *queues[2];
    struct str held[2];
};

static const struct queue_membership *lists(struct lists *l, size_t workers, size_t queues)
{
    *l = (struct lists){.workers = {{.name = "worker-1"}, {.name = "worker-2"}}, .queues = {A, B}};
    l->membership.workers = l->workers;
    l->membership.worker_count = workers;
    l->membership.queues = l->queues;
    l->membership.queue_count = queues;
    return &l->membership;
}

static struct queue_worker_action next(struct queue_worker *w, int64_t now_ms,
                                       enum queue_worker_kind kind)
{
    struct queue_worker_action a;

    queue_worker_next(w, now_ms, &a);
    assert_int_equal(a.kind, kind);
    return a;
}

static void begin(struct queue_worker *w, int64_t quiet_ms, enum queue_worker_policy policy)
{
    queue_worker_init(w, &(struct queue_worker_options){.quiet_ms = quiet_ms,
                                                        .poll_ms = 1000,
                                                        .timeout_ms = 9000,
                                                        .policy = policy,
                                                        .retries = 2,
                                                        .back_off_ms = WORKER_BACKOFF_MS,
                                                        .parallel = 1});
    next(w, 0, WORKER_JOIN);
    queue_worker_joined(w, 0, 0, "worker-1");
}

/* At time 0, with no quiet time, it owns A and is about to work on it. */
static void begin_with_a(struct queue_worker *w, enum queue_worker_policy policy)
{
    struct lists l;

    begin(w, 0, policy);
    next(w, 0, WORKER_LOOK);
    queue_worker_looked(w, 0, 0, lists(&l, 1, 1));
    assert_string_equal(next(w, 0, WORKER_TAKE).queue, A);
    queue_worker_took(w, 0, A, 0, 10);
}

static void it_waits_until_the_lists_are_quiet(void **state)
{
    struct queue_worker w;

    (void)state;
    begin(&w, 3000, WORKER_RETRY);
    assert_int_equal(next(&w, 0, WORKER_WAIT).at_ms, 3000);
    queue_worker_changed(&w, 2000);
    assert_int_equal(next(&w, 2000, WORKER_WAIT).at_ms, 5000);
    next(&w, 4999, WORKER_WAIT);
    next(&w, 5000, WORKER_LOOK);
    queue_worker_release(&w);
}

static void lists_that_never_rest_are_looked_at_all_the_same(void **state)
{
    struct queue_worker w;
    int64_t at_ms = 0;

    (void)state;
    begin(&w, 3000, WORKER_RETRY);
    for (; at_ms < 28000; at_ms += 1000)
        queue_worker_changed(&w, at_ms);
    assert_int_equal(next(&w, at_ms, WORKER_WAIT).at_ms, 30000);
    queue_worker_changed(&w, 29999);
    next(&w, 30000, WORKER_LOOK);
    queue_worker_release(&w);
}

static void it_works_and_advances_in_turn(void **state)
{
    struct queue_worker w;
    struct queue_worker_action a;

    (void)state;
    begin_with_a(&w, WORKER_RETRY);
    a = next(&w, 0, WORKER_WORK);
    assert_string_equal(a.queue, A);
    assert_int_equal(a.last, 10);
    next(&w, 0, WORKER_WAIT);
    queue_worker_worked(&w, 100, A, WORKER_DONE, 12);
    a = next(&w, 100, WORKER_ADVANCE);
    assert_int_equal(a.last, 12);
    queue_worker_advanced(&w, 100, A, DROVER_UNKNOWN, 10);
    next(&w, 100, WORKER_WAIT); /* no next message before the result is known */
    assert_int_equal(next(&w, 300, WORKER_ADVANCE).last, 12);
    queue_worker_advanced(&w, 300, A, 0, 12);
    assert_int_equal(next(&w, 300, WORKER_WORK).last, 12);
    queue_worker_worked(&w, 310, A, WORKER_NOTHING, 0);
    assert_int_equal(next(&w, 310, WORKER_WAIT).at_ms, 1000); /* a look, as the plan was new */
    queue_worker_release(&w);
}

/* An empty queue is read when a message arrived, and not only when it is due. */
static void a_message_that_is_told_of_is_not_waited_for(void **state)
{
    static const char *const told[] = {A, NULL}; /* of this queue; of any */
    struct queue_worker w;

    (void)state;
    for (int i = 0; i < 2; i++) {
        begin_with_a(&w, WORKER_RETRY);
        next(&w, 0, WORKER_WORK);
        queue_worker_worked(&w, 10, A, WORKER_NOTHING, 0);
        queue_worker_posted(&w, 20, "ffffffffffffffffffffffffffffffff");
        next(&w, 20, WORKER_WAIT);
        queue_worker_posted(&w, 30, told[i]);
        next(&w, 30, WORKER_WORK);
        queue_worker_posted(&w, 40, told[i]); /* while it is read, perhaps too early */
        queue_worker_worked(&w, 50, A, WORKER_NOTHING, 0);
        next(&w, 50, WORKER_WORK);
        queue_worker_worked(&w, 60, A, WORKER_FAILED, 11); /* this one is still retried later */
        queue_worker_posted(&w, 70, told[i]);
        next(&w, 70, WORKER_WAIT);
        queue_worker_release(&w);
    }
}

static void before_a_message_is_begun_the_session_is_confirmed(void **state)
{
    struct queue_worker w;

    (void)state;
    begin_with_a(&w, WORKER_RETRY);
    next(&w, 3000, WORKER_LOOK);
    queue_worker_looked(&w, 3000, DROVER_UNKNOWN, NULL);
    next(&w, 3001, WORKER_CONFIRM); /* more than a third of the timeout after the take */
    queue_worker_confirmed(&w, 3001, DROVER_UNKNOWN);
    assert_int_equal(next(&w, 3001, WORKER_WAIT).at_ms, 3200);
    next(&w, 3200, WORKER_LOOK);
    queue_worker_looked(&w, 3200, DROVER_UNKNOWN, NULL);
    next(&w, 3201, WORKER_CONFIRM);
    queue_worker_confirmed(&w, 3201, 0);
    next(&w, 3201, WORKER_WORK);
    next(&w, 6400, WORKER_LOOK);
    queue_worker_looked(&w, 6400, DROVER_UNKNOWN, NULL);
    next(&w, 6401, WORKER_CONFIRM); /* and while one is in progress */
    queue_worker_confirmed(&w, 6401, DROVER_SESSION_EXPIRED);
    assert_int_equal(owned(&w, A), 0);
    next(&w, 6401, WORKER_JOIN);
    queue_worker_release(&w);
}

static void a_take_in_doubt_is_cleared_up_even_when_nobody_wants_it(void **state)
{
    struct queue_worker w;
    struct lists l;

    (void)state;
    begin(&w, 0, WORKER_RETRY);
    next(&w, 0, WORKER_LOOK);
    queue_worker_looked(&w, 0, 0, lists(&l, 1, 1));
    next(&w, 0, WORKER_TAKE);
    queue_worker_took(&w, 0, A, DROVER_UNKNOWN, 0);
    queue_worker_changed(&w, 10);
    next(&w, 10, WORKER_LOOK);
    lists(&l, 2, 1);
    l.held[0] = (struct str){A, 32};
    l.workers[1].queues = l.held; /* the other worker owns it now */
    l.workers[1].queue_count = 1;
    queue_worker_looked(&w, 10, 0, &l.membership);
    assert_string_equal(next(&w, 200, WORKER_TAKE).queue, A);
    queue_worker_took(&w, 200, A, 0, 0);
    assert_string_equal(next(&w, 200, WORKER_RELEASE).queue, A);
    queue_worker_released(&w, 200, A, DROVER_UNKNOWN);
    assert_int_equal(owned(&w, A), 0);
    queue_worker_changed(&w, 201);
    next(&w, 201, WORKER_LOOK);
    queue_worker_looked(&w, 201, DROVER_UNKNOWN, NULL);
    assert_string_equal(next(&w, 400, WORKER_RELEASE).queue, A);
    queue_worker_released(&w, 400, A, 0);
    queue_worker_release(&w);
}

static void what_another_holds_is_taken_when_it_is_free(void **state)
{
    struct queue_worker w;
    struct lists l;

    (void)state;
    begin(&w, 0, WORKER_RETRY);
    next(&w, 0, WORKER_LOOK);
    queue_worker_looked(&w, 0, 0, lists(&l, 1, 1));
    next(&w, 0, WORKER_TAKE);
    queue_worker_took(&w, 0, A, DROVER_IN_USE, 0);
    next(&w, 10, WORKER_WAIT);
    queue_worker_freed(&w, 20, A);
    next(&w, 20, WORKER_TAKE);
    queue_worker_release(&w);
}

static void it_looks_again_also_at_rest(void **state)
{
    struct queue_worker w;
    struct lists l;
    int64_t at_ms = 1000;

    (void)state;
    begin(&w, 0, WORKER_RETRY);
    next(&w, 0, WORKER_LOOK);
    queue_worker_looked(&w, 0, 0, lists(&l, 1, 1));
    next(&w, 0, WORKER_TAKE);
    for (int i = 0; i < 6; i++) { /* another owns it: soon, and then with growing pauses */
        queue_worker_took(&w, at_ms - 1, A, DROVER_IN_USE, 0);
        next(&w, at_ms, WORKER_LOOK);
        queue_worker_looked(&w, at_ms, 0, lists(&l, 1, 1));
        at_ms += INT64_C(1000) << (i + 1) < 10100 ? INT64_C(1000) << (i + 1) : 10100;
    }
    queue_worker_took(&w, at_ms, A, 0, 0);
    next(&w, at_ms, WORKER_LOOK);
    queue_worker_looked(&w, at_ms, 0, lists(&l, 1, 1));
    next(&w, at_ms, WORKER_WORK);
    queue_worker_worked(&w, at_ms, A, WORKER_NOTHING, 0);
    next(&w, at_ms + 10100, WORKER_LOOK);
    queue_worker_release(&w);
}

static void failures_are_tried_again_later_and_later(void **state)
{
    struct queue_worker w;
    struct queue_worker_action a;

    (void)state;
    begin_with_a(&w, WORKER_RETRY);
    a = next(&w, 0, WORKER_WORK);
    assert_false(a.aside);
    queue_worker_worked(&w, 0, A, WORKER_FAILED, 11);
    next(&w, 999, WORKER_WAIT);
    next(&w, 1000, WORKER_LOOK);
    queue_worker_looked(&w, 1000, DROVER_UNKNOWN, NULL);
    a = next(&w, 1000, WORKER_WORK);
    assert_false(a.aside);
    assert_int_equal(a.last, 10);
    queue_worker_worked(&w, 1000, A, WORKER_FAILED, 11);
    next(&w, 1200, WORKER_LOOK);
    queue_worker_looked(&w, 1200, DROVER_UNKNOWN, NULL);
    next(&w, 1300, WORKER_WAIT);
    next(&w, 2999, WORKER_LOOK);
    queue_worker_looked(&w, 2999, DROVER_UNKNOWN, NULL);
    a = next(&w, 3000, WORKER_WORK);
    assert_true(a.aside); /* after two failures it goes to the error queue */
    queue_worker_worked(&w, 3000, A, WORKER_DONE, 11);
    assert_int_equal(next(&w, 3000, WORKER_ADVANCE).last, 11);
    queue_worker_release(&w);
}

static void skip_sets_aside_at_once(void **state)
{
    struct queue_worker w;

    (void)state;
    begin_with_a(&w, WORKER_SKIP);
    assert_true(next(&w, 0, WORKER_WORK).aside);
    queue_worker_release(&w);
}

static void stop_gives_everything_up(void **state)
{
    struct queue_worker w;

    (void)state;
    begin_with_a(&w, WORKER_STOP);
    assert_false(next(&w, 0, WORKER_WORK).aside);
    queue_worker_worked(&w, 0, A, WORKER_FAILED, 11);
    assert_string_equal(next(&w, 0, WORKER_RELEASE).queue, A);
    queue_worker_released(&w, 0, A, 0);
    next(&w, 0, WORKER_END);
    queue_worker_release(&w);
}

static void who_is_asked_to_stop_finishes_what_is_in_hand(void **state)
{
    struct queue_worker w;

    (void)state;
    begin_with_a(&w, WORKER_RETRY);
    next(&w, 0, WORKER_WORK);
    queue_worker_stop(&w, 10);
    next(&w, 10, WORKER_WAIT);
    queue_worker_worked(&w, 20, A, WORKER_DONE, 11);
    next(&w, 20, WORKER_ADVANCE);
    queue_worker_advanced(&w, 20, A, 0, 11);
    next(&w, 20, WORKER_RELEASE);
    queue_worker_released(&w, 20, A, 0);
    next(&w, 20, WORKER_END);
    queue_worker_release(&w);
}

/*
 * The session ends with a message in progress: the queue is not touched before that one has ended.
 */
static void a_message_of_a_lost_session_is_waited_for(void **state)
{
    struct queue_worker w;
    struct lists l;

    (void)state;
    begin_with_a(&w, WORKER_RETRY);
    next(&w, 0, WORKER_WORK);
    queue_worker_expired(&w, 100);
    assert_int_equal(owned(&w, NULL), 0);
    next(&w, 100, WORKER_JOIN);
    queue_worker_joined(&w, 100, 0, "worker-1");
    next(&w, 100, WORKER_LOOK);
    queue_worker_looked(&w, 100, 0, lists(&l, 1, 1));
    next(&w, 100, WORKER_WAIT);
    queue_worker_worked(&w, 200, A, WORKER_DONE, 11);
    next(&w, 200, WORKER_TAKE); /* and its result does not count */
    queue_worker_took(&w, 200, A, 0, 10);
    assert_int_equal(next(&w, 200, WORKER_WORK).last, 10);
    queue_worker_release(&w);
}

static void a_namespace_that_is_gone_is_made_again(void **state)
{
    struct queue_worker w;

    (void)state;
    begin(&w, 0, WORKER_RETRY);
    next(&w, 0, WORKER_LOOK);
    queue_worker_looked(&w, 0, DROVER_NO_NODE, NULL);
    next(&w, 0, WORKER_JOIN);
    queue_worker_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_waits_until_the_lists_are_quiet),
        cmocka_unit_test(lists_that_never_rest_are_looked_at_all_the_same),
        cmocka_unit_test(it_works_and_advances_in_turn),
        cmocka_unit_test(a_message_that_is_told_of_is_not_waited_for),
        cmocka_unit_test(before_a_message_is_begun_the_session_is_confirmed),
        cmocka_unit_test(a_take_in_doubt_is_cleared_up_even_when_nobody_wants_it),
        cmocka_unit_test(what_another_holds_is_taken_when_it_is_free),
        cmocka_unit_test(it_looks_again_also_at_rest),
        cmocka_unit_test(failures_are_tried_again_later_and_later),
        cmocka_unit_test(skip_sets_aside_at_once),
        cmocka_unit_test(stop_gives_everything_up),
        cmocka_unit_test(who_is_asked_to_stop_finishes_what_is_in_hand),
        cmocka_unit_test(a_message_of_a_lost_session_is_waited_for),
        cmocka_unit_test(a_namespace_that_is_gone_is_made_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
