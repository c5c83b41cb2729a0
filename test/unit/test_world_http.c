/* Worlds over HTTP while the server has no session on its keeper. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "serving.h"
#include "world/http.h"

static void test_every_route_says_that_the_keeper_is_away(void **state)
{
    static const struct {
        const char *method, *target, *body;
    } calls[] = {
        {"GET", "/v1/worlds", NULL},
        {"POST", "/v1/worlds", "{\"world\":\"a\"}"},
        {"GET", "/v1/worlds/a/tree", NULL},
        {"POST", "/v1/worlds/a/tasks", "{\"task\":{\"name\":\"n\",\"type\":\"t\"}}"},
    };
    struct context away = {0};
    struct world_registry registry = {.context = &away, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct route_table table = world_module.routes(&registry);
    struct serving s = {0};
    const char *body;

    (void)state;
    serving_start(&s, NULL, table.routes, table.count, &registry);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        assert_int_equal(serving_ask(&s, calls[i].method, calls[i].target, calls[i].body, &body),
                         503);
        assert_non_null(strstr(body, "the keeper is unreachable: try again"));
    }
    serving_stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_route_says_that_the_keeper_is_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
