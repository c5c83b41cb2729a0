/* The file of the audit log: moved away and opened again, and lines of several threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "http/metrics.h"
#include "server/audit.h"

enum { THREADS = 4, LINES = 200 };

struct scene {
    char dir[32], file[64], moved[64];
    uv_loop_t loop;
    struct metrics *metrics;
    struct audit *audit;
};

static int set_up(void **state)
{
    static struct scene s;
    struct err_info e;
    snprintf(s.dir, sizeof s.dir, "/tmp/drover-audit-XXXXXX");
    assert_non_null(mkdtemp(s.dir));
    snprintf(s.file, sizeof s.file, "%s/log", s.dir);
    snprintf(s.moved, sizeof s.moved, "%s/log.1", s.dir);
    uv_loop_init(&s.loop);
    s.metrics = metrics_new();
    assert_int_equal(audit_open(&s.loop, s.metrics, s.file, &s.audit, &e), 0);
    *state = &s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;
    audit_stop(s->audit);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&s->loop), 0);
    audit_free(s->audit);
    metrics_free(s->metrics);
    unlink(s->file);
    unlink(s->moved);
    return rmdir(s->dir);
}

/* Counts the lines with an action; each line has to be a JSON object. */
static int count(const char *path, const char *action)
{
    CLEANUP(arena_release) struct arena arena = {0};
    char line[4096];
    int found = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        const struct json *v = json_parse(&arena, str_of(line), NULL);
        assert_true(v && v->kind == JSON_OBJECT);
        found += str_eq(json_text_of(v, "action"), str_of(action));
    }
    fclose(f);
    return found;
}

static void note(struct scene *s, const char *action)
{
    struct audit_event e = {.who = "me \"x\"\n", .from = "here", .action = action, .outcome = 200};
    assert_int_equal(audit_note(s->audit, &e), 0);
}

static void a_file_that_was_moved_is_opened_again(void **state)
{
    struct scene *s = *state;
    struct err_info e;
    struct stat st;
    note(s, "one");
    assert_int_equal(rename(s->file, s->moved), 0);
    note(s, "two");
    assert_int_equal(audit_reopen(s->audit, &e), 0);
    note(s, "three");
    assert_int_equal(count(s->moved, "one"), 1);
    assert_int_equal(count(s->moved, "two"), 1);
    assert_int_equal(count(s->file, "reopen"), 1);
    assert_int_equal(count(s->file, "three"), 1);
    assert_int_equal(stat(s->file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void a_file_that_cannot_be_opened_again_leaves_the_old_one(void **state)
{
    struct scene *s = *state;
    struct err_info e;
    assert_int_equal(rename(s->file, s->moved), 0);
    assert_int_equal(mkdir(s->file, 0700), 0);
    assert_true(audit_reopen(s->audit, &e) < 0);
    assert_non_null(strstr(e.text, s->file));
    note(s, "still");
    assert_int_equal(count(s->moved, "still"), 1);
    assert_int_equal(rmdir(s->file), 0);
}

static void *write_lines(void *arg)
{
    for (int i = 0; i < LINES; i++)
        note(arg, "many");
    return NULL;
}

static void lines_of_threads_do_not_mix(void **state)
{
    struct scene *s = *state;
    struct err_info e;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, s), 0);
    for (int i = 0; i < 20; i++)
        assert_int_equal(audit_reopen(s->audit, &e), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(count(s->file, "many"), THREADS * LINES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_that_was_moved_is_opened_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_cannot_be_opened_again_leaves_the_old_one,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_of_threads_do_not_mix, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
