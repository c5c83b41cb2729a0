/* Counts by group: their labels, how many there are, and that none goes backwards. */
#include "task/store_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NOW = 1000000, ME = 7 };

static void expect_label(const char *name, size_t len, const char *wanted)
{
    char label[TALLY_LABEL_MAX + 1];

    tally_label((struct str){name, len}, label);
    assert_string_equal(label, wanted);
}

static void labels_are_clean(void **state)
{
    char longest[TALLY_LABEL_MAX], longer[TALLY_LABEL_MAX + 1], label[TALLY_LABEL_MAX + 1];

    (void)state;
    expect_label("mail/out", 8, "mail/out");
    expect_label("a\"b\\c", 5, "a\"b\\c"); /* metrics_put_label() escapes these */
    expect_label("a\nb\x1b[31m\x7f", 9, "a?b?[31m?");
    expect_label("gr\xc3\xbc\xc3\x9f", 6, "gr\xc3\xbc\xc3\x9f");
    expect_label("x\xff\xc3", 3, "x??");
    expect_label("a\0b", 3, "a?b");
    memset(longest, 'x', sizeof longest);
    tally_label((struct str){longest, sizeof longest}, label);
    assert_memory_equal(label, longest, sizeof longest);
    memset(longer, 'x', sizeof longer);
    tally_label((struct str){longer, sizeof longer}, label);
    assert_int_equal(strlen(label), TALLY_LABEL_MAX);
    assert_int_equal(label[TALLY_LABEL_MAX - 9], '~');
    for (size_t i = 0; i < sizeof longer; i++) /* characters of two bytes are not cut */
        longer[i] = i % 2 ? '\xbc' : '\xc3';
    tally_label((struct str){longer, sizeof longer}, label);
    for (const char *p = label, *end = p + strlen(p); p < end; p += utf8_len(p, end))
        assert_int_not_equal(utf8_len(p, end), 0);
}

static void same_labels_are_not_shared(void **state)
{
    struct task_tallies *t = tallies_new();
    struct task_tally *first = tallies_find(t, STR("a\n"));

    (void)state;
    assert_string_equal(first->label, "a?");
    assert_ptr_equal(tallies_find(t, STR("a\r")), &t->others);
    assert_ptr_equal(tallies_find(t, STR("a?")), &t->others);
    assert_ptr_equal(tallies_find(t, STR("a\n")), first);
    tallies_free(t);
}

static bool is_made(void *arg, struct str group)
{
    (void)arg;
    return group.len && group.p[0] == '#';
}

static void names_are_bounded(void **state)
{
    struct task_tallies *t = tallies_new();
    struct task_tally *first = tallies_find(t, STR("0"));
    char name[16];

    (void)state;
    tallies_fold(t, "made", is_made, NULL);
    for (int i = 0; i < 100000; i++) {
        snprintf(name, sizeof name, "%d", i);
        tallies_get(t, str_of(name))->counts[TALLY_ADDED]++;
        snprintf(name, sizeof name, "#%d", i);
        tallies_get(t, str_of(name))->counts[TALLY_CLAIMED]++;
    }
    assert_int_equal(t->used, TALLY_GROUPS_MAX);
    assert_int_equal(first->counts[TALLY_ADDED], 1);
    assert_int_equal(t->others.counts[TALLY_ADDED], 100000 - TALLY_GROUPS_MAX);
    assert_int_equal(t->others.counts[TALLY_CLAIMED], 0);
    assert_int_equal(t->folds[0].tally.counts[TALLY_CLAIMED], 100000);
    tallies_free(t);
}

/* A name is given up only when others want it, its group is empty, and nothing was counted long. */
static void idle_names_are_given_up(void **state)
{
    struct task_tallies *t = tallies_new();
    struct task_tally *first = tallies_find(t, STR("first"));
    char name[16];

    (void)state;
    tallies_get(t, STR("first"))->counts[TALLY_ADDED]++;
    assert_true(tally_keep(t, first, false, NOW));
    assert_true(tally_keep(t, first, false, NOW + 2 * TALLY_IDLE_MS)); /* there is room */
    for (int i = 1; i < TALLY_GROUPS_MAX; i++) {
        snprintf(name, sizeof name, "%d", i);
        tallies_find(t, str_of(name));
    }
    assert_false(tallies_have_room(t));
    tallies_get(t, STR("first"))->counts[TALLY_ADDED]++;
    int64_t now_ms = NOW + 3 * (int64_t)TALLY_IDLE_MS;
    assert_true(tally_keep(t, first, false, now_ms)); /* something was counted */
    assert_true(tally_keep(t, first, false, now_ms + TALLY_IDLE_MS - 1));
    assert_true(tally_keep(t, first, true, now_ms + TALLY_IDLE_MS)); /* it has tasks */
    assert_true(tally_keep(t, first, false, now_ms + 2 * TALLY_IDLE_MS - 1));
    assert_false(tally_keep(t, first, false, now_ms + 2 * TALLY_IDLE_MS));
    assert_int_equal(t->used, TALLY_GROUPS_MAX - 1);
    tallies_get(t, STR("next"))->counts[TALLY_ADDED]++;
    assert_ptr_equal(tallies_find(t, STR("next")), first); /* its place */
    assert_int_equal(first->counts[TALLY_ADDED], 1);
    assert_ptr_equal(tallies_find(t, STR("first")), &t->others);
    tallies_free(t);
}

/* Its group turns out to be a module's. */
static void folded_names_are_given_up(void **state)
{
    struct task_tallies *t = tallies_new();
    struct task_tally *made = tallies_find(t, STR("#1"));

    (void)state;
    assert_true(tally_keep(t, made, true, NOW));
    tallies_fold(t, "made", is_made, NULL);
    assert_ptr_equal(tallies_get(t, STR("#1")), made); /* until the next page */
    assert_false(tally_keep(t, made, true, NOW));
    assert_ptr_equal(tallies_get(t, STR("#1")), &t->folds[0].tally);
    assert_int_equal(t->used, 0);
    tallies_free(t);
}

/* With a store. */

struct fixture {
    struct store *s;
    struct task_txn t;
    struct store_random random;
    struct task_tallies *tallies;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    f->s = store_new(NULL, NULL);
    f->tallies = tallies_new();
    f->random.state = 1;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    task_txn_release(&f->t);
    store_free(f->s);
    tallies_free(f->tallies);
    free(f);
    return 0;
}

static void settle(struct fixture *f)
{
    store_tally(f->s, &f->t, f->tallies);
    store_settle(f->s, &f->t);
}

static int64_t add(struct fixture *f, const char *group, int64_t timespec)
{
    struct task task = {.group = str_of(group), .data = STR("x"), .timespec = timespec};
    struct task_update u = {.clientid = ME, .adds = &task, .add_count = 1};

    assert_int_equal(store_update(f->s, &u, NOW, &f->random, &f->t), 0);
    int64_t id = f->t.tasks[0].id;
    settle(f);
    return id;
}

static int64_t claim(struct fixture *f, const char *group)
{
    struct str name = str_of(group);
    struct task_claim c = {.clientid = ME, .duration_ms = 60000, .groups = &name, .group_count = 1};

    assert_int_equal(store_claim(f->s, &c, NOW, &f->random, &f->t), 0);
    int64_t id = f->t.task_count ? f->t.tasks[0].id : 0;
    settle(f);
    return id;
}

static void end(struct fixture *f, int64_t id, bool undo)
{
    struct task_update u = {.clientid = ME, .deletes = &id, .delete_count = 1};

    assert_int_equal(store_update(f->s, &u, NOW, &f->random, &f->t), 0);
    if (undo)
        store_undo(f->s, &f->t);
    settle(f);
}

static void events_are_counted(void **state)
{
    struct fixture *f = *state;
    const uint64_t wanted[TALLY_KINDS] = {
        [TALLY_ADDED] = 3, [TALLY_CLAIMED] = 1, [TALLY_FINISHED] = 1, [TALLY_DELETED] = 1};
    int64_t ids[] = {add(f, "a", NOW), add(f, "b", NOW), add(f, "a", NOW), add(f, "a", NOW)};
    struct task renewed = {.id = claim(f, "b"), .data = STR("y"), .timespec = NOW + 5};
    struct task_update renew = {.clientid = ME, .updates = &renewed, .update_count = 1};

    assert_int_equal(store_update(f->s, &renew, NOW, &f->random, &f->t), 0); /* is no event */
    settle(f);
    end(f, claim(f, "a"), false);
    for (size_t i = 0; i < 4; i++)
        if (i != 1 && store_find(f->s, ids[i])) {
            end(f, ids[i], true); /* nothing has happened */
            end(f, ids[i], false);
            break;
        }
    const struct task_tally *a = tallies_find(f->tallies, STR("a"));
    assert_memory_equal(a->counts, wanted, sizeof wanted);
    const struct task_tally *b = tallies_find(f->tallies, STR("b"));
    assert_int_equal(b->counts[TALLY_ADDED], 1);
    assert_int_equal(b->counts[TALLY_CLAIMED], 1);
}

static void expect_depth(struct fixture *f, int64_t now_ms, size_t max, size_t available,
                         size_t owned, int64_t age_ms)
{
    struct store_depth d;

    assert_true(store_depth(f->s, tallies_find(f->tallies, STR("a")), now_ms, max, &d));
    assert_int_equal(d.available, available);
    assert_int_equal(d.owned, owned);
    assert_int_equal(d.age_ms, age_ms);
}

static void depth_and_age(void **state)
{
    struct fixture *f = *state;
    struct store_depth d;

    assert_false(store_depth(f->s, tallies_find(f->tallies, STR("a")), NOW, 10, &d));
    add(f, "a", NOW);
    add(f, "a", NOW + 100);
    add(f, "a", NOW + 200);
    expect_depth(f, NOW, 10, 1, 2, 0);
    expect_depth(f, NOW + 50, 10, 1, 2, 50);
    expect_depth(f, NOW + 150, 10, 2, 1, 150); /* its time has come, the group was not used */
    assert_int_equal(store_available_count(f->s), 1);
    claim(f, "a");
    expect_depth(f, NOW + 150, 10, 1, 2, 50);
    assert_int_equal(store_available_count(f->s), 0);
}

/* With more tasks than are looked at at once, the oldest is found after some pages. */
static void the_oldest_of_many(void **state)
{
    enum { COUNT = 1000, OLDEST = 700 };
    struct fixture *f = *state;
    int64_t oldest = 0;
    struct store_depth d = {0};

    for (int i = 0; i < COUNT; i++) {
        int64_t id = add(f, "a", i == OLDEST ? NOW - 5000 : NOW - i % 100);
        oldest = i == OLDEST ? id : oldest;
    }
    struct task_tally *t = tallies_find(f->tallies, STR("a"));
    for (int i = 0; i < 10; i++) {
        assert_true(store_depth(f->s, t, NOW, 100, &d));
        assert_true(d.age_ms == 5000 || d.age_ms == 99);
    }
    for (int i = 0; i < 100; i++) /* it stays known, whatever else goes */
        if (store_find(f->s, oldest)) {
            assert_true(store_depth(f->s, t, NOW, 1, &d));
            assert_int_equal(d.age_ms, 5000);
            int64_t taken = claim(f, "a");
            assert_int_not_equal(taken, 0);
        }
    if (store_find(f->s, oldest))
        end(f, oldest, false);
    for (int i = 0; i < 11; i++)
        assert_true(store_depth(f->s, t, NOW, 100, &d));
    assert_int_equal(d.age_ms, 99);
}

static void stored_groups_get_names(void **state)
{
    struct fixture *f = *state;
    char name[16];

    for (int i = 0; i < 1000; i++) {
        struct task task = {.id = i + 1, .data = STR("x")};
        snprintf(name, sizeof name, "%d", i);
        task.group = str_of(name);
        assert_int_equal(store_restore(f->s, i + 1, &task, NOW), 0);
    }
    store_name_groups(f->s, f->tallies, 10);
    assert_int_equal(f->tallies->used, 10);
    store_name_groups(f->s, f->tallies, 10);
    assert_int_equal(f->tallies->used, 20);
    store_name_groups(f->s, f->tallies, 1000);
    assert_int_equal(f->tallies->used, TALLY_GROUPS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_clean),
        cmocka_unit_test(same_labels_are_not_shared),
        cmocka_unit_test(names_are_bounded),
        cmocka_unit_test(idle_names_are_given_up),
        cmocka_unit_test(folded_names_are_given_up),
        cmocka_unit_test_setup_teardown(events_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(depth_and_age, setup, teardown),
        cmocka_unit_test_setup_teardown(the_oldest_of_many, setup, teardown),
        cmocka_unit_test_setup_teardown(stored_groups_get_names, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
