/*
 * Every operation on queues, by a process that dies at each of its keeper calls in turn: the tree
 * is as before the operation or as after it. On the embedded keeper in memory, or on the ZooKeeper
 * that DROVER_TEST_ZK names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "keeper_cutter.h"
#include "keeper_stand.h"
#include "queue/registration.h"

/* They sort before any random name, so a new queue is always the last. */
#define HELD "00000000000000000000000000000001"  /* owned by the session that dies */
#define FREE "00000000000000000000000000000002"  /* without owner */
#define OTHER "00000000000000000000000000000003" /* owned by another */

struct scene {
    struct stand stand;
    struct keeper *keepers[3];
    struct queue_registration dying, other;
    struct queues onlooker;
};

static void make_queue(struct scene *s, const char *name)
{
    char path[QUEUE_PATH_SIZE];

    queues_path(&s->onlooker, path, "queues/%s", name);
    assert_int_equal(keeper_create(s->keepers[2], path, STR("{\"last\": \"5\"}"), 0, NULL), 0);
}

static void scene_open(struct scene *s)
{
    *s = (struct scene){0};
    stand_open(&s->stand);
    for (int i = 0; i < 3; i++)
        s->keepers[i] = stand_connect(&s->stand);
    s->dying.queues = (struct queues){s->keepers[0], QUEUE_NAMESPACE};
    s->other.queues = (struct queues){s->keepers[1], QUEUE_NAMESPACE};
    s->onlooker = (struct queues){s->keepers[2], QUEUE_NAMESPACE};
    assert_int_equal(queue_registration_join(&s->dying), 0);
    assert_int_equal(queue_registration_join(&s->other), 0);
    make_queue(s, HELD);
    make_queue(s, FREE);
    make_queue(s, OTHER);
    assert_int_equal(queue_registration_take(&s->dying, HELD), 0);
    assert_int_equal(queue_registration_take(&s->other, OTHER), 0);
}

static void scene_close(struct scene *s)
{
    s->dying.queues.keeper = s->keepers[0];
    queue_registration_leave(&s->dying);
    queue_registration_leave(&s->other);
    for (int i = 0; i < 3; i++)
        keeper_close(s->keepers[i]);
    stand_close(&s->stand);
}

/*
 * Lines "path data", without the keeper's own nodes. A new queue's name is random: it is shown as
 * "new".
 */
static void dump_below(struct keeper *k, const char *path, struct buf *out, struct buf *news)
{
    static const char *const known[] = {HELD, FREE, OTHER};
    struct keeper_names names = {0};
    struct buf data = {0};

    if (path[1] && !keeper_get(k, path, &data, NULL)) {
        const char *name = strrchr(path, '/') + 1;
        bool is_new = queue_is_made_name(str_of(name));

        for (int i = 0; i < 3; i++)
            is_new = is_new && strcmp(name, known[i]) != 0;
        buf_printf(is_new ? news : out, "%s %s\n", is_new ? "new" : path, buf_text(&data));
    }
    buf_release(&data);
    if (keeper_children(k, path, &names, NULL))
        return;
    for (size_t i = 0; i < names.count; i++) {
        struct buf child = {0};

        buf_printf(&child, "%s/%s", path[1] ? path : "", names.names[i]);
        if (strcmp(names.names[i], "zookeeper") && strcmp(names.names[i], ".drover-tags"))
            dump_below(k, buf_text(&child), out, news);
        buf_release(&child);
    }
    keeper_names_release(&names);
}

/* The operations, all by the session that dies. */

typedef void step_fn(struct queue_registration *m);

static void do_nothing(struct queue_registration *m)
{
    (void)m;
}

static void do_init(struct queue_registration *m)
{
    struct queues elsewhere = {m->queues.keeper, "/else/where"};

    queues_init(&elsewhere);
}

static void do_create(struct queue_registration *m)
{
    char name[QUEUE_NAME_LEN + 1];

    queue_make_name(name);
    queue_create(&m->queues, name);
}

static void do_remove_free(struct queue_registration *m)
{
    queue_remove(&m->queues, FREE);
}

static void do_remove_owned(struct queue_registration *m)
{
    queue_remove(&m->queues, OTHER);
}

static void do_set_last(struct queue_registration *m)
{
    queue_set_last(&m->queues, FREE, 9, KEEPER_ANY_VERSION);
}

static void do_join(struct queue_registration *m)
{
    struct queue_registration another = {.queues = m->queues};

    queue_registration_join(&another); /* its node goes when the session ends */
}

static void do_take(struct queue_registration *m)
{
    queue_registration_take(m, FREE);
}

static void do_advance(struct queue_registration *m)
{
    queue_registration_advance(m, HELD, 6);
}

static void do_release(struct queue_registration *m)
{
    queue_registration_release(m, HELD);
}

/* The tree after the step, cut at its nth call. The caller frees it. */
static char *tree_after(step_fn *step, int n, bool dies_after, int *ret_calls, bool *ret_cut)
{
    struct buf out = {0}, news = {0};
    struct cutter c;
    struct scene s;
    char *text;

    scene_open(&s);
    cutter_init(&c, s.keepers[0], n, DROVER_SESSION_EXPIRED, dies_after);
    s.dying.queues.keeper = &c.base;
    step(&s.dying);
    *ret_calls = c.calls;
    *ret_cut = c.cut;
    dump_below(s.keepers[2], "/", &out, &news);
    buf_put_str(&out, str_of(buf_text(&news)));
    text = mem_dup(out.p, out.len);
    buf_release(&out);
    buf_release(&news);
    scene_close(&s);
    return text;
}

/* 0: as before; 1: as after. */
static int check_cut(step_fn *step, int n, bool dies_after, const char *before, const char *after)
{
    int calls;
    bool cut;
    char *got = tree_after(step, n, dies_after, &calls, &cut);
    bool is_before = !strcmp(got, before), is_after = !strcmp(got, after);

    assert_true(cut);
    if (!is_before && !is_after)
        fail_msg("call %d (%s):\n%s\nbefore:\n%s\nafter:\n%s", n, dies_after ? "done" : "not done",
                 got, before, after);
    free(got);
    return is_after;
}

static void crash_anywhere(void **state)
{
    step_fn *const step = (step_fn *)*state;
    int calls, as_after = 0;
    bool cut;
    char *before = tree_after(do_nothing, 0, false, &calls, &cut);
    char *after = tree_after(step, 1000000, false, &calls, &cut);

    assert_string_not_equal(before, after);
    assert_true(calls > 0);
    for (int n = 0; n < calls; n++) {
        as_after += check_cut(step, n, false, before, after);
        as_after += check_cut(step, n, true, before, after);
    }
    assert_true(as_after > 0);
    free(before);
    free(after);
}

int main(void)
{
#define CASE(step)                                                                                 \
    {                                                                                              \
        "crash_anywhere in " #step, crash_anywhere, NULL, NULL, (void *)step                       \
    }
    const struct CMUnitTest tests[] = {
        CASE(do_init),         CASE(do_create),   CASE(do_remove_free),
        CASE(do_remove_owned), CASE(do_set_last), CASE(do_join),
        CASE(do_take),         CASE(do_advance),  CASE(do_release),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
