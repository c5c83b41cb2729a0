/* The runner on processes of every kind, the nasty ones above all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "runner_scene.h"

/* Ends. */

static void the_ways_to_end_body(struct scene *s)
{
    static const struct {
        const char *text;
        enum run_how how;
        int status;
        const char *out, *err;
    } cases[] = {
        {"true", RUN_EXITED, 0, "", ""},
        {"exit 3", RUN_EXITED, 3, "", ""},
        {"kill -9 $$", RUN_SIGNALLED, 9, "", ""},
        {"echo a; echo b >&2", RUN_EXITED, 0, "a\n", "b\n"},
        {"exec >&- 2>&-; exit 4", RUN_EXITED, 4, "", ""},
        {"exec >&- 2>&-; sleep 0.05; exit 5", RUN_EXITED, 5, "", ""},
        {"cat", RUN_EXITED, 0, "", ""}, /* its input is empty */
        {"echo \"$A\"", RUN_EXITED, 0, "b c\n", ""},
        {"printf 'a\\xff\\xfe'", RUN_EXITED, 0, "a\xff\xfe", ""},
        {"test $$ = $(ps -o pgid= $$) && test $$ = $(ps -o sid= $$)", RUN_EXITED, 0, "", ""},
        {"exec ls /proc/self/fd", RUN_EXITED, 0, "0\n1\n2\n3\n", ""}, /* 3 is the directory */
        {"kill -PIPE $$", RUN_SIGNALLED, 13, "", ""}, /* we ignore it, our commands do not */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run_outcome o = shell(s, cases[i].text);

        if (o.end.how != cases[i].how || o.end.status != cases[i].status)
            fail_msg("%s: %d %d", cases[i].text, o.end.how, o.end.status);
        assert_string_equal(buf_text(&o.text[RUN_STDOUT]), cases[i].out);
        assert_string_equal(buf_text(&o.text[RUN_STDERR]), cases[i].err);
        assert_int_equal(o.text[RUN_MIXED].len, o.text[RUN_STDOUT].len + o.text[RUN_STDERR].len);
        outcome_release(&o);
    }
}

static void the_ways_to_end(void **state)
{
    struct scene s = {0};

    (void)state;
    signal(SIGPIPE, SIG_IGN);
    with_reach(&s, true, the_ways_to_end_body);
    with_reach(&s, false, the_ways_to_end_body);
}

static void what_cannot_start_says_why_body(struct scene *s)
{
    char plain[] = "/tmp/drover-plain-XXXXXX";
    int fd = mkstemp(plain), status = 0;
    const char *const missing[] = {"no-such-command-at-all", NULL}, *const no_path[] = {"/no/x",
                                                                                        NULL};
    const char *const not_executable[] = {plain, NULL}, *const fine[] = {"true", NULL};
    const char *const directory[] = {"/tmp", NULL}, *const empty[] = {"", NULL};
    const struct {
        const char *const *argv;
        const char *cwd;
        int status;
        const char *says;
    } cases[] = {
        {missing, NULL, 127, "No such file"},
        {no_path, NULL, 127, "No such file"},
        {not_executable, NULL, 126, "Permission denied"},
        {directory, NULL, 126, "Permission denied"},
        {empty, NULL, 127, "No such file"},
        {fine, "/no/such/dir", 127, "there is no directory /no/such/dir"},
    };

    close(fd);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run_spec spec = {.argv = cases[i].argv,
                                .envp = run_environment,
                                .cwd = cases[i].cwd,
                                .token = run_token};
        struct err_info e = {{0}};

        assert_null(runner_start(s->runner, &spec, NULL, NULL, NULL, &status, &e));
        assert_int_equal(status, cases[i].status);
        if (!strstr(e.text, cases[i].says))
            fail_msg("%s", e.text);
    }
    unlink(plain);
}

static void what_cannot_start_says_why(void **state)
{
    struct scene s = {0};

    (void)state;
    with_runner(&s, what_cannot_start_says_why_body);
}

/* A pipe that is held open after the end delays it a little, no more. */
static void a_pipe_held_open_body(struct scene *s)
{
    struct run_outcome o = shell(s, "echo out; sleep 300 & echo $!");

    assert_int_equal(o.end.how, RUN_EXITED);
    assert_int_equal(o.end.status, 0);
    assert_in_range(o.took_ms, RUN_LINGER_MS, 60000);
    assert_memory_equal(o.text[RUN_STDOUT].p, "out\n", 4);
    kill(atoi(buf_text(&o.text[RUN_STDOUT]) + 4), SIGKILL);
    outcome_release(&o);
}

static void a_pipe_held_open(void **state)
{
    struct scene s = {0};

    (void)state;
    with_runner(&s, a_pipe_held_open_body);
}

/* Each prints "ready" when it is what its name says; then it is killed, and nothing is left. */
static void kill_reaches_everything_body(struct scene *s)
{
    static const struct {
        const char *text;
        bool stubborn;
    } cases[] = {
        {"echo ready; exec sleep 300", false},
        {"sleep 300 & sleep 300 & echo ready; wait", false},
        {"(setsid sleep 300 &); echo ready; sleep 300", false},
        {"(setsid bash -c '(sleep 300 &)' &) ; echo ready; sleep 300", false},
        {"trap '' TERM; echo ready; while :; do sleep 1; done", true},
        {"(trap '' TERM; setsid bash -c 'trap \"\" TERM; echo ready; sleep 300; sleep 300' &); "
         "sleep "
         "60",
         true},
        {"exec >&- 2>&-; sleep 300", false},
        {"trap 'exit 0' TERM; echo ready; sleep 300 & wait", false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run_outcome o = {0};
        struct run *r = start(s, (struct run_spec){.argv = SHELL(cases[i].text)}, &o);
        int64_t from = clock_boot_ms();

        while (!o.output->total.of[RUN_STDOUT] && !strstr(cases[i].text, ">&-"))
            uv_run(&s->loop, UV_RUN_ONCE);
        run_kill(r, cases[i].stubborn ? 100 : 60000);
        run_until(s, &o.over);
        assert_int_equal(o.end.how, RUN_KILLED);
        if (orphans_signal(&(struct orphans){.token = run_token}, 0))
            fail_msg("something is left of: %s", cases[i].text);
        if (clock_boot_ms() - from > 50000)
            fail_msg("took long: %s", cases[i].text);
        outcome_release(&o);
    }
}

static void kill_reaches_everything(void **state)
{
    struct scene s = {0};

    (void)state;
    with_reach(&s, true, kill_reaches_everything_body);
    with_reach(&s, false, kill_reaches_everything_body);
}

/* Ended, and perhaps not waited for: it is our child now. */
static bool has_ended(pid_t pid)
{
    return waitpid(pid, NULL, WNOHANG) == pid || kill(pid, 0);
}

static pid_t printed_pid(const struct output *o)
{
    struct buf texts[RUN_STREAMS] = {{0}};
    output_put_texts(o, true, texts);
    pid_t pid = atoi(buf_text(&texts[RUN_STDOUT]));
    for (int i = 0; i < RUN_STREAMS; i++)
        buf_release(&texts[i]);
    return pid;
}

/* It has left the session and has nothing in its environment: only the cgroup tells whose it is. */
static void a_cgroup_tells_body(struct scene *s)
{
    struct run_outcome o = {0}, beside = {0}, left = {0};
    pid_t pid, other;
    struct run *r, *q;

    if (!s->runner->cgroups) {
        print_message("no cgroups that we may make on this machine\n");
        return;
    }
    q = start(s, (struct run_spec){.argv = SHELL("env -i setsid sleep 300 & echo $!; wait")},
              &beside);
    r = start(s,
              (struct run_spec){.argv = SHELL("env -i setsid bash -c 'trap \"\" TERM; echo $$; "
                                              "while :; do read -t 1 < <(:); done' & wait")},
              &o);
    while (!o.output->total.of[RUN_STDOUT] || !beside.output->total.of[RUN_STDOUT])
        uv_run(&s->loop, UV_RUN_ONCE);
    pid = printed_pid(o.output);
    other = printed_pid(beside.output);
    run_kill(r, 100);
    run_until(s, &o.over);
    assert_true(has_ended(pid));
    assert_false(has_ended(other)); /* another run's */
    assert_int_equal(count_cgroups(), 1);
    run_kill(q, 100);
    run_until(s, &beside.over);
    assert_true(has_ended(other));
    start(s, (struct run_spec){.argv = SHELL("sleep 300 >&- 2>&- & echo $!")}, &left);
    run_until(
        s, &left.over); /* what it leaves when it ends by itself lives on, and is not in the way */
    other = atoi(buf_text(&left.text[RUN_STDOUT]));
    outcome_release(&o);
    o = shell(s, "cat /proc/self/cgroup");
    assert_int_equal(kill(other, SIGKILL), 0);
    assert_int_equal(count_cgroups(), 2);
    while (!has_ended(other))
        ;
    outcome_release(&o);
    outcome_release(&beside);
    outcome_release(&left);
}

static void a_cgroup_tells(void **state)
{
    struct scene s = {0};

    (void)state;
    with_reach(&s, true, a_cgroup_tells_body);
    assert_int_equal(count_cgroups(), 0);
}

static void time_runs_out_body(struct scene *s)
{
    struct run_outcome o = {0};

    start(s, (struct run_spec){.argv = SHELL("sleep 300"), .timeout_ms = 50}, &o);
    run_until(s, &o.over);
    assert_int_equal(o.end.how, RUN_TIMED_OUT);
    outcome_release(&o);
}

static void time_runs_out(void **state)
{
    struct scene s = {0};

    (void)state;
    with_runner(&s, time_runs_out_body);
}

/* 64 MiB with a limit of 64 KiB: memory does not grow, and a neighbour is not held up. */
static void too_much_output_body(struct scene *s)
{
    struct run_outcome much = {.limit = 64 * 1024}, neighbour = {0};
    struct buf *text = &much.text[RUN_STDOUT];
    char log[] = "/tmp/drover-log-XXXXXX";
    struct stat st;

    close(mkstemp(log));
    start(s,
          (struct run_spec){.argv = SHELL("head -c 67108864 /dev/zero | tr '\\0' x"),
                            .log_path = log},
          &much);
    start(s, (struct run_spec){.argv = SHELL("echo beside")}, &neighbour);
    run_until(s, &neighbour.over);
    assert_false(much.over);
    run_until(s, &much.over);
    assert_int_equal(much.total, 67108864);
    assert_in_range(text->len, 48 * 1024, 1024 * 1024);
    const char *mark = strstr(buf_text(text), "\n[drover: ");
    assert_non_null(mark);
    size_t head = (size_t)(mark - text->p), missing = strtoul(mark + 10, NULL, 10);
    const char *end = strchr(mark + 1, '\n') + 1;
    assert_in_range(head, 16 * 1024, 32 * 1024);
    assert_int_equal(head + missing + (size_t)(text->p + text->len - end), 67108864);
    assert_int_equal(stat(log, &st), 0);
    assert_int_equal(st.st_size, 67108864);
    unlink(log);
    outcome_release(&much);
    outcome_release(&neighbour);
}

static void too_much_output(void **state)
{
    struct scene s = {0};

    (void)state;
    with_runner(&s, too_much_output_body);
}

static void a_cut_leaves_characters_whole(void **state)
{
    (void)state;
    assert_int_equal(output_whole("abc", 3), 3);
    assert_int_equal(output_whole("a\xc3\xa4", 3), 3);
    assert_int_equal(output_whole("a\xc3\xa4", 2), 1);
    assert_int_equal(output_whole("a\xe2\x82\xac", 3), 1);
    assert_int_equal(output_whole("a\xe2\x82\xac", 4), 4);
    assert_int_equal(output_whole("\xf0\x9f\x98\x80", 3), 0);
    assert_int_equal(output_whole("\xf0\x9f\x98\x80", 4), 4);
    assert_int_equal(output_whole("\x80\x80\x80\x80\x80", 5), 5);
    assert_int_equal(output_whole("", 0), 0);
}

/* As the filter of some containers does. For the rest of this process: the last test. */
static void refuse_clone3(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};

    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void where_clone3_is_refused(void **state)
{
    struct scene s = {0};

    (void)state;
    refuse_clone3();
    with_runner(&s, the_ways_to_end_body);
    with_runner(&s, what_cannot_start_says_why_body);
    with_runner(&s, kill_reaches_everything_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ways_to_end),         cmocka_unit_test(what_cannot_start_says_why),
        cmocka_unit_test(a_pipe_held_open),        cmocka_unit_test(kill_reaches_everything),
        cmocka_unit_test(a_cgroup_tells),          cmocka_unit_test(time_runs_out),

        cmocka_unit_test(too_much_output),         cmocka_unit_test(a_cut_leaves_characters_whole),
        cmocka_unit_test(where_clone3_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
