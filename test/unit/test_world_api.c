/*
 * Worlds through the public interface, against the shared library: on a keeper in memory, or on the
 * ensemble that DROVER_TEST_ZK names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <unistd.h>

#include "drover.h"

static struct drover_keeper *k;
static struct drover_world *w;
static struct drover_world_list l;
static struct drover_error e;

static int open_world(void **state)
{
    static int count;
    const char *servers = getenv("DROVER_TEST_ZK");
    char url[300] = "memory:";

    (void)state;
    if (servers)
        snprintf(url, sizeof url, "%s/api/%d/%d", servers, (int)getpid(), count++);
    return drover_keeper_open(url, NULL, &k, &e) || drover_world_init(k, "api", &e) ||
           drover_world_open(k, "api", &w, &e);
}

static int close_world(void **state)
{
    (void)state;
    drover_world_close(w);
    drover_keeper_close(k);
    return 0;
}

static int queue(const char *name, const char *data, const char *parent)
{
    struct drover_world_task task = {name, "t", data};
    struct drover_world_match match = {parent, "t"};
    int err = drover_world_queue(w, &task, parent ? &match : NULL, NULL, NULL, &l, &e);

    if (!err)
        drover_world_list_release(&l);
    return err;
}

static const char *const T[] = {"t"};

static void from_queue_to_completion(void **state)
{
    (void)state;
    assert_int_equal(queue("a", "{\"x\":1}", NULL), 0);
    assert_int_equal(queue("b", NULL, "a"), 0);
    assert_int_equal(drover_world_claim(w, T, 1, 0, &l, &e), 1);
    assert_string_equal(l.items[0].node, "a_t");
    assert_string_equal(l.items[0].data, "{\"x\":1}");
    assert_null(l.items[0].parent);
    drover_world_list_release(&l);
    assert_int_equal(drover_world_claim(w, T, 1, 0, &l, &e), 0);
    drover_world_list_release(&l);
    assert_int_equal(queue("a", "2", NULL), 0);
    assert_int_equal(drover_world_complete(w, "a_t", &e), 1);
    assert_int_equal(drover_world_claim(w, T, 1, 0, &l, &e), 1);
    drover_world_list_release(&l);
    assert_int_equal(drover_world_fail(w, "a_t", "why not", &e), 0);
    assert_int_equal(drover_world_get(w, "a_t", &l, &e), 0);
    assert_int_equal(l.items[0].failures, 1);
    assert_string_equal(l.items[0].error, "why not");
    drover_world_list_release(&l);
    assert_int_equal(drover_world_claim(w, T, 1, 0, &l, &e), 1);
    drover_world_list_release(&l);
    assert_int_equal(drover_world_release(w, "a_t", &e), 0);
    assert_int_equal(drover_world_retry(w, "a_t", &e), DROVER_NOT_ALLOWED);
    assert_int_equal(drover_world_claim(w, T, 1, 0, &l, &e), 1);
    drover_world_list_release(&l);
    assert_int_equal(drover_world_complete(w, "a_t", &e), 0);
    assert_int_equal(drover_world_ls(w, DROVER_WORLD_COMPLETED, NULL, 10, &l, &e), 0);
    assert_int_equal(l.count, 1);
    drover_world_list_release(&l);
    assert_int_equal(drover_world_claim(w, T, 1, 0, &l, &e), 1);
    assert_string_equal(l.items[0].node, "a_t|b_t");
    assert_string_equal(l.items[0].parent, "/zoott_api/a_t");
    drover_world_list_release(&l);
}

static char *shout(void *arg, const char *parent, const char *child)
{
    char *name = NULL;

    return arg || asprintf(&name, "%s!%s", parent, child) < 0 ? NULL : name;
}

static void a_name_function(void **state)
{
    struct drover_world_task task = {"c", "u", NULL};
    struct drover_world_match all = {"x[12]", "t"};

    (void)state;
    queue("x1", NULL, NULL);
    queue("x2", NULL, NULL);
    assert_int_equal(drover_world_queue(w, &task, &all, shout, NULL, &l, &e), 0);
    assert_int_equal(l.count, 2);
    assert_string_equal(l.items[1].path, "/zoott_api/x2_t/x2!c_u");
    drover_world_list_release(&l);
    assert_int_equal(drover_world_queue(w, &task, &all, shout, "", &l, &e), DROVER_BAD_ARGUMENT);
    assert_int_equal(drover_world_find(w, &all, &l, &e), 0);
    assert_int_equal(l.count, 2);
    drover_world_list_release(&l);
}

static void refusals_say_why(void **state)
{
    struct drover_world *none;

    (void)state;
    assert_int_equal(queue("a b", NULL, NULL), DROVER_BAD_ARGUMENT);
    assert_non_null(strstr(e.text, "no space"));
    assert_int_equal(queue("a", "{", NULL), DROVER_BAD_ARGUMENT);
    assert_int_equal(queue("a", NULL, "nobody"), DROVER_NO_NODE);
    assert_int_equal(drover_world_complete(w, "x_t", &e), DROVER_NO_NODE);
    assert_int_equal(drover_world_open(k, "none", &none, &e), DROVER_NO_NODE);
    assert_int_equal(drover_world_claim(w, T, 0, 0, &l, &e), DROVER_BAD_ARGUMENT);
    assert_int_equal(drover_keeper_open("elsewhere", NULL, &k, &e), DROVER_BAD_ARGUMENT);
}

static void *claim_main(void *arg)
{
    struct drover_world_list claimed = {0};
    struct drover_error why;
    const char *const types[] = {"late"};

    (void)arg;
    if (drover_world_claim(w, types, 1, 30000, &claimed, &why) != 1)
        return "not claimed";
    drover_world_list_release(&claimed);
    return NULL;
}

static void waiting_for_a_task(void **state)
{
    struct drover_world_task task = {"n", "late", NULL};
    pthread_t thread;
    void *wrong;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, claim_main, NULL), 0);
    assert_int_equal(drover_world_queue(w, &task, NULL, NULL, NULL, &l, &e), 0);
    drover_world_list_release(&l);
    pthread_join(thread, &wrong);
    assert_null(wrong);
}

static int count_node(void *arg, const char *node, int depth, enum drover_world_state state)
{
    int *seen = arg;

    assert_true(state <= DROVER_WORLD_NONE && depth <= (strchr(node, '|') != NULL));
    return ++*seen == 3 ? 77 : 0;
}

static void walking(void **state)
{
    int seen = 0;

    (void)state;
    assert_int_equal(drover_world_walk(w, count_node, &seen, &e), 77);
    assert_int_equal(seen, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_queue_to_completion),
        cmocka_unit_test(a_name_function),
        cmocka_unit_test(refusals_say_why),
        cmocka_unit_test(waiting_for_a_task),
        cmocka_unit_test(walking),
    };

    return cmocka_run_group_tests(tests, open_world, close_world);
}
