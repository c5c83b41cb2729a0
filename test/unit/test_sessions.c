/*
 * The table of sessions over HTTP: on the store and inside a host, with a clock that the test
 * moves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "keeper/subsession.h"
#include "keeper_cutter.h"
#include "server/sessions.h"

struct scene {
    struct local *local;
    struct keeper *k; /* looks, and is the host */
    struct keeper *host;
    int borrowed;
    int64_t now_ms;
    int ended; /* sessions that requests waited with */
    struct session_table *t;
};

static int64_t scene_now(void *arg)
{
    return ((struct scene *)arg)->now_ms;
}

static struct keeper *scene_host(void *arg)
{
    struct scene *s = arg;

    s->borrowed += s->host != NULL;
    return s->host;
}

static void scene_unhost(void *arg, struct keeper *k)
{
    struct scene *s = arg;

    assert_non_null(k);
    s->borrowed--;
}

static void scene_ended(void *arg, struct str id)
{
    struct scene *s = arg;

    assert_int_equal(id.len, SESSION_ID_LEN);
    s->ended++;
}

static void table_open(struct scene *s, bool inside)
{
    struct sessions_options o = {
        .local = inside ? NULL : s->local,
        .host = scene_host,
        .unhost = scene_unhost,
        .ended = scene_ended,
        .arg = s,
        .now_ms = scene_now,
    };

    s->t = sessions_open(&o);
}

static void scene_open(struct scene *s, bool inside)
{
    struct local_options o = {.mode = LOCAL_NONE};

    *s = (struct scene){.now_ms = 1000};
    assert_int_equal(local_open(&o, &s->local, NULL), 0);
    assert_int_equal(local_connect(s->local, NULL, &s->k), 0);
    s->host = s->k;
    table_open(s, inside);
}

static void scene_close(struct scene *s)
{
    sessions_close(s->t);
    assert_int_equal(s->borrowed, 0);
    keeper_close(s->k);
    local_close(s->local);
}

static bool there(struct scene *s, const char *path)
{
    return keeper_exists(s->k, path, NULL) == 0;
}

static void hold(struct scene *s, const char *id, const char *path)
{
    struct keeper *k = sessions_use(s->t, str_of(id), NULL);

    assert_non_null(k);
    assert_int_equal(keeper_create(k, path, STR("x"), KEEPER_EPHEMERAL, NULL), 0);
    sessions_done(s->t, k);
}

static int use_err(struct scene *s, const char *id)
{
    int err = 0;
    struct keeper *k = sessions_use(s->t, str_of(id), &err);

    if (k)
        sessions_done(s->t, k);
    return k ? 0 : err;
}

static void ends_with_what_it_holds(void **state)
{
    for (int inside = 0; inside < 2; inside++) {
        struct session_info a, b;
        struct scene s;

        (void)state;
        scene_open(&s, inside);
        assert_int_equal(sessions_create(s.t, 2000, &a), 0);
        assert_int_equal(sessions_create(s.t, 0, &b), 0);
        assert_int_equal(a.timeout_ms, 2000);
        assert_int_equal(b.timeout_ms, KEEPER_TIMEOUT_DEFAULT_MS);
        assert_int_equal(strlen(a.id), SESSION_ID_LEN);
        assert_string_not_equal(a.id, b.id);
        hold(&s, a.id, "/a");
        hold(&s, b.id, "/b");
        assert_int_equal(sessions_end(s.t, str_of(a.id)), 0);
        assert_false(there(&s, "/a"));
        assert_true(there(&s, "/b"));
        assert_int_equal(use_err(&s, a.id), DROVER_SESSION_EXPIRED);
        assert_int_equal(sessions_end(s.t, str_of(a.id)), DROVER_SESSION_EXPIRED);
        assert_int_equal(use_err(&s, b.id), 0);
        assert_int_equal(sessions_end(s.t, str_of(b.id)), 0);
        scene_close(&s);
    }
}

static void silence_ends_it(void **state)
{
    for (int inside = 0; inside < 2; inside++) {
        struct session_info a, info;
        struct keeper *k;
        struct scene s;

        (void)state;
        scene_open(&s, inside);
        assert_int_equal(sessions_create(s.t, 2000, &a), 0);
        hold(&s, a.id, "/a");
        assert_int_equal(sessions_tick(s.t), 3000);
        s.now_ms = 2999;
        assert_int_equal(sessions_get(s.t, str_of(a.id), false, &info), 0);
        assert_int_equal(info.silent_ms, 1999);
        assert_int_equal(sessions_get(s.t, str_of(a.id), true, &info), 0);
        assert_int_equal(sessions_tick(s.t), 4999);
        k = sessions_use(s.t, str_of(a.id), NULL);
        s.now_ms = 9000; /* in use: not silent, however long */
        assert_int_equal(sessions_tick(s.t), 11000);
        assert_true(there(&s, "/a"));
        sessions_done(s.t, k);
        s.now_ms = 10999;
        sessions_tick(s.t);
        assert_true(there(&s, "/a"));
        s.now_ms = 11000;
        assert_true(sessions_tick(s.t) == INT64_MAX);
        assert_false(there(&s, "/a"));
        assert_int_equal(sessions_get(s.t, str_of(a.id), true, &info), DROVER_SESSION_EXPIRED);
        scene_close(&s);
    }
}

/* A request that waits keeps its session alive, but does not keep it from being ended. */
static void waiting_keeps_it_alive(void **state)
{
    (void)state;
    for (int inside = 0; inside < 2; inside++) {
        struct session_info info, other;
        struct scene s;

        scene_open(&s, inside);
        assert_int_equal(sessions_create(s.t, 2000, &info), 0);
        assert_int_equal(sessions_create(s.t, 2000, &other), 0);
        assert_true(sessions_wait(s.t, str_of(info.id)));
        assert_true(sessions_wait(s.t, str_of(info.id)));
        s.now_ms += 10000;
        sessions_tick(s.t);
        assert_int_equal(sessions_get(s.t, str_of(other.id), false, &other),
                         DROVER_SESSION_EXPIRED);
        assert_int_equal(s.ended, 0);
        assert_int_equal(sessions_get(s.t, str_of(info.id), false, &info), 0);
        assert_int_equal(info.silent_ms, 0);
        sessions_unwait(s.t, str_of(info.id));
        s.now_ms += 10000;
        sessions_tick(s.t);
        sessions_unwait(s.t, str_of(info.id));
        s.now_ms += 1999;
        sessions_tick(s.t);
        assert_int_equal(sessions_get(s.t, str_of(info.id), false, &info), 0);
        assert_true(sessions_wait(s.t, str_of(info.id)));
        assert_int_equal(sessions_end(s.t, str_of(info.id)), 0);
        assert_int_equal(s.ended, 1);
        assert_false(sessions_wait(s.t, str_of(info.id)));
        sessions_unwait(s.t, str_of(info.id));
        scene_close(&s);
    }
}

static void only_the_whole_id_will_do(void **state)
{
    struct session_info a;
    struct scene s;
    char id[SESSION_ID_LEN + 2];

    (void)state;
    scene_open(&s, false);
    assert_int_equal(sessions_create(s.t, 0, &a), 0);
    for (int i = 0; i < SESSION_ID_LEN; i++) {
        memcpy(id, a.id, sizeof a.id);
        id[i] = id[i] == '0' ? '1' : '0';
        assert_int_equal(use_err(&s, id), DROVER_SESSION_EXPIRED);
        id[i] = 'x';
        assert_int_equal(use_err(&s, id), DROVER_SESSION_EXPIRED);
    }
    memcpy(id, a.id, sizeof a.id);
    strcat(id, "0");
    assert_int_equal(use_err(&s, id), DROVER_SESSION_EXPIRED);
    id[SESSION_ID_LEN - 1] = '\0';
    assert_int_equal(use_err(&s, id), DROVER_SESSION_EXPIRED);
    assert_int_equal(use_err(&s, ""), DROVER_SESSION_EXPIRED);
    memset(id, '0', SESSION_ID_LEN);
    id[SESSION_ID_LEN] = '\0';
    assert_int_equal(use_err(&s, id), DROVER_SESSION_EXPIRED);
    assert_int_equal(use_err(&s, a.id), 0);
    scene_close(&s);
}

/* The table is freed, as when the process ends; the store's session stays open. */
static void found_again_after_a_restart(void **state)
{
    struct session_info a;
    struct scene s;

    (void)state;
    scene_open(&s, false);
    assert_int_equal(sessions_create(s.t, 5000, &a), 0);
    hold(&s, a.id, "/a");
    sessions_close(s.t);
    table_open(&s, false);
    assert_true(there(&s, "/a"));
    assert_int_equal(sessions_get(s.t, str_of(a.id), true, &a), 0);
    assert_int_equal(a.timeout_ms, 5000);
    s.now_ms += 5000;
    sessions_tick(s.t);
    assert_false(there(&s, "/a"));
    scene_close(&s);
}

static void no_host_no_session(void **state)
{
    struct session_info a;
    struct scene s;

    (void)state;
    scene_open(&s, true);
    s.host = NULL;
    assert_int_equal(sessions_create(s.t, 0, &a), DROVER_CLOSED);
    scene_close(&s);
}

static void goes_with_its_host(void **state)
{
    struct session_info a;
    struct keeper *k;
    struct scene s;

    (void)state;
    scene_open(&s, true);
    assert_int_equal(sessions_create(s.t, 0, &a), 0);
    k = sessions_use(s.t, str_of(a.id), NULL);
    sessions_evict(s.t);
    assert_int_equal(use_err(&s, a.id), DROVER_SESSION_EXPIRED);
    sessions_tick(s.t);
    assert_int_equal(s.borrowed, 1);
    sessions_done(s.t, k);
    sessions_tick(s.t);
    assert_int_equal(s.borrowed, 0);
    scene_close(&s);
}

/* An ensemble that is away when a session is to end: tried again until its nodes are gone. */
static void ends_when_it_can(void **state)
{
    struct session_info a;
    struct cutter c;
    struct scene s;

    (void)state;
    scene_open(&s, true);
    cutter_init(&c, s.k, 1, DROVER_UNKNOWN, false);
    c.once = true;
    s.host = &c.base;
    assert_int_equal(sessions_create(s.t, 0, &a), 0);
    hold(&s, a.id, "/a");
    assert_int_equal(sessions_end(s.t, str_of(a.id)), DROVER_UNKNOWN);
    assert_true(there(&s, "/a"));
    assert_int_equal(use_err(&s, a.id), DROVER_SESSION_EXPIRED);
    s.now_ms += 1000;
    sessions_tick(s.t);
    assert_false(there(&s, "/a"));
    scene_close(&s);
}

/* The subsession alone. */

static void subsession_takes_exactly_its_own(void **state)
{
    struct keeper *a, *b;
    struct scene s;

    (void)state;
    scene_open(&s, true);
    subsession_open(s.k, 1000, &a);
    subsession_open(s.k, 1000, &b);
    assert_int_equal(keeper_create(s.k, "/stays", STR(""), 0, NULL), 0);
    assert_int_equal(keeper_create(a, "/stays/plain", STR(""), 0, NULL), 0);
    assert_int_equal(keeper_create(a, "/stays/n-", STR(""), 3, NULL), 0);
    assert_int_equal(keeper_create(a, "/mine", STR(""), KEEPER_EPHEMERAL, NULL), 0);
    assert_int_equal(keeper_create(a, "/again", STR(""), KEEPER_EPHEMERAL, NULL), 0);
    assert_int_equal(keeper_create(a, "/lost", STR(""), KEEPER_EPHEMERAL, NULL), 0);
    assert_int_equal(keeper_create(b, "/other", STR(""), KEEPER_EPHEMERAL, NULL), 0);
    /* The node is another's by now, though at the same path and of the same host. */
    assert_int_equal(keeper_delete(b, "/lost", -1), 0);
    assert_int_equal(keeper_create(b, "/lost", STR(""), KEEPER_EPHEMERAL, NULL), 0);
    assert_int_equal(keeper_delete(a, "/again", -1), 0);
    assert_int_equal(keeper_create(a, "/again", STR(""), KEEPER_EPHEMERAL, NULL), 0);
    keeper_close(a);
    assert_false(there(&s, "/mine") || there(&s, "/again") || there(&s, "/stays/n-0000000001"));
    assert_true(there(&s, "/other") && there(&s, "/lost") && there(&s, "/stays/plain"));
    keeper_abandon(b);
    assert_true(there(&s, "/other"));
    scene_close(&s);
}

static void subsession_settles_what_is_unknown(void **state)
{
    for (int after = 0; after < 2; after++) {
        struct keeper *l;
        struct cutter c;
        struct scene s;

        (void)state;
        scene_open(&s, true);
        cutter_init(&c, s.k, 0, DROVER_UNKNOWN, after);
        c.once = true;
        subsession_open(&c.base, 1000, &l);
        assert_int_equal(keeper_create(l, "/n", STR("mine"), KEEPER_EPHEMERAL, NULL),
                         DROVER_UNKNOWN);
        assert_int_equal(there(&s, "/n"), after);
        if (!after)
            assert_int_equal(keeper_create(s.k, "/n", STR("foreign"), KEEPER_EPHEMERAL, NULL), 0);
        keeper_close(l);
        assert_int_equal(there(&s, "/n"), !after);
        scene_close(&s);
    }
}

/* The table's own thread. */
static void *user_main(void *arg)
{
    struct scene *s = arg;

    for (int i = 0; i < 50; i++) {
        struct session_info info;
        struct keeper *k;

        if (sessions_create(s->t, 1000, &info))
            return "create";
        k = sessions_use(s->t, str_of(info.id), NULL);
        if (!k || keeper_exists(k, "/", NULL))
            return "use";
        sessions_done(s->t, k);
        if (sessions_end(s->t, str_of(info.id)))
            return "end";
    }
    return NULL;
}

static void many_threads(void **state)
{
    struct sessions_options o = {0};
    pthread_t threads[4];
    struct scene s;
    void *wrong;

    (void)state;
    scene_open(&s, false);
    sessions_close(s.t);
    o.local = s.local;
    s.t = sessions_open(&o);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, user_main, &s);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_with_what_it_holds),
        cmocka_unit_test(silence_ends_it),
        cmocka_unit_test(waiting_keeps_it_alive),
        cmocka_unit_test(only_the_whole_id_will_do),
        cmocka_unit_test(found_again_after_a_restart),
        cmocka_unit_test(no_host_no_session),
        cmocka_unit_test(goes_with_its_host),
        cmocka_unit_test(ends_when_it_can),
        cmocka_unit_test(subsession_takes_exactly_its_own),
        cmocka_unit_test(subsession_settles_what_is_unknown),
        cmocka_unit_test(many_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
