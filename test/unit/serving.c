#include "serving.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

enum { DEADLINE_MS = 60 * 1000 };

static void on_closed(void *arg)
{
    struct serving *s = arg;

    events_free(s->events);
    uv_close((uv_handle_t *)&s->stop, NULL);
}

static void on_stop(uv_async_t *stop)
{
    struct serving *s = stop->data;

    if (s->http)
        http_close(s->http);
    s->http = NULL;
}

static void *run(void *arg)
{
    struct serving *s = arg;

    uv_run(&s->loop, UV_RUN_DEFAULT);
    return NULL;
}

void serving_start(struct serving *s, const struct http_options *o, const struct route *routes,
                   size_t count, void *arg)
{
    struct http_options options = o ? *o : (struct http_options){0};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct route_table tables[2];
    struct err_info e;

    signal(SIGPIPE, SIG_IGN); /* as drover serve does */
    uv_loop_init(&s->loop);
    uv_async_init(&s->loop, &s->stop, on_stop);
    s->stop.data = s;
    s->events = events_new(&s->loop);
    struct option_addresses addresses = {.count = 1};
    memcpy(&addresses.items[0], &address, sizeof address);
    options.addresses = &addresses;
    options.closed = on_closed;
    options.closed_arg = s;
    if (http_listen(&s->loop, &options, &s->http, &e))
        fail_msg("%s", e.text);
    tables[0] = (struct route_table){routes, count, arg};
    tables[1] = events_routes(s->events);
    http_serve(s->http, tables, 2);
    s->port = atoi(strrchr(http_url(s->http, 0), ':') + 1);
    assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
}

void serving_stop(struct serving *s)
{
    uv_async_send(&s->stop);
    pthread_join(s->thread, NULL);
    assert_int_equal(uv_loop_close(&s->loop), 0);
}

int serving_connect(const struct serving *s)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)s->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval deadline = {.tv_sec = DEADLINE_MS / 1000};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

void serving_send(int fd, const struct serving *s, const char *method, const char *target,
                  const char *body)
{
    struct buf b = {0};

    buf_printf(&b, "%s %s HTTP/1.1\r\nHost: localhost:%d\r\n", method, target, s->port);
    if (body)
        buf_printf(&b, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
    buf_printf(&b, "\r\n%s", body ? body : "");
    assert_int_equal(write(fd, b.p, b.len), b.len);
    buf_release(&b);
}

static char text[1 << 20];
static size_t text_len;

static void read_more(int fd)
{
    ssize_t len = read(fd, text + text_len, sizeof text - 1 - text_len);

    if (len <= 0)
        fail_msg("closed, or nothing came, after: %s", text);
    text_len += (size_t)len;
    text[text_len] = '\0';
}

const char *serving_read_to(int fd, const char *wanted)
{
    int64_t deadline = clock_boot_ms() + DEADLINE_MS;

    text_len = 0;
    text[0] = '\0';
    while (!strstr(text, wanted)) {
        read_more(fd);
        if (clock_boot_ms() > deadline)
            fail_msg("'%s' did not come: %s", wanted, text);
    }
    return text;
}

int serving_answer(int fd, const char **ret_body)
{
    const char *length, *end;
    size_t whole;

    serving_read_to(fd, "\r\n\r\n");
    length = strstr(text, "Content-Length: ");
    end = strstr(text, "\r\n\r\n") + 4;
    assert_non_null(length);
    whole = (size_t)(end - text) + strtoul(length + 16, NULL, 10);
    while (text_len < whole)
        read_more(fd);
    assert_int_equal(text_len, whole);
    if (strstr(text, "application/json")) {
        assert_int_equal(text[whole - 1], '\n');
        text[whole - 1] = '\0';
    }
    if (ret_body)
        *ret_body = end;
    return atoi(text + 9);
}

int serving_ask(const struct serving *s, const char *method, const char *target, const char *body,
                const char **ret_body)
{
    int fd = serving_connect(s), status;

    serving_send(fd, s, method, target, body);
    status = serving_answer(fd, ret_body);
    close(fd);
    return status;
}
