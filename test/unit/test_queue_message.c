/*
 * The messages of queues on an ensemble's service: a read whose batch was refused is repeated, and
 * starts over. The ensemble is the embedded keeper, whose callbacks come when the test asks.
 */
#include "queue/message.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "keeper/local/local.h"
#include "task/service.h"

#define QUEUE "00000000000000000000000000000001"

struct fixture {
    struct local *local;
    struct keeper *k;
    struct service *s;
    pthread_t tester;
    atomic_bool waits, ended; /* the thread that reads */
    struct queue_message_list list;
    int err, count;
};

static void on_wake(void *arg)
{
    (void)arg;
}

/* A thread in service_call() reads the clock before it waits: its request is in the queue then. */
static int64_t now(void *arg)
{
    struct fixture *f = arg;

    if (!pthread_equal(pthread_self(), f->tester))
        atomic_store(&f->waits, true);
    return 1000000;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct keeper_options ko = {.wake = on_wake};
    struct service_options so = {.wake = on_wake, .now_ms = now, .now_arg = f};
    struct keeper_op fence = keeper_op_check("/", KEEPER_ANY_VERSION);
    struct err_info e = {""};

    f->tester = pthread_self();
    assert_int_equal(local_open(&(struct local_options){.mode = LOCAL_NONE}, &f->local, &e), 0);
    assert_int_equal(local_connect(f->local, &ko, &f->k), 0);
    assert_int_equal(service_open(&so, &f->s, &e), 0);
    assert_int_equal(service_start(f->s, f->k, &fence, &e), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    queue_message_list_release(&f->list);
    service_close(f->s);
    keeper_close(f->k);
    local_close(f->local);
    free(f);
    return 0;
}

static void on_done(void *arg, const struct task_reply *reply)
{
    *(int *)arg = reply->err;
}

static void submit(struct fixture *f, struct task_request *r, int *ret_err)
{
    *ret_err = 1; /* no answer yet */
    r->done = on_done;
    r->arg = ret_err;
    service_submit(f->s, r);
}

static void dispatch(struct fixture *f)
{
    keeper_dispatch(f->k);
    service_dispatch(f->s);
}

static void *read_messages(void *arg)
{
    struct fixture *f = arg;

    f->err = queue_messages_read(f->s, STR(QUEUE), 0, 10, &f->list);
    atomic_store(&f->ended, true);
    return NULL;
}

static void *count_messages(void *arg)
{
    struct fixture *f = arg;

    f->count = queue_messages_count(f->s, STR(QUEUE), 0, 10);
    atomic_store(&f->ended, true);
    return NULL;
}

/* Runs fn beside an update that is refused, in one batch. */
static void run_in_a_refused_batch(struct fixture *f, void *(*fn)(void *))
{
    struct task adds[] = {{.group = STR(QUEUE), .data = STR("a")},
                          {.group = STR(QUEUE), .data = STR("b")}};
    struct keeper_op failing = keeper_op_check("/nowhere", 3);
    struct task_request good = {.kind = TASK_UPDATE,
                                .update = {.clientid = 1, .adds = adds, .add_count = 2}};
    struct task_request bad = good;
    pthread_t thread;
    int first, second;

    bad.extra = &failing;
    bad.extra_count = 1;
    atomic_store(&f->waits, false);
    atomic_store(&f->ended, false);
    submit(f, &good, &first); /* in flight: what comes now forms the next batch */
    assert_int_equal(first, 1);
    assert_int_equal(pthread_create(&thread, NULL, fn, f), 0);
    while (!atomic_load(&f->waits))
        sched_yield();
    submit(f, &bad, &second);
    while (second == 1 || !atomic_load(&f->ended))
        dispatch(f);
    pthread_join(thread, NULL);
    assert_int_equal(first, 0);
    assert_int_equal(second, DROVER_NO_NODE);
}

static void test_a_repeated_read_starts_over(void **state)
{
    struct fixture *f = *state;

    run_in_a_refused_batch(f, read_messages);
    assert_int_equal(f->err, 0);
    assert_int_equal(f->list.count, 2);
    assert_true(str_eq(f->list.messages[0].data, STR("a")));
    assert_true(str_eq(f->list.messages[1].data, STR("b")));
    assert_true(f->list.messages[0].id < f->list.messages[1].id);
}

static void test_a_repeated_count_starts_over(void **state)
{
    struct fixture *f = *state;

    run_in_a_refused_batch(f, count_messages);
    assert_int_equal(f->count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_repeated_read_starts_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_repeated_count_starts_over, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
