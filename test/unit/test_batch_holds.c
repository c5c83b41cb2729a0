/*
 * Queues and collections that are locked while an item is acquired, by Drover or by a foreign
 * client. On the embedded keeper in memory, or on the ZooKeeper that DROVER_TEST_ZK names.
 */
#include "batch_scene.h"

#include "keeper_cutter.h"

static const char *job_of(struct scene *s, const char *bid, const char *profile, int priority)
{
    return new_job(s, bid,
                   arena_printf(&s->arena,
                                "{\"configuration\": {\"profile_name\": \"%s\"}, \"priority\": %d}",
                                profile, priority));
}

/* How a lock by name is taken: as Drover does, or as a foreign client, by creating it. */
enum taking { OURS, PLAIN, PLAIN_AFTERWARDS };

/* A keeper around whose first transaction another session takes a lock by name. */
struct intruded {
    struct cutter cutter; /* first member: the two pointers are interchangeable */
    struct keeper_ops ops;
    const struct keeper_ops *passed_on;
    struct scene *s;
    enum batch_lock_kind kind;
    const char *name;
    enum taking taking;
    bool done;
};

static void intrude(struct intruded *i)
{
    struct batch_lock lock;

    i->done = true;
    if (i->taking == OURS)
        OK(i->s, batch_lock_take(&i->s->c2, i->kind, str_of(i->name), STR("admin"), &lock));
    else
        OK(i->s, keeper_create(
                     i->s->other,
                     arena_printf(&i->s->arena, "/locks/%s/%s", BATCH_LOCK_DIRS[i->kind], i->name),
                     NO_BYTES, 0, NULL));
}

static int intruded_multi(struct keeper *k, const struct keeper_op *ops, size_t count,
                          struct keeper_result *results)
{
    struct intruded *i = (struct intruded *)k;

    if (!i->done && i->taking != PLAIN_AFTERWARDS)
        intrude(i);
    int err = i->passed_on->multi(k, ops, count, results);
    if (!i->done)
        intrude(i);
    return err;
}

/* Acquires, and takes the lock right before or after the transaction. */
static int acquire_intruded(struct scene *s, enum batch_kind_id kind, int state, enum taking taking,
                            enum batch_lock_kind lock, const char *name, struct batch_item *ret)
{
    struct intruded i = {.s = s, .kind = lock, .name = name, .taking = taking};
    struct batch_call c = {s->store, &i.cutter.base, &s->arena, &s->why};
    int got;

    cutter_init(&i.cutter, s->k, 1 << 30, 0, false);
    i.passed_on = i.cutter.base.ops;
    i.ops = *i.passed_on;
    i.ops.multi = intruded_multi;
    i.cutter.base.ops = &i.ops;
    got = batch_item_acquire(&c, kind, state, ret);
    OK(s, got);
    assert_true(i.done);
    return got;
}

static bool is_locked(struct scene *s, const char *path)
{
    return keeper_exists(s->k, arena_printf(&s->arena, "%s/lock", path), NULL) == 0;
}

static void take_jobs(struct scene *s, enum taking taking)
{
    const char *bid = new_batch(s, "{}");
    const char *held = job_of(s, bid, "p", 10), *other = job_of(s, bid, "q", 20);
    const char *held_path = arena_printf(&s->arena, "/jobs/%s", held);
    int pending = state_no(s, "Pending");
    struct batch_item j;

    assert_int_equal(
        acquire_intruded(s, BATCH_KIND_JOB, pending, taking, BATCH_LOCK_QUEUE, "ingest", &j), 0);
    assert_false(is_locked(s, held_path));
    OK(s, batch_lock_release(&s->c, BATCH_LOCK_QUEUE, STR("ingest"), 0));
    assert_int_equal(
        acquire_intruded(s, BATCH_KIND_JOB, pending, taking, BATCH_LOCK_COLLECTIONS, "p", &j), 1);
    assert_string_equal(j.id, other);
    assert_false(is_locked(s, held_path));
    OK(s, batch_lock_release(&s->c, BATCH_LOCK_COLLECTIONS, STR("p"), 0));
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_JOB, pending, &j), 1);
    assert_string_equal(j.id, held);
    OK(s, move(&s->c, held, "next", j.token));
}

/* A batch that was given back is as if nobody had taken it, also for others. */
static void take_others(struct scene *s, enum taking taking)
{
    char id[BATCH_ID_LEN + 1];
    const char *bid = new_batch(s, "{}");
    int pending = s->store->batch.pending;
    struct batch_item i;

    assert_int_equal(
        acquire_intruded(s, BATCH_KIND_BATCH, pending, taking, BATCH_LOCK_QUEUE, "ingest", &i), 0);
    OK(s, batch_lock_release(&s->c, BATCH_LOCK_QUEUE, STR("ingest"), 0));
    expect_tree(s, arena_printf(&s->arena, "/batches/%s", bid),
                arena_printf(&s->arena,
                             "/batches/%s\n/batches/%s/status {\"status\":\"Pending\","
                             "\"last_modified\":\"T\"}\n/batches/%s/submission {}\n",
                             bid, bid, bid));

    OK(s, batch_item_new(&s->c, BATCH_KIND_SMALL, parse(s, "{}"), id));
    assert_int_equal(acquire_intruded(s, BATCH_KIND_SMALL, BATCH_NO_STATE, taking, BATCH_LOCK_QUEUE,
                                      "accessSmall", &i),
                     0);
    OK(s, batch_lock_release(&s->c, BATCH_LOCK_QUEUE, STR("accessSmall"), 0));
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_SMALL, BATCH_NO_STATE, &i), 1);
    assert_string_equal(i.id, id);
}

static void a_lock_taken_during_an_acquire(void **state)
{
    take_others(*state, OURS);
    take_jobs(*state, OURS);
}

static void a_lock_created_during_an_acquire(void **state)
{
    take_others(*state, PLAIN);
    take_jobs(*state, PLAIN);
}

static void a_lock_created_right_after_the_transaction(void **state)
{
    take_others(*state, PLAIN_AFTERWARDS);
    take_jobs(*state, PLAIN_AFTERWARDS);
}

/* The process knows of no lock, and is told afterwards. Then it knows before it tries. */
static void a_queue_that_another_client_locked_before(void **state)
{
    struct scene *s = *state;
    const char *bid = new_batch(s, "{}"),
               *jids[] = {job_of(s, bid, "p", 10), job_of(s, bid, "p", 20)};
    int pending = state_no(s, "Pending");
    struct cutter counter;
    struct batch_call counted = {s->store, &counter.base, &s->arena, &s->why};
    struct batch_item j;

    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_JOB, pending, &j), 1);
    assert_string_equal(j.id, jids[0]);
    OK(s, keeper_create(s->other, "/locks/queue/ingest", NO_BYTES, 0, NULL));
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_JOB, pending, &j), 0);
    cutter_init(&counter, s->k, 1 << 30, 0, false);
    assert_int_equal(batch_item_acquire(&counted, BATCH_KIND_JOB, pending, &j), 0);
    assert_int_equal(counter.calls, 1);
    OK(s, keeper_delete(s->other, "/locks/queue/ingest", KEEPER_ANY_VERSION));
    assert_int_equal(batch_item_acquire(&s->c, BATCH_KIND_JOB, pending, &j), 1);
    assert_string_equal(j.id, jids[1]);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, scene_setup, scene_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lock_taken_during_an_acquire),
        TEST(a_lock_created_during_an_acquire),
        TEST(a_lock_created_right_after_the_transaction),
        TEST(a_queue_that_another_client_locked_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
