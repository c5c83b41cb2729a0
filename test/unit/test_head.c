/* Request heads: valid ones are parsed; whatever could be read in two ways is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "http/head.h"

#define LINE "GET / HTTP/1.1\r\n"
#define HOST "Host: localhost\r\n"
#define END "\r\n"

/* Scans and parses as the server would. Returns 0, or the status it would answer with. */
static int parse(struct head *h, struct str text)
{
    const char *reason = NULL;
    size_t scanned = 0;
    ssize_t len = head_scan(text.p, text.len, &scanned);
    int status;

    if (len < 0)
        return (int)-len;
    assert_int_equal(len, text.len);
    status = head_parse(h, text.p, text.len, &reason);
    assert_true((status != 0) == (reason != NULL));
    return status;
}

static void a_request_is_understood(void **state)
{
    struct head h;

    (void)state;
    assert_int_equal(parse(&h, STR("PUT /a/b?c=d&e HTTP/1.1\r\nHost: localhost:1\r\n"
                                   "content-LENGTH: 12\r\nX-Other:\t va lue \t\r\nEmpty:\r\n" END)),
                     0);
    assert_int_equal(h.method, METHOD_PUT);
    assert_true(str_eq(h.path, STR("/a/b")));
    assert_true(str_eq(h.query, STR("c=d&e")));
    assert_true(str_eq(h.host, STR("localhost:1")));
    assert_int_equal(h.content_len, 12);
    assert_true(h.keep_alive);
    assert_false(h.chunked || h.head_only || h.http_1_0 || h.expects_continue);
    assert_int_equal(h.field_count, 4);
    assert_true(str_eq(*head_field(&h, "x-other"), STR("va lue")));
    assert_int_equal(head_field(&h, "Empty")->len, 0);
    assert_null(head_field(&h, "X-Othe"));
}

static void methods_are_told_apart(void **state)
{
    static const struct {
        struct str text;
        enum method method;
        bool head_only;
    } rows[] = {
        {STR(LINE HOST END), METHOD_GET, false},
        {STR("HEAD / HTTP/1.1\r\n" HOST END), METHOD_GET, true},
        {STR("POST / HTTP/1.1\r\n" HOST END), METHOD_POST, false},
        {STR("DELETE / HTTP/1.1\r\n" HOST END), METHOD_DELETE, false},
        {STR("OPTIONS / HTTP/1.1\r\n" HOST END), METHOD_OTHER, false},
        {STR("PATCH / HTTP/1.1\r\n" HOST END), METHOD_PATCH, false},
        {STR("TRACE / HTTP/1.1\r\n" HOST END), METHOD_OTHER, false},
    };
    struct head h;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(parse(&h, rows[i].text), 0);
        assert_int_equal(h.method, rows[i].method);
        assert_int_equal(h.head_only, rows[i].head_only);
    }
}

static void connections_go_on_or_end(void **state)
{
    static const struct {
        struct str text;
        bool keep_alive;
    } rows[] = {
        {STR(LINE HOST END), true},
        {STR(LINE HOST "Connection: close\r\n" END), false},
        {STR(LINE HOST "Connection: Keep-Alive\r\n" END), true},
        {STR("GET / HTTP/1.0\r\n" END), false},
        {STR("GET / HTTP/1.0\r\nConnection: keep-alive\r\n" END), true},
        {STR(LINE HOST "Connection: upgrade\r\nUpgrade: websocket\r\n" END), true},
    };
    struct head h;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(parse(&h, rows[i].text), 0);
        assert_int_equal(h.keep_alive, rows[i].keep_alive);
    }
}

static void bodies_are_announced(void **state)
{
    struct head h;

    (void)state;
    assert_int_equal(parse(&h, STR(LINE HOST "Transfer-Encoding: Chunked\r\n" END)), 0);
    assert_true(h.chunked);
    assert_int_equal(parse(&h, STR(LINE HOST "Content-Length: 0\r\nExpect: 100-continue\r\n" END)),
                     0);
    assert_true(h.expects_continue);
    assert_int_equal(parse(&h, STR(LINE HOST "Expect: tea\r\n" END)), 417);
}

/* Requests that two programs could read differently: ways to smuggle one past the other. */
static const struct str AMBIGUOUS[] = {
    STR(LINE HOST "Content-Length: 1\r\nContent-Length: 1\r\n" END),
    STR(LINE HOST "Content-Length: 1\r\nContent-Length: 2\r\n" END),
    STR(LINE HOST "Content-Length: 1, 1\r\n" END),
    STR(LINE HOST "Content-Length: +1\r\n" END),
    STR(LINE HOST "Content-Length: -1\r\n" END),
    STR(LINE HOST "Content-Length: 0x1\r\n" END),
    STR(LINE HOST "Content-Length: 1 2\r\n" END),
    STR(LINE HOST "Content-Length:\r\n" END),
    STR(LINE HOST "Content-Length: 99999999999999999999\r\n" END),
    STR(LINE HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n" END),
    STR(LINE HOST "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n" END),
    STR(LINE HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" END),
    STR(LINE HOST "Transfer-Encoding: identity\r\n" END),
    STR(LINE HOST "Transfer-Encoding: gzip, chunked\r\n" END),
    STR(LINE HOST "Transfer-Encoding: chunked, identity\r\n" END),
    STR(LINE HOST "Transfer-Encoding: xchunked\r\n" END),
    STR(LINE HOST "Transfer-Encoding:\r\n" END),
    STR("GET / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n" END),
    STR(LINE HOST "Transfer-Encoding : chunked\r\n" END),
    STR(LINE HOST "Transfer-Encoding\t: chunked\r\n" END),
    STR(LINE HOST "Content-Length : 1\r\n" END),
    STR(LINE HOST HOST END),
    STR(LINE END),
    STR(LINE "Host:\r\n" END),
    STR(LINE "Host: a b\r\n" END),
    STR(LINE "Host: a,b\r\n" END),
    STR(LINE "Host: a/b\r\n" END),
    STR(LINE HOST "X: a\r\n b\r\n" END),
    STR(LINE HOST "X: a\r\n\tb\r\n" END),
    STR(LINE " " HOST END),
    STR(LINE HOST "X: a\nb: c\r\n" END),
    STR(LINE HOST "X: a\rb\r\n" END),
    STR(LINE HOST "X: a\r\r\n" END),
    STR("GET / HTTP/1.1\n" HOST END),
    STR(LINE HOST "X: a\0b\r\n" END),
    STR(LINE HOST "X: a\x7f\r\n" END),
    STR(LINE HOST "X: a\x01\r\n" END),
    STR(LINE HOST "no colon\r\n" END),
    STR(LINE HOST ": no name\r\n" END),
    STR(LINE HOST "na me: x\r\n" END),
    STR(LINE HOST "na(me): x\r\n" END),
    STR(LINE HOST "n\xc3\xa9: x\r\n" END),
    STR("GET  / HTTP/1.1\r\n" HOST END),
    STR("GET /  HTTP/1.1\r\n" HOST END),
    STR("GET / HTTP/1.1 \r\n" HOST END),
    STR(" GET / HTTP/1.1\r\n" HOST END),
    STR("GET\t/\tHTTP/1.1\r\n" HOST END),
    STR("GET / x HTTP/1.1\r\n" HOST END),
    STR("GET /\r\n" HOST END),
    STR("GET\r\n" HOST END),
    STR("GET /\xc3\xa9 HTTP/1.1\r\n" HOST END),
    STR("GET /a#b HTTP/1.1\r\n" HOST END),
    STR("GET a HTTP/1.1\r\n" HOST END),
    STR("GET http://localhost/ HTTP/1.1\r\n" HOST END),
    STR("OPTIONS * HTTP/1.1\r\n" HOST END),
    STR("CONNECT localhost:80 HTTP/1.1\r\n" HOST END),
    STR("get / HTTP/1.1\r\n" HOST END),
    STR("GETT / HTTP/1.1\r\n" HOST END),
    STR("GET / http/1.1\r\n" HOST END),
    STR("GET / HTTP/1\r\n" HOST END),
    STR("GET / HTTP/1.1.1\r\n" HOST END),
    STR("GET / XTTP/1.1\r\n" HOST END),
};

static void ambiguous_heads_are_refused(void **state)
{
    struct head h;

    (void)state;
    for (size_t i = 0; i < sizeof AMBIGUOUS / sizeof *AMBIGUOUS; i++) {
        int status = parse(&h, AMBIGUOUS[i]);

        if (status != 400)
            fail_msg("row %zu: %d for %s", i, status, AMBIGUOUS[i].p);
    }
}

static void other_versions_are_refused(void **state)
{
    static const struct str rows[] = {
        STR("GET / HTTP/0.9\r\n" HOST END),
        STR("GET / HTTP/1.2\r\n" HOST END),
        STR("GET / HTTP/2.0\r\n" HOST END),
        STR("GET / HTTP/9.9\r\n" HOST END),
    };
    struct head h;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(parse(&h, rows[i]), 505);
}

static void a_head_may_arrive_byte_by_byte(void **state)
{
    static const struct str text = STR(LINE HOST "X: y\r\n" END "GET");
    size_t scanned = 0, head_len = text.len - 3;

    (void)state;
    for (size_t len = 0; len < head_len; len++)
        assert_int_equal(head_scan(text.p, len, &scanned), 0);
    assert_int_equal(head_scan(text.p, text.len, &scanned), head_len);
}

/* A bad byte is answered when it arrives: the end of such a head would never come. */
static void a_bad_byte_is_seen_at_once(void **state)
{
    size_t scanned = 0;

    (void)state;
    assert_int_equal(head_scan("GET / HTTP/1.1\n", 15, &scanned), -400);
    scanned = 0;
    assert_int_equal(head_scan("GET / HTTP/1.1\r", 15, &scanned), 0);
    assert_int_equal(head_scan("GET / HTTP/1.1\rX", 16, &scanned), -400);
    scanned = 0;
    assert_int_equal(head_scan("\x16\x03\x01", 3, &scanned), -400); /* a TLS client */
}

static void a_head_has_a_greatest_length(void **state)
{
    char *text = malloc(HEAD_LEN_MAX + 1);
    size_t scanned = 0;

    (void)state;
    memset(text, 'a', HEAD_LEN_MAX + 1);
    memcpy(text + HEAD_LEN_MAX - 4, "\r\n\r\n", 4);
    assert_int_equal(head_scan(text, HEAD_LEN_MAX, &scanned), HEAD_LEN_MAX);
    memset(text, 'a', HEAD_LEN_MAX + 1);
    scanned = 0;
    assert_int_equal(head_scan(text, HEAD_LEN_MAX, &scanned), 0);
    assert_int_equal(head_scan(text, HEAD_LEN_MAX + 1, &scanned), -431);
    free(text);
}

static void a_head_has_a_greatest_number_of_fields(void **state)
{
    char text[2048] = LINE HOST;
    struct head h;

    (void)state;
    for (int i = 1; i < HEAD_FIELDS_MAX; i++)
        strcat(text, "X: y\r\n");
    strcat(text, END);
    assert_int_equal(parse(&h, str_of(text)), 0);
    assert_int_equal(h.field_count, HEAD_FIELDS_MAX);
    strcpy(text + strlen(text) - 2, "X: y\r\n" END);
    assert_int_equal(parse(&h, str_of(text)), 431);
}

/* Each head lies in memory of its exact size, so that the sanitizer sees a read beyond it. */
static void no_byte_beyond_is_read(void **state)
{
    static const struct str rows[] = {
        STR(LINE HOST END), STR(LINE END),        STR("\r\n\r\n"),           STR(" \r\n\r\n"),
        STR("a\r\n\r\n"),   STR("a b c\r\n\r\n"), STR("a b c\r\n:\r\n\r\n"), STR("  \r\n\r\n"),
    };
    const char *reason;
    struct head h;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *exact = malloc(rows[i].len);

        memcpy(exact, rows[i].p, rows[i].len);
        head_parse(&h, exact, rows[i].len, &reason);
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_understood),
        cmocka_unit_test(methods_are_told_apart),
        cmocka_unit_test(connections_go_on_or_end),
        cmocka_unit_test(bodies_are_announced),
        cmocka_unit_test(ambiguous_heads_are_refused),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(a_head_may_arrive_byte_by_byte),
        cmocka_unit_test(a_bad_byte_is_seen_at_once),
        cmocka_unit_test(a_head_has_a_greatest_length),
        cmocka_unit_test(a_head_has_a_greatest_number_of_fields),
        cmocka_unit_test(no_byte_beyond_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
