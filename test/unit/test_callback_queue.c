/*
 * The callback queue: callbacks run in order, on the right thread, once, not before they may pass
 * the gate, and never after they were withdrawn. To show that a thread does not do something too
 * early, the tests yield to it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "keeper/local/callback_queue.h"

enum { SEEN_MAX = 4000, YIELDS = 2000 };

/* Shared by the callbacks of a test. */
struct scene {
    pthread_mutex_t lock; /* of a store */
    struct gate gate;
    struct callback_queue queue;
    sem_t woken, entered, leave;
    pthread_t threads[SEEN_MAX];
    int seen[SEEN_MAX]; /* the numbers of the callbacks, in the order in which they ran */
    atomic_int seen_count, dropped, inside;
    atomic_bool running, wrong; /* wrong: not asserted on the other thread */
};

struct item {
    struct callback callback;
    struct scene *scene;
    int number;
    void (*action)(struct item *item);
};

static void run_item(struct callback *callback, int err)
{
    struct item *item = (struct item *)callback;
    struct scene *o = item->scene;
    int at = o->seen_count;

    if (err || atomic_exchange(&o->running, true))
        o->wrong = true;
    o->seen[at] = item->number;
    o->threads[at] = pthread_self();
    o->seen_count++;
    if (item->action)
        item->action(item);
    o->running = false;
    free(item);
}

static void drop_item(struct callback *callback)
{
    ((struct item *)callback)->scene->dropped++;
    free(callback);
}

static void post_at(struct scene *o, int64_t lsn, int number, const void *subject,
                    void (*action)(struct item *item))
{
    struct item *item = mem_zalloc(sizeof *item);

    item->callback = (struct callback){.subject = subject, .run = run_item, .drop = drop_item};
    item->scene = o;
    item->number = number;
    item->action = action;
    item->callback.ticket.lsn = lsn;
    pthread_mutex_lock(&o->lock);
    callback_queue_post(&o->queue, &item->callback);
    pthread_mutex_unlock(&o->lock);
}

static void post(struct scene *o, int number, const void *subject,
                 void (*action)(struct item *item))
{
    post_at(o, 0, number, subject, action);
}

static void wake(void *arg)
{
    sem_post(&((struct scene *)arg)->woken);
}

static struct scene *scene_open(bool has_loop)
{
    struct scene *o = mem_zalloc(sizeof *o);
    struct keeper_options options = {.wake = has_loop ? wake : NULL, .wake_arg = o};

    sem_init(&o->woken, 0, 0);
    sem_init(&o->entered, 0, 0);
    sem_init(&o->leave, 0, 0);
    pthread_mutex_init(&o->lock, NULL);
    o->gate.lock = &o->lock;
    callback_queue_init(&o->queue, &o->gate, &options);
    return o;
}

static int set_up(void **state)
{
    return !(*state = scene_open(false));
}

static int set_up_with_a_loop(void **state)
{
    return !(*state = scene_open(true));
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

/* Closes, and expects that exactly these ran. */
static void expect_seen(struct scene *o, const int *numbers, int count)
{
    callback_queue_close(&o->queue);
    assert_false(o->wrong);
    assert_int_equal(o->seen_count, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(o->seen[i], numbers[i]);
}

#define SEEN(o, ...)                                                                               \
    expect_seen(o, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

/* Holds the delivery thread until the test lets it go. */
static void hold(struct item *item)
{
    sem_post(&item->scene->entered);
    sem_wait(&item->scene->leave);
}

static void in_order_on_another_thread(void **state)
{
    struct scene *o = *state;

    for (int i = 0; i < 1000; i++)
        post(o, i, NULL, NULL);
    callback_queue_close(&o->queue);
    assert_int_equal(o->seen_count, 1000);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(o->seen[i], i);
        assert_false(pthread_equal(o->threads[i], pthread_self()));
        assert_true(pthread_equal(o->threads[i], o->threads[0]));
    }
}

static void post_two_more(struct item *item)
{
    post(item->scene, item->number + 1, NULL, NULL);
    post(item->scene, item->number + 2, NULL, item->number < 4 ? post_two_more : NULL);
}

/* "Exactly once, whatever happens": also those that are posted during closing. */
static void closing_delivers_what_is_left(void **state)
{
    struct scene *o = *state;

    post(o, 1, NULL, hold);
    sem_wait(&o->entered);
    post(o, 2, NULL, post_two_more);
    sem_post(&o->leave);
    SEEN(o, 1, 2, 3, 4, 5, 6);
}

static void withdrawn_callbacks_are_dropped(void **state)
{
    struct scene *o = *state;
    static const int a, b;

    post(o, 0, NULL, hold);
    sem_wait(&o->entered);
    post(o, 1, &a, NULL);
    post(o, 2, &b, NULL);
    post(o, 3, &a, NULL);
    post(o, 4, NULL, NULL);
    post(o, 5, &a, NULL);
    assert_false(callback_queue_withdraw(&o->queue, &a));
    assert_int_equal(o->dropped, 3);
    post(o, 6, &a, NULL); /* the queue has an end that can be added to */
    assert_false(callback_queue_withdraw(&o->queue, &b));
    assert_int_equal(o->dropped, 4);
    sem_post(&o->leave);
    SEEN(o, 0, 4, 6);
}

/* A callback that is still running when it is withdrawn. */
struct slow {
    atomic_bool withdrawing, finished;
};

static void finish_slowly(struct item *item)
{
    struct slow *s = (struct slow *)item->callback.subject;

    sem_post(&item->scene->entered);
    while (!s->withdrawing)
        sched_yield();
    for (int i = 0; i < YIELDS; i++)
        sched_yield();
    s->finished = true;
}

static void withdrawing_waits_for_the_one_that_runs(void **state)
{
    struct scene *o = *state;
    struct slow s = {0};

    post(o, 1, &s, finish_slowly);
    post(o, 2, &s, NULL);
    sem_wait(&o->entered);
    s.withdrawing = true;
    assert_false(callback_queue_withdraw(&o->queue, &s));
    assert_true(s.finished);
    assert_int_equal(o->dropped, 1);
    SEEN(o, 1);
}

static void another_subject_need_not_be_waited_for(void **state)
{
    struct scene *o = *state;
    static const int a, b;

    post(o, 1, &a, hold);
    sem_wait(&o->entered);
    post(o, 2, &b, NULL);
    assert_false(callback_queue_withdraw(&o->queue, &b)); /* would never return if it did */
    sem_post(&o->leave);
    SEEN(o, 1);
}

static void withdraw_itself(struct item *item)
{
    static const int other;
    struct scene *o = item->scene;

    post(o, 8, item->callback.subject, NULL);
    post(o, 9, &other, NULL);
    o->inside = callback_queue_withdraw(&o->queue, item->callback.subject) +
                10 * callback_queue_withdraw(&o->queue, &other);
}

/* It must not wait for itself, and must be told that it is inside. */
static void withdrawn_from_inside(void **state)
{
    struct scene *o = *state;
    static const int a;

    post(o, 1, &a, withdraw_itself);
    post(o, 2, NULL, NULL);
    SEEN(o, 1, 2);
    assert_int_equal(o->inside, 1);
    assert_int_equal(o->dropped, 2);
}

static void with_a_loop_the_owner_runs_them(void **state)
{
    struct scene *o = *state;

    for (int i = 0; i < 100; i++)
        post(o, i, NULL, NULL);
    while (o->seen_count < 100) {
        sem_wait(&o->woken); /* a wake that is forgotten would hang here */
        callback_queue_dispatch(&o->queue);
    }
    for (int i = 0; i < 100; i++) {
        assert_int_equal(o->seen[i], i);
        assert_true(pthread_equal(o->threads[i], pthread_self()));
    }
    callback_queue_close(&o->queue);
}

/* Nothing runs before the owner dispatches. */
static void without_dispatch_nothing_runs(void **state)
{
    struct scene *o = *state;

    post(o, 1, NULL, NULL);
    sem_wait(&o->woken);
    for (int i = 0; i < YIELDS; i++)
        sched_yield();
    assert_int_equal(o->seen_count, 0);
    callback_queue_dispatch(&o->queue);
    assert_int_equal(o->seen_count, 1);
    SEEN(o, 1);
}

static void posted_callbacks_can_be_withdrawn(void **state)
{
    struct scene *o = *state;
    static const int a, b;

    post(o, 1, &a, NULL);
    post(o, 2, &b, NULL);
    assert_false(callback_queue_withdraw(&o->queue, &a));
    assert_int_equal(o->dropped, 1);
    SEEN(o, 2);
    assert_true(pthread_equal(o->threads[0], pthread_self()));
}

static void dispatch_again(struct item *item)
{
    callback_queue_dispatch(&item->scene->queue);
    item->scene->inside = callback_queue_withdraw(&item->scene->queue, item->callback.subject);
}

/*
 * Callbacks run one after the other, even when one of them dispatches; and withdraw knows that it
 * is inside.
 */
static void a_callback_that_dispatches(void **state)
{
    struct scene *o = *state;
    static const int a;

    post(o, 1, &a, dispatch_again);
    post(o, 2, NULL, NULL);
    callback_queue_dispatch(&o->queue);
    SEEN(o, 1, 2);
    assert_int_equal(o->inside, 1);
}

static void closing_runs_on_the_owners_thread(void **state)
{
    struct scene *o = *state;

    post(o, 1, NULL, NULL);
    post(o, 2, NULL, post_two_more);
    SEEN(o, 1, 2, 3, 4, 5, 6);
    for (int i = 0; i < 6; i++)
        assert_true(pthread_equal(o->threads[i], pthread_self()));
}

static void raise_gate(struct scene *o, int64_t lsn)
{
    gate_raise(&o->gate, lsn, 0);
    pthread_mutex_lock(&o->lock);
    gate_notify(&o->gate);
    pthread_mutex_unlock(&o->lock);
}

/*
 * A strict gate: each callback runs when the gate has been raised to its LSN, and wakes the owner
 * for that.
 */
static void callbacks_wait_at_the_gate(void **state)
{
    struct scene *o = *state;

    o->gate.strict = true;
    post_at(o, 1, 1, NULL, NULL);
    post_at(o, 2, 2, NULL, NULL);
    callback_queue_dispatch(&o->queue);
    assert_int_equal(o->seen_count, 0);
    assert_int_not_equal(sem_trywait(&o->woken), 0);
    for (int i = 1; i <= 2; i++) {
        raise_gate(o, i);
        assert_int_equal(sem_trywait(&o->woken), 0);
        callback_queue_dispatch(&o->queue);
        assert_int_equal(o->seen_count, i);
    }
    SEEN(o, 1, 2);
}

/* Shut for good: what waits is run with an error, and the owner is woken for it. */
static void callbacks_fail_at_a_gate_that_is_shut(void **state)
{
    struct scene *o = *state;

    o->gate.strict = true;
    post_at(o, 1, 1, NULL, NULL);
    assert_true(gate_shut(&o->gate));
    assert_false(gate_shut(&o->gate));
    raise_gate(o, 0);
    assert_int_equal(sem_trywait(&o->woken), 0);
    callback_queue_dispatch(&o->queue);
    assert_int_equal(o->seen_count, 1);
    assert_true(o->wrong); /* it was given the error */
    callback_queue_close(&o->queue);
}

static void count_move(void *arg)
{
    ++*(int *)arg;
}

/*
 * Several subscriptions of one waiter are one, for the smallest LSN; one that is taken back is not
 * called.
 */
static void subscriptions(void **state)
{
    struct scene *o = *state;
    int moves = 0, others = 0;
    struct gate_waiter w = {.moved = count_move, .arg = &moves};
    struct gate_waiter other = {.moved = count_move, .arg = &others};

    o->gate.strict = true;
    assert_true(gate_subscribe(&o->gate, &w, 5));
    assert_true(gate_subscribe(&o->gate, &w, 3));
    assert_true(gate_subscribe(&o->gate, &w, 4));
    assert_true(gate_subscribe(&o->gate, &other, 3));
    raise_gate(o, 2);
    assert_int_equal(moves + others, 0);
    gate_unsubscribe(&other);
    gate_unsubscribe(&other);
    raise_gate(o, 3);
    raise_gate(o, 9);
    assert_int_equal(moves, 1);
    assert_int_equal(others, 0);
    assert_false(gate_subscribe(&o->gate, &w, 9));
    assert_int_equal(gate_state(&o->gate, 9), 1);
    assert_int_equal(gate_state(&o->gate, 10), 0);
    callback_queue_close(&o->queue);
}

static void *post_many(void *arg)
{
    struct scene *o = arg;

    for (int i = 0; i < 500; i++)
        post(o, i, NULL, NULL);
    return NULL;
}

/* The callbacks of each thread keep their order, and none is lost. */
static void many_threads_post(void **state)
{
    struct scene *o = *state;
    pthread_t threads[4];
    int counts[500] = {0};

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, post_many, o);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    callback_queue_close(&o->queue);
    assert_false(o->wrong);
    assert_int_equal(o->seen_count, 2000);
    for (int i = 0; i < 2000; i++) {
        int number = o->seen[i];

        counts[number]++;
        if (number) /* its poster posted the one before too */
            assert_true(counts[number] <= counts[number - 1]);
    }
    for (int i = 0; i < 500; i++)
        assert_int_equal(counts[i], 4);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
#define LOOP_CASE(function) cmocka_unit_test_setup_teardown(function, set_up_with_a_loop, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(in_order_on_another_thread),
        CASE(closing_delivers_what_is_left),
        CASE(withdrawn_callbacks_are_dropped),
        CASE(withdrawing_waits_for_the_one_that_runs),
        CASE(another_subject_need_not_be_waited_for),
        CASE(withdrawn_from_inside),
        CASE(many_threads_post),
        LOOP_CASE(with_a_loop_the_owner_runs_them),
        LOOP_CASE(without_dispatch_nothing_runs),
        LOOP_CASE(posted_callbacks_can_be_withdrawn),
        LOOP_CASE(a_callback_that_dispatches),
        LOOP_CASE(closing_runs_on_the_owners_thread),
        LOOP_CASE(callbacks_wait_at_the_gate),
        LOOP_CASE(callbacks_fail_at_a_gate_that_is_shut),
        LOOP_CASE(subscriptions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
