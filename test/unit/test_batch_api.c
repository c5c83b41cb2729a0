/* Batches and jobs through the public interface, linked like a program of a user; and threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <drover.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* See test/conformance/main_zookeeper.c. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libzookeeper_mt";
}

static struct drover_keeper *keeper;
static struct drover_batches *batches;
static struct drover_error error;

/* In memory, or below a node of its own on the ZooKeeper that DROVER_TEST_ZK names. */
static void open_tree(const char *pipeline)
{
    static int count;
    const char *servers = getenv("DROVER_TEST_ZK");
    char url[512] = "memory:";

    if (servers)
        snprintf(url, sizeof url, "%s/batch-api/%d/%d", servers, (int)getpid(), count++);
    assert_int_equal(drover_keeper_open(url, NULL, &keeper, &error), 0);
    assert_int_equal(drover_batches_open(keeper, pipeline, &batches, &error), 0);
}

static void close_tree(void)
{
    drover_batches_close(batches);
    drover_keeper_close(keeper);
}

static int move(const char *jid, const char *state, int64_t token)
{
    struct drover_job_move m = {.state = state, .token = token, .priority = -1};

    return drover_job_move(batches, jid, &m, &error);
}

static void from_a_program(void **state)
{
    char bid[DROVER_BATCH_ID_SIZE], jid[DROVER_BATCH_ID_SIZE], found[DROVER_BATCH_ID_SIZE];
    struct drover_job job;
    const char *name;
    int64_t token;

    (void)state;
    open_tree(NULL);
    assert_int_equal(drover_batch_create(batches, "{\"batchID\": \"u\"}", bid, &error), 0);
    assert_int_equal(drover_batch_find(batches, "u", found, &error), 0);
    assert_string_equal(found, bid);
    assert_int_equal(drover_batch_create(batches, "[]", bid, &error), DROVER_BAD_ARGUMENT);
    assert_int_equal(drover_job_create(batches, bid, "{}", jid, &error), DROVER_BAD_ARGUMENT);
    assert_non_null(strstr(error.text, "configuration"));
    assert_int_equal(
        drover_job_create(batches, bid, "{\"configuration\": {}, \"priority\": 7}", jid, &error),
        0);
    assert_int_equal(drover_job_acquire(batches, "Nowhere", &job, &error), DROVER_BAD_ARGUMENT);
    assert_int_equal(drover_job_acquire(batches, "Pending", &job, &error), 1);
    assert_string_equal(job.id, jid);
    assert_string_equal(job.batch, bid);
    assert_int_equal(job.priority, 7);
    assert_int_equal(move(jid, "Notify", job.token), DROVER_NOT_ALLOWED);
    assert_int_equal(move(jid, "next", job.token), 0);
    assert_int_equal(move(jid, "next", job.token), DROVER_FENCED);
    for (int i = 0; i < 6; i++)
        assert_int_equal(move(jid, "next", 0), 0);
    assert_int_equal(drover_job_state(batches, jid, &name, &error), 0);
    assert_string_equal(name, "Completed");
    assert_int_equal(drover_batch_acquire(batches, "Reporting", found, &token, &error), 1);
    assert_int_equal(drover_batch_move(batches, bid, "next", token, &error), 0);
    assert_int_equal(drover_batch_state(batches, bid, &name, &error), 0);
    assert_string_equal(name, "Completed");
    assert_int_equal(drover_job_count(batches, "completed", &error), 1);
    assert_int_equal(drover_job_count(batches, "Pending", &error), 0);
    assert_int_equal(drover_job_count(batches, NULL, &error), 1);
    assert_int_equal(drover_batch_purge(batches, -1, &error), DROVER_BAD_ARGUMENT);
    assert_int_equal(drover_batch_purge(batches, 3600 * 1000, &error), 0);
    assert_int_equal(drover_batch_purge(batches, 0, &error), 1);
    assert_int_equal(drover_job_count(batches, NULL, &error), 0);
    close_tree();
}

/* One process knows Storing, the other does not. */
static void a_larger_pipeline(void **state)
{
    char bid[DROVER_BATCH_ID_SIZE], jid[DROVER_BATCH_ID_SIZE];
    struct drover_batches *plain;
    const char *name, *again;

    (void)state;
    open_tree("storing");
    assert_int_equal(drover_batches_open(keeper, NULL, &plain, &error), 0);
    assert_int_equal(drover_batch_create(batches, "{}", bid, &error), 0);
    assert_int_equal(drover_job_create(batches, bid, "{\"configuration\": {}}", jid, &error), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(move(jid, "next", 0), 0);
    assert_int_equal(drover_job_state(plain, jid, &name, &error), 0);
    assert_string_equal(name, "Storing");
    assert_int_equal(drover_job_state(plain, jid, &again, &error), 0);
    assert_ptr_equal(name, again);
    assert_int_equal(drover_job_count(plain, "storing", &error), 1);
    assert_int_equal(drover_job_count(plain, NULL, &error), 1);
    drover_batches_close(plain);
    close_tree();
}

static void wrong_pipeline(void **state)
{
    struct drover_batches *none = NULL;

    (void)state;
    assert_int_equal(drover_keeper_open("memory:", NULL, &keeper, &error), 0);
    assert_int_equal(drover_batches_open(keeper, "{}", &none, &error), DROVER_BAD_ARGUMENT);
    assert_null(none);
    drover_keeper_close(keeper);
}

enum { THREADS = 8 };

static int job_count(void)
{
    return getenv("DROVER_TEST_ZK") ? 40 : 400;
}

/* The number of jobs that this thread moved through the first two states. */
static void *consume(void *arg)
{
    int *done = arg, idle = 0;
    struct drover_error e;
    struct drover_job job;

    while (idle < 50) {
        int got = drover_job_acquire(batches, *done % 2 ? "Pending" : "Estimating", &job, &e);

        if (got <= 0)
            got = drover_job_acquire(batches, "Pending", &job, &e);
        if (got <= 0)
            got = drover_job_acquire(batches, "Estimating", &job, &e);
        idle = got == 1 ? 0 : idle + 1;
        if (got == 1) {
            struct drover_job_move m = {.state = "next", .token = job.token, .priority = -1};

            if (drover_job_move(batches, job.id, &m, &e))
                *done = -1000000;
            ++*done;
        }
    }
    return NULL;
}

static void eight_threads_take_each_job_once(void **state)
{
    char bid[DROVER_BATCH_ID_SIZE], jid[DROVER_BATCH_ID_SIZE];
    pthread_t threads[THREADS];
    int done[THREADS] = {0}, total = 0;
    struct drover_job job;

    (void)state;
    open_tree(NULL);
    assert_int_equal(drover_batch_create(batches, "{}", bid, &error), 0);
    for (int i = 0; i < job_count(); i++)
        assert_int_equal(drover_job_create(batches, bid, "{\"configuration\": {}}", jid, &error),
                         0);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, consume, &done[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        total += done[i];
    }
    assert_int_equal(total, 2 * job_count());
    assert_int_equal(drover_job_acquire(batches, "Pending", &job, &error), 0);
    assert_int_equal(drover_job_acquire(batches, "Provisioning", &job, &error), 1);
    close_tree();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_a_program),
        cmocka_unit_test(wrong_pipeline),
        cmocka_unit_test(a_larger_pipeline),
        cmocka_unit_test(eight_threads_take_each_job_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
