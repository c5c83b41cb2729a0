/*
 * The request log: entries by client and id, the limit, restarts, and undo.
 */
#include "task/request_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "drover.h"

static struct request_log memory, copy, empty;
static struct arena arena;

static struct request_key key(int64_t client, const char *id)
{
    return (struct request_key){client, str_of(id), 99};
}

static struct request_log_entry *put(struct request_log *m, int64_t client, const char *id,
                                     int64_t task)
{
    struct task t = {.id = task, .group = STR("g"), .timespec = 5};
    struct request_key k = key(client, id);

    struct request_log_entry *before;

    request_log_put(m, &k, &t, 1, &before);
    return before;
}

static int64_t find(const struct request_log *m, int64_t client, const char *id)
{
    struct request_key k = key(client, id);
    struct task *tasks;
    size_t count;
    int found = request_log_find(m, &k, &arena, &tasks, &count);

    if (found <= 0)
        return found;
    assert_int_equal(count, 1);
    assert_int_equal(tasks[0].ownerid, client);
    assert_int_equal(tasks[0].timespec, 5);
    assert_true(str_eq(tasks[0].group, STR("g")));
    return tasks[0].id;
}

static void test_by_client_and_id(void **state)
{
    struct request_key other = {1, STR("a"), 98};
    struct task *tasks;
    size_t count;

    (void)state;
    free(put(&memory, 1, "a", 10));
    free(put(&memory, 2, "a", 20));
    assert_int_equal(find(&memory, 1, "a"), 10);
    assert_int_equal(find(&memory, 2, "a"), 20);
    assert_int_equal(find(&memory, 3, "a"), 0);
    assert_int_equal(request_log_find(&memory, &other, &arena, &tasks, &count),
                     DROVER_BAD_ARGUMENT);
    request_log_release(&memory);
}

static void test_so_many_and_no_more(void **state)
{
    char id[32];

    (void)state;
    for (int i = 0; i < REQUEST_LOG_MAX + 3; i++) {
        snprintf(id, sizeof id, "r%d", i);
        struct request_log_entry *before = put(&memory, 1, id, i + 1);
        assert_int_equal(before != NULL, i >= REQUEST_LOG_MAX);
        assert_int_equal(memory.places[i % REQUEST_LOG_MAX]->place, i % REQUEST_LOG_MAX);
        free(before);
    }
    assert_int_equal(find(&memory, 1, "r2"), 0);
    assert_int_equal(find(&memory, 1, "r3"), 4);
    assert_int_equal(find(&memory, 1, "r10002"), 10003);
    request_log_release(&memory);
}

static void test_undo_brings_back_the_one_before(void **state)
{
    struct request_log_entry *before;
    char id[32];

    (void)state;
    for (int i = 0; i < REQUEST_LOG_MAX; i++) {
        snprintf(id, sizeof id, "r%d", i);
        free(put(&memory, 1, id, i + 1));
    }
    before = put(&memory, 1, "new", 77);
    assert_int_equal(find(&memory, 1, "r0"), 0);
    request_log_undo(&memory, before);
    assert_int_equal(find(&memory, 1, "r0"), 1);
    assert_int_equal(find(&memory, 1, "new"), 0);
    request_log_release(&memory);
}

static void test_restore(void **state)
{
    (void)state;
    memory.next = 3 * (uint64_t)REQUEST_LOG_MAX + 12;
    assert_null(put(&memory, 1, "a", 4));
    struct str bytes = {memory.places[12]->bytes, memory.places[12]->len};
    assert_int_equal(request_log_restore(&copy, 13, bytes), DROVER_DAMAGED);
    assert_int_equal(request_log_restore(&copy, 12, bytes), 0);
    assert_int_equal(find(&copy, 1, "a"), 4);
    assert_int_equal(copy.next, memory.next);
    for (size_t len = 0; len < bytes.len; len++)
        assert_int_equal(request_log_restore(&empty, 12, (struct str){bytes.p, len}),
                         DROVER_DAMAGED);
    ((char *)bytes.p)[0] = 2;
    assert_int_equal(request_log_restore(&empty, 12, bytes), DROVER_NEWER_VERSION);
    request_log_release(&copy);
    request_log_release(&memory);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_client_and_id),
        cmocka_unit_test(test_so_many_and_no_more),
        cmocka_unit_test(test_undo_brings_back_the_one_before),
        cmocka_unit_test(test_restore),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
