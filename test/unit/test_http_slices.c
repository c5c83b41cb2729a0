/* Answers in slices: their form, their pace, and others in between. */
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

struct library {
    struct serving serving;
    atomic_int slices; /* made so far */
    sem_t gone;        /* a client has left */
};

struct list_in {
    int64_t count;
    bool gaps; /* every other slice has nothing new */
};

struct list {
    struct buf b;
    int64_t at, count;
    bool sent, gap;
};

static void list_free(struct list *l)
{
    buf_release(&l->b);
    free(l);
}

static void on_gone(struct http_request *r)
{
    struct library *library = r->arg;

    list_free(r->handler_data);
    sem_post(&library->gone);
}

static void put_slice(struct http_request *r)
{
    struct library *library = r->arg;
    struct list *l = r->handler_data;
    const struct list_in *in = r->in;

    library->slices++;
    if (l->sent)
        http_slice_begin(&l->b);
    else
        json_open(&l->b, '[');
    l->gap = in->gaps && !l->gap;
    while (!l->gap && l->at < l->count && l->b.len < http_slice_len(r))
        json_put_int(&l->b, l->at++);
    if (l->at == l->count)
        json_close(&l->b, ']');
    l->sent = true;
    if (!http_reply_slice(r, &l->b, l->at < l->count ? put_slice : NULL))
        list_free(l);
}

static void get_list(struct http_request *r)
{
    const struct list_in *in = r->in;
    struct list *l = calloc(1, sizeof *l);

    l->count = in->count;
    r->handler_data = l;
    r->gone = on_gone;
    put_slice(r);
}

static void get_slices(struct http_request *r)
{
    struct library *library = r->arg;
    char text[16];

    snprintf(text, sizeof text, "%d", library->slices);
    http_reply(r, 200, str_of(text));
}

static const struct route ROUTES[] = {
    {METHOD_GET, "/list", get_list, 0, "", "list",
     ROUTE_IN(struct list_in, FIELD_INT(IN_QUERY, struct list_in, count, "count", 0, INT64_MAX, ""),
              FIELD_BOOL(IN_QUERY, struct list_in, gaps, "gaps", ""))},
    {METHOD_GET, "/slices", get_slices, 0, ""},
};

static int open_library(void **state)
{
    struct library *library = calloc(1, sizeof *library);

    sem_init(&library->gone, 0, 0);
    serving_start(&library->serving, NULL, ROUTES, sizeof ROUTES / sizeof *ROUTES, library);
    *state = library;
    return 0;
}

static int close_library(void **state)
{
    struct library *library = *state;

    serving_stop(&library->serving);
    free(library);
    return 0;
}

static size_t read_exactly(int fd, char *to, size_t len)
{
    size_t at = 0;

    for (ssize_t more; at < len && (more = read(fd, to + at, len - at)) > 0;)
        at += (size_t)more;
    return at;
}

static void read_line(int fd, char *line, size_t size)
{
    size_t len = 0;

    do
        assert_int_equal(read_exactly(fd, line + len, 1), 1);
    while (line[len++] != '\n' && len < size - 1);
    line[len] = '\0';
}

/* The body of a chunked answer, and how many chunks it came in. */
static size_t read_chunks(int fd, struct buf *body)
{
    char line[256];
    size_t chunks = 0, len;
    bool chunked = false;

    do {
        read_line(fd, line, sizeof line);
        chunked |= !strcmp(line, "Transfer-Encoding: chunked\r\n");
    } while (strcmp(line, "\r\n") != 0);
    assert_true(chunked);
    do {
        read_line(fd, line, sizeof line);
        len = strtoul(line, NULL, 16);
        buf_reserve(body, len + 2);
        assert_int_equal(read_exactly(fd, body->p + body->len, len + 2), len + 2);
        body->len += len;
        chunks += len > 0;
    } while (len);
    return chunks;
}

static void expect_list(const struct buf *got, int64_t count)
{
    struct buf b = {0};

    json_open(&b, '[');
    for (int64_t i = 0; i < count; i++)
        json_put_int(&b, i);
    buf_put_str(&b, STR("]\n"));
    assert_int_equal(got->len, b.len);
    assert_memory_equal(got->p, b.p, b.len);
    buf_release(&b);
}

static int slices_so_far(const struct library *library)
{
    const char *body;

    assert_int_equal(serving_ask(&library->serving, "GET", "/slices", NULL, &body), 200);
    return atoi(body);
}

static void a_short_list_is_an_ordinary_answer(void **state)
{
    struct library *library = *state;
    const char *body;

    assert_int_equal(serving_ask(&library->serving, "GET", "/list?count=3", NULL, &body), 200);
    assert_string_equal(body, "[0,1,2]");
    assert_int_equal(serving_ask(&library->serving, "GET", "/list?count=0", NULL, &body), 200);
    assert_string_equal(body, "[]");
    assert_int_equal(library->slices, 2);
}

/* Also behind another request, before another one, and when some slices have nothing to send. */
static void a_long_list_comes_in_slices(void **state)
{
    static const char *const targets[] = {"/list?count=100000", "/list?count=100000&gaps=1"};
    struct library *library = *state;

    for (int i = 0; i < 2; i++) {
        int fd = serving_connect(&library->serving);
        struct buf body = {0};

        serving_send(fd, &library->serving, "GET", targets[i], NULL);
        serving_send(fd, &library->serving, "GET", targets[1 - i], NULL);
        serving_send(fd, &library->serving, "GET", "/slices", NULL);
        for (int j = 0; j < 2; j++) {
            body.len = 0;
            assert_true(read_chunks(fd, &body) >= 4);
            expect_list(&body, 100000);
        }
        assert_int_equal(serving_answer(fd, NULL), 200);
        buf_release(&body);
        close(fd);
    }
}

/* The answer is longer than what sockets hold: the rest is not made before it can be sent. */
static void slices_follow_the_client(void **state)
{
    enum { COUNT = 4 * 1000 * 1000, ALL = 31 * 1000 * 1000 / HTTP_SLICE_LEN };
    struct library *library = *state;
    int fd = serving_connect(&library->serving), before, now = 0;
    struct buf body = {0};

    serving_send(fd, &library->serving, "GET", "/list?count=4000000", NULL);
    do {
        before = now;
        for (int i = 0; i < 50; i++)
            now = slices_so_far(library);
    } while (now != before || !now);
    assert_true(now < ALL / 2);
    read_chunks(fd, &body);
    expect_list(&body, COUNT);
    assert_true(library->slices > ALL / 2);
    buf_release(&body);
    close(fd);
}

static void a_client_that_leaves_ends_its_list(void **state)
{
    struct library *library = *state;
    int fd = serving_connect(&library->serving);

    serving_send(fd, &library->serving, "GET", "/list?count=4000000", NULL);
    while (!slices_so_far(library))
        ;
    close(fd);
    sem_wait(&library->gone);
    assert_int_equal(slices_so_far(library), library->slices);
}

static void old_clients_read_to_the_end(void **state)
{
    static const char request[] = "GET /list?count=100000 HTTP/1.0\r\n\r\n";
    struct library *library = *state;
    int fd = serving_connect(&library->serving);
    struct buf body = {0};
    char line[256];

    assert_int_equal(write(fd, request, sizeof request - 1), sizeof request - 1);
    do {
        read_line(fd, line, sizeof line);
        assert_null(strstr(line, "Transfer-Encoding"));
    } while (strcmp(line, "\r\n") != 0);
    buf_reserve(&body, 1 << 20);
    body.len = read_exactly(fd, body.p, 1 << 20);
    expect_list(&body, 100000);
    buf_release(&body);
    close(fd);
}

static void head_has_no_length(void **state)
{
    struct library *library = *state;
    int fd = serving_connect(&library->serving);
    const char *text;

    serving_send(fd, &library->serving, "HEAD", "/list?count=100000", NULL);
    serving_send(fd, &library->serving, "GET", "/slices", NULL);
    text = serving_read_to(fd, "\r\n\r\n1\n");
    assert_non_null(strstr(text, "Transfer-Encoding: chunked\r\n\r\nHTTP/1.1 200 OK\r\n"));
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_short_list_is_an_ordinary_answer, open_library,
                                        close_library),
        cmocka_unit_test_setup_teardown(a_long_list_comes_in_slices, open_library, close_library),
        cmocka_unit_test_setup_teardown(slices_follow_the_client, open_library, close_library),
        cmocka_unit_test_setup_teardown(a_client_that_leaves_ends_its_list, open_library,
                                        close_library),
        cmocka_unit_test_setup_teardown(old_clients_read_to_the_end, open_library, close_library),
        cmocka_unit_test_setup_teardown(head_has_no_length, open_library, close_library),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
