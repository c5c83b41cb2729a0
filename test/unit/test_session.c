/* Sessions: found by id, and out of time exactly when they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "keeper/tree/tree.h"

static const char PASSWORD[] = "0123456789abcdef";

static struct tree_session *put(struct tree_sessions *s, int64_t id, int32_t timeout_ms,
                                int64_t now_ms)
{
    struct tree_session *session = sessions_put(s, id, timeout_ms, PASSWORD);

    session_touch(session, now_ms);
    return session;
}

static void found_by_id(void **state)
{
    static const int64_t ids[] = {1, 2, INT64_MAX, INT64_MIN, -1, INT64_C(1) << 32};
    struct tree_sessions s = {0};

    (void)state;
    assert_null(sessions_find(&s, 1));
    for (size_t i = 0; i < 6; i++)
        put(&s, ids[i], 1000 + (int32_t)i, 0);
    assert_int_equal(s.count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_true(sessions_find(&s, ids[i])->id == ids[i]);
        assert_int_equal(sessions_find(&s, ids[i])->timeout_ms, 1000 + i);
    }
    assert_null(sessions_find(&s, 3));
    sessions_release(&s);
}

/* As when a record is replayed that the snapshot contained already. */
static void put_twice_is_one(void **state)
{
    struct tree_sessions s = {0};
    struct tree_session *first = put(&s, 7, 1000, 0);

    (void)state;
    first->first_ephemeral = 5;
    assert_ptr_equal(sessions_put(&s, 7, 2000, "fedcba9876543210"), first);
    assert_int_equal(first->timeout_ms, 2000);
    assert_memory_equal(first->password, "fedcba9876543210", KEEPER_PASSWORD_LEN);
    assert_int_equal(first->first_ephemeral, 5);
    assert_int_equal(s.count, 1);
    sessions_release(&s);
}

static void removed_ones_leave_room(void **state)
{
    struct tree_sessions s = {0};
    uint32_t len;

    (void)state;
    for (int64_t id = 1; id <= 100; id++)
        put(&s, id, 1000, 0);
    len = s.len;
    for (int64_t id = 1; id <= 100; id += 3)
        sessions_remove(&s, id);
    sessions_remove(&s, 1); /* is gone already */
    sessions_remove(&s, 1000);
    assert_int_equal(s.count, 66);
    for (int64_t id = 1; id <= 100; id++)
        assert_int_equal(sessions_find(&s, id) != NULL, id % 3 != 1);
    for (int64_t id = 101; id <= 134; id++)
        put(&s, id, 1000, 0);
    assert_true(s.len == len && s.count == 100);
    for (int64_t id = 2; id <= 134; id++)
        assert_int_equal(sessions_find(&s, id) != NULL, id > 100 || id % 3 != 1);
    sessions_release(&s);
}

static void out_of_time_to_the_millisecond(void **state)
{
    struct tree_sessions s = {0};
    struct tree_session *one;

    (void)state;
    assert_null(sessions_expired(&s, INT64_MAX));
    assert_true(sessions_next_deadline(&s) == INT64_MAX);
    one = put(&s, 1, 1000, 5000);
    put(&s, 2, 3000, 5000);
    assert_int_equal(sessions_next_deadline(&s), 6000);
    assert_null(sessions_expired(&s, 5999));
    assert_ptr_equal(sessions_expired(&s, 6000), one);
    session_touch(one, 5999);
    assert_null(sessions_expired(&s, 6000));
    assert_int_equal(sessions_next_deadline(&s), 6999);
    sessions_remove(&s, 1);
    assert_int_equal(sessions_next_deadline(&s), 8000);
    assert_null(sessions_expired(&s, 7999));
    assert_int_equal(sessions_expired(&s, 8000)->id, 2);
    sessions_release(&s);
}

static void all_that_expired_are_found(void **state)
{
    struct tree_sessions s = {0};
    struct tree_session *gone;
    int count = 0;

    (void)state;
    for (int64_t id = 1; id <= 20; id++)
        put(&s, id, 1000 * (int32_t)id, 0);
    while ((gone = sessions_expired(&s, 10000))) {
        assert_true(gone->id <= 10);
        sessions_remove(&s, gone->id);
        count++;
    }
    assert_int_equal(count, 10);
    assert_int_equal(s.count, 10);
    sessions_release(&s);
}

/* Held open by somebody in this process: no clock counts. */
static void pinned_sessions_never_run_out(void **state)
{
    struct tree_sessions s = {0};
    struct tree_session *one = put(&s, 1, 1000, 0), *two = put(&s, 2, 2000, 0);

    (void)state;
    one->pins = 2;
    assert_int_equal(sessions_next_deadline(&s), 2000);
    assert_ptr_equal(sessions_expired(&s, 5000), two);
    sessions_remove(&s, 2);
    assert_null(sessions_expired(&s, INT64_MAX));
    assert_true(sessions_next_deadline(&s) == INT64_MAX);
    one->pins--;
    assert_null(sessions_expired(&s, INT64_MAX));
    one->pins--;
    assert_ptr_equal(sessions_expired(&s, 5000), one);
    sessions_release(&s);
}

static void after_a_start_everybody_has_their_time(void **state)
{
    struct tree_sessions s = {0};

    (void)state;
    put(&s, 1, 1000, 0);
    put(&s, 2, 2000, 0);
    put(&s, 3, 3000, 0);
    sessions_remove(&s, 2);
    sessions_touch_all(&s, 100000);
    assert_null(sessions_expired(&s, 100999));
    assert_int_equal(sessions_expired(&s, 101000)->id, 1);
    assert_int_equal(sessions_find(&s, 3)->deadline_ms, 103000);
    sessions_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_by_id),
        cmocka_unit_test(put_twice_is_one),
        cmocka_unit_test(removed_ones_leave_room),
        cmocka_unit_test(out_of_time_to_the_millisecond),
        cmocka_unit_test(all_that_expired_are_found),
        cmocka_unit_test(pinned_sessions_never_run_out),
        cmocka_unit_test(after_a_start_everybody_has_their_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
