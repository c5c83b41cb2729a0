/*
 * Callbacks on their way: in order, on the right thread, once; and never after they were withdrawn.
 * What a thread must not do too early is given ample opportunity (by yielding), never waited for.
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

/* What the letters of a test have in common. */
struct post_office {
    struct callback_queue box;
    sem_t woken, entered, leave;
    pthread_t readers[SEEN_MAX];
    int seen[SEEN_MAX]; /* the numbers of the letters, as they were read */
    atomic_int seen_count, dropped, inside;
    atomic_bool reading, wrong; /* wrong: letters must not fail, they run on another thread */
};

struct mail {
    struct callback callback;
    struct post_office *office;
    int number;
    void (*action)(struct mail *mail);
};

static void read_mail(struct callback *callback, int err)
{
    struct mail *mail = (struct mail *)callback;
    struct post_office *o = mail->office;
    int at = o->seen_count;

    if (err || atomic_exchange(&o->reading, true))
        o->wrong = true;
    o->seen[at] = mail->number;
    o->readers[at] = pthread_self();
    o->seen_count++;
    if (mail->action)
        mail->action(mail);
    o->reading = false;
    free(mail);
}

static void drop_mail(struct callback *callback)
{
    ((struct mail *)callback)->office->dropped++;
    free(callback);
}

static void post(struct post_office *o, int number, const void *subject,
                 void (*action)(struct mail *mail))
{
    struct mail *mail = mem_zalloc(sizeof *mail);

    mail->callback = (struct callback){.subject = subject, .run = read_mail, .drop = drop_mail};
    mail->office = o;
    mail->number = number;
    mail->action = action;
    callback_queue_post(&o->box, &mail->callback);
}

static void wake(void *arg)
{
    sem_post(&((struct post_office *)arg)->woken);
}

static struct post_office *office_open(bool has_loop)
{
    struct post_office *o = mem_zalloc(sizeof *o);
    struct keeper_options options = {.wake = has_loop ? wake : NULL, .wake_arg = o};

    sem_init(&o->woken, 0, 0);
    sem_init(&o->entered, 0, 0);
    sem_init(&o->leave, 0, 0);
    callback_queue_init(&o->box, NULL, &options);
    return o;
}

static int set_up(void **state)
{
    return !(*state = office_open(false));
}

static int set_up_with_a_loop(void **state)
{
    return !(*state = office_open(true));
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

/* Closes, and expects that exactly these were read. */
static void expect_seen(struct post_office *o, const int *numbers, int count)
{
    callback_queue_close(&o->box);
    assert_false(o->wrong);
    assert_int_equal(o->seen_count, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(o->seen[i], numbers[i]);
}

#define SEEN(o, ...)                                                                               \
    expect_seen(o, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

/* Holds the courier until the test lets it go. */
static void hold(struct mail *mail)
{
    sem_post(&mail->office->entered);
    sem_wait(&mail->office->leave);
}

static void in_order_on_another_thread(void **state)
{
    struct post_office *o = *state;

    for (int i = 0; i < 1000; i++)
        post(o, i, NULL, NULL);
    callback_queue_close(&o->box);
    assert_int_equal(o->seen_count, 1000);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(o->seen[i], i);
        assert_false(pthread_equal(o->readers[i], pthread_self()));
        assert_true(pthread_equal(o->readers[i], o->readers[0]));
    }
}

static void post_two_more(struct mail *mail)
{
    post(mail->office, mail->number + 1, NULL, NULL);
    post(mail->office, mail->number + 2, NULL, mail->number < 4 ? post_two_more : NULL);
}

/* "Exactly once, whatever happens": also those that are posted while the box is being closed. */
static void closing_delivers_what_is_left(void **state)
{
    struct post_office *o = *state;

    post(o, 1, NULL, hold);
    sem_wait(&o->entered);
    post(o, 2, NULL, post_two_more);
    sem_post(&o->leave);
    SEEN(o, 1, 2, 3, 4, 5, 6);
}

static void withdrawn_callbacks_are_dropped(void **state)
{
    struct post_office *o = *state;
    static const int a, b;

    post(o, 0, NULL, hold);
    sem_wait(&o->entered);
    post(o, 1, &a, NULL);
    post(o, 2, &b, NULL);
    post(o, 3, &a, NULL);
    post(o, 4, NULL, NULL);
    post(o, 5, &a, NULL);
    assert_false(callback_queue_withdraw(&o->box, &a));
    assert_int_equal(o->dropped, 3);
    post(o, 6, &a, NULL); /* the queue has an end that can be added to */
    assert_false(callback_queue_withdraw(&o->box, &b));
    assert_int_equal(o->dropped, 4);
    sem_post(&o->leave);
    SEEN(o, 0, 4, 6);
}

/* A letter that takes its time once somebody is about to withdraw it. */
struct slow {
    atomic_bool withdrawing, finished;
};

static void finish_slowly(struct mail *mail)
{
    struct slow *s = (struct slow *)mail->callback.subject;

    sem_post(&mail->office->entered);
    while (!s->withdrawing)
        sched_yield();
    for (int i = 0; i < YIELDS; i++)
        sched_yield();
    s->finished = true;
}

static void withdrawing_waits_for_the_one_being_read(void **state)
{
    struct post_office *o = *state;
    struct slow s = {0};

    post(o, 1, &s, finish_slowly);
    post(o, 2, &s, NULL);
    sem_wait(&o->entered);
    s.withdrawing = true;
    assert_false(callback_queue_withdraw(&o->box, &s));
    assert_true(s.finished);
    assert_int_equal(o->dropped, 1);
    SEEN(o, 1);
}

static void another_subject_need_not_be_waited_for(void **state)
{
    struct post_office *o = *state;
    static const int a, b;

    post(o, 1, &a, hold);
    sem_wait(&o->entered);
    post(o, 2, &b, NULL);
    assert_false(callback_queue_withdraw(&o->box, &b)); /* would never return if it did */
    sem_post(&o->leave);
    SEEN(o, 1);
}

static void withdraw_itself(struct mail *mail)
{
    static const int other;
    struct post_office *o = mail->office;

    post(o, 8, mail->callback.subject, NULL);
    post(o, 9, &other, NULL);
    o->inside = callback_queue_withdraw(&o->box, mail->callback.subject) +
                10 * callback_queue_withdraw(&o->box, &other);
}

/* It must not wait for itself, and must be told that it is inside. */
static void withdrawn_from_inside(void **state)
{
    struct post_office *o = *state;
    static const int a;

    post(o, 1, &a, withdraw_itself);
    post(o, 2, NULL, NULL);
    SEEN(o, 1, 2);
    assert_int_equal(o->inside, 1);
    assert_int_equal(o->dropped, 2);
}

static void with_a_loop_the_owner_reads(void **state)
{
    struct post_office *o = *state;

    for (int i = 0; i < 100; i++)
        post(o, i, NULL, NULL);
    while (o->seen_count < 100) {
        sem_wait(&o->woken); /* a wake that is forgotten would hang here */
        callback_queue_dispatch(&o->box);
    }
    for (int i = 0; i < 100; i++) {
        assert_int_equal(o->seen[i], i);
        assert_true(pthread_equal(o->readers[i], pthread_self()));
    }
    callback_queue_close(&o->box);
}

/* Nothing is read before the owner asks for it. */
static void without_dispatch_nothing_is_read(void **state)
{
    struct post_office *o = *state;

    post(o, 1, NULL, NULL);
    sem_wait(&o->woken);
    for (int i = 0; i < YIELDS; i++)
        sched_yield();
    assert_int_equal(o->seen_count, 0);
    callback_queue_dispatch(&o->box);
    assert_int_equal(o->seen_count, 1);
    SEEN(o, 1);
}

/* Until so many letters lie ready. */
static void await_ready(struct post_office *o, int wanted)
{
    int count;

    do {
        sched_yield();
        count = 0;
        pthread_mutex_lock(&o->box.lock);
        for (struct callback *callback = o->box.ready; callback; callback = callback->next)
            count++;
        pthread_mutex_unlock(&o->box.lock);
    } while (count < wanted);
}

static void ready_callbacks_can_be_withdrawn(void **state)
{
    struct post_office *o = *state;
    static const int a, b;

    post(o, 1, &a, NULL);
    post(o, 2, &b, NULL);
    await_ready(o, 2);
    assert_false(callback_queue_withdraw(&o->box, &a));
    assert_int_equal(o->dropped, 1);
    SEEN(o, 2);
    assert_true(pthread_equal(o->readers[0], pthread_self()));
}

static void dispatch_again(struct mail *mail)
{
    callback_queue_dispatch(&mail->office->box);
    mail->office->inside = callback_queue_withdraw(&mail->office->box, mail->callback.subject);
}

/* Callbacks run one after the other, even when one of them dispatches; and it knows where it is. */
static void a_callback_that_dispatches(void **state)
{
    struct post_office *o = *state;
    static const int a;

    post(o, 1, &a, dispatch_again);
    post(o, 2, NULL, NULL);
    await_ready(o, 2);
    callback_queue_dispatch(&o->box);
    SEEN(o, 1, 2);
    assert_int_equal(o->inside, 1);
}

static void closing_reads_on_the_owners_thread(void **state)
{
    struct post_office *o = *state;

    post(o, 1, NULL, NULL);
    post(o, 2, NULL, post_two_more);
    SEEN(o, 1, 2, 3, 4, 5, 6);
    for (int i = 0; i < 6; i++)
        assert_true(pthread_equal(o->readers[i], pthread_self()));
}

static void *post_many(void *arg)
{
    struct post_office *o = arg;

    for (int i = 0; i < 500; i++)
        post(o, i, NULL, NULL);
    return NULL;
}

/* Each thread's letters keep their order, and none is lost. */
static void many_threads_post(void **state)
{
    struct post_office *o = *state;
    pthread_t threads[4];
    int counts[500] = {0};

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, post_many, o);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    callback_queue_close(&o->box);
    assert_false(o->wrong);
    assert_int_equal(o->seen_count, 2000);
    for (int i = 0; i < 2000; i++) {
        int number = o->seen[i];

        counts[number]++;
        if (number) /* whoever posted it has posted the one before */
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
        CASE(withdrawing_waits_for_the_one_being_read),
        CASE(another_subject_need_not_be_waited_for),
        CASE(withdrawn_from_inside),
        CASE(many_threads_post),
        LOOP_CASE(with_a_loop_the_owner_reads),
        LOOP_CASE(without_dispatch_nothing_is_read),
        LOOP_CASE(ready_callbacks_can_be_withdrawn),
        LOOP_CASE(a_callback_that_dispatches),
        LOOP_CASE(closing_reads_on_the_owners_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
