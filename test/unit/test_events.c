/* Events: which listener gets which event, and how one resumes where it left off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <unistd.h>

#include "serving.h"

static int start(void **state)
{
    struct serving *s = calloc(1, sizeof *s);

    serving_start(s, NULL, NULL, 0, NULL);
    *state = s;
    return 0;
}

static int stop(void **state)
{
    serving_stop(*state);
    free(*state);
    return 0;
}

static void publish(struct serving *s, const char *kind, const char *id, const char *state)
{
    char json[64];

    snprintf(json, sizeof json, "{\"id\":\"%s\"}", id);
    events_publish(s->events, &(struct event){.kind = kind,
                                              .id = str_of(id),
                                              .type = STR("command"),
                                              .state = str_of(state),
                                              .json = str_of(json)});
}

/* Listens from now on: the head has come. */
static int listen_to(struct serving *s, const char *query, const char *last)
{
    int fd = serving_connect(s);

    dprintf(fd, "GET /v1/events%s HTTP/1.1\r\nHost: localhost:%d\r\n%s%s%s\r\n", query, s->port,
            last ? "Last-Event-ID: " : "", last ? last : "", last ? "\r\n" : "");
    if (!last)
        serving_read_to(fd, "\r\n\r\n");
    return fd;
}

static void the_last_id(const char *text, char id[32])
{
    const char *at = NULL;

    for (const char *next = text; (next = strstr(next, "id: ")); next++)
        at = next;
    assert_non_null(at);
    snprintf(id, 32, "%.*s", (int)strspn(at + 4, "0123456789"), at + 4);
}

static void listeners_are_told(void **state)
{
    struct serving *s = *state;
    int fds[2] = {listen_to(s, "", NULL), listen_to(s, "", NULL)};

    publish(s, "node", "7", "running");
    for (int i = 0; i < 2; i++) {
        const char *text = serving_read_to(fds[i], "\"}\n\n");

        assert_non_null(strstr(text, "id: "));
        assert_non_null(strstr(text, "\nevent: node\ndata: {\"id\":\"7\"}\n\n"));
        close(fds[i]);
    }
}

static void the_head_says_what_it_is(void **state)
{
    struct serving *s = *state;
    int fd = serving_connect(s);
    const char *text;

    serving_send(fd, s, "GET", "/v1/events", NULL);
    text = serving_read_to(fd, "\r\n\r\n");
    assert_non_null(strstr(text, "HTTP/1.1 200 OK\r\n"));
    assert_non_null(strstr(text, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(text, "Cache-Control: no-store\r\n"));
    close(fd);
}

static void filters_choose(void **state)
{
    static const struct {
        const char *query;
        const char *wanted; /* the ids */
    } rows[] = {
        {"?kind=node", "13"},        {"?id=2,3", "23"},          {"?state=failed&kind=node", "3"},
        {"?type=command&id=1", "1"}, {"?kind=task,node", "123"}, {"?state=", "123"},
    };
    struct serving *s = *state;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int fd = listen_to(s, rows[i].query, NULL);
        const char *last = &rows[i].wanted[strlen(rows[i].wanted) - 1], *text;
        char end[32];

        publish(s, "node", "1", "running");
        publish(s, "task", "2", "failed");
        publish(s, "node", "3", "failed");
        snprintf(end, sizeof end, "{\"id\":\"%s\"}\n\n", last);
        text = serving_read_to(fd, end);
        for (const char *id = "123"; *id; id++) {
            snprintf(end, sizeof end, "{\"id\":\"%c\"}", *id);
            if (!strstr(text, end) != !strchr(rows[i].wanted, *id))
                fail_msg("row %zu, id %c: %s", i, *id, text);
        }
        close(fd);
    }
}

static void nothing_fits_a_part_of_a_word(void **state)
{
    struct serving *s = *state;
    int fd = listen_to(s, "?id=12", NULL);
    const char *text;

    publish(s, "node", "1", "");
    publish(s, "node", "2", "");
    publish(s, "node", "123", "");
    publish(s, "node", "12", "");
    text = serving_read_to(fd, "\"}\n\n");
    assert_non_null(strstr(text, "{\"id\":\"12\"}"));
    close(fd);
}

static void listening_goes_on_after_an_id(void **state)
{
    struct serving *s = *state;
    int fd = listen_to(s, "", NULL);
    const char *text;
    char last[32], query[64];

    publish(s, "node", "1", "");
    the_last_id(serving_read_to(fd, "\"}\n\n"), last);
    close(fd);
    publish(s, "node", "2", "");
    publish(s, "node", "3", "");
    snprintf(query, sizeof query, "?last-event-id=%s", last);
    for (int i = 0; i < 2; i++) {
        fd = serving_connect(s);
        dprintf(fd, "GET /v1/events%s HTTP/1.1\r\nHost: localhost:%d\r\n%s%s\r\n\r\n",
                i ? query : "", s->port, i ? "X: " : "Last-Event-ID: ", last);
        text = serving_read_to(fd, "{\"id\":\"3\"}\n\n");
        assert_null(strstr(text, "lost"));
        assert_null(strstr(text, "{\"id\":\"1\"}"));
        assert_non_null(strstr(text, "{\"id\":\"2\"}"));
        close(fd);
    }
}

/* An id that the ring has passed, one from an earlier server, one from a later. */
static void what_is_lost_is_said(void **state)
{
    struct serving *s = *state;
    int fd = listen_to(s, "", NULL);
    const char *ids[3] = {"5", "999999999999999999", NULL};
    char last[32];

    publish(s, "node", "0", "");
    the_last_id(serving_read_to(fd, "\"}\n\n"), last);
    close(fd);
    ids[2] = last;
    for (int i = 0; i < EVENTS_KEPT + 1; i++)
        publish(s, "node", "many", "");
    publish(s, "task", "end", "");
    for (int i = 0; i < 3; i++) {
        const char *text;

        fd = listen_to(s, "?kind=task", ids[i]);
        text = serving_read_to(fd, "{\"id\":\"end\"}\n\n");
        assert_non_null(strstr(text, "event: lost\ndata: {\"first\":\""));
        assert_null(strstr(text, "many"));
        close(fd);
    }
}

static void a_bad_id_is_refused(void **state)
{
    static const char *const ids[] = {"x", "-1", "9999999999999999999", "1 2"};

    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        int fd = listen_to(*state, "", ids[i]);

        assert_int_equal(serving_answer(fd, NULL), 400);
        close(fd);
    }
}

static void line_ends_in_data_are_kept_apart(void **state)
{
    struct serving *s = *state;
    int fd = listen_to(s, "", NULL);

    events_publish(s->events, &(struct event){.kind = "node", .json = STR("{\n}")});
    serving_read_to(fd, "event: node\ndata: {\ndata: }\n\n");
    close(fd);
}

/*
 * A listener that does not read is left behind and costs nothing; when it reads at last it is told
 * that it has lost some, and gets the rest.
 */
static void a_slow_listener_is_left_behind(void **state)
{
    struct serving *s = *state;
    int fd = listen_to(s, "", NULL), quick = listen_to(s, "?kind=job", NULL);
    char *much = malloc(128 * 1024);
    size_t got = 0;
    ssize_t len;
    bool lost = false;

    memset(much, 'x', 128 * 1024);
    for (int i = 0; i < 400; i++) /* 50 MB: more than the ring and the socket take */
        events_publish(s->events, &(struct event){.kind = "node", .json = {much, 128 * 1024}});
    publish(s, "job", "end", "");
    serving_read_to(quick, "{\"id\":\"end\"}\n\n");
    do {
        len = read(fd, much, 128 * 1024 - 1);
        assert_true(len > 0);
        much[len] = '\0';
        lost |= strstr(much, "event: lost") != NULL;
        got += (size_t)len;
    } while (!strstr(much, "\"end\""));
    assert_true(lost);
    assert_in_range(got, 1, 40 * 1024 * 1024);
    free(much);
    close(fd);
    close(quick);
}

static void *publish_many(void *arg)
{
    for (int i = 0; i < 500; i++)
        publish(arg, "node", "x", "");
    return NULL;
}

static void threads_publish_at_once(void **state)
{
    struct serving *s = *state;
    int fd = listen_to(s, "", NULL);
    pthread_t threads[3];
    const char *text;
    uint64_t before = 0;
    int count = 0;

    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, publish_many, s);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    publish(s, "node", "end", "");
    text = serving_read_to(fd, "\"end\"");
    while ((text = strstr(text, "id: "))) {
        uint64_t id = strtoull(text + 4, NULL, 10);

        assert_true(!before || id == before + 1);
        before = id;
        count++;
        text++;
    }
    assert_int_equal(count, 1501);
    close(fd);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        TEST(listeners_are_told),
        TEST(the_head_says_what_it_is),
        TEST(filters_choose),
        TEST(nothing_fits_a_part_of_a_word),
        TEST(listening_goes_on_after_an_id),
        TEST(what_is_lost_is_said),
        TEST(a_bad_id_is_refused),
        TEST(line_ends_in_data_are_kept_apart),
        TEST(a_slow_listener_is_left_behind),
        TEST(threads_publish_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
