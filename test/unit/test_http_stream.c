/* Answers that go on: their form, their turn, and clients that do not take them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <unistd.h>

#include "serving.h"

/* What the handlers share with the tests. */
struct hall {
    struct serving serving;
    sem_t entered, go; /* a handler is inside; it may go on */
    sem_t gone;        /* a client has left */
    atomic_int told_gone;
};

static void get_next(struct http_request *r)
{
    http_reply(r, 200, STR("\"next\""));
}

static void get_block(struct http_request *r)
{
    struct hall *hall = r->arg;

    sem_post(&hall->entered);
    sem_wait(&hall->go);
    http_reply(r, 200, STR("\"done\""));
}

static void on_gone(struct http_request *r)
{
    struct hall *hall = r->arg;

    sem_post(&hall->gone);
}

struct stream_in {
    bool end;
};

static void get_stream(struct http_request *r)
{
    r->gone = on_gone;
    if (http_stream_begin(r, "text/plain") && http_stream_send(r, STR("one")))
        if (http_stream_send(r, STR("two")) && ((struct stream_in *)r->in)->end)
            http_stream_end(r);
}

/* Goes on whenever all was taken. */
static void send_large(struct http_request *r)
{
    static char much[HTTP_STREAM_UNSENT_MAX / 2];
    bool open = true;

    while (open && !http_stream_unsent(r))
        open = http_stream_send(r, (struct str){much, sizeof much});
}

static void get_large(struct http_request *r)
{
    r->gone = on_gone;
    r->drained = send_large;
    http_stream_begin(r, "text/plain");
}

/* More than anybody may leave unread. */
static void get_flood(struct http_request *r)
{
    struct hall *hall = r->arg;
    static char much[64 * 1024];
    bool open;

    r->gone = on_gone;
    open = http_stream_begin(r, "text/plain");
    for (int i = 0; open && i < 1024; i++)
        open = http_stream_send(r, (struct str){much, sizeof much});
    hall->told_gone += !open;
    sem_post(&hall->entered);
}

static const struct route ROUTES[] = {
    {METHOD_GET, "/next", get_next, 0, ""},
    {METHOD_GET, "/block", get_block, ROUTE_WORKER, ""},
    {METHOD_GET, "/stream", get_stream, 0, "", "stream",
     ROUTE_IN(struct stream_in, FIELD_BOOL(IN_QUERY, struct stream_in, end, "end", ""))},
    {METHOD_GET, "/large", get_large, 0, ""},
    {METHOD_GET, "/flood", get_flood, 0, ""},
};

static int open_with(void **state, const struct http_options *o)
{
    struct hall *hall = calloc(1, sizeof *hall);

    sem_init(&hall->entered, 0, 0);
    sem_init(&hall->go, 0, 0);
    sem_init(&hall->gone, 0, 0);
    serving_start(&hall->serving, o, ROUTES, sizeof ROUTES / sizeof *ROUTES, hall);
    *state = hall;
    return 0;
}

static int open_hall(void **state)
{
    return open_with(state, NULL);
}

static int open_impatient(void **state)
{
    static const struct http_options impatient = {.write_timeout_ms = 1000};

    return open_with(state, &impatient);
}

static int close_hall(void **state)
{
    struct hall *hall = *state;

    serving_stop(&hall->serving);
    free(hall);
    return 0;
}

static void a_stream_comes_in_chunks(void **state)
{
    struct hall *hall = *state;
    int fd = serving_connect(&hall->serving);
    const char *text;

    serving_send(fd, &hall->serving, "GET", "/stream?end=1", NULL);
    serving_send(fd, &hall->serving, "GET", "/next", NULL);
    text = serving_read_to(fd, "next");
    assert_non_null(strstr(text, "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n"));
    assert_non_null(strstr(text, "\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n"));
    close(fd);
}

static void a_stream_waits_for_its_turn(void **state)
{
    struct hall *hall = *state;
    int fd = serving_connect(&hall->serving);

    serving_send(fd, &hall->serving, "GET", "/block", NULL);
    serving_send(fd, &hall->serving, "GET", "/stream", NULL);
    sem_wait(&hall->entered);
    sem_post(&hall->go);
    serving_read_to(fd, "3\r\none\r\n3\r\ntwo\r\n");
    close(fd);
    sem_wait(&hall->gone);
}

static void old_clients_read_to_the_end(void **state)
{
    struct hall *hall = *state;
    int fd = serving_connect(&hall->serving);
    const char *text;

    dprintf(fd, "GET /stream?end=1 HTTP/1.0\r\n\r\n");
    text = serving_read_to(fd, "onetwo");
    assert_null(strstr(text, "chunked"));
    assert_int_equal(read(fd, &(char){0}, 1), 0);
    close(fd);
}

static void head_of_a_stream_is_short(void **state)
{
    struct hall *hall = *state;
    int fd = serving_connect(&hall->serving);

    serving_send(fd, &hall->serving, "HEAD", "/stream", NULL);
    serving_send(fd, &hall->serving, "GET", "/next", NULL);
    assert_non_null(strstr(serving_read_to(fd, "next"),
                           "Transfer-Encoding: chunked\r\n\r\nHTTP/1.1 200 OK\r\n"));
    close(fd);
}

static void a_stream_that_is_not_read_is_cut_off(void **state)
{
    struct hall *hall = *state;
    int fd = serving_connect(&hall->serving);

    serving_send(fd, &hall->serving, "GET", "/flood", NULL);
    sem_wait(&hall->entered);
    assert_int_equal(hall->told_gone, 1);
    assert_int_equal(sem_trywait(&hall->gone), -1); /* it was told by the result */
    close(fd);
}

/* What a client asked for and does not take is not kept for it. */
static void a_client_that_does_not_read_is_closed(void **state)
{
    struct hall *hall = *state;
    int fd = serving_connect(&hall->serving);

    serving_send(fd, &hall->serving, "GET", "/large", NULL);
    sem_wait(&hall->gone);
    close(fd);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_hall, close_hall)
    const struct CMUnitTest tests[] = {
        TEST(a_stream_comes_in_chunks),
        TEST(a_stream_waits_for_its_turn),
        TEST(old_clients_read_to_the_end),
        TEST(head_of_a_stream_is_short),
        TEST(a_stream_that_is_not_read_is_cut_off),
        cmocka_unit_test_setup_teardown(a_client_that_does_not_read_is_closed, open_impatient,
                                        close_hall),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
