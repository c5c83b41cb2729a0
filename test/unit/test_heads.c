/* The head cache finds a head that is byte for byte the same, with its parsed meaning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/head.h"

#define HEAD "PUT /a/bc?d=e HTTP/1.1\r\nHost: localhost:1\r\nContent-Length: 12\r\nEmpty:\r\n\r\n"

static const struct router_row ROW, OTHER_ROW;

/* As the server does with a head that is new. The text may go afterwards. */
static void keep(struct head_cache *s, const char *text, const struct router_row *row)
{
    char *copy = strdup(text);
    struct str params[ROUTE_PARAMS_MAX] = {0};
    const char *reason;
    struct head h;

    assert_int_equal(head_parse(&h, copy, strlen(copy), &reason), 0);
    params[0] = (struct str){h.path.p + 1, 1};
    head_cache_add(s, (struct str){copy, strlen(copy)}, &h, row, params);
    free(copy);
}

static const struct cached_head *find(const struct head_cache *s, const char *text)
{
    size_t len = 0;
    const struct cached_head *k = head_cache_find(s, text, strlen(text), &len);

    assert_int_equal(len, k ? strstr(text, "\r\n\r\n") + 4 - text : 0);
    return k;
}

static bool is_in(struct str s, const char *text)
{
    return s.p >= text && s.p + s.len <= text + strlen(text);
}

static void a_head_is_known_again(void **state)
{
    static const char text[] = HEAD "and what follows it";
    struct str params[ROUTE_PARAMS_MAX];
    struct head_cache s = {0};
    struct head h;

    (void)state;
    assert_null(find(&s, text));
    keep(&s, HEAD, &ROW);
    assert_non_null(find(&s, text));
    assert_ptr_equal(head_cache_use(find(&s, text), text, &h, params), &ROW);
    assert_int_equal(h.method, METHOD_PUT);
    assert_int_equal(h.content_len, 12);
    assert_true(h.keep_alive);
    assert_true(str_eq(h.path, STR("/a/bc")) && is_in(h.path, text));
    assert_true(str_eq(h.query, STR("d=e")) && is_in(h.query, text));
    assert_true(str_eq(h.host, STR("localhost:1")) && is_in(h.host, text));
    assert_true(str_eq(params[0], STR("a")) && is_in(params[0], text));
    assert_int_equal(params[1].len, 0);
    assert_int_equal(h.field_count, 3);
    assert_true(str_eq(*head_field(&h, "content-length"), STR("12")));
    assert_true(is_in(h.fields[1].name, text) && is_in(h.fields[1].value, text));
    assert_int_equal(head_field(&h, "Empty")->len, 0);
    head_cache_release(&s);
}

static void only_the_same_bytes_are_known(void **state)
{
    struct head_cache s = {0};
    char text[] = HEAD;

    (void)state;
    keep(&s, HEAD, &ROW);
    for (size_t i = 0; text[i]; i++) {
        text[i] ^= 1;
        assert_null(head_cache_find(&s, text, strlen(text), &(size_t){0}));
        text[i] ^= 1;
        assert_null(head_cache_find(&s, text, i, &(size_t){0})); /* not all there */
    }
    assert_non_null(find(&s, text));
    head_cache_release(&s);
}

/* Far more heads than slots: a hit is always the right head. */
static void those_that_come_take_the_places(void **state)
{
    enum { MANY = 4 * HEAD_CACHE_MAX };
    struct head_cache s = {0};
    size_t known = 0;
    char text[128];

    (void)state;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < MANY; i++) {
            const struct router_row *row = i % 2 ? &ROW : &OTHER_ROW;
            struct str params[ROUTE_PARAMS_MAX];
            const struct cached_head *k;
            struct head h;

            snprintf(text, sizeof text, "GET /a%d HTTP/1.1\r\nHost: localhost\r\n\r\n", i);
            if (!pass) {
                keep(&s, text, row);
                assert_non_null(find(&s, text));
            }
            k = find(&s, text);
            known += k != NULL;
            if (k) {
                assert_ptr_equal(head_cache_use(k, text, &h, params), row);
                assert_int_equal(strncmp(h.path.p, text + 4, h.path.len), 0);
            }
        }
    known -= MANY;
    assert_true(known > HEAD_CACHE_MAX / 2 && known <= HEAD_CACHE_MAX);
    head_cache_release(&s);
}

static void a_long_head_is_not_kept(void **state)
{
    struct head_cache s = {0};
    char text[HEAD_CACHE_LEN_MAX + 64];

    (void)state;
    for (int pad = HEAD_CACHE_LEN_MAX - 64; pad < HEAD_CACHE_LEN_MAX; pad++) {
        int len = snprintf(text, sizeof text,
                           "GET / HTTP/1.1\r\nHost: localhost\r\nX: %0*d\r\n\r\n", pad, 0);

        keep(&s, text, &ROW);
        assert_int_equal(find(&s, text) != NULL, len <= HEAD_CACHE_LEN_MAX);
    }
    head_cache_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_is_known_again),
        cmocka_unit_test(only_the_same_bytes_are_known),
        cmocka_unit_test(those_that_come_take_the_places),
        cmocka_unit_test(a_long_head_is_not_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
