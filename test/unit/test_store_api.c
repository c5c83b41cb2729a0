/*
 * The task store in process, against the shared library: in a directory, or on the ensemble that
 * DROVER_TEST_ZK names. The last id over restarts and crashes, text that is not UTF-8, who may open
 * the store; and the id of clients.
 */
#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <zookeeper/zookeeper.h>

#include "drover.h"

enum { OPEN_S = 60 };

static char place[300]; /* a directory or zk://... */
static struct drover_keeper_options session = {.timeout_ms = 30000};
static struct drover_error e;

static bool on_ensemble(void)
{
    return getenv("DROVER_TEST_ZK");
}

static int set_up(void **state)
{
    static int count;
    (void)state;
    if (on_ensemble()) {
        snprintf(place, sizeof place, "%s/store/%d/%d", getenv("DROVER_TEST_ZK"), (int)getpid(),
                 count++);
        return 0;
    }
    strcpy(place, "/tmp/drover-store-XXXXXX");
    return mkdtemp(place) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static int tear_down(void **state)
{
    (void)state;
    return on_ensemble() ? 0 : nftw(place, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int open_once(enum drover_mode mode, struct drover_store **ret_store)
{
    struct drover_store_options o = {.mode = mode, .dir = place, .keeper = &session};
    return drover_store_open(&o, ret_store, &e);
}

/* After a crash the session of the other process has to end first. */
static struct drover_store *open_store(enum drover_mode mode)
{
    struct drover_store *s = NULL;
    time_t end = time(NULL) + OPEN_S;
    int err;
    while ((err = open_once(mode, &s)) == DROVER_IN_USE && on_ensemble() && time(NULL) < end)
        usleep(20 * 1000);
    if (err)
        fail_msg("%s", e.text);
    return s;
}

/* Changes, each of which returns the last id that it gave, 0 if none. */

static int64_t update(struct drover_store *s, const struct drover_update *u)
{
    struct drover_result r;
    struct drover_update mine = *u;
    int64_t id;
    mine.clientid = 1;
    assert_int_equal(drover_store_update(s, &mine, &r, &e), 0);
    id = r.task_count ? r.tasks[r.task_count - 1].id : 0;
    drover_result_release(&r);
    return id;
}

static int64_t add(struct drover_store *s, size_t count)
{
    static const struct drover_task tasks[3] = {{.group = "g"}, {.group = "h"}, {.group = "g"}};
    return update(s, &(struct drover_update){.adds = tasks, .add_count = count});
}

static int64_t delete_one(struct drover_store *s, int64_t id)
{
    return update(s, &(struct drover_update){.deletes = &id, .delete_count = 1});
}

static int64_t claim(struct drover_store *s, const char *group, const int64_t *delete)
{
    struct drover_claim c = {.clientid = 1,
                             .groups = &group,
                             .group_count = 1,
                             .duration_ms = 60000,
                             .deletes = delete,
                             .delete_count = delete != NULL};
    struct drover_result r;
    int64_t id;
    assert_true(drover_store_claim(s, &c, &r, &e) >= 0);
    id = r.task_count ? r.tasks[0].id : 0;
    drover_result_release(&r);
    return id;
}

static int64_t change(struct drover_store *s, int64_t id)
{
    struct drover_task t = {.id = id, .data = "new"};
    return update(s, &(struct drover_update){.updates = &t, .update_count = 1});
}

/* Number `step` of the changes; the last id given after it. */
static int64_t take_step(struct drover_store *s, int step, int64_t last)
{
    int64_t given = 0, id;
    switch (step) {
    case 0: /* a store that never had a task */
        break;
    case 1:
        given = add(s, 3);
        break;
    case 2: /* the last task, and the one before it, which is the last then */
        delete_one(s, last);
        delete_one(s, last - 1);
        break;
    case 3:
        given = claim(s, "g", NULL);
        break;
    case 4: /* a claim that only deletes */
        assert_int_equal(claim(s, "none", &last), 0);
        break;
    case 5: /* a claim that deletes the last and gives another */
        id = add(s, 3);
        given = claim(s, "g", &id);
        break;
    case 6:
        given = change(s, last);
        break;
    case 7: /* all of them at once, and one more */
        id = add(s, 1);
        update(s, &(struct drover_update){.deletes = (int64_t[]){id, last}, .delete_count = 2});
        given = id;
        break;
    case 8: /* ids that are used up by a transaction that deletes the last */
        id = last;
        given = add(s, 2);
        delete_one(s, given);
        break;
    default:
        given = add(s, 1);
    }
    return given ? given : last;
}

enum { STEPS = 10 };

static void the_last_id_survives_a_restart(void **state)
{
    (void)state;
    for (int mode = DROVER_STRICT; mode <= DROVER_OPPORTUNISTIC; mode++) {
        struct drover_store *s = open_store((enum drover_mode)mode);
        int64_t last = drover_store_latest_id(s);
        for (int step = 0; step < STEPS; step++) {
            int64_t now = take_step(s, step, last);
            assert_true(now >= last);
            last = now;
            assert_int_equal(drover_store_latest_id(s), last);
            if (step == 5)
                drover_store_snapshot(s);
            drover_store_close(s);
            s = open_store((enum drover_mode)mode);
            assert_int_equal(drover_store_latest_id(s), last);
        }
        drover_store_close(s);
    }
}

/* The process ends without closing the store, after the last answer. */
static int64_t crash_after(enum drover_mode mode, int step, int64_t last)
{
    int pipe_of[2], status;
    int64_t now = -1;
    assert_int_equal(pipe(pipe_of), 0);
    pid_t child = fork();
    if (!child) {
        session.timeout_ms = 2000; /* the next process waits for its end */
        struct drover_store *s = open_store(mode);
        now = drover_store_latest_id(s) == last ? take_step(s, step, last) : -2;
        if (mode == DROVER_OPPORTUNISTIC)
            drover_store_snapshot(s);
        _exit(write(pipe_of[1], &now, sizeof now) != sizeof now);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(pipe_of[0], &now, sizeof now), sizeof now);
    close(pipe_of[0]);
    close(pipe_of[1]);
    return now;
}

static void the_last_id_survives_a_crash(void **state)
{
    (void)state;
    int modes = on_ensemble() ? 1 : 2, steps = on_ensemble() ? 3 : STEPS; /* each a timeout */
    int64_t last = 0;
    for (int mode = DROVER_STRICT; mode < modes; mode++) {
        for (int step = 0; step < steps; step++) {
            int64_t now = crash_after((enum drover_mode)mode, step, last);
            assert_true(now >= last);
            last = now;
        }
        struct drover_store *s = open_store((enum drover_mode)mode);
        assert_int_equal(drover_store_latest_id(s), last);
        assert_true(add(s, 1) > last);
        last = drover_store_latest_id(s);
        drover_store_close(s);
    }
}

/* Text. */

static void refuses(struct drover_store *s, struct drover_task t, bool is_add)
{
    struct drover_update u = {.clientid = 1};
    struct drover_result r;
    if (is_add)
        u.adds = &t, u.add_count = 1;
    else
        u.updates = &t, u.update_count = 1;
    assert_int_equal(drover_store_update(s, &u, &r, &e), DROVER_BAD_ARGUMENT);
    assert_non_null(strstr(e.text, "not UTF-8"));
}

static void bytes_that_are_not_utf8_are_refused(void **state)
{
    static const char *const wrong[] = {"\xff", "a\xc3", "\xed\xa0\x80\xed\xb0\x80", "\xc0\x80",
                                        "\xf4\x90\x80\x80"};
    struct drover_store *s = open_store(DROVER_STRICT);
    int64_t id = add(s, 1), last = drover_store_latest_id(s);
    struct drover_result r;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct drover_claim c = {.groups = &wrong[i], .group_count = 1, .duration_ms = 1};
        refuses(s, (struct drover_task){.group = "g", .data = wrong[i]}, true);
        refuses(s, (struct drover_task){.group = wrong[i], .data = ""}, true);
        refuses(s, (struct drover_task){.id = id, .data = wrong[i]}, false);
        assert_int_equal(drover_store_claim(s, &c, &r, &e), DROVER_BAD_ARGUMENT);
        assert_int_equal(drover_store_list(s, wrong[i], 0, 1, &r), DROVER_BAD_ARGUMENT);
    }
    assert_int_equal(drover_store_latest_id(s), last);
    assert_int_equal(drover_store_count(s), 1);
    drover_store_close(s);
}

static void other_bytes_come_back(void **state)
{
    static const char text[] = "a\0b \x7f \xc3\xa4 \xf0\x9f\x90\x91 \xed\xa0\x80 \xef\xbf\xbf";
    struct drover_task t = {.group = "\xc3\xa4", .data = text, .data_len = sizeof text - 1};
    struct drover_store *s = open_store(DROVER_STRICT);
    int64_t id = update(s, &(struct drover_update){.adds = &t, .add_count = 1});
    struct drover_result r;
    (void)state;
    drover_store_close(s);
    s = open_store(DROVER_STRICT);
    assert_int_equal(drover_store_get(s, id, &r), 1);
    assert_int_equal(r.tasks[0].data_len, sizeof text - 1);
    assert_memory_equal(r.tasks[0].data, text, sizeof text - 1);
    assert_string_equal(r.tasks[0].group, "\xc3\xa4");
    drover_result_release(&r);
    drover_store_close(s);
}

/* Opening. */

static void one_process_at_a_time(void **state)
{
    struct drover_store *s = open_store(DROVER_STRICT), *second;
    (void)state;
    assert_int_equal(open_once(DROVER_STRICT, &second), DROVER_IN_USE);
    assert_non_null(strstr(e.text, place));
    assert_int_equal(drover_store_snapshot(s), 0);
    assert_int_equal(drover_store_snapshotting(s), 0);
    drover_store_close(s);
    assert_int_equal(open_once(DROVER_STRICT, &second), 0);
    drover_store_close(second);
}

/* Losing the ensemble. */

static void *claim_in_a_minute(void *arg)
{
    const char *group = "g";
    struct drover_claim c = {
        .clientid = 1, .groups = &group, .group_count = 1, .duration_ms = 1, .wait_ms = 60 * 1000};
    struct drover_result r;
    return (void *)(intptr_t)drover_store_claim(arg, &c, &r, NULL);
}

/* Another candidate joins, and the first one, which is the store, loses its node. */
static void push_in(zhandle_t *z)
{
    struct String_vector names;
    char path[100];
    assert_int_equal(zoo_create(z, "/drover/leader/server-", "", 0, &ZOO_OPEN_ACL_UNSAFE,
                                ZOO_EPHEMERAL | ZOO_SEQUENCE, NULL, 0),
                     ZOK);
    assert_int_equal(zoo_get_children(z, "/drover/leader", 0, &names), ZOK);
    assert_int_equal(names.count, 2);
    int first = strcmp(names.data[0], names.data[1]) > 0;
    snprintf(path, sizeof path, "/drover/leader/%s", names.data[first]);
    assert_int_equal(zoo_delete(z, path, -1), ZOK);
    deallocate_String_vector(&names);
}

/* Those who wait are told, also without a change that fails, and nothing old is read. */
static void another_leader_is_noticed(void **state)
{
    pthread_t claimer;
    void *claimed;
    (void)state;
    if (!on_ensemble())
        return;
    struct drover_store *s = open_store(DROVER_STRICT);
    zhandle_t *z = zookeeper_init(place + strlen("zk://"), NULL, 10 * 1000, NULL, NULL, 0);
    assert_int_equal(pthread_create(&claimer, NULL, claim_in_a_minute, s), 0);
    time_t end = time(NULL) + OPEN_S / 2;
    push_in(z);
    assert_int_equal(pthread_join(claimer, &claimed), 0);
    assert_int_equal((intptr_t)claimed, DROVER_NOT_LEADER);
    assert_true(time(NULL) < end);
    assert_int_equal(drover_store_count(s), DROVER_NOT_LEADER);
    zookeeper_close(z);
    int64_t count;
    while ((count = drover_store_count(s)) == DROVER_NOT_LEADER && time(NULL) < end)
        usleep(20 * 1000);
    assert_int_equal(count, 0);
    drover_store_close(s);
}

static void a_keeper_that_is_none(void **state)
{
    static const char *const names[] = {"zk://", "zk://host:1/a/../b"};
    struct drover_store *s;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct drover_store_options o = {.dir = names[i]};
        assert_int_equal(drover_store_open(&o, &s, &e), DROVER_BAD_ARGUMENT);
    }
}

/* Clients. */

static int64_t id_of_client(int64_t given)
{
    struct drover_client_options o = {.clientid = given};
    struct drover_client *c;
    assert_int_equal(drover_client_open(&o, &c, &e), 0);
    int64_t id = drover_client_id(c);
    drover_client_close(c);
    return id;
}

static void the_clients_of_a_process_share_an_id(void **state)
{
    int64_t mine = id_of_client(0), other = 0;
    int pipe_of[2];
    (void)state;
    assert_true(mine > 0 && mine < INT64_C(1) << 53);
    assert_int_equal(id_of_client(0), mine);
    assert_int_equal(id_of_client(7), 7);
    assert_int_equal(id_of_client(0), mine);
    assert_int_equal(pipe(pipe_of), 0);
    pid_t child = fork();
    if (!child) {
        other = id_of_client(0);
        _exit(write(pipe_of[1], &other, sizeof other) != sizeof other);
    }
    assert_int_equal(read(pipe_of[0], &other, sizeof other), sizeof other);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(other > 0 && other != mine);
    close(pipe_of[0]);
    close(pipe_of[1]);
}

int main(void)
{
#define AT_PLACE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        AT_PLACE(the_last_id_survives_a_restart),
        AT_PLACE(the_last_id_survives_a_crash),
        AT_PLACE(bytes_that_are_not_utf8_are_refused),
        AT_PLACE(other_bytes_come_back),
        AT_PLACE(one_process_at_a_time),
        AT_PLACE(another_leader_is_noticed),
        cmocka_unit_test(a_keeper_that_is_none),
        cmocka_unit_test(the_clients_of_a_process_share_an_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
