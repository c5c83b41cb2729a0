/* What may name a node: ZooKeeper's rules, on both sides of every border. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "keeper/path.h"

static bool valid(struct str path)
{
    return path_is_valid(path, false);
}

static void good_paths(void **state)
{
    static const char *const paths[] = {
        "/", "/a", "/a/b/c", "/.a", "/a.", "/...", "/a/..b", "/a b", "/ ", "/~!@#$%^&*()\\|",
    };

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (!valid(str_of(paths[i])))
            fail_msg("%s should be valid", paths[i]);
}

static void bad_paths(void **state)
{
    static const char *const paths[] = {
        "",      "a",    "a/b",   "//",     "/a//b",   "/a/",   "/.",     "/..",    "/a/.",
        "/a/..", "/./a", "/../a", "/a/./b", "/a/../b", "/\x01", "/a\x1f", "/a\x7f", "/a\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (valid(str_of(paths[i])))
            fail_msg("%s should not be valid", paths[i]);
}

static void a_nul_is_refused(void **state)
{
    (void)state;
    assert_false(valid(STR("/a\0b")));
    assert_false(valid(STR("/\0")));
}

/* Each character on one side of a border that the rules draw. */
static void borders_of_unicode(void **state)
{
    static const struct {
        struct str path;
        bool valid;
        const char *what;
    } rows[] = {
        {STR("/\xc2\x80"), false, "U+0080, control"},
        {STR("/\xc2\x9f"), false, "U+009F, control"},
        {STR("/\xc2\xa0"), true, "U+00A0"},
        {STR("/\xc3\xa9"), true, "U+00E9"},
        {STR("/\xe2\x82\xac"), true, "U+20AC"},
        {STR("/\xed\x9f\xbf"), true, "U+D7FF"},
        {STR("/\xed\xa0\x80"), false, "U+D800, surrogate"},
        {STR("/\xed\xbf\xbf"), false, "U+DFFF, surrogate"},
        {STR("/\xee\x80\x80"), false, "U+E000, private use"},
        {STR("/\xef\xa3\xbf"), false, "U+F8FF, private use"},
        {STR("/\xef\xa4\x80"), true, "U+F900"},
        {STR("/\xef\xbf\xaf"), true, "U+FFEF"},
        {STR("/\xef\xbf\xb0"), false, "U+FFF0"},
        {STR("/\xef\xbf\xbf"), false, "U+FFFF"},
        {STR("/\xf0\x90\x80\x80"), false, "U+10000"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (valid(rows[i].path) != rows[i].valid)
            fail_msg("%s", rows[i].what);
}

static void what_is_not_utf8_is_refused(void **state)
{
    static const struct str paths[] = {
        STR("/\x80"),
        STR("/\xbf"),
        STR("/\xc0\x80"),
        STR("/\xc1\xbf"),
        STR("/\xc3"),
        STR("/\xc3/"),
        STR("/\xe2\x82"),
        STR("/\xe0\x80\x80"),
        STR("/\xe0\x9f\xbf"),
        STR("/\xe2\x28\xa1"),
        STR("/\xf5"),
        STR("/\xff"),
        STR("/\xf0\x8f\xbf\xbf"),
    };

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (valid(paths[i]))
            fail_msg("row %zu should not be valid", i);
}

/* Each prefix of a path lies in memory of its exact size: no byte beyond it may be read. */
static void no_byte_beyond_is_read(void **state)
{
    static const struct str path = STR("/a/\xe2\x82\xac/\xc3\xa9/..b");

    (void)state;
    for (size_t len = 1; len <= path.len; len++) {
        char *exact = malloc(len);

        memcpy(exact, path.p, len);
        path_is_valid((struct str){exact, len}, false);
        path_is_valid((struct str){exact, len}, true);
        free(exact);
    }
}

static void a_sequential_path_may_end_open(void **state)
{
    (void)state;
    assert_true(path_is_valid(STR("/a/"), true));
    assert_true(path_is_valid(STR("/a/."), true));
    assert_true(path_is_valid(STR("/a/n-"), true));
    assert_true(path_is_valid(STR("/"), true));
    assert_false(path_is_valid(STR("/a//"), true));
    assert_false(path_is_valid(STR("/./n-"), true));
    assert_false(path_is_valid(STR("/a/\x01"), true));
    assert_false(path_is_valid(STR(""), true));
}

static void the_longest_path(void **state)
{
    char *text = malloc(PATH_MAX_LEN + 1);

    (void)state;
    memset(text, 'a', PATH_MAX_LEN + 1);
    text[0] = '/';
    assert_true(valid((struct str){text, PATH_MAX_LEN}));
    assert_false(valid((struct str){text, PATH_MAX_LEN + 1}));
    free(text);
}

static void special_paths(void **state)
{
    (void)state;
    assert_true(path_is_special(STR("/")));
    assert_true(path_is_special(STR("/zookeeper")));
    assert_true(path_is_special(STR("/zookeeper/quota")));
    assert_true(path_is_special(STR("/zookeeper/config")));
    assert_false(path_is_special(STR("/zookeeper/other")));
    assert_false(path_is_special(STR("/zookeepe")));
    assert_false(path_is_special(STR("/a")));
}

static void parents_and_names(void **state)
{
    static const struct {
        struct str path, parent, name;
    } rows[] = {
        {STR("/a"), STR("/"), STR("a")},
        {STR("/a/b"), STR("/a"), STR("b")},
        {STR("/a/bc/d"), STR("/a/bc"), STR("d")},
        {STR("/a/"), STR("/a"), STR("")},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(str_eq(path_parent(rows[i].path), rows[i].parent));
        assert_true(str_eq(path_name(rows[i].path), rows[i].name));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_paths),
        cmocka_unit_test(bad_paths),
        cmocka_unit_test(a_nul_is_refused),
        cmocka_unit_test(borders_of_unicode),
        cmocka_unit_test(what_is_not_utf8_is_refused),
        cmocka_unit_test(no_byte_beyond_is_read),
        cmocka_unit_test(a_sequential_path_may_end_open),
        cmocka_unit_test(the_longest_path),
        cmocka_unit_test(special_paths),
        cmocka_unit_test(parents_and_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
