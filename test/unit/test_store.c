/* The task store by itself: what each verb does and refuses. */
#include "task/store_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "drover.h"

enum { NOW = 1000000, ME = 7, OTHER = 8 };

struct fixture {
    struct store *s;
    struct task_txn t;
    struct store_random random;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    f->s = store_new(NULL, NULL);
    f->random.state = 1;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    store_settle(f->s, &f->t);
    task_txn_release(&f->t);
    store_free(f->s);
    free(f);
    return 0;
}

static int update(struct fixture *f, const struct task_update *u, int64_t now_ms)
{
    store_settle(f->s, &f->t);
    return store_update(f->s, u, now_ms, &f->random, &f->t);
}

static int64_t add(struct fixture *f, const char *group, const char *data, int64_t timespec)
{
    struct task task = {.group = str_of(group), .data = str_of(data), .timespec = timespec};

    assert_int_equal(
        update(f, &(struct task_update){.clientid = ME, .adds = &task, .add_count = 1}, NOW), 0);
    assert_int_equal(f->t.task_count, 1);
    return f->t.tasks[0].id;
}

static int claim(struct fixture *f, const char *group, int64_t client, int64_t now_ms)
{
    struct str name = str_of(group);
    struct task_claim c = {
        .clientid = client, .duration_ms = 60000, .groups = &name, .group_count = 1};

    store_settle(f->s, &f->t);
    return store_claim(f->s, &c, now_ms, &f->random, &f->t);
}

static void test_add_gives_rising_ids(void **state)
{
    struct fixture *f = *state;
    int64_t a = add(f, "g", "one", 0), b = add(f, "g", "two", 0);
    CLEANUP(arena_release) struct arena scratch = {0};
    struct task t;

    assert_true(b > a);
    assert_int_equal(store_get(f->s, a, &scratch, &t), 0);
    assert_true(str_eq(t.data, STR("one")) && str_eq(t.group, STR("g")));
    assert_int_equal(t.timespec, NOW);
    assert_int_equal(t.ownerid, ME);
    assert_int_equal(store_get(f->s, b + 1, &scratch, &t), DROVER_NO_TASK);
}

static void test_update_ends_the_old_id(void **state)
{
    struct fixture *f = *state;
    int64_t id = add(f, "g", "one", 0);
    struct task change = {.id = id, .data = STR("two"), .timespec = -500};
    CLEANUP(arena_release) struct arena scratch = {0};
    struct task t;

    assert_int_equal(
        update(f, &(struct task_update){.clientid = ME, .updates = &change, .update_count = 1},
               NOW),
        0);
    assert_true(f->t.tasks[0].id > id);
    assert_int_equal(f->t.tasks[0].timespec, NOW + 500);
    assert_true(str_eq(f->t.tasks[0].group, STR("g")));
    assert_int_equal(f->t.changes[0].kind, TXN_SET);
    assert_int_equal(f->t.changes[0].slot, id);
    assert_int_equal(store_get(f->s, id, &scratch, &t), DROVER_NO_TASK);
    assert_int_equal(store_get(f->s, f->t.tasks[0].id, &scratch, &t), 0);
    assert_true(str_eq(t.data, STR("two")));
}

static void test_every_reason_is_named(void **state)
{
    struct fixture *f = *state;
    int64_t mine = add(f, "g", "", 0), owned = add(f, "g", "", -1000), before = store_count(f->s);
    struct task adds[] = {{.group = STR("")}};
    struct task updates[] = {{.id = owned}, {.id = 999}};
    int64_t deletes[] = {mine, mine, 998}, depends[] = {997, mine};
    struct task_update u = {.clientid = OTHER,
                            .adds = adds,
                            .add_count = 1,
                            .updates = updates,
                            .update_count = 2,
                            .deletes = deletes,
                            .delete_count = 3,
                            .depends = depends,
                            .depend_count = 2};

    assert_int_equal(update(f, &u, NOW), DROVER_REFUSED);
    assert_int_equal(f->t.error_count, 6);
    assert_string_equal(f->t.errors[0], "adds: task 1 has no group");
    assert_string_equal(f->t.errors[1], "updates: task 2 is owned by client 7 until 1001000");
    assert_string_equal(f->t.errors[2], "updates: there is no task 999");
    assert_string_equal(f->t.errors[3], "deletes: task 1 is named more than once");
    assert_string_equal(f->t.errors[4], "deletes: there is no task 998");
    assert_string_equal(f->t.errors[5], "depends: there is no task 997");
    assert_int_equal(store_count(f->s), before);
    /* The marks of the check are removed: the same ids pass when nothing is wrong. */
    u = (struct task_update){.clientid = ME, .deletes = &mine, .delete_count = 1};
    assert_int_equal(update(f, &u, NOW), 0);
}

static void test_too_many_reasons_are_counted(void **state)
{
    struct fixture *f = *state;
    int64_t ids[TASK_ERRORS_MAX + 5];

    for (int i = 0; i < TASK_ERRORS_MAX + 5; i++)
        ids[i] = 1000 + i;
    assert_int_equal(update(f,
                            &(struct task_update){.clientid = ME,
                                                  .depends = ids,
                                                  .depend_count = TASK_ERRORS_MAX + 5},
                            NOW),
                     DROVER_REFUSED);
    assert_int_equal(f->t.error_count, TASK_ERRORS_MAX + 1);
    assert_string_equal(f->t.errors[TASK_ERRORS_MAX], "and 5 more");
}

static void test_owner_may_change_until_then_anybody(void **state)
{
    struct fixture *f = *state;
    int64_t id = add(f, "g", "", -1000);
    struct task_update u = {.clientid = OTHER, .deletes = &id, .delete_count = 1};

    assert_int_equal(update(f, &u, NOW + 999), DROVER_REFUSED);
    assert_int_equal(update(f, &u, NOW + 1000), 0);
    id = add(f, "g", "", -1000);
    u.clientid = ME;
    assert_int_equal(update(f, &u, NOW + 1), 0);
    assert_int_equal(store_count(f->s), 0);
}

static void test_depends_alone_is_a_check(void **state)
{
    struct fixture *f = *state;
    int64_t id = add(f, "g", "", -1000);
    struct task_update u = {.clientid = OTHER, .depends = &id, .depend_count = 1};

    assert_int_equal(update(f, &u, NOW), 0);
    assert_int_equal(f->t.change_count, 0);
}

static void test_claim_takes_and_time_gives_back(void **state)
{
    struct fixture *f = *state;
    int64_t id = add(f, "g", "data", 0), due;

    assert_int_equal(claim(f, "nobody", ME, NOW), 0);
    assert_int_equal(f->t.task_count, 0);
    assert_int_equal(claim(f, "g", ME, NOW), 0);
    assert_int_equal(f->t.task_count, 1);
    assert_true(f->t.tasks[0].id > id);
    assert_int_equal(f->t.tasks[0].timespec, NOW + 60000);
    assert_int_equal(f->t.tasks[0].ownerid, ME);
    assert_true(str_eq(f->t.tasks[0].data, STR("data")));
    assert_int_equal(claim(f, "g", OTHER, NOW + 59999), 0);
    assert_int_equal(f->t.task_count, 0);
    assert_false(store_available(f->s, STR("g"), NOW + 59999, &due));
    assert_int_equal(due, NOW + 60000);
    assert_int_equal(claim(f, "g", OTHER, NOW + 60000), 0);
    assert_int_equal(f->t.task_count, 1);
    assert_int_equal(f->t.tasks[0].ownerid, OTHER);
}

static void test_claim_of_many_from_several_groups(void **state)
{
    struct fixture *f = *state;
    struct str groups[] = {STR("a"), STR("b"), STR("a"), STR("none")};
    struct task_claim c = {
        .clientid = ME, .duration_ms = 0, .groups = groups, .group_count = 4, .limit = 100};
    int64_t seen[8] = {0};

    for (int i = 0; i < 5; i++)
        seen[i] = add(f, i % 2 ? "a" : "b", "", 0);
    c.deletes = &seen[4];
    c.delete_count = 1;
    store_settle(f->s, &f->t);
    assert_int_equal(store_claim(f->s, &c, NOW, &f->random, &f->t), 0);
    assert_int_equal(f->t.task_count, 4); /* not the deleted one, and none twice */
    assert_int_equal(f->t.change_count, 5);
    assert_int_equal(f->t.changes[0].kind, TXN_DELETE);
    for (int i = 1; i < 5; i++)
        for (int j = 1; j < i; j++)
            assert_true(f->t.changes[i].slot != f->t.changes[j].slot);
}

/* Tasks that do not fit into one transaction of the keeper are left for the next claim. */
static void test_a_claim_of_many_takes_what_fits(void **state)
{
    struct fixture *f = *state;
    struct str g = STR("g");
    struct task_claim c = {.clientid = ME, .groups = &g, .group_count = 1, .limit = TASK_IDS_MAX};
    static char data[100 * 1024];
    int64_t ids[TASK_CHANGES_MAX + 1];
    size_t taken = 0;

    memset(data, 'x', sizeof data - 1);
    c.duration_ms = 1000;
    for (int i = 0; i < 12; i++)
        add(f, "g", data, 0);
    for (int i = 0; i < 3; i++) {
        store_settle(f->s, &f->t);
        assert_int_equal(store_claim(f->s, &c, NOW, &f->random, &f->t), 0);
        assert_in_range(f->t.task_count, 1, 5);
        taken += f->t.task_count;
    }
    assert_int_equal(taken, 12);
    for (int i = 0; i <= TASK_CHANGES_MAX; i++)
        ids[i] = i + 1;
    c.deletes = ids;
    c.delete_count = TASK_CHANGES_MAX;
    store_settle(f->s, &f->t);
    assert_int_equal(store_claim(f->s, &c, NOW, &f->random, &f->t), DROVER_TOO_BIG);
    assert_int_equal(update(f,
                            &(struct task_update){.clientid = ME,
                                                  .deletes = ids,
                                                  .delete_count = TASK_CHANGES_MAX + 1},
                            NOW),
                     DROVER_TOO_BIG);
}

static void test_claim_is_refused_by_depends_and_deletes(void **state)
{
    struct fixture *f = *state;
    struct str g = STR("g");
    int64_t none[] = {41, 42};
    struct task_claim c = {.clientid = ME,
                           .groups = &g,
                           .group_count = 1,
                           .deletes = none,
                           .delete_count = 1,
                           .depends = none + 1,
                           .depend_count = 1};

    add(f, "g", "", 0);
    store_settle(f->s, &f->t);
    assert_int_equal(store_claim(f->s, &c, NOW, &f->random, &f->t), DROVER_REFUSED);
    assert_int_equal(f->t.error_count, 2);
    assert_int_equal(claim(f, "g", ME, NOW), 0);
    assert_int_equal(f->t.task_count, 1);
}

/* Adds eight tasks, claims them one by one, and deletes them. */
static void draw_eight(struct fixture *f, int counts[8][8])
{
    struct str g = STR("g");
    struct task_claim c = {.clientid = ME, .groups = &g, .group_count = 1, .duration_ms = 1000};
    struct task_update done = {.clientid = ME, .delete_count = 8};
    char data[2] = "0";
    int64_t ids[8];

    for (int i = 0; i < 8; i++) {
        data[0] = (char)('0' + i);
        add(f, "g", data, 0);
        store_settle(f->s, &f->t);
    }
    for (int i = 0; i < 8; i++) {
        assert_int_equal(store_claim(f->s, &c, NOW, &f->random, &f->t), 0);
        ids[i] = f->t.tasks[0].id;
        counts[i][f->t.tasks[0].data.p[0] - '0']++;
        store_settle(f->s, &f->t);
    }
    done.deletes = ids;
    assert_int_equal(update(f, &done, NOW), 0);
    store_settle(f->s, &f->t);
}

/*
 * Each task, whenever it was added, is the nth to be claimed equally often: 500 times are expected,
 * and six standard deviations are 126.
 */
static void test_claims_are_even(void **state)
{
    struct fixture *f = *state;
    int counts[8][8] = {{0}};

    for (int i = 0; i < 4000; i++)
        draw_eight(f, counts);
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 8; k++)
            assert_in_range(counts[i][k], 374, 626);
}

static void test_groups_come_and_go(void **state)
{
    struct fixture *f = *state;
    int64_t id = add(f, "g", "", -5);
    struct store_group *groups;
    struct arena a = {0};
    size_t count;

    store_groups(f->s, NOW, &a, &groups, &count);
    assert_int_equal(count, 1);
    assert_true(str_eq(groups[0].name, STR("g")));
    assert_int_equal(groups[0].available, 0);
    assert_int_equal(groups[0].owned, 1);
    store_groups(f->s, NOW + 5, &a, &groups, &count);
    assert_int_equal(groups[0].available, 1);
    assert_int_equal(
        update(f, &(struct task_update){.clientid = ME, .deletes = &id, .delete_count = 1}, NOW),
        0);
    store_groups(f->s, NOW, &a, &groups, &count);
    assert_int_equal(count, 0);
    store_settle(f->s, &f->t);
    assert_null(store_find_group(f->s, STR("g"))); /* and its memory is freed */
    arena_release(&a);
}

static void test_list_owned_limit_and_order(void **state)
{
    struct fixture *f = *state;
    struct store_list list;
    struct arena a = {0};
    int64_t first = 0, last = 0;

    for (int i = 0; i < 200; i++) {
        last = add(f, "g", "x", i % 4 == 3 ? -100 : 0);
        first = first ? first : last;
    }
    assert_int_equal(store_list(f->s, STR("g"), -1, 0, false, NOW, &a, &list), 0);
    assert_int_equal(list.count, 150);
    assert_int_equal(store_list(f->s, STR("g"), -1, 0, true, NOW, &a, &list), 0);
    assert_int_equal(list.count, 200);
    assert_int_equal(store_list(f->s, STR("g"), -1, 7, true, NOW, &a, &list), 0);
    assert_int_equal(list.count, 7);
    assert_int_equal(store_list(f->s, STR("none"), -1, 0, true, NOW, &a, &list), 0);
    assert_int_equal(list.count, 0);
    for (int64_t id = first; id < last; id++) { /* most are removed: the rest stays in order */
        if (id % 10)
            assert_int_equal(
                update(f, &(struct task_update){.clientid = ME, .deletes = &id, .delete_count = 1},
                       NOW),
                0);
        assert_int_equal(store_list(f->s, STR("g"), first, 5, true, NOW, &a, &list), 0);
        for (size_t i = 0; i < list.count; i++)
            assert_true(list.tasks[i].id > (i ? list.tasks[i - 1].id : first));
    }
    last = add(f, "g", "newest", 0);
    assert_int_equal(store_list(f->s, STR("g"), last - 1, 5, true, NOW, &a, &list), 0);
    assert_int_equal(list.count, 1);
    assert_true(str_eq(list.tasks[0].data, STR("newest")));
    arena_release(&a);
}

static void test_timespec(void **state)
{
    (void)state;
    assert_int_equal(store_time(0, NOW), NOW);
    assert_int_equal(store_time(-60000, NOW), NOW + 60000);
    assert_int_equal(store_time(60000, NOW), 60000);
    assert_true(store_time(INT64_MIN, NOW) > NOW);
    assert_int_equal(store_time(INT64_MAX, NOW), INT64_MAX);
}

static void test_undo_gives_back_everything_but_the_ids(void **state)
{
    struct fixture *f = *state;
    int64_t a = add(f, "g", "old", 0), b = add(f, "h", "gone", 0), last;
    struct task adds = {.group = STR("new"), .data = STR("x")};
    struct task change = {.id = a, .data = STR("changed")};
    CLEANUP(arena_release) struct arena scratch = {0};
    struct store_group *groups;
    struct arena arena = {0};
    struct task t;
    size_t count;

    assert_int_equal(update(f,
                            &(struct task_update){.clientid = ME,
                                                  .adds = &adds,
                                                  .add_count = 1,
                                                  .updates = &change,
                                                  .update_count = 1,
                                                  .deletes = &b,
                                                  .delete_count = 1},
                            NOW),
                     0);
    last = store_top_id(f->s);
    store_undo(f->s, &f->t);
    assert_int_equal(store_get(f->s, a, &scratch, &t), 0);
    assert_true(str_eq(t.data, STR("old")));
    assert_int_equal(store_get(f->s, b, &scratch, &t), 0);
    assert_true(str_eq(t.data, STR("gone")));
    store_groups(f->s, NOW, &arena, &groups, &count);
    assert_int_equal(count, 2);
    assert_int_equal(claim(f, "g", ME, NOW), 0);
    assert_true(f->t.tasks[0].id > last);
    store_undo(f->s, &f->t);
    assert_int_equal(store_get(f->s, a, &scratch, &t), 0);
    arena_release(&arena);
}

static void test_only_the_manager_frees_a_managed_task(void **state)
{
    struct fixture *f = *state;
    struct task task = {.group = STR("g"), .data = STR("run")};
    struct task_update by = {
        .clientid = TASK_MANAGER, .manage = true, .adds = &task, .add_count = 1};
    int64_t slot, late = NOW + 60001, due;
    struct task renewal;

    assert_int_equal(update(f, &by, NOW), 0);
    assert_true(f->t.tasks[0].managed);
    slot = f->t.tasks[0].id;
    assert_int_equal(claim(f, "g", ME, NOW), 0);
    assert_int_equal(f->t.task_count, 1);
    renewal = f->t.tasks[0];
    renewal.data = STR("run");

    /* The lease ends, but no other client gets the task. */
    assert_false(store_available(f->s, STR("g"), late, &due));
    assert_true(due == INT64_MAX);
    assert_int_equal(claim(f, "g", OTHER, late), 0);
    assert_int_equal(f->t.task_count, 0);
    renewal.timespec = -1000;
    by = (struct task_update){.clientid = OTHER, .updates = &renewal, .update_count = 1};
    assert_int_equal(update(f, &by, late), DROVER_REFUSED);
    by = (struct task_update){.clientid = ME, .deletes = &renewal.id, .delete_count = 1};
    assert_int_equal(update(f, &by, late), DROVER_REFUSED);

    /* Its owner renews it, however late, and the manager still finds it by its slot. */
    by = (struct task_update){.clientid = ME, .updates = &renewal, .update_count = 1};
    assert_int_equal(update(f, &by, late), 0);
    assert_true(f->t.tasks[0].id != renewal.id && f->t.tasks[0].managed);
    task = (struct task){.id = slot, .data = STR("again")};
    by = (struct task_update){
        .clientid = TASK_MANAGER, .manage = true, .updates = &task, .update_count = 1};
    assert_int_equal(update(f, &by, late), 0);
    store_settle(f->s, &f->t);
    assert_int_equal(claim(f, "g", OTHER, late), 0);
    assert_int_equal(f->t.task_count, 1);
    by = (struct task_update){
        .clientid = TASK_MANAGER, .manage = true, .deletes = &slot, .delete_count = 1};
    assert_int_equal(update(f, &by, late), 0);
    store_undo(f->s, &f->t);
    assert_int_equal(store_count(f->s), 1);
    assert_int_equal(update(f, &by, late), 0);
    assert_int_equal(store_count(f->s), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_add_gives_rising_ids),
        CASE(test_update_ends_the_old_id),
        CASE(test_every_reason_is_named),
        CASE(test_too_many_reasons_are_counted),
        CASE(test_owner_may_change_until_then_anybody),
        CASE(test_depends_alone_is_a_check),
        CASE(test_claim_takes_and_time_gives_back),
        CASE(test_claim_of_many_from_several_groups),
        CASE(test_a_claim_of_many_takes_what_fits),
        CASE(test_claim_is_refused_by_depends_and_deletes),
        CASE(test_claims_are_even),
        CASE(test_groups_come_and_go),
        CASE(test_list_owned_limit_and_order),
        CASE(test_timespec),
        CASE(test_only_the_manager_frees_a_managed_task),
        CASE(test_undo_gives_back_everything_but_the_ids),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
