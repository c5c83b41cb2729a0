/*
 * The cached view of a list: what it costs to keep it fresh, and the states of its entries. On the
 * embedded keeper in memory, or on the ZooKeeper that DROVER_TEST_ZK names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "keeper/list_view.h"
#include "keeper_cutter.h"
#include "keeper_stand.h"

struct scene {
    struct stand stand;
    struct keeper *own, *other;
    struct cutter counted; /* own, with a count of its calls */
    struct list_view *v;
    struct arena a;
    atomic_int ready, changed;
};

/* "g-05": group g, order 5. Names without a dash are idle. */
static void classify(void *arg, struct str name, struct str data, const struct keeper_stat *stat,
                     struct list_class *ret_class)
{
    (void)arg, (void)data, (void)stat;
    *ret_class = (struct list_class){.idle = name.len < 3 || name.p[1] != '-'};
    if (!ret_class->idle)
        *ret_class = (struct list_class){.order = atoi(name.p + 2), .group = {name.p, 1}};
}

static void on_ready(void *arg, struct str group, uint32_t count)
{
    struct scene *s = arg;

    assert_int_equal(group.len, 1);
    atomic_fetch_add(&s->ready, (int)count);
}

static void on_changed(void *arg)
{
    atomic_fetch_add(&((struct scene *)arg)->changed, 1);
}

static void scene_open(struct scene *s)
{
    *s = (struct scene){0};
    stand_open(&s->stand);
    s->own = stand_connect(&s->stand);
    s->other = stand_connect(&s->stand);
    cutter_init(&s->counted, s->own, 1000000, 0, false);
    assert_int_equal(keeper_create(s->own, "/list", STR(""), 0, NULL), 0);
    assert_int_equal(keeper_create(s->own, "/locks", STR(""), 0, NULL), 0);
    s->v = list_view_new(&(struct list_view_options){.dir = "/list",
                                                     .locks = "/locks",
                                                     .classify = classify,
                                                     .ready = on_ready,
                                                     .changed = on_changed,
                                                     .arg = s});
}

static void scene_close(struct scene *s)
{
    list_view_free(s->v);
    arena_release(&s->a);
    keeper_close(s->own);
    keeper_close(s->other);
    stand_close(&s->stand);
}

static void create(struct keeper *k, const char *path)
{
    assert_int_equal(keeper_create(k, path, STR(""), 0, NULL), 0);
}

/* A change of this process, reported to the view. */
static void create_own(struct scene *s, const char *name)
{
    struct list_class c;

    classify(s, str_of(name), STR(""), NULL, &c);
    list_view_expect(s->v, 1);
    create(s->own, arena_printf(&s->a, "/list/%s", name));
    list_view_done(s->v, 1, 0);
    list_view_add(s->v, str_of(name), &c, 0);
}

static const char *take_at(struct scene *s, const char *group, int64_t now_ms)
{
    struct str g = str_of(group);
    uint32_t retried = 0;
    struct list_item item;

    return list_view_take(s->v, &s->a, &g, 1, now_ms, &retried, &item) ? item.name.p : "none";
}

static int refresh(struct scene *s, bool must)
{
    s->counted.calls = 0;
    assert_int_equal(list_view_refresh(s->v, &s->counted.base, must), 0);
    return s->counted.calls;
}

static void entries_in_order_of_their_group(void **state)
{
    struct str both[] = {STR("a"), STR("b")};
    uint32_t retried = 0;
    struct list_item item;
    struct scene s;

    (void)state;
    scene_open(&s);
    create(s.other, "/list/a-2");
    create(s.other, "/list/b-1");
    create(s.other, "/list/a-3");
    create(s.other, "/list/idle");
    refresh(&s, false);
    assert_int_equal(s.ready, 3);
    assert_int_equal(list_view_counts(s.v).entries, 4);
    assert_true(list_view_take(s.v, &s.a, both, 2, 0, &retried, &item));
    assert_string_equal(item.name.p, "b-1");
    assert_string_equal(take_at(&s, "b", 0), "none");
    assert_string_equal(take_at(&s, "a", 0), "a-2");
    assert_string_equal(take_at(&s, "a", 0), "a-3");
    assert_string_equal(take_at(&s, "a", 0), "none");
    scene_close(&s);
}

/*
 * Own changes do not cause a reading; those of others do, and an exact refresh sees them at once.
 */
static void reads_the_list_after_changes_of_others_only(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s);
    create(s.other, "/list/a-1");
    assert_int_equal(refresh(&s, true), 2); /* sync, children */
    for (int i = 2; i < 10; i++)
        create_own(&s, arena_printf(&s.a, "a-%d", i));
    assert_int_equal(refresh(&s, true), 2); /* sync, exists */
    assert_int_equal(list_view_counts(s.v).entries, 9);
    create(s.other, "/list/b-1");
    assert_int_equal(refresh(&s, true), 3);
    assert_string_equal(take_at(&s, "b", 0), "b-1");
    assert_int_equal(keeper_delete(s.other, "/list/a-1", KEEPER_ANY_VERSION), 0);
    refresh(&s, true);
    assert_string_equal(take_at(&s, "a", 0), "a-2");
    list_view_remove(s.v, STR("a-2")); /* wrongly: it is still in the list */
    list_view_expect(s.v, 1);
    list_view_done(s.v, 1, DROVER_UNKNOWN); /* so that the list is read again */
    refresh(&s, false);
    assert_string_equal(take_at(&s, "a", 0), "a-2");
    scene_close(&s);
}

static void locked_until_the_lock_goes(void **state)
{
    struct list_item item;
    struct scene s;

    (void)state;
    scene_open(&s);
    create(s.other, "/list/a-1");
    refresh(&s, true);
    assert_string_equal(take_at(&s, "a", 0), "a-1");
    create(s.other, "/locks/a-1");
    list_view_lock(s.v, STR("a-1"), 7, 3);
    refresh(&s, true);
    assert_string_equal(take_at(&s, "a", 0), "none");
    assert_true(list_view_find(s.v, NULL, STR("a-1"), &item));
    assert_true(item.session == 7 && item.version == 3);
    assert_int_equal(keeper_delete(s.other, "/locks/a-1", KEEPER_ANY_VERSION), 0);
    refresh(&s, true);
    assert_string_equal(take_at(&s, "a", 0), "a-1");
    scene_close(&s);
}

static bool is_four(void *arg, int64_t reason)
{
    (void)arg;
    return reason == 4;
}

static void parked_and_blocked(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s);
    for (int i = 1; i < 5; i++)
        create(s.other, arena_printf(&s.a, "/list/a-%d", i));
    refresh(&s, true);
    assert_string_equal(take_at(&s, "a", 0), "a-1");
    list_view_park(s.v, STR("a-1"), 1000);
    assert_string_equal(take_at(&s, "a", 1000 + LIST_PARK_MS - 1), "a-2");
    assert_true(list_view_block_on(s.v, STR("a-2"), STR("a-4")));
    assert_false(list_view_block_on(s.v, STR("a-2"), STR("a-9")));
    assert_string_equal(take_at(&s, "a", 1000 + LIST_PARK_MS), "a-1");
    list_view_park(s.v, STR("a-1"), 2000);
    assert_string_equal(take_at(&s, "a", 2000 + 2 * LIST_PARK_MS - 1), "a-3");
    list_view_block(s.v, STR("a-3"), 4);
    list_view_release(s.v, STR("a-1"), NULL);
    assert_string_equal(take_at(&s, "a", 0), "a-1");
    assert_string_equal(take_at(&s, "a", 0), "a-4");
    assert_string_equal(take_at(&s, "a", 0), "none");
    list_view_unblock_if(s.v, is_four, NULL);
    assert_string_equal(take_at(&s, "a", 0), "a-3");
    list_view_remove(s.v, STR("a-4"));
    assert_string_equal(take_at(&s, "a", 0), "a-2");
    scene_close(&s);
}

static void watches_fire_once(void **state)
{
    struct scene s;

    (void)state;
    scene_open(&s);
    assert_true(list_view_is_stale(s.v));
    assert_int_equal(list_view_watch(s.v, s.own), 0);
    refresh(&s, true);
    assert_false(list_view_is_stale(s.v));
    create(s.other, "/list/a-1");
    while (!s.changed)
        usleep(1000);
    assert_true(list_view_is_stale(s.v));
    create(s.other, "/list/a-2");
    assert_int_equal(list_view_watch(s.v, s.own), 0);
    refresh(&s, true);
    assert_int_equal(list_view_counts(s.v).free, 2);
    assert_int_equal(s.changed, 1);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_in_order_of_their_group),
        cmocka_unit_test(reads_the_list_after_changes_of_others_only),
        cmocka_unit_test(locked_until_the_lock_goes),
        cmocka_unit_test(parked_and_blocked),
        cmocka_unit_test(watches_fire_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
