/* The command of a worker: its input, its environment, its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"

#define SHELL(script) ((char *const[]){"sh", "-c", script, NULL})

static int run(const struct child_options *o)
{
    struct err_info e;
    int status = -1;

    assert_int_equal(child_run(o, &status, &e), 0);
    return status;
}

static void the_status_is_that_of_the_command(void **state)
{
    (void)state;
    assert_int_equal(run(&(struct child_options){.argv = SHELL("exit 0")}), 0);
    assert_int_equal(run(&(struct child_options){.argv = SHELL("exit 7")}), 7);
    assert_int_equal(run(&(struct child_options){.argv = SHELL("kill -9 $$")}), 128 + SIGKILL);
}

static void a_command_that_cannot_start(void **state)
{
    char *const none[] = {"/nowhere/to/be/found", NULL}, *const directory[] = {"/tmp", NULL};
    struct err_info e;
    int status = -1;

    (void)state;
    assert_int_equal(child_run(&(struct child_options){.argv = none}, &status, &e), 0);
    assert_int_equal(status, 127);
    assert_string_equal(e.text, "cannot start '/nowhere/to/be/found': No such file or directory");
    assert_int_equal(child_run(&(struct child_options){.argv = directory}, &status, &e), 0);
    assert_int_equal(status, 126);
}

static void the_input_is_whole(void **state)
{
    size_t len = 1 << 20;
    char *data = malloc(len);
    struct child_options o = {.argv = SHELL("test $(wc -c) = 1048576"), .input = {data, len}};

    (void)state;
    memset(data, 'x', len);
    assert_int_equal(run(&o), 0);
    o.argv = SHELL("exit 3"); /* does not read it */
    assert_int_equal(run(&o), 3);
    o.argv = SHELL("test \"$(cat)\" = 'a b'");
    o.input = STR("a b");
    assert_int_equal(run(&o), 0);
    free(data);
}

static void variables_take_the_place_of_ours(void **state)
{
    const char *const variables[] = {"TRY_ONE=new", "TRY_TWO=a b", NULL};
    struct child_options o = {
        .argv = SHELL("test \"$TRY_ONE:$TRY_TWO:$TRY_ON\" = 'new:a b:kept' && "
                      "test $(env | grep -c ^TRY_ONE=) = 1"),
        .variables = variables,
    };

    (void)state;
    setenv("TRY_ONE", "old", 1);
    setenv("TRY_ON", "kept", 1);
    assert_int_equal(run(&o), 0);
}

static bool count_down(void *arg)
{
    return --*(int *)arg > 0;
}

static void a_tick_ends_the_command(void **state)
{
    int ticks = 3;
    struct child_options o = {
        .argv = SHELL("sleep 100 & wait"), .tick_ms = 5, .tick = count_down, .arg = &ticks};

    (void)state;
    assert_int_equal(run(&o), 128 + SIGTERM);
    assert_true(ticks <= 0);
}

/* A command that has set its trap touches this file. */
static void ready_open(char path[64])
{
    snprintf(path, 64, "/tmp/drover-child-%d", (int)getpid());
    unlink(path);
    setenv("READY", path, 1);
}

static bool until_ready(void *path)
{
    return access(path, F_OK) != 0;
}

static void a_stubborn_command_is_killed(void **state)
{
    char path[64];
    struct child_options o = {.argv =
                                  SHELL("trap '' TERM; : > $READY; while :; do sleep 100; done"),
                              .tick_ms = 5,
                              .tick = until_ready,
                              .arg = path,
                              .grace_ms = 20};

    (void)state;
    ready_open(path);
    assert_int_equal(run(&o), 128 + SIGKILL);
    unlink(path);
}

/* The last one: from here on a signal has come. */
static bool raise_term(void *path)
{
    if (!until_ready(path) && !child_signal()) {
        raise(SIGTERM);
        raise(SIGTERM); /* as timeout(1) does; it is one and the same */
    }
    return true;
}

static void signals_are_handed_on(void **state)
{
    char path[64];
    struct child_options o = {.argv = SHELL("trap 'exit 42' TERM; : > $READY; sleep 100 & wait"),
                              .tick_ms = 5,
                              .tick = raise_term,
                              .arg = path};

    (void)state;
    ready_open(path);
    child_catch_signals();
    assert_int_equal(child_signal(), 0);
    assert_int_equal(run(&o), 42);
    assert_int_equal(child_signal(), SIGTERM);
    unlink(path);
    child_pause(60 * 1000); /* does not wait any more */
}

struct heard {
    char text[3][64];
    size_t total[3];
};

static void hear(void *arg, int fd, struct str bytes)
{
    struct heard *h = arg;
    for (size_t i = 0; i < bytes.len; i++, h->total[fd]++)
        if (h->total[fd] < sizeof h->text[fd] - 1)
            h->text[fd][h->total[fd]] = bytes.p[i];
}

static void what_it_writes_is_heard(void **state)
{
    struct heard h = {0};
    struct child_options o = {.argv = SHELL("echo out; echo err >&2; printf end; exit 4"),
                              .outputs = 1 << 1 | 1 << 2,
                              .output = hear,
                              .output_arg = &h};
    (void)state;
    assert_int_equal(run(&o), 4);
    assert_string_equal(h.text[1], "out\nend");
    assert_string_equal(h.text[2], "err\n");
    h = (struct heard){0};
    o.outputs = 1 << 2;
    o.argv = SHELL("head -c 1000000 /dev/zero >&2"); /* more than a pipe holds */
    assert_int_equal(run(&o), 0);
    assert_int_equal(h.total[2], 1000000);
    o.argv = (char *const[]){"/nowhere", NULL};
    assert_int_equal(run(&o), 127);
}

/* A process that it leaves behind holds the pipe open, and writes to it for ever. */
static void what_it_leaves_behind_holds_nobody_up(void **state)
{
    struct heard h = {0};
    struct child_options o = {.argv =
                                  SHELL("(trap '' PIPE; yes 2> /dev/null & echo $! >&2); exit 5"),
                              .outputs = 1 << 1 | 1 << 2,
                              .output = hear,
                              .output_arg = &h};
    (void)state;
    assert_int_equal(run(&o), 5);
    pid_t pid = (pid_t)strtol(h.text[2], NULL, 10);
    assert_true(pid > 1);
    kill(pid, SIGKILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_status_is_that_of_the_command),
        cmocka_unit_test(a_command_that_cannot_start),
        cmocka_unit_test(the_input_is_whole),
        cmocka_unit_test(variables_take_the_place_of_ours),
        cmocka_unit_test(a_tick_ends_the_command),
        cmocka_unit_test(a_stubborn_command_is_killed),
        cmocka_unit_test(what_it_writes_is_heard),
        cmocka_unit_test(what_it_leaves_behind_holds_nobody_up),
        cmocka_unit_test(signals_are_handed_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
