/*
 * Cases about the life of a watch: what it may be set on, that it stays, that it ends. What fires
 * which kind is in watch_table.c, what its callback may do in watch_callback.c.
 *
 * Changes that are close together may be told as one, so a case that counts makes a change, waits
 * for the event, and makes the next.
 */
#include <stdio.h>

#include "callbacks.h"

static void watch_data_stays(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct recorder *r = watch(f, f->k, a, KEEPER_WATCH_DATA);

    for (int i = 0; i < 5; i++) {
        must(keeper_set(f->k, a, STR("x"), i, NULL));
        recorder_wait(r, i + 1);
    }
}

static void watch_children_stays(struct fixture *f)
{
    struct recorder *r;
    const char *a = mk(f, "a", "");

    r = watch(f, f->k, a, KEEPER_WATCH_CHILDREN);
    for (int i = 0; i < 3; i++) {
        must(keeper_create(f->k, at(f, "a/b"), STR(""), 0, NULL));
        recorder_wait(r, 2 * i + 1);
        must(keeper_delete(f->k, at(f, "a/b"), 0));
        recorder_wait(r, 2 * i + 2);
    }
}

/* Sets, which it does not tell, must not wear an exists watch out either. */
static void watch_exists_stays(struct fixture *f)
{
    const char *a = at(f, "a");
    struct recorder *r = watch(f, f->k, a, KEEPER_WATCH_EXISTS);

    for (int i = 0; i < 3; i++) {
        mk(f, "a", "");
        recorder_wait(r, 2 * i + 1);
        must(keeper_set(f->k, a, STR("1"), 0, NULL));
        must(keeper_set(f->k, a, STR("2"), 1, NULL));
        must(keeper_delete(f->k, a, 2));
        recorder_wait(r, 2 * i + 2);
    }
}

static void watch_data_survives_the_node(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct recorder *r = watch(f, f->k, a, KEEPER_WATCH_DATA);

    must(keeper_delete(f->k, a, 0));
    recorder_wait(r, 1);
    mk(f, "a", "");
    recorder_wait(r, 2);
    must(keeper_set(f->k, a, STR("x"), 0, NULL));
    recorder_wait(r, 3);
}

static void watch_children_survives_the_node(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct recorder *r = watch(f, f->k, a, KEEPER_WATCH_CHILDREN);

    must(keeper_delete(f->k, a, 0));
    recorder_wait(r, 1);
    mk(f, "a", "");
    recorder_wait(r, 2);
    mk(f, "a/b", "");
    recorder_wait(r, 3);
}

/* Neither the parent nor anything else need exist for a watch. */
static void watch_below_a_missing_parent(struct fixture *f)
{
    struct recorder *r = watch(f, f->k, at(f, "a/b/c"), KEEPER_WATCH_DATA);

    mk(f, "a", "");
    mk(f, "a/b", "");
    quiesce(f, f->k, f->k);
    expect_count(r, 0);
    mk(f, "a/b/c", "");
    expect_event(r, KEEPER_EVENT_CREATED);
}

static void watch_of_a_node_replaced_in_a_multi(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    const struct keeper_op ops[] = {
        keeper_op_delete(a, 0),
        keeper_op_create(a, STR(""), 0),
    };
    struct recorder *data = watch(f, f->k, a, KEEPER_WATCH_DATA);
    struct recorder *exists = watch(f, f->k, a, KEEPER_WATCH_EXISTS);

    must(keeper_multi(f->k, ops, 2, NULL));
    recorder_wait(data, 1);
    recorder_wait(exists, 1);
}

static void watch_on_the_root(struct fixture *f)
{
    struct recorder *r = watch(f, f->k, "/", KEEPER_WATCH_CHILDREN);
    char path[200];

    snprintf(path, sizeof path, "%s-beside", f->root);
    must(keeper_create(f->k, path, STR(""), KEEPER_EPHEMERAL, NULL));
    recorder_wait(r, 1);
}

static void watch_sees_the_end_of_a_session(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const char *a = mk(f, "a", ""), *e = mk_flags(f, other, "a/e", KEEPER_EPHEMERAL);
    struct recorder *data, *exists, *children;

    catch_up(f->k);
    data = watch(f, f->k, e, KEEPER_WATCH_DATA);
    exists = watch(f, f->k, e, KEEPER_WATCH_EXISTS);
    children = watch(f, f->k, a, KEEPER_WATCH_CHILDREN);
    session_close(f, other);
    expect_event(data, KEEPER_EVENT_DELETED);
    expect_event(exists, KEEPER_EVENT_DELETED);
    expect_event(children, KEEPER_EVENT_CHILDREN);
}

static void watch_ends_with_unwatch(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct recorder *r = watch(f, f->k, a, KEEPER_WATCH_DATA);

    must(keeper_set(f->k, a, STR("x"), 0, NULL));
    recorder_wait(r, 1);
    unwatch(r);
    must(keeper_set(f->k, a, STR("x"), 1, NULL));
    must(keeper_delete(f->k, a, 2));
    quiesce(f, f->k, f->k);
    expect_count(r, 1);
}

static void watch_twice_on_one_node(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct recorder *first = watch(f, f->k, a, KEEPER_WATCH_DATA);
    struct recorder *second = watch(f, f->k, a, KEEPER_WATCH_DATA);

    must(keeper_set(f->k, a, STR("x"), 0, NULL));
    expect_event(first, KEEPER_EVENT_CHANGED);
    expect_event(second, KEEPER_EVENT_CHANGED);
    unwatch(first);
    must(keeper_set(f->k, a, STR("x"), 1, NULL));
    recorder_wait(second, 2);
    quiesce(f, f->k, f->k);
    expect_count(first, 1);
}

static void watch_in_every_kind_on_one_node(struct fixture *f)
{
    const char *a = mk(f, "a", "");
    struct recorder *data = watch(f, f->k, a, KEEPER_WATCH_DATA);
    struct recorder *exists = watch(f, f->k, a, KEEPER_WATCH_EXISTS);
    struct recorder *children = watch(f, f->k, a, KEEPER_WATCH_CHILDREN);

    mk(f, "a/b", "");
    expect_event(children, KEEPER_EVENT_CHILDREN);
    must(keeper_set(f->k, a, STR("x"), 0, NULL));
    expect_event(data, KEEPER_EVENT_CHANGED);
    must(keeper_delete(f->k, at(f, "a/b"), 0));
    recorder_wait(children, 2);
    must(keeper_delete(f->k, a, 1));
    expect_event(exists, KEEPER_EVENT_DELETED);
    recorder_wait(data, 2);
    recorder_wait(children, 3);
}

static void watch_by_two_sessions(struct fixture *f)
{
    struct keeper *other = session_open(f, LONG_TIMEOUT_MS);
    const char *a = mk(f, "a", "");
    struct recorder *mine, *theirs;

    catch_up(other);
    mine = watch(f, f->k, a, KEEPER_WATCH_DATA);
    theirs = watch(f, other, a, KEEPER_WATCH_DATA);
    must(keeper_set(f->k, a, STR("x"), 0, NULL));
    expect_event(mine, KEEPER_EVENT_CHANGED);
    expect_event(theirs, KEEPER_EVENT_CHANGED);
    session_close(f, other);
    must(keeper_set(f->k, a, STR("x"), 1, NULL));
    recorder_wait(mine, 2);
    expect_count(theirs, 1);
}

static void watch_by_the_hundred(struct fixture *f)
{
    struct keeper_op make[300], set[300];
    struct recorder *r[300];

    for (int i = 0; i < 300; i++) {
        make[i] = keeper_op_create(at(f, "n%d", i), STR(""), 0);
        set[i] = keeper_op_set(at(f, "n%d", i), STR("x"), 0);
    }
    must(keeper_multi(f->k, make, 300, NULL));
    for (int i = 0; i < 300; i++)
        r[i] = watch(f, f->k, at(f, "n%d", i), KEEPER_WATCH_DATA);
    must(keeper_multi(f->k, set, 300, NULL));
    for (int i = 0; i < 300; i++)
        expect_event(r[i], KEEPER_EVENT_CHANGED);
}

const struct conformance_case watch_cases[] = {
    CASE(watch_data_stays),
    CASE(watch_children_stays),
    CASE(watch_exists_stays),
    CASE(watch_data_survives_the_node),
    CASE(watch_children_survives_the_node),
    CASE(watch_below_a_missing_parent),
    CASE(watch_of_a_node_replaced_in_a_multi),
    CASE(watch_on_the_root),
    CASE(watch_sees_the_end_of_a_session),
    CASE(watch_ends_with_unwatch),
    CASE(watch_twice_on_one_node),
    CASE(watch_in_every_kind_on_one_node),
    CASE(watch_by_two_sessions),
    CASE(watch_by_the_hundred),
    {0},
};
