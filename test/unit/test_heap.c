/* The heap gives the smallest first and tracks the position of every entry. */
#include "base/heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { THINGS = 500 };

static uint32_t where[THINGS + 1];

static void moved(void *arg, uint32_t ref, uint32_t at)
{
    (void)arg;
    where[ref] = at;
}

static void test_smallest_first(void **state)
{
    struct heap h = {.moved = moved};
    int64_t last = INT64_MIN;

    (void)state;
    srandom(7);
    for (uint32_t i = 1; i <= THINGS; i++)
        heap_push(&h, random() % 100, i);
    while (h.count) {
        assert_true(h.entries[0].key >= last);
        last = h.entries[0].key;
        heap_remove(&h, 0);
    }
    heap_release(&h);
}

static void test_removal_from_the_middle(void **state)
{
    struct heap h = {.moved = moved};
    int64_t keys[THINGS + 1], last = INT64_MIN;

    (void)state;
    srandom(8);
    for (uint32_t i = 1; i <= THINGS; i++)
        heap_push(&h, keys[i] = random() % 1000, i);
    for (uint32_t i = 1; i <= THINGS; i += 2) {
        assert_int_equal(h.entries[where[i]].ref, i);
        assert_int_equal(heap_remove(&h, where[i]), i);
    }
    assert_int_equal(h.count, THINGS / 2);
    while (h.count) {
        uint32_t ref = h.entries[0].ref;

        assert_int_equal(ref % 2, 0);
        assert_int_equal(h.entries[0].key, keys[ref]);
        assert_true(keys[ref] >= last);
        last = keys[ref];
        heap_remove(&h, where[ref]);
    }
    heap_release(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smallest_first),
        cmocka_unit_test(test_removal_from_the_middle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
