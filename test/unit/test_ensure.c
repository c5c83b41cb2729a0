/* A node that is made unless it is there, also when the answer to its making is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "keeper/local/local.h"
#include "keeper_cutter.h"

static struct local *store;
static struct keeper *k;

static int open_store(void **state)
{
    struct local_options o = {.mode = LOCAL_NONE};

    (void)state;
    return local_open(&o, &store, NULL) || local_connect(store, NULL, &k);
}

static int close_store(void **state)
{
    (void)state;
    keeper_close(k);
    local_close(store);
    return 0;
}

static void expect_data(const char *path, const char *wanted)
{
    struct buf data = {0};

    assert_int_equal(keeper_get(k, path, &data, NULL), 0);
    assert_string_equal(buf_text(&data), wanted);
    buf_release(&data);
}

static void what_is_there_stays(void **state)
{
    (void)state;
    assert_int_equal(keeper_ensure(k, "/a", STR("1")), 0);
    assert_int_equal(keeper_ensure(k, "/a", STR("2")), 0);
    expect_data("/a", "1");
    assert_int_equal(keeper_ensure(k, "/b/c", STR("1")), DROVER_NO_NODE);
}

/* Its calls are the look and the creation; the answer of each is lost, with the call or without. */
static void an_answer_that_is_lost(void **state)
{
    static const char *const paths[] = {"/look", "/looked", "/make", "/made"};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct cutter cut;

        cutter_init(&cut, k, i / 2, DROVER_UNKNOWN, i % 2);
        cut.once = true;
        assert_int_equal(keeper_ensure(&cut.base, paths[i], STR("1")), 0);
        assert_true(cut.cut);
        expect_data(paths[i], "1");
    }
}

static void a_connection_that_stays_away(void **state)
{
    struct cutter cut;

    (void)state;
    cutter_init(&cut, k, 0, DROVER_UNKNOWN, false);
    assert_int_equal(keeper_ensure(&cut.base, "/a", STR("1")), DROVER_UNKNOWN);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_store, close_store)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_there_stays),
        TEST(an_answer_that_is_lost),
        TEST(a_connection_that_stays_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
