/*
 * Worlds on the embedded keeper, in memory, or on the ZooKeeper that DROVER_TEST_ZK names: what
 * each operation leaves in the tree, and what it refuses.
 */
#include "base/mem.h"
#include "keeper_cutter.h"
#include "world_scene.h"

#define P "/zoott_p/"
#define C "/zoott_c/"
#define T "/zoott_w1/"

static void as_the_document_shows(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s);
    expect_tree(&s, "/zoott_c \n/zoott_p \n/zoott_w \n/zoott_w1 \n");
    assert_int_equal(queue(&s, "requestFile", "alpha", "{\"url\": 1}", NULL, NULL), 1);
    assert_int_equal(queue(&s, "downloadFile", "alpha", "[]", "requestFile", "alpha"), 1);
    assert_int_equal(queue(&s, "processFile", "alpha", "null", "downloadFile", "alpha"), 1);
    expect_tree(
        &s, "/zoott_c \n/zoott_p \n" //
        P "requestFile_alpha {\"name\":\"requestFile\",\"type\":\"alpha\","
            "\"path\":\"/zoott_w1/requestFile_alpha\",\"parent\":null}\n" //
        P "requestFile_alpha|downloadFile_alpha {\"name\":\"downloadFile\",\"type\":\"alpha\","
            "\"path\":\"/zoott_w1/requestFile_alpha/downloadFile_alpha\","
            "\"parent\":\"/zoott_w1/requestFile_alpha\"}\n" //
        P "requestFile_alpha|downloadFile_alpha|processFile_alpha "
            "{\"name\":\"processFile\",\"type\":\"alpha\","
            "\"path\":\"/zoott_w1/requestFile_alpha/downloadFile_alpha/processFile_alpha\","
            "\"parent\":\"/zoott_w1/requestFile_alpha/downloadFile_alpha\"}\n"
            "/zoott_w \n/zoott_w1 \n"                 //
        T "requestFile_alpha {\"url\": 1}\n"          //
        T "requestFile_alpha/downloadFile_alpha []\n" //
        T "requestFile_alpha/downloadFile_alpha/processFile_alpha null\n");
    scene_close(&s);
}

static void claims_the_oldest_that_is_not_blocked(void **state)
{
    struct keeper *other;
    struct scene s;

    (void)state;
    scene_open(&s);
    other = stand_connect(&s.stand);
    queue(&s, "b", "t", "1", NULL, NULL);
    queue(&s, "a", "t", "2", NULL, NULL);
    queue(&s, "child", "t", "3", "b", "t");
    queue(&s, "other", "u", "4", NULL, NULL);
    assert_string_equal(claim(&s, "v"), "none");
    assert_string_equal(claim(&s, "t"), "b_t");
    assert_string_equal(claim_with(&s, other, "t"), "a_t");
    assert_string_equal(claim(&s, "t"), "none"); /* the child waits for b */
    assert_int_equal(complete(&s, "a_t"), DROVER_FENCED);
    assert_int_equal(complete(&s, "child_t"), DROVER_NO_NODE);
    assert_int_equal(complete(&s, "b_t"), 0);
    assert_int_equal(complete(&s, "b_t"), DROVER_NO_NODE);
    assert_string_equal(claim(&s, "t"), "b_t|child_t");
    keeper_close(other); /* after its handler died, others can claim the task */
    assert_string_equal(claim(&s, "t"), "a_t");
    assert_string_equal(claim(&s, "u"), "other_u");
    assert_string_equal(claim(&s, "t"), "none");
    scene_close(&s);
}

static void release_and_fail(void **state)
{
    struct scene s;
    struct world_items items;

    (void)state;
    scene_open(&s);
    queue(&s, "a", "t", "1", NULL, NULL);
    queue(&s, "b", "t", "1", NULL, NULL);
    assert_string_equal(claim(&s, "t"), "a_t");
    assert_int_equal(world_release(s.w, s.k, STR("a_t"), &s.e), 0);
    assert_int_equal(world_release(s.w, s.k, STR("a_t"), &s.e), DROVER_NO_NODE);
    assert_string_equal(claim(&s, "t"), "a_t");
    assert_int_equal(fail_task(&s, "a_t", "no \"disk\"", false), 0);
    assert_string_equal(claim(&s, "t"), "b_t"); /* which is the older one now */
    assert_string_equal(claim(&s, "t"), "a_t");
    assert_int_equal(fail_task(&s, "a_t", "again", false), 0);
    assert_int_equal(world_list(s.w, s.k, &s.a, WORLD_IS_PENDING, STR(""), 10, &items), 0);
    assert_int_equal(items.count, 2);
    assert_int_equal(items.list[0].record.failures, 2);
    assert_true(str_eq(items.list[0].record.error, STR("again")));
    assert_string_equal(claim(&s, "t"), "a_t");
    assert_int_equal(complete(&s, "a_t"), 0);
    assert_non_null(strstr(dump(&s),
                           C "a_t {\"name\":\"a\",\"type\":\"t\",\"path\":\"/zoott_w1/a_t\","
                             "\"parent\":null}\n"));
    scene_close(&s);
}

static void queued_again(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s);
    queue(&s, "a", "t", "1", NULL, NULL);
    assert_string_equal(claim(&s, "t"), "a_t");
    assert_int_equal(queue(&s, "a", "t", "2", NULL, NULL), 1); /* while it is worked on */
    assert_string_equal(claim(&s, "t"), "none");
    assert_int_equal(complete(&s, "a_t"), 1);
    assert_null(strstr(dump(&s), C "a_t"));
    assert_non_null(strstr(dump(&s), T "a_t 2\n"));
    assert_string_equal(claim(&s, "t"), "a_t");
    assert_int_equal(complete(&s, "a_t"), 0);
    assert_string_equal(claim(&s, "t"), "none");
    assert_non_null(strstr(dump(&s), C "a_t"));
    assert_int_equal(queue(&s, "a", "t", "3", NULL, NULL), 1); /* after it was completed */
    assert_null(strstr(dump(&s), C "a_t"));
    assert_string_equal(claim(&s, "t"), "a_t");
    assert_int_equal(complete(&s, "a_t"), 0);
    /* A completed node that another client created is overwritten. */
    queue(&s, "b", "t", "3", NULL, NULL);
    claim(&s, "t");
    keeper_create(s.k, C "b_t", STR("foreign"), 0, NULL);
    assert_int_equal(complete(&s, "b_t"), 0);
    assert_null(strstr(dump(&s), "foreign"));
    scene_close(&s);
}

static void removed(void **state)
{
    struct scene s;
    char *before;

    (void)state;
    scene_open(&s);
    before = dump(&s);
    queue(&s, "a", "t", "1", NULL, NULL);
    queue(&s, "b", "t", "1", "a", "t");
    assert_int_equal(world_remove(s.w, s.k, STR("a_t"), INT64_MAX, &s.e), DROVER_NOT_EMPTY);
    assert_int_equal(world_remove(s.w, s.k, STR("c_t"), INT64_MAX, &s.e), DROVER_NO_NODE);
    assert_int_equal(world_remove(s.w, s.k, STR("a/_t"), INT64_MAX, &s.e), DROVER_BAD_ARGUMENT);
    assert_string_equal(claim(&s, "t"), "a_t");
    assert_int_equal(complete(&s, "a_t"), 0);
    assert_string_equal(claim(&s, "t"), "a_t|b_t");
    assert_int_equal(world_remove(s.w, s.k, STR("a_t|b_t"), INT64_MAX, &s.e), DROVER_IN_USE);
    assert_int_equal(complete(&s, "a_t|b_t"), 0);
    /* With a time, only tasks completed before it. */
    assert_int_equal(world_remove(s.w, s.k, STR("a_t|b_t"), 1000, &s.e), DROVER_NOT_ALLOWED);
    assert_int_equal(world_remove(s.w, s.k, STR("a_t|b_t"), INT64_MAX - 1, &s.e), 0);
    assert_int_equal(queue(&s, "c", "t", "1", "a", "t"), 1);
    assert_int_equal(world_remove(s.w, s.k, STR("a_t|c_t"), INT64_MAX - 1, &s.e),
                     DROVER_NOT_ALLOWED); /* pending */
    assert_int_equal(world_remove(s.w, s.k, STR("a_t|c_t"), INT64_MAX, &s.e), 0);
    assert_string_equal(claim(&s, "t"), "none");
    assert_int_equal(world_remove(s.w, s.k, STR("a_t"), INT64_MAX, &s.e), 0);
    assert_string_equal(dump(&s), before);
    /* And it is no longer found as a parent. */
    assert_int_equal(queue(&s, "d", "t", "1", "a", "t"), DROVER_NO_NODE);
    assert_int_equal(queue(&s, "d", "t", "1", "[a]", "t"), DROVER_NO_NODE);
    scene_close(&s);
}

static struct str dotted(void *arg, struct arena *a, struct str parent, struct str child)
{
    (void)arg;
    return str_of(arena_printf(a, "%.*s.%.*s", (int)parent.len, parent.p, (int)child.len, child.p));
}

static void under_all_that_match(void **state)
{
    struct world_task task = {STR("c"), STR("u"), STR("0")};
    struct world_parent all = {STR("a[12]|b_.*"), STR("[st]")};
    struct world_paths paths;
    struct scene s;

    (void)state;
    scene_open(&s);
    queue(&s, "a1", "t", "1", NULL, NULL);
    queue(&s, "a2", "s", "1", NULL, NULL);
    queue(&s, "a3", "t", "1", NULL, NULL);
    queue(&s, "xa1", "t", "1", NULL, NULL);
    queue(&s, "b_b", "t", "1", "a1", "t");
    assert_int_equal(world_queue(s.w, s.k, &s.a, &task, &all, dotted, NULL, &paths, &s.e), 0);
    assert_int_equal(paths.count, 3);
    assert_string_equal(paths.list[0], T "a1_t/a1.c_u");
    assert_string_equal(paths.list[1], T "a1_t/b_b_t/b_b.c_u");
    assert_string_equal(paths.list[2], T "a2_s/a2.c_u");
    assert_int_equal(queue(&s, "d", "u", "1", "nothing", "t"), DROVER_NO_NODE);
    assert_int_equal(queue(&s, "d", "u", "1", "A1", "t"), DROVER_NO_NODE);
    assert_int_equal(queue(&s, "d", "u", "1", "a", "t"), DROVER_NO_NODE); /* the whole name */
    assert_int_equal(queue(&s, "d", "u", "1", "(", "t"), DROVER_BAD_ARGUMENT);
    assert_non_null(strstr(s.e.text, "regular expression"));
    assert_null(strstr(dump(&s), "d_u"));
    scene_close(&s);
}

/* The lists tell where the type begins. */
static void underscores(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s);
    queue(&s, "a_b", "t", "1", NULL, NULL);
    assert_int_equal(queue(&s, "a", "b_t", "1", NULL, NULL), DROVER_EXISTS);
    assert_int_equal(queue(&s, "c", "t", "1", "a", "b_t"), DROVER_NO_NODE);
    assert_int_equal(queue(&s, "c", "t", "1", "[^_]*", ".*"), DROVER_NO_NODE);
    assert_int_equal(queue(&s, "c", "t", "1", "a_b", "t"), 1);
    assert_string_equal(claim(&s, "b_t"), "none");
    assert_string_equal(claim(&s, "t"), "a_b_t");
    scene_close(&s);
}

static void worlds_do_not_mix(void **state)
{
    struct world *other;
    struct world_task task = {STR("a"), STR("t"), STR("0")};
    struct world_paths paths;
    struct world_claim c;
    struct str t = STR("t");
    struct scene s;

    (void)state;
    scene_open(&s);
    world_init(s.k, STR("w2"), NULL);
    assert_int_equal(world_open(s.k, STR("w2"), NULL, &other, NULL), 0);
    queue(&s, "a", "t", "1", NULL, NULL);
    assert_int_equal(world_queue(other, s.k, &s.a, &task, NULL, NULL, NULL, &paths, &s.e),
                     DROVER_EXISTS);
    assert_non_null(strstr(s.e.text, "another world"));
    assert_int_equal(world_claim(other, s.k, &s.a, &t, 1, true, &c, &s.e), 0);
    assert_string_equal(claim(&s, "t"), "a_t");
    assert_int_equal(complete(&s, "a_t"), 0);
    assert_int_equal(world_queue(other, s.k, &s.a, &task, NULL, NULL, NULL, &paths, &s.e),
                     DROVER_EXISTS);
    keeper_delete(s.k, C "a_t", -1);
    assert_int_equal(world_queue(other, s.k, &s.a, &task, NULL, NULL, NULL, &paths, &s.e), 0);
    assert_int_equal(world_claim(other, s.k, &s.a, &t, 1, true, &c, &s.e), 1);
    world_close(other);
    scene_close(&s);
}

static void rubbish_is_skipped(void **state)
{
    static const char *const rubbish[][2] = {
        {P "empty_t", ""},
        {P "text_t", "hello"},
        {P "list_t", "[]"},
        {P "half_t", "{\"name\":\"half\",\"type\":\"t\"}"},
        {P "path_t",
         "{\"name\":\"path\",\"type\":\"t\",\"path\":\"/zoott_w1/x_t\",\"parent\":null}"},
        {P "out_t",
         "{\"name\":\"out\",\"type\":\"t\",\"path\":\"/zookeeper/out_t\",\"parent\":null}"},
        {P "deep_t",
         "{\"name\":\"deep\",\"type\":\"t\",\"path\":\"/zoott_w1/x/deep_t\",\"parent\":null}"},
        {P "gone_t",
         "{\"name\":\"gone\",\"type\":\"t\",\"path\":\"/zoott_w1/gone_t\",\"parent\":null}"},
        {P "noname",
         "{\"name\":\"noname\",\"type\":\"\",\"path\":\"/zoott_w1/noname\",\"parent\":null}"},
    };
    enum { COUNT = sizeof rubbish / sizeof *rubbish };
    struct world_items items;
    struct scene s;
    int lines = 0;

    (void)state;
    scene_open(&s);
    for (int i = 0; i < COUNT; i++)
        keeper_create(s.k, rubbish[i][0], str_of(rubbish[i][1]), 0, NULL);
    queue(&s, "good", "t", "1", NULL, NULL);
    keeper_create(s.k, "/zoott_w/rubbish", STR("\xff\xfe"), 0, NULL);
    keeper_create(s.k, C "rubbish", STR("x"), 0, NULL);
    assert_string_equal(claim(&s, "t"), "good_t");
    assert_string_equal(claim(&s, "t"), "none");
    assert_string_equal(claim(&s, ""
                                  "u"),
                        "none");
    for (const char *c = buf_text(&s.notes); *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, COUNT); /* one warning for each */
    assert_int_equal(world_list(s.w, s.k, &s.a, WORLD_IS_PENDING, STR(""), 100, &items), 0);
    assert_int_equal(items.count, 2); /* good, and gone, whose record is complete */
    assert_int_equal(world_list(s.w, s.k, &s.a, WORLD_IS_WORKING, STR(""), 100, &items), 0);
    assert_int_equal(items.count, 1);
    assert_int_equal(world_list(s.w, s.k, &s.a, WORLD_IS_COMPLETED, STR(""), 100, &items), 0);
    assert_int_equal(items.count, 0);
    assert_int_equal(queue(&s, "text", "t", "1", NULL, NULL), DROVER_EXISTS);
    assert_int_equal(complete(&s, "rubbish"), DROVER_BAD_ARGUMENT);
    keeper_create(s.k, "/zoott_w/no_t", STR("{"), 0, NULL);
    assert_int_equal(complete(&s, "no_t"), DROVER_FENCED);
    scene_close(&s);
}

static void bad_input(void **state)
{
    struct world *w;
    struct scene s;
    char *before, long_name[300];

    (void)state;
    scene_open(&s);
    queue(&s, "a", "t", "1", NULL, NULL);
    before = dump(&s);
    memset(long_name, 'n', sizeof long_name);
    long_name[299] = '\0';
    assert_int_equal(queue(&s, "", "t", "1", NULL, NULL), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue(&s, "a b", "t", "1", NULL, NULL), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue(&s, "a/b", "t", "1", NULL, NULL), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue(&s, "a\\b", "t", "1", NULL, NULL), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue(&s, "a", "t|u", "1", NULL, NULL), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue(&s, "a", "", "1", NULL, NULL), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue(&s, "a\n", "t", "1", NULL, NULL), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue(&s, "a\x7f", "t", "1", NULL, NULL), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue(&s, "a\xff", "t", "1", NULL, NULL), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue(&s, "\xc2\x85", "t", "1", NULL, NULL), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue(&s, long_name, "t", "1", NULL, NULL), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue(&s, "b", "t", "", NULL, NULL), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue(&s, "b", "t", "{", NULL, NULL), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue(&s, "b", "t", "1", "", "t"), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue(&s, "b", "t", "1", "a", "[t"), DROVER_BAD_ARGUMENT);
    assert_int_equal(complete(&s, ""), DROVER_BAD_ARGUMENT);
    assert_int_equal(complete(&s, "a"), DROVER_BAD_ARGUMENT);
    assert_int_equal(complete(&s, "a_t|"), DROVER_BAD_ARGUMENT);
    assert_int_equal(complete(&s, "a/b_t"), DROVER_BAD_ARGUMENT);
    assert_int_equal(complete(&s, "a_t|b\xff_t"), DROVER_BAD_ARGUMENT);
    assert_string_equal(dump(&s), before);
    assert_int_equal(world_init(s.k, STR("p"), &s.e), DROVER_BAD_ARGUMENT);
    assert_int_equal(world_init(s.k, STR("a/b"), &s.e), DROVER_BAD_ARGUMENT);
    assert_int_equal(world_open(s.k, STR("none"), NULL, &w, &s.e), DROVER_NO_NODE);
    assert_int_equal(world_init(s.k, STR("w1"), &s.e), 0); /* again: nothing to do */
    assert_string_equal(dump(&s), before);
    assert_int_equal(queue(&s, ".", "..", "1", NULL, NULL), 1);
    assert_int_equal(queue(&s, "\xc3\xa9t\xc3\xa9", "\xe2\x82\xac", "1", NULL, NULL), 1);
    scene_close(&s);
}

/* A pattern that backtracks on a long name. */
static void expressions_have_limits(void **state)
{
    struct scene s;
    char name[41];

    (void)state;
    scene_open(&s);
    memset(name, 'a', 40);
    name[40] = '\0';
    queue(&s, name, "t", "1", NULL, NULL);
    assert_int_equal(queue(&s, "c", "t", "1", "(a+)+[bc]", "t"), DROVER_BAD_ARGUMENT);
    assert_non_null(strstr(s.e.text, "too expensive"));
    assert_int_equal(queue(&s, "c", "t", "1", "(a|aa)+[bc]", "t"), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue(&s, "c", "t", "1", "a+", "t"), 1);
    assert_int_equal(queue(&s, "c", "t", "1", "\\C+", "t"), DROVER_BAD_ARGUMENT);
    scene_close(&s);
}

/* The cost of a claim and a completion in keeper calls, with a long list. */
static void claims_touch_few_nodes(void **state)
{
    const int TASKS = stand_on_zookeeper() ? 300 : 3000, CLAIMS = TASKS / 10;
    struct str t = STR("t");
    struct world_claim c;
    struct cutter count;
    struct scene s;
    bool again;

    (void)state;
    scene_open(&s);
    for (int i = 0; i < TASKS; i++) {
        char name[20];

        snprintf(name, sizeof name, "n%d", i);
        assert_int_equal(queue(&s, name, "t", "1", NULL, NULL), 1);
    }
    cutter_init(&count, s.k, 1000000, 0, false);
    assert_int_equal(world_claim(s.w, &count.base, &s.a, &t, 1, true, &c, &s.e), 1);
    count.calls = 0;
    for (int i = 0; i < CLAIMS; i++) {
        assert_int_equal(world_claim(s.w, &count.base, &s.a, &t, 1, true, &c, &s.e), 1);
        assert_int_equal(world_complete(s.w, &count.base, c.key, &again, &s.e), 0);
    }
    assert_in_range(count.calls, 1, CLAIMS * 10);
    /* Finding a parent does not walk the tree each time. */
    count.calls = 0;
    for (int i = 0; i < CLAIMS; i++) {
        struct world_task task = {str_of(arena_printf(&s.a, "c%d", i)), STR("u"), STR("1")};
        struct world_parent parent = {STR("n1"), STR("t")};
        struct world_paths paths;

        assert_int_equal(
            world_queue(s.w, &count.base, &s.a, &task, &parent, NULL, NULL, &paths, &s.e), 0);
    }
    assert_in_range(count.calls, 1, TASKS * 20);
    scene_close(&s);
}

/* Another process, whose changes this one does not know at once. */

static void other_queue(struct scene *s, struct world *other, const char *name, const char *type,
                        const char *data)
{
    struct world_task task = {str_of(name), str_of(type), str_of(data)};
    struct world_paths paths;

    assert_int_equal(world_queue(other, s->k, &s->a, &task, NULL, NULL, NULL, &paths, &s->e), 0);
}

/* So many that reading the list takes a while, and is not repeated for ten times as long. */
static void fill(struct scene *s)
{
    for (int i = 0; i < (stand_on_zookeeper() ? 200 : 2000); i++)
        queue(s, arena_printf(&s->a, "fill%d", i), "fill", "0", NULL, NULL);
    assert_string_equal(claim(s, "none"), "none"); /* and a look */
}

static void what_is_known_may_be_old(void **state)
{
    struct world *other;
    struct world_claim c;
    struct str t = STR("t");
    struct scene s;
    bool again;

    (void)state;
    scene_open(&s);
    assert_int_equal(world_open(s.k, STR("w1"), NULL, &other, NULL), 0);
    queue(&s, "par", "q", "1", NULL, NULL);
    queue(&s, "kid", "t", "1", "par", "q");
    assert_string_equal(claim(&s, "q"), "par_q");
    assert_int_equal(complete(&s, "par_q"), 0);
    fill(&s);
    other_queue(&s, other, "par", "q", "2"); /* blocks the kid, which was free */
    assert_int_equal(world_claim(s.w, s.k, &s.a, &t, 1, false, &c, &s.e), 0);
    assert_string_equal(claim(&s, "q"), "par_q");
    assert_int_equal(complete(&s, "par_q"), 0);

    queue(&s, "once", "u", "1", NULL, NULL);
    fill(&s);
    other_queue(&s, other, "once", "u", "2"); /* has a new version and new data */
    t = STR("u");
    assert_int_equal(world_claim(s.w, s.k, &s.a, &t, 1, false, &c, &s.e), 1);
    assert_true(str_eq(c.data, STR("2")));
    assert_int_equal(world_complete(s.w, s.k, c.key, &again, &s.e), 0);
    assert_false(again);
    assert_int_equal(queue(&s, "warm", "v", "1", "onc[e]", "u"), 1); /* walks the tree */
    other_queue(&s, other, "new", "v", "1"); /* a parent that the index does not know */
    assert_int_equal(queue(&s, "own", "v", "1", NULL, NULL), 1); /* nor after a change of its own */
    assert_int_equal(queue(&s, "below", "v", "1", "ne[w]|onc[e]", "[uv]"), 2);
    world_close(other);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_document_shows),
        cmocka_unit_test(claims_the_oldest_that_is_not_blocked),
        cmocka_unit_test(release_and_fail),
        cmocka_unit_test(queued_again),
        cmocka_unit_test(removed),
        cmocka_unit_test(under_all_that_match),
        cmocka_unit_test(underscores),
        cmocka_unit_test(worlds_do_not_mix),
        cmocka_unit_test(rubbish_is_skipped),
        cmocka_unit_test(bad_input),
        cmocka_unit_test(expressions_have_limits),
        cmocka_unit_test(claims_touch_few_nodes),
        cmocka_unit_test(what_is_known_may_be_old),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
