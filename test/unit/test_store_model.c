/*
 * The store against a model of it: a plain array that is searched from end to end. Random
 * transactions over few ids and few groups, some of which are undone; after each, the answers, the
 * reasons and the whole contents are the same. The data is fetched from the model in every second
 * run, as from a keeper. The seed is printed when something differs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "drover.h"
#include "task/store.h"

enum { ROOM = 4096, STEPS = 2000, CLIENTS = 3, GROUPS = 3, NAMED_MAX = 4 };

struct model_task {
    int64_t id, slot, timespec, ownerid;
    int group, data;
};

struct model {
    struct model_task tasks[ROOM];
    size_t count;
};

static const struct str NAMES[GROUPS] = {STR("a"), STR("b"), STR("c")};

static struct model_task *find(struct model *m, int64_t id)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->tasks[i].id == id)
            return &m->tasks[i];
    return NULL;
}

static void drop(struct model *m, int64_t id)
{
    struct model_task *t = find(m, id);

    *t = m->tasks[--m->count];
}

static bool may(const struct model_task *t, int64_t client, int64_t now)
{
    return t && (t->timespec <= now || t->ownerid == client);
}

static struct str text(int data)
{
    static char texts[10][4];

    snprintf(texts[data], sizeof texts[data], "d%d", data);
    return str_of(texts[data]);
}

static int fetch(void *arg, int64_t slot, struct buf *b)
{
    struct model *m = arg;

    for (size_t i = 0; i < m->count; i++)
        if (m->tasks[i].slot == slot) {
            buf_put_str(b, text(m->tasks[i].data));
            return 0;
        }
    return DROVER_NO_NODE;
}

struct run {
    struct store *s;
    struct model m, before;
    struct task_txn t;
    struct store_random random;
    unsigned seed;
    int64_t now;
};

static int pick(struct run *r, int below)
{
    return (int)(rand_r(&r->seed) % (unsigned)below);
}

/* An id that is often there: one of the newest few, or an older one that may be gone. */
static int64_t some_id(struct run *r)
{
    return store_top_id(r->s) - pick(r, 30) + 1;
}

/* How many of the ids cannot be changed by the client, counted as the store counts its reasons. */
static size_t objections(struct run *r, const int64_t *ids, size_t count, int64_t client)
{
    size_t reasons = 0;

    for (size_t i = 0; i < count; i++) {
        const struct model_task *t = find(&r->m, ids[i]);
        bool again = false;

        for (size_t j = 0; t && j < i; j++)
            again = again || ids[j] == ids[i];
        reasons += again || !may(t, client, r->now);
    }
    return reasons;
}

static void model_change(struct run *r, int64_t old, const struct task *new, int data)
{
    struct model_task *t = find(&r->m, old);

    assert_non_null(t);
    t->id = new->id;
    t->timespec = new->timespec;
    t->ownerid = new->ownerid;
    t->data = data;
}

static void step_update(struct run *r)
{
    struct task adds[NAMED_MAX], updates[NAMED_MAX];
    int64_t changed[2 * NAMED_MAX], depends[1] = {some_id(r)}, first = store_top_id(r->s);
    int groups[NAMED_MAX], data[2 * NAMED_MAX];
    struct task_update u = {.clientid = pick(r, CLIENTS) + 1, .adds = adds, .updates = updates};
    size_t reasons;

    u.add_count = (size_t)pick(r, NAMED_MAX), u.update_count = (size_t)pick(r, 3);
    u.delete_count = (size_t)pick(r, 3), u.depend_count = pick(r, 8) == 0;
    u.depends = depends;
    u.deletes = changed + u.update_count;
    for (size_t i = 0; i < u.add_count; i++) {
        data[i] = pick(r, 10), groups[i] = pick(r, GROUPS);
        adds[i] = (struct task){
            .group = NAMES[groups[i]], .data = text(data[i]), .timespec = pick(r, 3) * -20};
    }
    for (size_t i = 0; i < u.update_count; i++) {
        data[u.add_count + i] = pick(r, 10), changed[i] = some_id(r);
        updates[i] = (struct task){
            .id = changed[i], .data = text(data[u.add_count + i]), .timespec = pick(r, 3) * -20};
    }
    for (size_t i = 0; i < u.delete_count; i++)
        changed[u.update_count + i] = some_id(r);
    reasons = objections(r, changed, u.update_count + u.delete_count, u.clientid) +
              (u.depend_count && !find(&r->m, depends[0]));

    assert_int_equal(store_update(r->s, &u, r->now, &r->random, &r->t),
                     reasons ? DROVER_REFUSED : 0);
    assert_int_equal(r->t.reasons, reasons);
    if (reasons)
        return;
    assert_int_equal(r->t.task_count, u.add_count + u.update_count);
    for (size_t i = 0; i < r->t.task_count; i++)
        assert_int_equal(r->t.tasks[i].id, first + 1 + (int64_t)i);
    for (size_t i = 0; i < u.add_count; i++)
        r->m.tasks[r->m.count++] = (struct model_task){
            r->t.tasks[i].id, r->t.tasks[i].id, store_time(adds[i].timespec, r->now),
            u.clientid,       groups[i],        data[i]};
    for (size_t i = 0; i < u.update_count; i++)
        model_change(r, changed[i], &r->t.tasks[u.add_count + i], data[u.add_count + i]);
    for (size_t i = 0; i < u.delete_count; i++)
        drop(&r->m, u.deletes[i]);
}

static size_t available(struct run *r, int group)
{
    size_t count = 0;

    for (size_t i = 0; i < r->m.count; i++)
        count += r->m.tasks[i].group == group && r->m.tasks[i].timespec <= r->now;
    return count;
}

static void step_claim(struct run *r)
{
    int group = pick(r, GROUPS);
    int64_t ids[1] = {some_id(r)};
    struct task_claim c = {.clientid = pick(r, CLIENTS) + 1,
                           .duration_ms = pick(r, 3) * 20,
                           .groups = &NAMES[group],
                           .group_count = 1,
                           .deletes = ids,
                           .delete_count = pick(r, 4) == 0,
                           .limit = (size_t)pick(r, 3) + 1};
    size_t reasons = objections(r, ids, c.delete_count, c.clientid), expected;

    assert_int_equal(store_claim(r->s, &c, r->now, &r->random, &r->t),
                     reasons ? DROVER_REFUSED : 0);
    if (reasons)
        return;
    if (c.delete_count)
        drop(&r->m, ids[0]);
    expected = available(r, group);
    assert_int_equal(r->t.task_count, expected < c.limit ? expected : c.limit);
    for (size_t i = 0; i < r->t.task_count; i++) {
        const struct task_txn_change *change = &r->t.changes[c.delete_count + i];
        struct model_task *t = NULL;

        for (size_t j = 0; j < r->m.count; j++)
            if (r->m.tasks[j].slot == change->slot)
                t = &r->m.tasks[j];
        assert_non_null(t);
        assert_true(t->timespec <= r->now && t->group == group);
        assert_true(str_eq(r->t.tasks[i].data, text(t->data)));
        model_change(r, t->id, &r->t.tasks[i], t->data);
        assert_int_equal(t->timespec, r->now + c.duration_ms);
    }
}

static void same(struct run *r)
{
    CLEANUP(arena_release) struct arena scratch = {0};
    size_t total = 0;

    assert_int_equal(store_count(r->s), r->m.count);
    for (size_t i = 0; i < r->m.count; i++) {
        const struct model_task *t = &r->m.tasks[i];
        struct task got;

        assert_int_equal(store_get(r->s, t->id, &scratch, &got), 0);
        assert_int_equal(got.timespec, t->timespec);
        assert_int_equal(got.ownerid, t->ownerid);
        assert_true(str_eq(got.group, NAMES[t->group]) && str_eq(got.data, text(t->data)));
    }
    for (int g = 0; g < GROUPS; g++) {
        struct store_list list;
        struct arena a = {0};

        store_list(r->s, NAMES[g], pick(r, 2) - 1, 0, false, r->now, &a, &list);
        assert_int_equal(list.count, available(r, g));
        store_list(r->s, NAMES[g], pick(r, 2) - 1, 0, true, r->now, &a, &list);
        total += list.count;
        arena_release(&a);
    }
    assert_int_equal(total, r->m.count);
}

/* Too many make the run slow and the ids rarely meet. */
static void thin_out(struct run *r)
{
    while (r->m.count > 60) {
        int64_t id = r->m.tasks[0].id;
        struct task_update u = {
            .clientid = r->m.tasks[0].ownerid, .deletes = &id, .delete_count = 1};

        assert_int_equal(store_update(r->s, &u, r->now, &r->random, &r->t), 0);
        store_settle(r->s, &r->t);
        drop(&r->m, id);
    }
}

static void run(unsigned seed, bool fetched)
{
    struct run *r = calloc(1, sizeof *r);

    print_message("# seed %u\n", seed);
    r->seed = seed;
    r->now = 1000;
    r->s = fetched ? store_new(fetch, &r->m) : store_new(NULL, NULL);
    for (int i = 0; i < STEPS; i++) {
        bool undo = pick(r, 5) == 0;

        r->now += pick(r, 4) ? 0 : pick(r, 20);
        r->before = r->m;
        if (pick(r, 2))
            step_update(r);
        else
            step_claim(r);
        if (undo) {
            store_undo(r->s, &r->t);
            r->m = r->before;
        } else {
            store_settle(r->s, &r->t);
        }
        same(r);
        thin_out(r);
    }
    task_txn_release(&r->t);
    store_free(r->s);
    free(r);
}

static void test_model(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 6; seed++)
        run(seed, seed % 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_model)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
