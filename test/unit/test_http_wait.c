/* The HTTP server, in process: requests that wait, and idle connections. */
#include "http_shop.h"

static const char *const ITEMS[] = {"/item?wait=20000", "/item/worker?wait=20000"};

static void what_is_there_is_not_waited_for(void **state)
{
    struct shop *shop = *state;

    stock(shop, 2, 1);
    expect(shop, ITEMS[0], 200, "1");
    expect(shop, ITEMS[1], 200, "1");
    expect(shop, "/item", 200, "0");
    expect(shop, "/item/worker", 200, "0");
}

static void a_signal_wakes(void **state)
{
    struct shop *shop = *state;

    for (int i = 0; i < 2; i++) {
        int fd = serving_connect(&shop->serving);
        const char *body;

        serving_send(fd, &shop->serving, "GET", ITEMS[i], NULL);
        sem_wait(&shop->entered);
        stock(shop, 1, 1);
        assert_int_equal(serving_answer(fd, &body), 200);
        assert_string_equal(body, "1");
        close(fd);
    }
}

static void waiting_comes_to_its_end(void **state)
{
    struct shop *shop = *state;

    for (int i = 0; i < 2; i++) {
        int64_t began = clock_boot_ms();

        expect(shop, i ? "/item/worker?wait=50" : "/item?wait=50", 200, "\"over\"");
        assert_in_range(clock_boot_ms() - began, 49, 10000);
        assert_int_equal(shop->entries, 2 * (i + 1));
    }
}

/* Every wait of a request counts from its coming, however often it is woken for nothing. */
static void waking_does_not_prolong(void **state)
{
    struct shop *shop = *state;
    int fd = serving_connect(&shop->serving);
    const char *body;

    serving_send(fd, &shop->serving, "GET", "/item/worker?wait=2000", NULL);
    for (int i = 0; i < 5; i++) {
        sem_wait(&shop->entered);
        http_topic_wake(&shop->topic, 0, 1);
    }
    assert_int_equal(serving_answer(fd, &body), 200);
    assert_string_equal(body, "\"over\"");
    close(fd);
}

/* The loop runs timers before woken requests: a request that is due and woken must get both. */
static void a_wake_up_and_the_end_of_the_wait_meet(void **state)
{
    struct shop *shop = *state;
    int waiter = serving_connect(&shop->serving), holder = serving_connect(&shop->serving);
    const char *body;

    serving_send(waiter, &shop->serving, "GET", "/item?wait=1500", NULL);
    sem_wait(&shop->entered);
    serving_send(holder, &shop->serving, "GET", "/hold", NULL);
    sem_wait(&shop->entered);
    stock(shop, 1, 1);
    usleep(1600 * 1000); /* nothing to wait for: the loop is held, and time must pass */
    sem_post(&shop->go);
    assert_int_equal(serving_answer(holder, NULL), 200);
    assert_int_equal(serving_answer(waiter, &body), 200);
    assert_string_equal(body, "1");
    close(waiter);
    close(holder);
}

/* A handler on a worker says that it will wait a moment before its request is parked. */
static void wait_parked(struct shop *shop, int count)
{
    for (int parked = -1; parked < count;) {
        parked = (int)http_topic_parked(&shop->topic, 0);
        usleep(1000);
    }
}

static uint64_t kind(const char *name)
{
    return http_key("kind", str_of(name), (struct str){0});
}

/* Sends a request that waits for some kinds; returns when it is parked. */
static int wait_for(struct shop *shop, const char *target, const char *last)
{
    int fd = serving_connect(&shop->serving);
    size_t before = http_topic_parked(&shop->topic, kind(last));

    serving_send(fd, &shop->serving, "GET", target, NULL);
    while (http_topic_parked(&shop->topic, kind(last)) == before)
        usleep(1000);
    return fd;
}

static void expect_woken(int fd)
{
    const char *body;

    assert_int_equal(serving_answer(fd, &body), 200);
    assert_string_equal(body, "\"woken\"");
    close(fd);
}

/* A signal reruns one request that waits for its key, the longest waiting first. */
static void a_key_wakes_who_waits_for_it(void **state)
{
    struct shop *shop = *state;
    int red = wait_for(shop, "/kind/red?wait=20000", "red");
    int both = wait_for(shop, "/kind/blue,red?wait=20000", "red");
    int blue = wait_for(shop, "/kind/blue?wait=20000", "blue");

    assert_int_equal(shop->entries, 3);
    http_topic_wake(&shop->topic, kind("green"), HTTP_TOPIC_ALL);
    http_topic_wake(&shop->topic, kind("blue"), 1);
    expect_woken(both);
    assert_int_equal(http_topic_parked(&shop->topic, kind("red")), 1);
    assert_int_equal(http_topic_parked(&shop->topic, kind("blue")), 1);
    http_topic_wake(&shop->topic, kind("red"), 1);
    expect_woken(red);
    http_topic_wake(&shop->topic, kind("blue"), HTTP_TOPIC_ALL);
    expect_woken(blue);
    assert_int_equal(shop->entries, 6);
    assert_int_equal(shop->unparked, 3);
}

/* What an error did not use is there for the next; so is what a client that has left did not. */
static void an_error_passes_the_wake_up_on(void **state)
{
    struct shop *shop = *state;
    int fails = wait_for(shop, "/kind/red?wait=20000&fail=1", "red");
    int next = wait_for(shop, "/kind/red,red?wait=20000", "red");
    int left = wait_for(shop, "/kind/blue?wait=20000", "blue");

    http_topic_wake(&shop->topic, kind("red"), 1);
    assert_int_equal(serving_answer(fails, NULL), 409);
    expect_woken(next);
    close(fails);
    close(left);
    while (http_topic_parked(&shop->topic, kind("blue")))
        usleep(1000);
    serving_answer(wait_for(shop, "/kind/green?wait=1000", "green"), NULL);
    assert_int_equal(shop->unparked, 4);
}

/* As many as there are items, and the rest keep waiting, without a thread. */
static void many_wait_and_few_wake(void **state)
{
    enum { COUNT = 200 };
    struct shop *shop = *state;
    int fds[COUNT], got = 0;

    for (int i = 0; i < COUNT; i++) {
        fds[i] = serving_connect(&shop->serving);
        serving_send(fds[i], &shop->serving, "GET", ITEMS[1], NULL);
        wait_parked(shop, i + 1);
    }
    shop->entries = 0;
    stock(shop, 3, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(serving_answer(fds[i], NULL), 200); /* the longest waiting first */
        got++;
    }
    assert_in_range(shop->entries, 3, 5);
    stock(shop, COUNT, HTTP_TOPIC_ALL);
    for (int i = got; i < COUNT; i++)
        assert_int_equal(serving_answer(fds[i], NULL), 200);
    for (int i = 0; i < COUNT; i++)
        close(fds[i]);
}

/*
 * A wake-up that meets a client that has left goes to the next one. While the loop is held, the
 * first of two that wait leaves and is woken, so the loop hears of both at once.
 */
static void no_wake_up_is_lost(void **state)
{
    struct shop *shop = *state;

    for (int i = 0; i < 50; i++) {
        int leaving = serving_connect(&shop->serving), staying = serving_connect(&shop->serving);
        int holding = serving_connect(&shop->serving);
        const char *body;

        serving_send(leaving, &shop->serving, "GET", "/item?wait=20000&pass=1", NULL);
        sem_wait(&shop->entered);
        serving_send(staying, &shop->serving, "GET", ITEMS[0], NULL);
        sem_wait(&shop->entered);
        serving_send(holding, &shop->serving, "GET", "/hold", NULL);
        sem_wait(&shop->entered);
        close(leaving);
        stock(shop, 1, 1);
        sem_post(&shop->go);
        assert_int_equal(serving_answer(staying, &body), 200);
        assert_string_equal(body, "1");
        close(staying);
        close(holding);
    }
}

/* Many threads signal while requests come and go: no waiting request misses an item. */
static void *signal_often(void *arg)
{
    for (int i = 0; i < 400; i++)
        stock(arg, 1, 1);
    return NULL;
}

static void signals_meet_requests(void **state)
{
    struct shop *shop = *state;
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, signal_often, shop);
    for (int i = 0; i < 800; i++)
        expect(shop, ITEMS[i % 2], 200, "1");
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void requests_may_wait_when_the_server_ends(void **state)
{
    struct shop *shop = *state;
    int fds[8];

    for (int i = 0; i < 8; i++) {
        fds[i] = serving_connect(&shop->serving);
        serving_send(fds[i], &shop->serving, "GET", ITEMS[i % 2], NULL);
        sem_wait(&shop->entered);
    }
    close_shop(state);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
    *state = NULL;
}

/* Time. */

static int open_impatient(void **state)
{
    static const struct http_options impatient = {.idle_timeout_ms = 1000};

    return open_with(state, &impatient);
}

static void a_connection_that_is_not_used_is_closed(void **state)
{
    struct shop *shop = *state;
    int fd = serving_connect(&shop->serving);

    serving_send(fd, &shop->serving, "GET", "/echo/a", NULL);
    assert_int_equal(serving_answer(fd, NULL), 200);
    assert_int_equal(read(fd, &(char){0}, 1), 0);
    close(fd);
}

/* One that waits for its answer is not idle. */
static void a_connection_that_waits_is_not(void **state)
{
    struct shop *shop = *state;
    int fd = serving_connect(&shop->serving), other = serving_connect(&shop->serving);

    serving_send(fd, &shop->serving, "GET", ITEMS[0], NULL);
    assert_int_equal(read(other, &(char){0}, 1), 0); /* so much time has passed */
    stock(shop, 1, 1);
    assert_int_equal(serving_answer(fd, NULL), 200);
    close(fd);
    close(other);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_shop, close_if_open)
    const struct CMUnitTest tests[] = {
        TEST(what_is_there_is_not_waited_for),
        TEST(a_signal_wakes),
        TEST(waiting_comes_to_its_end),
        TEST(waking_does_not_prolong),
        TEST(a_wake_up_and_the_end_of_the_wait_meet),
        TEST(many_wait_and_few_wake),
        TEST(a_key_wakes_who_waits_for_it),
        TEST(an_error_passes_the_wake_up_on),
        TEST(no_wake_up_is_lost),
        TEST(signals_meet_requests),
        TEST(requests_may_wait_when_the_server_ends),
        cmocka_unit_test_setup_teardown(a_connection_that_is_not_used_is_closed, open_impatient,
                                        close_if_open),
        cmocka_unit_test_setup_teardown(a_connection_that_waits_is_not, open_impatient,
                                        close_if_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
