/* The HTTP server, in process: handlers on workers, and what handlers ask. */
#include "http_shop.h"

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
    expect(shop, "/number?n=-1", 400,
           "{\"errors\":[\"n must be a whole number\"],\"code\":\"BAD_ARGUMENT\",\"field\":\"n\"}");
    expect(shop, "/number?n=", 400, NULL);
    expect(
        shop, "/number?m=1", 400,
        "{\"errors\":[\"unknown query parameter 'm'\"],\"code\":\"BAD_ARGUMENT\",\"field\":\"m\"}");
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

static void answers_may_come_from_any_thread(void **state)
{
    for (int i = 0; i < 200; i++)
        expect(*state, "/later", 200, "\"later\"");
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
