/*
 * The store in process: the calls of drover.h, in files, in memory, and over a journal of one's
 * own.
 */
#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "drover.h"

static char dir[64];

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/drover-embed-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    (void)state;
    return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static struct drover_store *open_with(const struct drover_store_options *o)
{
    struct drover_store *s = NULL;
    struct drover_error e = {""};

    assert_int_equal(drover_store_open(o, &s, &e), 0);
    return s;
}

static int64_t add(struct drover_store *s, const char *group, const char *data)
{
    struct drover_task t = {.group = group, .data = data};
    struct drover_update u = {.clientid = 1, .adds = &t, .add_count = 1};
    struct drover_result r;
    int64_t id;

    assert_int_equal(drover_store_update(s, &u, &r, NULL), 0);
    assert_int_equal(r.task_count, 1);
    id = r.tasks[0].id;
    drover_result_release(&r);
    return id;
}

static int claim(struct drover_store *s, const char *group, int64_t duration_ms, int64_t *ret_id)
{
    struct drover_claim c = {
        .clientid = 2, .groups = &group, .group_count = 1, .duration_ms = duration_ms};
    struct drover_result r;
    int count = drover_store_claim(s, &c, &r, NULL);

    assert_true(count >= 0);
    if (count && ret_id)
        *ret_id = r.tasks[0].id;
    drover_result_release(&r);
    return count;
}

static int delete_one(struct drover_store *s, int64_t client, int64_t id)
{
    struct drover_update u = {.clientid = client, .deletes = &id, .delete_count = 1};
    struct drover_result r;
    struct drover_error e = {""};
    int err = drover_store_update(s, &u, &r, &e);

    if (err == DROVER_REFUSED)
        assert_string_equal(e.text, r.errors[0]);
    drover_result_release(&r);
    return err;
}

/* Every call, on a store that was just opened. */
static void exercise(struct drover_store *s)
{
    int64_t before = drover_store_count(s), a = add(s, "g", "one"), b = add(s, "g", "two"), id;
    struct drover_groups groups;
    struct drover_result r;

    assert_int_equal(drover_store_count(s), before + 2);
    assert_true(drover_store_latest_id(s) >= b && b > a);
    assert_int_equal(drover_store_get(s, a, &r), 1);
    assert_string_equal(r.tasks[0].data, "one");
    drover_result_release(&r);
    assert_int_equal(drover_store_get(s, b + 5000000, &r), 0);
    assert_int_equal(drover_store_list(s, "g", 0, 0, &r), 2);
    drover_result_release(&r);
    assert_int_equal(claim(s, "g", 60000, &id), 1);
    assert_int_equal(drover_store_list(s, "g", 0, 0, &r), 1);
    drover_result_release(&r);
    assert_int_equal(drover_store_list(s, "g", 0, 1, &r), 2);
    drover_result_release(&r);
    assert_int_equal(drover_store_list(s, "g", 1, 1, &r), 1);
    drover_result_release(&r);
    assert_int_equal(drover_store_groups(s, &groups), 0);
    assert_int_equal(groups.count, 1);
    assert_string_equal(groups.names[0], "g");
    drover_groups_release(&groups);
    assert_int_equal(delete_one(s, 3, id), DROVER_REFUSED);
    assert_int_equal(delete_one(s, 2, id), 0);
    assert_int_equal(claim(s, "g", 0, &id), 1);
    assert_int_equal(delete_one(s, 2, id), 0);
    assert_int_equal(drover_store_count(s), before);
}

static void test_memory(void **state)
{
    struct drover_store *s = open_with(&(struct drover_store_options){.mode = DROVER_MEMORY});

    (void)state;
    exercise(s);
    assert_true(drover_store_snapshot(s) < 0);
    drover_store_close(s);
}

/* The directory is locked, not a file in it. */
static void remove_lock_file(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/lock", dir);
    assert_int_equal(unlink(path), 0);
}

static void test_files(void **state)
{
    struct drover_store_options o = {.mode = DROVER_STRICT, .dir = dir};
    struct drover_store *s, *second = NULL;
    struct drover_error e = {""};
    int64_t last;

    (void)state;
    for (int mode = DROVER_STRICT; mode <= DROVER_OPPORTUNISTIC; mode++) {
        o.mode = (enum drover_mode)mode;
        s = open_with(&o);
        exercise(s);
        add(s, "kept", "x");
        last = drover_store_latest_id(s);
        assert_int_equal(drover_store_open(&o, &second, &e), DROVER_IN_USE);
        assert_non_null(strstr(e.text, dir));
        remove_lock_file();
        assert_int_equal(drover_store_open(&o, &second, &e), DROVER_IN_USE);
        assert_int_equal(drover_store_snapshot(s), 0);
        assert_int_equal(drover_store_snapshotting(s), 0);
        drover_store_close(s);
        s = open_with(&o);
        assert_true(drover_store_latest_id(s) >= last);
        assert_int_equal(claim(s, "kept", 0, &last), 1);
        assert_int_equal(delete_one(s, 2, last), 0);
        drover_store_close(s);
    }
}

static void test_bad_options(void **state)
{
    struct drover_store *s;
    struct drover_error e = {""};

    (void)state;
    assert_int_equal(drover_store_open(&(struct drover_store_options){0}, &s, &e),
                     DROVER_BAD_ARGUMENT);
    assert_non_null(strstr(e.text, "directory"));
    assert_int_equal(drover_store_open(&(struct drover_store_options){.mode = 9}, &s, NULL),
                     DROVER_BAD_ARGUMENT);
}

/* A journal in memory, with a snapshot. */

enum { RECORDS_MAX = 20000, WITHIN = 200 };

struct record {
    void *bytes;
    size_t len;
};

struct list {
    struct record records[RECORDS_MAX];
    size_t count;
};

struct tape {
    struct list snapshot, next, since; /* since the beginning of the last one */
    size_t began;                      /* records of since that the next snapshot replaces */
    int snapshots;
    int refuse;
    atomic_int appended, lose; /* records; whether further ones are lost */
    struct drover_store *s;    /* changes while a snapshot is taken; NULL: does not */
    int expected;              /* records that must be appended before it ends */
};

static void list_add(struct list *l, const void *bytes, size_t len)
{
    assert_true(l->count < RECORDS_MAX);
    l->records[l->count] = (struct record){malloc(len), len};
    memcpy(l->records[l->count++].bytes, bytes, len);
}

static void list_clear(struct list *l, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(l->records[i].bytes);
    memmove(l->records, l->records + count, (l->count - count) * sizeof *l->records);
    l->count -= count;
}

static int append(void *arg, const void *bytes, size_t len)
{
    struct tape *t = arg;

    if (t->refuse)
        return 1;
    if (t->lose)
        return 0;
    list_add(&t->since, bytes, len);
    t->appended++;
    return 0;
}

static int replay(void *arg, int (*each)(void *each_arg, const void *bytes, size_t len),
                  void *each_arg)
{
    struct tape *t = arg;
    int err = 0;

    for (size_t i = 0; !err && i < t->snapshot.count; i++)
        err = each(each_arg, t->snapshot.records[i].bytes, t->snapshot.records[i].len);
    for (size_t i = 0; !err && i < t->since.count; i++)
        err = each(each_arg, t->since.records[i].bytes, t->since.records[i].len);
    return err;
}

static int snapshot_begin(void *arg)
{
    struct tape *t = arg;

    t->began = t->since.count;
    return 0;
}

/* Appends wait for it. */
static int snapshot_put(void *arg, const void *bytes, size_t len)
{
    struct tape *t = arg;

    list_add(&t->next, bytes, len);
    for (int i = 0; t->s && i < WITHIN; i++)
        add(t->s, "g", "within");
    t->expected = t->s ? t->appended + WITHIN : 0;
    return 0;
}

static int snapshot_end(void *arg, int complete)
{
    struct tape *t = arg;

    assert_true(complete);
    assert_true(t->appended >= t->expected);
    list_clear(&t->snapshot, t->snapshot.count);
    t->snapshot = t->next;
    t->next.count = 0;
    list_clear(&t->since, t->began);
    t->snapshots++;
    return 0;
}

static struct drover_journal journal_on(struct tape *t)
{
    return (struct drover_journal){append, replay, snapshot_begin, snapshot_put, snapshot_end, t};
}

static void tape_free(struct tape *t)
{
    list_clear(&t->snapshot, t->snapshot.count);
    list_clear(&t->since, t->since.count);
    free(t);
}

static void test_own_journal(void **state)
{
    (void)state;
    for (int mode = DROVER_STRICT; mode <= DROVER_OPPORTUNISTIC; mode++) {
        struct tape *t = calloc(1, sizeof *t);
        struct drover_journal j = journal_on(t);
        struct drover_store_options o = {.mode = (enum drover_mode)mode, .journal = &j};
        struct drover_store *s = open_with(&o);
        int64_t last;

        exercise(s);
        for (int i = 0; i < 50; i++)
            add(s, "kept", "before");
        assert_int_equal(drover_store_snapshot(s), 0);
        for (int i = 0; i < 50; i++)
            add(s, "kept", "after");
        for (int i = 0; i < 60; i++) {
            assert_int_equal(claim(s, "kept", 0, &last), 1);
            assert_int_equal(delete_one(s, 2, last), 0);
        }
        last = drover_store_latest_id(s);
        drover_store_close(s);
        assert_int_equal(t->snapshots, 1);
        s = open_with(&o);
        assert_int_equal(drover_store_count(s), 40);
        assert_true(drover_store_latest_id(s) >= last);
        drover_store_close(s);
        tape_free(t);
    }
}

static void test_own_journal_that_refuses(void **state)
{
    struct tape *t = calloc(1, sizeof *t);
    struct drover_journal j = journal_on(t);
    struct drover_store *s =
        open_with(&(struct drover_store_options){.mode = DROVER_STRICT, .journal = &j});
    struct drover_task task = {.group = "g"};
    struct drover_update u = {.clientid = 1, .adds = &task, .add_count = 1};
    struct drover_result r;

    (void)state;
    t->refuse = 1;
    assert_int_equal(drover_store_update(s, &u, &r, NULL), DROVER_IO);
    t->refuse = 0; /* its state is unknown: no further record is accepted */
    assert_int_equal(drover_store_update(s, &u, &r, NULL), DROVER_IO);
    assert_int_equal(drover_store_count(s), 0);
    drover_store_close(s);
    tape_free(t);
}

/* What a crash undoes after it was answered is not given again. */
static void test_own_journal_that_loses(void **state)
{
    struct tape *t = calloc(1, sizeof *t);
    struct drover_journal j = journal_on(t);
    struct drover_store_options o = {.mode = DROVER_OPPORTUNISTIC, .journal = &j};
    int64_t last = 0, before;

    (void)state;
    for (int i = 1; i <= 3; i++) {
        struct drover_store *s = open_with(&o);

        t->appended = 0;
        before = add(s, "g", "kept");
        assert_true(before > last);
        while (!t->appended)
            usleep(1000);
        t->lose = 1;
        for (int n = 0; n < 3000; n++)
            last = add(s, "g", "lost");
        drover_store_close(s);
        t->lose = 0;
        s = open_with(&o);
        assert_int_equal(drover_store_count(s), i);
        assert_int_equal(drover_store_latest_id(s), before);
        drover_store_close(s);
    }
    tape_free(t);
}

/* A crash after a snapshot leaves no part of a transaction that the journal does not have. */
static void test_own_journal_behind_a_snapshot(void **state)
{
    struct tape *t = calloc(1, sizeof *t);
    struct drover_journal j = journal_on(t);
    struct drover_store_options o = {.mode = DROVER_OPPORTUNISTIC, .journal = &j};

    (void)state;
    t->s = open_with(&o);
    assert_int_equal(drover_store_snapshot(t->s), 0);
    assert_int_equal(t->snapshots, 1);
    drover_store_close(t->s);
    tape_free(t);
}

/* Snapshots while threads make changes: a replay gives the same tasks. */

struct worker {
    struct drover_store *s;
    int64_t left;
};

static void *churn(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < 300; i++) {
        int64_t id = add(w->s, "g", "x");

        if (i % 3)
            assert_int_equal(delete_one(w->s, 1, id), 0);
        else
            w->left++;
    }
    return NULL;
}

static void test_snapshots_while_threads_work(void **state)
{
    struct tape *t = calloc(1, sizeof *t);
    struct drover_journal j = journal_on(t);
    struct drover_store_options o = {.mode = DROVER_STRICT, .journal = &j, .snapshot_every = 100};
    struct drover_store *s = open_with(&o);
    struct worker workers[3];
    pthread_t threads[3];
    int64_t left = 0;

    (void)state;
    for (int i = 0; i < 3; i++) {
        workers[i] = (struct worker){.s = s};
        pthread_create(&threads[i], NULL, churn, &workers[i]);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        left += workers[i].left;
    }
    drover_store_close(s);
    assert_true(t->snapshots > 0);
    s = open_with(&o);
    assert_int_equal(drover_store_count(s), left);
    drover_store_close(s);
    tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test_setup_teardown(test_files, setup, teardown),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_own_journal),
        cmocka_unit_test(test_own_journal_that_refuses),
        cmocka_unit_test(test_own_journal_that_loses),
        cmocka_unit_test(test_own_journal_behind_a_snapshot),
        cmocka_unit_test(test_snapshots_while_threads_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
