/* The lines of an export: they come back, and what is no line is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "cli/export_line.h"
#include "keeper/acl.h"
#include "keeper/keeper.h"

static const struct str ACL = STR("\0\0\0\2\0\0\0\1\0\0\0\5world\0\0\0\6anyone"
                                  "\0\0\0\37\0\0\0\6digest\0\0\0\3u:h");

static void expect_str(struct str a, struct str b)
{
    assert_int_equal(!a.p, !b.p);
    assert_true(str_eq(a, b));
}

static void expect_same(const struct transfer_node *a, const struct transfer_node *b)
{
    expect_str(a->path, b->path);
    expect_str(a->data, b->data);
    assert_true(str_eq(a->acl, b->acl));
    assert_true(a->czxid == b->czxid && a->mzxid == b->mzxid && a->pzxid == b->pzxid);
    assert_true(a->ctime_ms == b->ctime_ms && a->mtime_ms == b->mtime_ms);
    assert_true(a->owner == b->owner && a->version == b->version);
    assert_true(a->aversion == b->aversion && a->creations == b->creations);
}

static void nodes_come_back(void **state)
{
    const struct transfer_node rows[] = {
        {.path = STR("/")},
        {.path = STR("/a"), .data = STR("")},
        {.path = STR("/a"), .data = STR("text \"\\\n\0 \xc3\xbc")},
        {.path = STR("/\xc3\xbc \"x\""), .data = STR("\xff\x00\xed\xa0\x80")},
        {.path = STR("/a/b"),
         .data = STR("x"),
         .acl = ACL,
         .czxid = 3,
         .mzxid = 5,
         .pzxid = INT64_MAX / 2,
         .ctime_ms = 1700000000000,
         .mtime_ms = 1,
         .version = INT32_MAX,
         .aversion = -1,
         .creations = 7},
        {.path = STR("/c"), .owner = KEEPER_CONTAINER},
        {.path = STR("/t"), .owner = keeper_ttl(1)},
        {.path = STR("/t"), .owner = keeper_ttl(KEEPER_TTL_MAX_MS)},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf b = {0};
        struct arena a = {0};
        struct export_line l;
        struct err_info e = {""};
        assert_int_equal(export_put_node(&b, &rows[i], &e), 0);
        assert_true(b.len && b.p[b.len - 1] == '\n' && !memchr(b.p, '\n', b.len - 1));
        int err = export_read(&a, (struct str){b.p, b.len - 1}, &l, &e);
        if (err || l.kind != EXPORT_NODE)
            fail_msg("row %zu: %s", i, e.text);
        expect_same(&l.node, &rows[i]);
        buf_release(&b);
        arena_release(&a);
    }
}

static void the_open_list_is_left_out(void **state)
{
    struct transfer_node n = {.path = STR("/a"), .acl = ACL_OPEN_LIST};
    struct buf b = {0};
    struct err_info e;
    (void)state;
    assert_int_equal(export_put_node(&b, &n, &e), 0);
    assert_string_equal(buf_text(&b), "{\"path\":\"/a\",\"czxid\":0,\"ctime\":0}\n");
    buf_release(&b);
}

static void head_and_end_come_back(void **state)
{
    const struct export_head head = {true, 4711, 1700000000123};
    const struct export_end end = {.nodes = 12, .sum = 0x0a1b2c3d};
    struct buf b = {0};
    struct arena a = {0};
    struct export_line l;
    struct err_info e;
    (void)state;
    export_put_head(&b, &head);
    assert_int_equal(export_read(&a, (struct str){b.p, b.len - 1}, &l, &e), 0);
    assert_true(l.kind == EXPORT_HEAD && l.head.from_ensemble && l.head.zxid == head.zxid &&
                l.head.time_ms == head.time_ms);
    b.len = 0;
    export_put_end(&b, &end);
    assert_string_equal(buf_text(&b), "{\"end\":12,\"crc32c\":\"0a1b2c3d\"}\n");
    assert_int_equal(export_read(&a, (struct str){b.p, b.len - 1}, &l, &e), 0);
    assert_true(l.kind == EXPORT_END && l.end.nodes == 12 && l.end.has_sum && l.end.sum == end.sum);
    assert_int_equal(export_read(&a, STR("{\"end\":0}"), &l, &e), 0);
    assert_true(l.kind == EXPORT_END && !l.end.has_sum);
    buf_release(&b);
    arena_release(&a);
}

#define NODE "\"path\":\"/a\",\"czxid\":1,\"ctime\":1"

static void what_is_no_line(void **state)
{
    static const char *const rows[] = {
        "",
        "7",
        "[]",
        "{}",
        "{\"path\":\"/a\"}",
        "{\"path\":\"a\",\"czxid\":1,\"ctime\":1}",
        "{\"path\":\"/a/\",\"czxid\":1,\"ctime\":1}",
        "{\"path\":7,\"czxid\":1,\"ctime\":1}",
        "{\"path\":\"/a\",\"czxid\":-1,\"ctime\":1}",
        "{\"path\":\"/a\",\"czxid\":1.5,\"ctime\":1}",
        "{\"path\":\"/a\",\"czxid\":9223372036854775807,\"ctime\":1}",
        "{" NODE ",\"more\":1}",
        "{" NODE ",\"version\":2147483648}",
        "{" NODE ",\"data\":7}",
        "{" NODE ",\"base64\":\"x\"}",
        "{" NODE ",\"data\":\"\",\"base64\":\"\"}",
        "{" NODE ",\"ttl\":-1}",
        "{" NODE ",\"ttl\":1099511627776}",
        "{" NODE ",\"ttl\":1,\"container\":true}",
        "{" NODE ",\"container\":1}",
        "{" NODE ",\"acl\":[]}",
        "{" NODE ",\"acl\":[{}]}",
        "{" NODE ",\"acl\":[{\"scheme\":\"world\",\"id\":\"anyone\",\"permissions\":32}]}",
        "{" NODE ",\"acl\":[{\"scheme\":\"world\",\"id\":\"anyone\"}]}",
        "{\"end\":-1}",
        "{\"end\":1,\"crc32c\":\"0a1b2c3\"}",
        "{\"end\":1,\"crc32c\":\"0a1b2c3X\"}",
        "{\"end\":1,\"more\":1}",
        "{\"drover\":\"export\"}",
        "{\"drover\":\"export\",\"version\":1,\"from\":\"x\",\"zxid\":1,\"time\":1}",
        "{\"drover\":\"export\",\"version\":1,\"from\":\"embedded\",\"zxid\":-1,\"time\":1}",
        "{\"drover\":\"export\",\"version\":1,\"from\":\"embedded\",\"zxid\":1}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct arena a = {0};
        struct export_line l;
        struct err_info e = {""};
        if (!export_read(&a, str_of(rows[i]), &l, &e) || !e.text[0])
            fail_msg("%s", rows[i]);
        arena_release(&a);
    }
}

static void a_newer_version(void **state)
{
    struct arena a = {0};
    struct export_line l;
    struct err_info e;
    (void)state;
    assert_int_equal(
        export_read(&a, STR("{\"drover\":\"export\",\"version\":2,\"new\":1}"), &l, &e),
        DROVER_NEWER_VERSION);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_come_back),        cmocka_unit_test(the_open_list_is_left_out),
        cmocka_unit_test(head_and_end_come_back), cmocka_unit_test(what_is_no_line),
        cmocka_unit_test(a_newer_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
