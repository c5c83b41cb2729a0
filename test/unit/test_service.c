/*
 * The service on the embedded keeper: restarts, waiting claims, repeated requests, extra
 * operations, and time.
 */
#include "keeper/local/local.h"
#include "task/service.h"

#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "task/task_tree.h"

struct fixture {
    char dir[64];
    struct local *local;
    struct keeper *k; /* the service's */
    struct service *s;
    int64_t now_ms;
};

static int64_t now(void *arg)
{
    struct fixture *f = arg;

    return f->now_ms;
}

static void open_service(struct fixture *f)
{
    struct local_options lo = {.mode = LOCAL_STRICT, .dir = f->dir};
    struct service_options so = {.now_ms = now, .now_arg = f};
    struct err_info e = {""};

    assert_int_equal(local_open(&lo, &f->local, &e), 0);
    assert_int_equal(local_connect(f->local, NULL, &so.keeper), 0);
    f->k = so.keeper;
    assert_int_equal(service_open(&so, &f->s, &e), 0);
}

static void close_service(struct fixture *f)
{
    service_close(f->s);
    local_close(f->local);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    strcpy(f->dir, "/tmp/drover-service-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->now_ms = 1000000;
    open_service(f);
    *state = f;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    close_service(f);
    nftw(f->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(f);
    return 0;
}

/* An answer, as far as the tests look at it. */
struct answer {
    int err;
    size_t count;
    int64_t ids[16];
    char data[16][64];
    char error[200];
    bool came;
};

static void on_done(void *arg, const struct task_reply *reply)
{
    struct answer *a = arg;

    *a = (struct answer){.err = reply->err, .count = reply->task_count, .came = true};
    for (size_t i = 0; i < reply->task_count && i < 16; i++) {
        a->ids[i] = reply->tasks[i].id;
        snprintf(a->data[i], sizeof a->data[i], "%.*s", (int)reply->tasks[i].data.len,
                 reply->tasks[i].data.p);
    }
    if (reply->error_count)
        snprintf(a->error, sizeof a->error, "%s", reply->errors[0]);
}

static struct answer call(struct fixture *f, struct task_request *r)
{
    struct answer a = {0};

    r->done = on_done;
    r->arg = &a;
    service_call(f->s, r);
    assert_true(a.came);
    return a;
}

/* As a loop would, once everything is on disk. */
static void dispatch(struct fixture *f)
{
    struct local_stats stats;

    local_stats(f->local, &stats);
    assert_int_equal(keeper_wait(f->k, stats.zxid), 0);
    service_dispatch(f->s);
}

static struct answer add(struct fixture *f, const char *group, const char *data, const char *id)
{
    struct task t = {.group = str_of(group), .data = str_of(data)};
    struct task_request r = {.kind = TASK_UPDATE,
                             .update = {.clientid = 7, .adds = &t, .add_count = 1},
                             .requestid = str_of(id)};

    return call(f, &r);
}

static struct task_request claim_of(struct str *group, int64_t wait_ms)
{
    return (struct task_request){
        .kind = TASK_CLAIM,
        .claim = {.clientid = 8, .duration_ms = 60000, .groups = group, .group_count = 1},
        .wait_ms = wait_ms};
}

static struct answer claim(struct fixture *f, const char *group)
{
    struct str name = str_of(group);
    struct task_request r = claim_of(&name, 0);

    return call(f, &r);
}

static void test_tasks_and_ids_outlive_a_restart(void **state)
{
    struct fixture *f = *state;
    int64_t last = 0;

    for (int i = 0; i < 10; i++)
        last = add(f, "g", "kept", "").ids[0];
    last = claim(f, "g").ids[0];
    close_service(f);
    open_service(f);
    assert_true(add(f, "g", "new", "").ids[0] > last);
    for (int i = 0; i < 10; i++)
        assert_int_equal(claim(f, "g").count, 1);
    assert_int_equal(claim(f, "g").count, 0); /* the one that was claimed before is still owned */
    f->now_ms += 60000;
    assert_int_equal(claim(f, "g").count, 1);
}

static void test_ids_rise_in_an_emptied_store(void **state)
{
    struct fixture *f = *state;
    int64_t id = add(f, "g", "", "").ids[0];
    struct task_request r = {.kind = TASK_UPDATE,
                             .update = {.clientid = 7, .deletes = &id, .delete_count = 1}};

    assert_int_equal(call(f, &r).err, 0);
    close_service(f);
    open_service(f);
    assert_true(add(f, "g", "", "").ids[0] > id);
}

/*
 * A bucket is created with its first task and deleted with its last, except for the one being
 * filled.
 */
static void test_buckets_go_when_they_are_empty(void **state)
{
    struct fixture *f = *state;
    struct task adds[2000];
    int64_t ids[2000];
    struct keeper_names names = {0};
    struct keeper *k;

    for (int i = 0; i < 2000; i++)
        adds[i] = (struct task){.group = STR("g")};
    for (int round = 0; round < 7; round++) {
        struct task_request r = {.kind = TASK_UPDATE,
                                 .update = {.clientid = 7, .adds = adds, .add_count = 2000}};
        struct answer a = call(f, &r);

        for (int i = 0; i < 2000; i++)
            ids[i] = a.ids[0] + i;
        r = (struct task_request){.kind = TASK_UPDATE,
                                  .update = {.clientid = 7, .deletes = ids, .delete_count = 2000}};
        assert_int_equal(call(f, &r).err, 0);
    }
    assert_int_equal(local_connect(f->local, NULL, &k), 0);
    assert_int_equal(keeper_children(k, TASK_NODE_HEAD, &names, NULL), 0);
    assert_int_equal(names.count, 1);
    keeper_names_release(&names);
    keeper_close(k);
    close_service(f);
    open_service(f);
    assert_int_equal(add(f, "g", "", "").err, 0);
}

static void test_a_request_that_comes_twice(void **state)
{
    struct fixture *f = *state;
    struct answer a = add(f, "g", "one", "r1"), b = add(f, "g", "one", "r1");
    struct str g = STR("g");
    struct task_request r;

    assert_int_equal(a.ids[0], b.ids[0]);
    assert_string_equal(b.data[0], "one");
    close_service(f);
    open_service(f);
    b = add(f, "g", "one", "r1");
    assert_int_equal(a.ids[0], b.ids[0]);

    r = claim_of(&g, 0);
    r.requestid = STR("c1");
    a = call(f, &r);
    b = call(f, &r);
    assert_int_equal(b.count, 1);
    assert_int_equal(a.ids[0], b.ids[0]);
    assert_string_equal(b.data[0], "one");
    r.request_hash = 5;
    b = call(f, &r);
    assert_int_equal(b.err, DROVER_REFUSED);
    assert_non_null(strstr(b.error, "requestid"));
    /* Once another has the task, the answer no longer gives it. */
    f->now_ms += 60000;
    assert_int_equal(claim(f, "g").count, 1);
    r.request_hash = 0;
    assert_int_equal(call(f, &r).count, 0);
}

static void test_extra_operations_go_together_or_not_at_all(void **state)
{
    struct fixture *f = *state;
    struct keeper_op good = keeper_op_create("/beside", STR("x"), 0);
    struct keeper_op bad = keeper_op_check("/nowhere", 3);
    struct task t = {.group = STR("g")};
    struct task_request r = {
        .kind = TASK_UPDATE,
        .update = {.clientid = 7, .adds = &t, .add_count = 1},
        .extra = &bad,
        .extra_count = 1,
    };
    struct keeper *k;
    int64_t id = add(f, "g", "stays", "").ids[0];

    r.update.deletes = &id;
    r.update.delete_count = 1;
    assert_int_equal(call(f, &r).err, DROVER_NO_NODE);
    assert_int_equal(claim(f, "g").count, 1); /* neither added nor deleted */
    assert_int_equal(claim(f, "g").count, 0);
    r.update.delete_count = 0;
    r.extra = &good;
    assert_int_equal(call(f, &r).err, 0);
    assert_int_equal(local_connect(f->local, NULL, &k), 0);
    assert_int_equal(keeper_exists(k, "/beside", NULL), 0);
    keeper_close(k);
}

/* Waiting claims, without a loop: what would wake it is called by hand. */

static void test_one_add_wakes_the_first_that_waits(void **state)
{
    struct fixture *f = *state;
    struct str g = STR("g");
    struct task_request r[3];
    struct answer a[3] = {0};

    for (int i = 0; i < 3; i++) {
        r[i] = claim_of(&g, 5000);
        r[i].done = on_done;
        r[i].arg = &a[i];
        service_submit(f->s, &r[i]);
        assert_false(a[i].came);
    }
    add(f, "g", "for the first", "");
    dispatch(f);
    assert_true(a[0].came && !a[1].came && !a[2].came);
    assert_string_equal(a[0].data[0], "for the first");
    assert_true(service_cancel(f->s, &r[1]));
    add(f, "g", "for the third", "");
    dispatch(f);
    assert_true(!a[1].came && a[2].came);
    assert_false(service_cancel(f->s, &r[2]) && a[2].came);
}

static void test_a_wait_ends(void **state)
{
    struct fixture *f = *state;
    struct str g = STR("g");
    struct task_request r = claim_of(&g, 5000);
    struct answer a = {0};

    r.done = on_done;
    r.arg = &a;
    service_submit(f->s, &r);
    f->now_ms += 4999;
    service_tick(f->s);
    assert_false(a.came);
    f->now_ms++;
    service_tick(f->s);
    dispatch(f);
    assert_true(a.came);
    assert_int_equal(a.err, 0);
    assert_int_equal(a.count, 0);
}

static void test_a_lease_that_ends_wakes(void **state)
{
    struct fixture *f = *state;
    struct str groups[] = {STR("h"), STR("g")};
    struct task_request r = claim_of(groups, 100000);
    struct answer a = {0};

    r.claim.group_count = 2;
    add(f, "g", "x", "");
    assert_int_equal(claim(f, "g").count, 1);
    r.done = on_done;
    r.arg = &a;
    service_submit(f->s, &r);
    f->now_ms += 59999;
    service_tick(f->s);
    assert_false(a.came);
    f->now_ms++;
    service_tick(f->s);
    dispatch(f);
    assert_true(a.came);
    assert_int_equal(a.count, 1);
}

static void test_deletes_of_a_claim_do_not_wait(void **state)
{
    struct fixture *f = *state;
    struct str g = STR("g");
    struct task_request r = claim_of(&g, 5000);
    int64_t id = add(f, "other", "x", "").ids[0];
    struct answer a = {0};

    r.claim.deletes = &id;
    r.claim.delete_count = 1;
    r.done = on_done;
    r.arg = &a;
    service_submit(f->s, &r);
    assert_false(a.came);
    assert_int_equal(claim(f, "other").count, 0);
    add(f, "g", "next", "");
    dispatch(f);
    assert_true(a.came);
    assert_int_equal(a.err, 0);
    assert_string_equal(a.data[0], "next");
}

static void *add_later(void *arg)
{
    usleep(20000);
    add(arg, "g", "late", "");
    return NULL;
}

static void test_a_call_that_waits(void **state)
{
    struct fixture *f = *state;
    struct str g = STR("g");
    struct task_request r = claim_of(&g, 100000000);
    pthread_t adder;
    struct answer a;

    pthread_create(&adder, NULL, add_later, f);
    a = call(f, &r);
    pthread_join(adder, NULL);
    assert_int_equal(a.count, 1);
    assert_string_equal(a.data[0], "late");
}

/* Threads that add, claim and delete: nothing is given twice, nothing is lost. */

enum { THREADS = 4, EACH = 200 };

struct worker {
    struct fixture *f;
    int64_t done;
};

static void *work(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < EACH; i++) {
        struct answer a = add(w->f, "g", "x", "");
        struct task_request r;

        assert_int_equal(a.err, 0);
        a = claim(w->f, "g");
        assert_int_equal(a.count, 1);
        r = (struct task_request){.kind = TASK_UPDATE,
                                  .update = {.clientid = 8, .deletes = a.ids, .delete_count = 1}};
        assert_int_equal(call(w->f, &r).err, 0);
        w->done++;
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    struct fixture *f = *state;
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    struct service_stats stats;

    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.f = f};
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    service_stats(f->s, &stats);
    assert_int_equal(stats.tasks, 0);
    assert_int_equal(stats.claimed, THREADS * EACH);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_tasks_and_ids_outlive_a_restart),
        CASE(test_ids_rise_in_an_emptied_store),
        CASE(test_buckets_go_when_they_are_empty),
        CASE(test_a_request_that_comes_twice),
        CASE(test_extra_operations_go_together_or_not_at_all),
        CASE(test_one_add_wakes_the_first_that_waits),
        CASE(test_a_wait_ends),
        CASE(test_a_lease_that_ends_wakes),
        CASE(test_deletes_of_a_claim_do_not_wait),
        CASE(test_a_call_that_waits),
        CASE(test_many_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
