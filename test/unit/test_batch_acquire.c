/*
 * Acquiring past jobs that are not available: however many of them are at the front, acquire finds
 * the first available one, and the next acquires make a bounded number of calls to the keeper.
 */
#include "batch_scene.h"

#include "base/clock.h"
#include "batch/item.h"
#include "keeper_cutter.h"

enum { LOT = 100, BOUND = 40 };

static int many(int count)
{
    return scene_on_zookeeper() ? 60 : count;
}

/* Creates `count` jobs of a profile at a priority. Returns the first. */
static const char *fill(struct scene *s, const char *bid, const char *profile, int priority,
                        int count)
{
    char(*jids)[BATCH_ID_LEN + 1] = arena_alloc(&s->arena, LOT * sizeof *jids), *first = NULL;
    struct batch_job_spec specs[LOT];
    const char *spec =
        arena_printf(&s->arena, "{\"configuration\": {\"profile_name\": \"%s\"}, \"priority\": %d}",
                     profile, priority);

    OK(s, batch_job_read_spec(&s->c, parse(s, spec), &specs[0]));
    for (int n = 1; n < LOT; n++)
        specs[n] = specs[0];
    for (int i = 0; i < count; i += LOT) {
        int lot = count - i < LOT ? count - i : LOT;

        OK(s, batch_job_create(&s->c, str_of(bid), specs, (size_t)lot, NULL, jids));
        if (!first)
            first = arena_text(&s->arena, str_of(jids[0]));
    }
    return first;
}

/* Acquires with the store of some process, and counts the calls to the keeper. */
static int acquire_in(struct scene *s, struct batch_store *store, const char *state,
                      struct batch_item *ret_job, int *ret_calls)
{
    struct cutter counter;
    struct batch_call c = {store, &counter.base, &s->arena, &s->why};
    int got;

    cutter_init(&counter, s->k, 1 << 30, 0, false);
    got = batch_item_acquire(&c, BATCH_KIND_JOB, state_no(s, state), ret_job);
    *ret_calls = counter.calls;
    OK(s, got);
    return got;
}

static int acquire(struct scene *s, struct batch_store *store, struct batch_item *ret_job,
                   int *ret_calls)
{
    return acquire_in(s, store, "Pending", ret_job, ret_calls);
}

/* The next acquires return the jobs from `first` on, each with a bounded number of calls. */
static void expect_next(struct scene *s, struct batch_store *store, int first, int count)
{
    struct batch_item j;
    int calls;

    for (int i = 0; i < count; i++) {
        assert_int_equal(acquire(s, store, &j, &calls), 1);
        assert_int_equal(batch_id_number(BATCH_ID_JOB, str_of(j.id)), first + i);
        if (i > 0 && calls > BOUND)
            fail_msg("acquire number %d took %d calls", i, calls);
    }
}

static int number_of(const char *jid)
{
    return (int)batch_id_number(BATCH_ID_JOB, str_of(jid));
}

static struct batch_store *another_process(void)
{
    struct batch_store_options o = {.machines = NULL};

    return batch_store_open(&o);
}

/* Waits until this process notices what another process released or unlocked. */
static void wait_for_front(struct scene *s, struct batch_store *store, const char *jid)
{
    int64_t end_ms = clock_boot_ms() + 10000;
    struct batch_item j;
    int calls;

    do {
        assert_true(clock_boot_ms() < end_ms);
        while (acquire(s, store, &j, &calls) == 0)
            assert_true(clock_boot_ms() < end_ms);
    } while (strcmp(j.id, jid) != 0);
}

static void a_held_batch_at_the_front(void **state)
{
    struct scene *s = *state;
    const char *held = new_batch(s, "{}"), *open = new_batch(s, "{}");
    const char *front = fill(s, held, "p", 10, many(5000)), *usable = fill(s, open, "p", 50, 20);
    struct batch_store *other = another_process();
    struct batch_item j;
    int calls;

    OK(s, batch_to(&s->c, held, "Held", 0));
    expect_next(s, s->store, number_of(usable), 10);
    expect_next(s, other, number_of(usable) + 10, 9);
    OK(s, batch_to(&s->c, held, "Pending", 0));
    assert_int_equal(acquire(s, s->store, &j, &calls), 1); /* this process knows at once */
    assert_string_equal(j.id, front);
    assert_true(calls <= BOUND);
    OK(s, batch_item_unlock(&s->c, BATCH_KIND_JOB, str_of(front), j.token));
    wait_for_front(s, other, front);
    batch_store_close(other);
}

static void a_locked_collection_at_the_front(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}");
    const char *front = fill(s, bid, "x_content", 10, many(1200)),
               *usable = fill(s, bid, "y", 50, 20);
    struct batch_store *other = another_process();
    struct batch_lock lock;
    struct batch_item j;
    int calls;

    OK(s, batch_lock_take(&s->c, BATCH_LOCK_COLLECTIONS, STR("x"), STR("admin"), &lock));
    expect_next(s, s->store, number_of(usable), 10);
    expect_next(s, other, number_of(usable) + 10, 10);
    assert_int_equal(acquire(s, s->store, &j, &calls), 0);
    OK(s, batch_lock_release(&s->c2, BATCH_LOCK_COLLECTIONS, STR("x"), 0));
    assert_int_equal(acquire(s, other, &j, &calls), 1);
    assert_string_equal(j.id, front);
    assert_int_equal(acquire(s, s->store, &j, &calls), 1);
    assert_int_equal(number_of(j.id), number_of(front) + 1);
    batch_store_close(other);
}

/* Others locked them: each must be tried once to find out. */
static void locked_jobs_at_the_front(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}");
    const char *front = fill(s, bid, "p", 10, many(1200)), *usable = fill(s, bid, "p", 50, 20);
    struct keeper_names names = {0};
    struct batch_item j;
    int calls;

    assert_int_equal(keeper_children(s->k, "/jobs/states/pending", &names, NULL), 0);
    for (int i = 0; i < many(1200); i++)
        assert_int_equal(keeper_create(s->other,
                                       arena_printf(&s->arena, "/jobs/%s/lock", names.names[i] + 3),
                                       NO_BYTES, KEEPER_EPHEMERAL, NULL),
                         0);
    keeper_names_release(&names);
    expect_next(s, s->store, number_of(usable), 1);
    expect_next(s, s->store, number_of(usable) + 1,
                19); /* some locked ones are retried in between */
    assert_int_equal(acquire(s, s->store, &j, &calls), 0);
    assert_true(calls <= LIST_DUE_IDLE_MAX * 8 + BOUND);
    keeper_close(s->other);
    s->other = NULL;
    wait_for_front(s, s->store, front);
}

/* Entries without a job, left by a foreign client. */
static void invalid_entries_at_the_front(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *usable = fill(s, bid, "p", 50, 20);

    for (int i = 0; i < many(1200); i++)
        assert_int_equal(
            keeper_create(s->other, arena_printf(&s->arena, "/jobs/states/pending/00-jid9%09d", i),
                          NO_BYTES, 0, NULL),
            0);
    expect_next(s, s->store, number_of(usable), 20);
    for (int i = 0; i < many(1200); i++)
        assert_int_equal(
            keeper_delete(s->other, arena_printf(&s->arena, "/jobs/states/pending/00-jid9%09d", i),
                          KEEPER_ANY_VERSION),
            0);
}

/* Holding and releasing again and again leaves no entry blocked. */
static void holding_and_releasing_repeatedly(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}");
    int first = number_of(fill(s, bid, "p", 10, 60)), taken = 0;
    struct batch_item j;

    for (int i = 0; i < 20; i++) {
        OK(s, batch_to(&s->c2, bid, "Held", 0));
        assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_JOB, state_no(s, "Pending"), &j), 0);
        OK(s, batch_to(&s->c2, bid, "Pending", 0));
        for (int n = 0; n < 3; n++, taken++) {
            assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_JOB, state_no(s, "Pending"), &j),
                             1);
            assert_int_equal(number_of(j.id), first + taken);
        }
    }
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_JOB, state_no(s, "Pending"), &j), 0);
}

/* Calls of a cached acquire: two lists of locks, the list of the state, and the transaction. */
enum { REMEMBERED = 4 };

static const char *status_of(struct scene *s, const char *jid)
{
    struct buf text = {0};
    const char *kept;

    assert_int_equal(keeper_get(s->k, arena_printf(&s->arena, "/jobs/%s/status", jid), &text, NULL),
                     0);
    kept = arena_text(&s->arena, (struct str){text.p, text.len});
    buf_release(&text);
    return kept;
}

static void what_was_just_moved_is_not_read_again(void **state)
{
    struct scene *s = *state;
    const char *jid = new_job(s, new_batch(s, "{}"), "{\"configuration\": {}}"), *before;
    struct batch_item j;
    int calls;

    assert_int_equal(acquire(s, s->store, &j, &calls), 1);
    assert_true(calls > REMEMBERED);
    OK(s, move(&s->c, jid, "next", j.token));
    before = status_of(s, jid);
    assert_int_equal(acquire_in(s, s->store, "Estimating", &j, &calls), 1);
    assert_string_equal(j.id, jid);
    assert_true(calls <= REMEMBERED);
    assert_string_equal(status_of(s, jid), before);
    OK(s, move(&s->c, jid, "next", j.token));
}

/* Another process failed and requeued the job: acquire finds it at once and keeps its message. */
static void what_is_remembered_may_be_out_of_date(void **state)
{
    struct scene *s = *state;
    const char *jid = new_job(s, new_batch(s, "{}"), "{\"configuration\": {}}"), *before;
    struct batch_move failed = {.state = STR("fail"), .message = STR("no room"), .priority = -1};
    struct batch_store *other = another_process();
    struct batch_call theirs = {other, s->other, &s->arena, &s->why};
    struct batch_item j;
    int calls, to;

    assert_int_equal(acquire(s, s->store, &j, &calls), 1);
    OK(s, move(&s->c, jid, "next", j.token));
    OK(s, batch_item_move(&theirs, BATCH_KIND_JOB, str_of(jid), &failed, &to));
    OK(s, batch_job_requeue(&theirs, str_of(jid), STR("Estimating"), STR("again")));
    before = status_of(s, jid);
    assert_non_null(strstr(before, "again"));
    assert_int_equal(acquire_in(s, s->store, "Estimating", &j, &calls), 1);
    assert_string_equal(j.id, jid);
    assert_int_equal(j.status.retry_count, 1);
    assert_string_equal(status_of(s, jid), before);
    OK(s, move(&s->c, jid, "next", j.token));
    batch_store_close(other);
}

/* Another process holds the batch of a cached job: the transaction detects it. */
static void a_batch_that_is_held_meanwhile(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *jid = new_job(s, bid, "{\"configuration\": {}}");
    struct batch_store *other = another_process();
    struct batch_call theirs = {other, s->other, &s->arena, &s->why};
    struct batch_item j;
    int calls;

    assert_int_equal(acquire(s, s->store, &j, &calls), 1);
    OK(s, move(&s->c, jid, "next", j.token));
    OK(s, batch_to(&theirs, bid, "Held", 0));
    assert_int_equal(acquire_in(s, s->store, "Estimating", &j, &calls), 0);
    OK(s, batch_to(&s->c, bid, "Pending", 0));
    assert_int_equal(acquire_in(s, s->store, "Estimating", &j, &calls), 1);
    assert_string_equal(j.id, jid);
    batch_store_close(other);
}

/* The status of its batch disappears for a while: the job can be acquired again afterwards. */
static void a_batch_that_loses_its_status_for_a_while(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"), *jid = new_job(s, bid, "{\"configuration\": {}}"),
               *path = arena_printf(&s->arena, "/batches/%s/status", bid);
    int64_t until_ms = clock_boot_ms() + 10000;
    struct buf text = {0};
    struct batch_item j;
    int calls, got;

    assert_int_equal(acquire(s, s->store, &j, &calls), 1);
    OK(s, move(&s->c, jid, "next", j.token));
    OK(s, keeper_get(s->k, path, &text, NULL));
    OK(s, keeper_delete(s->other, path, KEEPER_ANY_VERSION));
    assert_int_equal(acquire_in(s, s->store, "Estimating", &j, &calls), 0);
    OK(s, keeper_create(s->other, path, (struct str){text.p, text.len}, 0, NULL));
    buf_release(&text);
    do
        got = acquire_in(s, s->store, "Estimating", &j, &calls);
    while (!got && clock_boot_ms() < until_ms);
    assert_int_equal(got, 1);
    assert_string_equal(j.id, jid);
}

/* A foreign client replaced the lock without setting the status: the token is not valid. */
static void a_lock_that_a_foreign_client_took(void **state)
{
    struct scene *s = *state;
    const char *jid = new_job(s, new_batch(s, "{}"), "{\"configuration\": {}}"),
               *path = arena_printf(&s->arena, "/jobs/%s/lock", jid);
    struct batch_item j;
    int calls;

    assert_int_equal(acquire(s, s->store, &j, &calls), 1);
    OK(s, keeper_delete(s->other, path, KEEPER_ANY_VERSION));
    OK(s, keeper_create(s->other, path, NO_BYTES, KEEPER_EPHEMERAL, NULL));
    assert_int_equal(move(&s->c, jid, "next", j.token), DROVER_FENCED);
    assert_int_equal(keeper_exists(s->k, path, NULL), 0);
    OK(s, keeper_delete(s->other, path, KEEPER_ANY_VERSION));
}

static void a_status_without_a_date(void **state)
{
    struct scene *s = *state;
    const char *jid = new_job(s, new_batch(s, "{}"), "{\"configuration\": {}}"),
               *path = arena_printf(&s->arena, "/jobs/%s/status", jid);
    struct batch_item j;
    int calls;

    OK(s, keeper_set(s->other, path, STR("{\"status\":\"Pending\"}"), KEEPER_ANY_VERSION, NULL));
    assert_int_equal(acquire(s, s->store, &j, &calls), 1);
    OK(s, move(&s->c, jid, "next", j.token));
    assert_non_null(strstr(status_of(s, jid), "\"last_modification_date\":\"20"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scene_setup, scene_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_held_batch_at_the_front),
        TEST(a_locked_collection_at_the_front),
        TEST(locked_jobs_at_the_front),
        TEST(invalid_entries_at_the_front),
        TEST(holding_and_releasing_repeatedly),
        TEST(what_was_just_moved_is_not_read_again),
        TEST(what_is_remembered_may_be_out_of_date),
        TEST(a_batch_that_is_held_meanwhile),
        TEST(a_batch_that_loses_its_status_for_a_while),
        TEST(a_lock_that_a_foreign_client_took),
        TEST(a_status_without_a_date),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
