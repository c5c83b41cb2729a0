/* The HTTP server, in process: handlers on workers, requests that wait, what handlers ask. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/conn.h"
#include "serving.h"

/* What the handlers share with the tests. */
struct shop {
    struct serving serving;
    struct http_topic topic;
    pthread_mutex_t lock;
    int items;
    sem_t entered, go;  /* a handler is inside; it may go on */
    sem_t gone;         /* a client has left */
    atomic_int entries; /* how often handlers were run */
};

static void get_echo(struct http_request *r)
{
    struct buf b = {0};
    struct str x = STR(""), part;

    if (!http_decode(r, r->params[0], &part))
        return;
    http_query(r, "x", &x);
    http_add_header(r, "X-Echo", part);
    json_open(&b, '[');
    json_put_text(&b, part);
    json_put_text(&b, x);
    json_close(&b, ']');
    http_reply(r, 200, (struct str){b.p, b.len});
    buf_release(&b);
}

static void get_number(struct http_request *r)
{
    int64_t number = -1;
    char text[32];

    if (http_query_number(r, "n", &number) < 0)
        return;
    snprintf(text, sizeof text, "%lld", (long long)number);
    http_reply(r, 200, str_of(text));
}

static void post_json(struct http_request *r)
{
    const struct json *v = http_json(r);

    if (v)
        http_reply(r, 200, str_of(v->kind == JSON_OBJECT ? "{}" : "[]"));
}

static void get_block(struct http_request *r)
{
    struct shop *shop = r->arg;

    sem_post(&shop->entered);
    sem_wait(&shop->go);
    if (http_is_gone(r))
        sem_post(&shop->gone);
    http_reply(r, 200, STR("\"done\""));
}

/* Takes an item; waits for one as long as it is told to. With "pass", leaves it to the next. */
static void get_item(struct http_request *r)
{
    struct shop *shop = r->arg;
    uint64_t seen = http_topic_seen(&shop->topic);
    struct str value;
    bool passes = http_query(r, "pass", &value), got;
    int64_t wait_ms = 0;

    if (http_query_number(r, "wait", &wait_ms) < 0)
        return;
    shop->entries++;
    pthread_mutex_lock(&shop->lock);
    got = shop->items > 0 && !passes;
    shop->items -= got;
    pthread_mutex_unlock(&shop->lock);
    if (passes && shop->items)
        http_topic_signal(&shop->topic, 1);
    else if (!got && http_wait(r, &shop->topic, seen, wait_ms)) {
        sem_post(&shop->entered);
        return;
    }
    http_reply(r, 200, got ? STR("1") : http_wait_over(r) ? STR("\"over\"") : STR("0"));
}

/* Holds the loop, which no real handler does. */
static void get_hold(struct http_request *r)
{
    struct shop *shop = r->arg;

    sem_post(&shop->entered);
    sem_wait(&shop->go);
    http_reply(r, 200, STR("0"));
}

static void *answer_later(void *r)
{
    http_reply(r, 200, STR("\"later\""));
    return NULL;
}

/* Answers from yet another thread, perhaps before the handler has returned. */
static void get_later(struct http_request *r)
{
    pthread_t thread;

    pthread_create(&thread, NULL, answer_later, r);
    pthread_detach(thread);
}

static const struct route ROUTES[] = {
    {METHOD_GET, "/echo/{part}", get_echo, 0, ""},
    {METHOD_GET, "/number", get_number, ROUTE_WORKER, ""},
    {METHOD_POST, "/json", post_json, 0, ""},
    {METHOD_POST, "/json/worker", post_json, ROUTE_WORKER, ""},
    {METHOD_DELETE, "/json", post_json, 0, ""},
    {METHOD_GET, "/block", get_block, ROUTE_WORKER, ""},
    {METHOD_GET, "/hold", get_hold, 0, ""},
    {METHOD_GET, "/item", get_item, 0, ""},
    {METHOD_GET, "/item/worker", get_item, ROUTE_WORKER, ""},
    {METHOD_GET, "/later", get_later, ROUTE_WORKER, ""},
};

static int open_with(void **state, const struct http_options *o)
{
    struct shop *shop = calloc(1, sizeof *shop);

    http_topic_init(&shop->topic);
    pthread_mutex_init(&shop->lock, NULL);
    sem_init(&shop->entered, 0, 0);
    sem_init(&shop->go, 0, 0);
    sem_init(&shop->gone, 0, 0);
    serving_start(&shop->serving, o, ROUTES, sizeof ROUTES / sizeof *ROUTES, shop);
    *state = shop;
    return 0;
}

static int open_shop(void **state)
{
    return open_with(state, NULL);
}

static int close_shop(void **state)
{
    struct shop *shop = *state;

    serving_stop(&shop->serving);
    http_topic_release(&shop->topic);
    free(shop);
    return 0;
}

/* One more item, and so many are told. */
static void stock(struct shop *shop, int items, int wake)
{
    pthread_mutex_lock(&shop->lock);
    shop->items += items;
    pthread_mutex_unlock(&shop->lock);
    http_topic_signal(&shop->topic, wake);
}

static void expect(struct shop *shop, const char *target, int status, const char *body)
{
    const char *got;
    int answered = serving_ask(&shop->serving, "GET", target, NULL, &got);

    if (answered != status || (body && strcmp(got, body) != 0))
        fail_msg("%s: %d %s", target, answered, got);
}

static void what_came_is_decoded(void **state)
{
    struct shop *shop = *state;

    expect(shop, "/echo/a%2fb?x=1+2%2B", 200, "[\"a/b\",\"1 2+\"]");
    expect(shop, "/echo/a+b?y=1", 200, "[\"a+b\",\"\"]");
    expect(shop, "/echo/a%2", 400, NULL);
    expect(shop, "/echo/a?x=%zz", 400, NULL);
    expect(shop, "/echo/a?x=1&x=2", 400, NULL);
    expect(shop, "/number?n=17", 200, "17");
    expect(shop, "/number", 200, "-1");
    expect(shop, "/number?n=-1", 400, "{\"errors\":[\"n is not a number\"]}");
    expect(shop, "/number?n=", 400, NULL);
    expect(shop, "/number?n=9999999999999999999", 400, NULL);
}

static void a_header_is_one_line(void **state)
{
    struct shop *shop = *state;
    int fd = serving_connect(&shop->serving);
    const char *text;

    serving_send(fd, &shop->serving, "GET", "/echo/a%0d%0aSet-Cookie:%20b%0d%0a%0d%0ac", NULL);
    text = serving_read_to(fd, "c\",\"\"]");
    assert_non_null(strstr(text, "\r\nX-Echo: a  Set-Cookie: b    c\r\n"));
    close(fd);
}

static void bodies_are_json(void **state)
{
    static const char *const targets[] = {"/json", "/json/worker"};
    struct shop *shop = *state;
    const char *body;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(serving_ask(&shop->serving, "POST", targets[i], "{\"a\":1}", &body), 200);
        assert_string_equal(body, "{}");
        assert_int_equal(serving_ask(&shop->serving, "POST", targets[i], "{\"a\":", &body), 400);
        assert_non_null(strstr(body, "{\"errors\":[\"not JSON: "));
        assert_int_equal(serving_ask(&shop->serving, "POST", targets[i], "", &body), 400);
    }
}

static void changes_need_the_type(void **state)
{
    static const struct {
        const char *method, *more;
        int status;
    } rows[] = {
        {"POST", "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", 200},
        {"POST", "Content-Type: Application/JSON; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}",
         200},
        {"POST", "Content-Length: 2\r\n\r\n{}", 415},
        {"POST", "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 415},
        {"POST", "Content-Type: application/jsonp\r\nContent-Length: 2\r\n\r\n{}", 415},
        {"POST", "Content-Type: application/x-www-form-urlencoded\r\n\r\n", 415},
        {"POST", "\r\n", 415},
        {"DELETE", "Content-Length: 2\r\n\r\n{}", 415},
        {"DELETE", "\r\n", 400}, /* it came to the handler, which wants a body */
    };
    struct shop *shop = *state;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int fd = serving_connect(&shop->serving), status;

        dprintf(fd, "%s /json HTTP/1.1\r\nHost: localhost:%d\r\n%s", rows[i].method,
                shop->serving.port, rows[i].more);
        status = serving_answer(fd, NULL);
        if (status != rows[i].status)
            fail_msg("row %zu: %d", i, status);
        close(fd);
    }
}

/* A handler that blocks holds up neither the loop nor other handlers. */
static void workers_run_side_by_side(void **state)
{
    struct shop *shop = *state;
    int fds[4];

    for (int i = 0; i < 4; i++) {
        fds[i] = serving_connect(&shop->serving);
        serving_send(fds[i], &shop->serving, "GET", "/block", NULL);
    }
    for (int i = 0; i < 4; i++)
        sem_wait(&shop->entered);
    expect(shop, "/echo/a", 200, NULL);
    for (int i = 0; i < 4; i++)
        sem_post(&shop->go);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(serving_answer(fds[i], NULL), 200);
        close(fds[i]);
    }
}

/* More than there are threads: those that queue are run in their turn. */
static void workers_have_a_limit(void **state)
{
    enum { COUNT = HTTP_WORKERS_MAX + 8 };
    struct shop *shop = *state;
    int fds[COUNT];

    for (int i = 0; i < COUNT; i++) {
        fds[i] = serving_connect(&shop->serving);
        serving_send(fds[i], &shop->serving, "GET", "/block", NULL);
    }
    for (int i = 0; i < HTTP_WORKERS_MAX; i++)
        sem_wait(&shop->entered);
    assert_int_equal(sem_trywait(&shop->entered), -1);
    for (int i = 0; i < COUNT; i++)
        sem_post(&shop->go);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(serving_answer(fds[i], NULL), 200);
        close(fds[i]);
    }
}

/* Pipelined: the answer of the loop's handler waits for the worker's. */
static void answers_keep_their_order(void **state)
{
    struct shop *shop = *state;
    int fd = serving_connect(&shop->serving);
    const char *both;

    serving_send(fd, &shop->serving, "GET", "/block", NULL);
    serving_send(fd, &shop->serving, "GET", "/echo/second", NULL);
    sem_wait(&shop->entered);
    sem_post(&shop->go);
    both = serving_read_to(fd, "second");
    assert_non_null(strstr(both, "\"done\""));
    assert_true(strstr(both, "\"done\"") < strstr(both, "second"));
    close(fd);
}

static void a_client_that_leaves_is_safe(void **state)
{
    struct shop *shop = *state;
    int fd = serving_connect(&shop->serving);

    serving_send(fd, &shop->serving, "GET", "/block", NULL);
    sem_wait(&shop->entered);
    close(fd);
    expect(shop, "/echo/a", 200, NULL); /* by then the loop has seen the other close */
    sem_post(&shop->go);
    expect(shop, "/later", 200, "\"later\"");
    sem_wait(&shop->gone);
}

/* The end of the server waits for the handler, which runs when it begins. */
static void closing_waits_for_handlers(void **state)
{
    struct shop *shop = *state;
    int fd = serving_connect(&shop->serving);

    serving_send(fd, &shop->serving, "GET", "/block", NULL);
    sem_wait(&shop->entered);
    uv_async_send(&shop->serving.stop);
    assert_int_equal(read(fd, &(char){0}, 1), 0); /* closed on us: the closing is under way */
    sem_post(&shop->go);
    close_shop(state);
    close(fd);
    *state = NULL;
}

static int close_if_open(void **state)
{
    return *state ? close_shop(state) : 0;
}

static void answers_may_come_from_any_thread(void **state)
{
    for (int i = 0; i < 200; i++)
        expect(*state, "/later", 200, "\"later\"");
}

/* Waiting. */

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
        http_topic_signal(&shop->topic, 1);
    }
    assert_int_equal(serving_answer(fd, &body), 200);
    assert_string_equal(body, "\"over\"");
    close(fd);
}

/* The loop comes to its timers before it comes to who was woken: it must come to both. */
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
        pthread_mutex_lock(&shop->topic.lock);
        parked = 0;
        for (struct exchange *x = shop->topic.first; x; x = x->topic_next)
            parked++;
        pthread_mutex_unlock(&shop->topic.lock);
        usleep(1000);
    }
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
 * A wake-up that meets a client that has left goes to the next one. While the loop is held, the first
 * of two that wait leaves and is woken, so the loop hears of both at once.
 */
static void no_wake_up_is_lost(void **state)
{
    struct shop *shop = *state;

    for (int i = 0; i < 50; i++) {
        int leaving = serving_connect(&shop->serving), staying = serving_connect(&shop->serving);
        int holding = serving_connect(&shop->serving);
        const char *body;

        serving_send(leaving, &shop->serving, "GET", "/item?wait=20000&pass", NULL);
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

/* Many threads signal while many requests come and go: whoever waits gets what is there. */
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
        TEST(what_came_is_decoded),
        TEST(a_header_is_one_line),
        TEST(bodies_are_json),
        TEST(changes_need_the_type),
        TEST(workers_run_side_by_side),
        TEST(workers_have_a_limit),
        TEST(answers_keep_their_order),
        TEST(a_client_that_leaves_is_safe),
        TEST(closing_waits_for_handlers),
        TEST(answers_may_come_from_any_thread),
        TEST(what_is_there_is_not_waited_for),
        TEST(a_signal_wakes),
        TEST(waiting_comes_to_its_end),
        TEST(waking_does_not_prolong),
        TEST(a_wake_up_and_the_end_of_the_wait_meet),
        TEST(many_wait_and_few_wake),
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
