/* Routes: which pattern takes which path, and what the 405s are made from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/route.h"

static const struct route ROUTES[] = {
    {METHOD_GET, "/", NULL},
    {METHOD_GET, "/healthz", NULL},
    {METHOD_GET, "/nodes", NULL},
    {METHOD_POST, "/nodes", NULL},
    {METHOD_GET, "/nodes/{id}", NULL},
    {METHOD_DELETE, "/nodes/{id}", NULL},
    {METHOD_PUT, "/nodes/{id}/data/{key}", NULL},
    {METHOD_GET, "/{1}/{2}/{3}/{4}/{5}", NULL},
    {METHOD_GET, "/tree/{world}/{path...}", NULL},
};

static int here, there;

/* Two tables, so that the rows of the second have its argument. */
static const struct route_table TABLES[] = {
    {ROUTES, 2, &here},
    {ROUTES + 2, sizeof ROUTES / sizeof *ROUTES - 2, &there},
};

static struct router router;

static int build(void **state)
{
    (void)state;
    router_build(&router, TABLES, 2);
    return 0;
}

static int release(void **state)
{
    (void)state;
    router_release(&router);
    return 0;
}

static void paths_find_their_routes(void **state)
{
    static const struct {
        enum method method;
        struct str path;
        int row; /* -1: none */
        unsigned allow;
    } rows[] = {
        {METHOD_GET, STR("/"), 0, 0},
        {METHOD_GET, STR("/healthz"), 1, 0},
        {METHOD_POST, STR("/nodes"), 3, 0},
        {METHOD_GET, STR("/nodes/7"), 4, 0},
        {METHOD_DELETE, STR("/nodes/7"), 5, 0},
        {METHOD_PUT, STR("/nodes/7/data/x%2Fy"), 6, 0},
        {METHOD_GET, STR("/health"), -1, 0},
        {METHOD_GET, STR("/healthzz"), -1, 0},
        {METHOD_GET, STR("/healthz/"), -1, 0},
        {METHOD_GET, STR("//healthz"), -1, 0},
        {METHOD_GET, STR("/HEALTHZ"), -1, 0},
        {METHOD_GET, STR(""), -1, 0},
        {METHOD_GET, STR("/nodes/"), -1, 0},
        {METHOD_GET, STR("/nodes/7/"), -1, 0},
        {METHOD_POST, STR("/healthz"), -1, 1 << METHOD_GET},
        {METHOD_PUT, STR("/nodes"), -1, 1 << METHOD_GET | 1 << METHOD_POST},
        {METHOD_OTHER, STR("/nodes/7"), -1, 1 << METHOD_GET | 1 << METHOD_DELETE},
        {METHOD_GET, STR("/nodes/7/data/x"), -1, 1 << METHOD_PUT},
        {METHOD_GET, STR("/tree/w/a"), 8, 0},
        {METHOD_GET, STR("/tree/w/a/b/c"), 8, 0},
        {METHOD_GET, STR("/tree/w/"), -1, 0},
        {METHOD_GET, STR("/tree/w"), -1, 0},
        {METHOD_GET, STR("/a/b/c/d/e"), -1, 0}, /* more parts than there is room for */
    };
    struct str params[ROUTE_PARAMS_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned allow = 0;
        const struct router_row *found =
            router_find(&router, rows[i].method, rows[i].path, params, &allow);

        if ((found ? found->route : NULL) != (rows[i].row < 0 ? NULL : &ROUTES[rows[i].row]) ||
            allow != rows[i].allow)
            fail_msg("row %zu: %s", i, rows[i].path.p);
    }
}

static void params_are_what_stood_there(void **state)
{
    struct str params[ROUTE_PARAMS_MAX];
    unsigned allow;

    (void)state;
    assert_non_null(router_find(&router, METHOD_PUT, STR("/nodes/7/data/x%2Fy"), params, &allow));
    assert_true(str_eq(params[0], STR("7")));
    assert_true(str_eq(params[1], STR("x%2Fy")));
}

static void a_table_has_its_own_argument(void **state)
{
    struct str params[ROUTE_PARAMS_MAX];
    unsigned allow;

    (void)state;
    assert_ptr_equal(router_find(&router, METHOD_GET, STR("/healthz"), params, &allow)->table->arg,
                     &here);
    assert_ptr_equal(router_find(&router, METHOD_GET, STR("/nodes"), params, &allow)->table->arg,
                     &there);
}

static void the_list_names_every_route(void **state)
{
    static const struct route routes[] = {
        {METHOD_GET, "/a", NULL, 0, "Say \"a\"."},
        {METHOD_POST, "/b/{c}", NULL, 0, NULL},
    };
    struct router small;
    struct buf b = {0};

    (void)state;
    router_build(&small, &(struct route_table){routes, 2, NULL}, 1);
    router_put_list(&b, &small);
    assert_string_equal(buf_text(&b),
                        "[{\"method\":\"GET\",\"path\":\"/a\",\"summary\":\"Say \\\"a\\\".\"},"
                        "{\"method\":\"POST\",\"path\":\"/b/{c}\",\"summary\":\"\"}]");
    buf_release(&b);
    router_release(&small);
}

static void allow_lists_methods(void **state)
{
    struct buf b = {0};

    (void)state;
    route_put_allow(&b, 1 << METHOD_GET);
    assert_string_equal(buf_text(&b), "GET, HEAD");
    b.len = 0;
    route_put_allow(&b, 1 << METHOD_DELETE | 1 << METHOD_GET | 1 << METHOD_PUT);
    assert_string_equal(buf_text(&b), "GET, HEAD, PUT, DELETE");
    b.len = 0;
    route_put_allow(&b, 1 << METHOD_POST);
    assert_string_equal(buf_text(&b), "POST");
    buf_release(&b);
}

static void the_last_part_takes_the_rest(void **state)
{
    struct str params[ROUTE_PARAMS_MAX];
    unsigned allow;

    (void)state;
    assert_non_null(router_find(&router, METHOD_GET, STR("/tree/w/a/b%2F/c"), params, &allow));
    assert_true(str_eq(params[0], STR("w")));
    assert_true(str_eq(params[1], STR("a/b%2F/c")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_part_takes_the_rest),
        cmocka_unit_test(paths_find_their_routes),
        cmocka_unit_test(params_are_what_stood_there),
        cmocka_unit_test(a_table_has_its_own_argument),
        cmocka_unit_test(the_list_names_every_route),
        cmocka_unit_test(allow_lists_methods),
    };

    return cmocka_run_group_tests(tests, build, release);
}
