/* Starting processes: as another user, with what this user has and no more. Needs root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/process.h"

#define USER "nobody"

static const char *const ENVIRONMENT[] = {"PATH=/usr/bin:/bin", NULL};

static struct account *nobody;

static int find_nobody(void **state)
{
    struct err_info e;
    (void)state;
    if (geteuid() == 0 && account_may_switch() && account_find(USER, &nobody, &e))
        fail_msg("%s", e.text);
    return 0;
}

static int forget_nobody(void **state)
{
    (void)state;
    account_free(nobody);
    return 0;
}

static void need_root(void)
{
    if (nobody)
        return;
    print_message("only root can start processes as another user\n");
    skip();
}

struct outcome {
    int error, status;
    enum process_step step;
    char text[8192];
};

/* Runs a process to its end, with what it prints. */
static struct outcome run(struct process_options o)
{
    int out = memfd_create("out", MFD_CLOEXEC), null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct outcome r = {0};
    pid_t pid;
    int pidfd;

    o.envp = ENVIRONMENT;
    o.fds[0] = null;
    o.fds[1] = o.fds[2] = out;
    o.cgroup = -1;
    r.error = process_start(&o, &pid, &pidfd, &r.step);
    if (!r.error) {
        assert_int_equal(waitpid(pid, &r.status, 0), pid);
        close(pidfd);
    }
    assert_true(pread(out, r.text, sizeof r.text - 1, 0) >= 0);
    close(out);
    close(null);
    return r;
}

#define FILES(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct outcome shell(const char *script, struct process_options o)
{
    o.paths = FILES("/bin/sh");
    o.argv = FILES("sh", "-c", script);
    return run(o);
}

static void has_line(const char *text, const char *line)
{
    char wanted[128];
    snprintf(wanted, sizeof wanted, "%s\n", line);
    if (!strstr(text, wanted))
        fail_msg("no line '%s' in:\n%s", line, text);
}

/* The user. */

static void status_is_that_of_nobody(const char *text)
{
    has_line(text, "Uid:\t65534\t65534\t65534\t65534");
    has_line(text, "Gid:\t65534\t65534\t65534\t65534");
    has_line(text, "Groups:\t65534 ");
    has_line(text, "CapInh:\t0000000000000000");
    has_line(text, "CapPrm:\t0000000000000000");
    has_line(text, "CapEff:\t0000000000000000");
    has_line(text, "CapAmb:\t0000000000000000");
}

static void another_user_has_its_own_ids(void **state)
{
    (void)state;
    need_root();
    struct outcome r = shell("cat /proc/self/status", (struct process_options){.account = nobody});
    assert_int_equal(r.error, 0);
    status_is_that_of_nobody(r.text);
    has_line(r.text, "NoNewPrivs:\t1");
    struct account more = *nobody;
    more.gid = 60;
    more.groups = (gid_t[]){60, 65534, 1};
    more.group_count = 3;
    r = shell("cat /proc/self/status", (struct process_options){.account = &more});
    has_line(r.text, "Gid:\t60\t60\t60\t60");
    has_line(r.text, "Groups:\t1 60 65534 ");
    r = shell("cat /proc/self/status", (struct process_options){.new_privileges = true});
    has_line(r.text, "NoNewPrivs:\t0");
    has_line(r.text, "Uid:\t0\t0\t0\t0");
}

/* With capabilities that survive a change of ids and execve, as systemd's AmbientCapabilities. */
static void capabilities_are_not_inherited(void **state)
{
    (void)state;
    need_root();
    pid_t pid = fork();
    if (!pid) {
        struct {
            uint32_t version;
            int pid;
        } header = {0x20080522, 0};
        const uint32_t some = 1u << 5 | 1u << 6 | 1u << 7; /* KILL, SETGID, SETUID */
        uint32_t sets[6] = {some, some, some, 0, 0, 0};
        prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
        if (setresuid(60, 60, 60) || syscall(SYS_capset, &header, sets))
            _exit(2);
        for (int i = 5; i <= 7; i++)
            if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, i, 0, 0))
                _exit(3);
        struct outcome r =
            shell("cat /proc/self/status", (struct process_options){.account = nobody});
        status_is_that_of_nobody(r.text);
        r = shell("cat /proc/self/status", (struct process_options){0}); /* our user */
        has_line(r.text, "Uid:\t60\t60\t60\t60");
        has_line(r.text, "CapEff:\t0000000000000000");
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* A copy of id(1) that belongs to root and is setuid. */
static void a_setuid_program_gains_nothing(void **state)
{
    char dir[] = "/tmp/drover-setuid-XXXXXX", path[64], command[160];
    (void)state;
    need_root();
    assert_non_null(mkdtemp(dir));
    chmod(dir, 0755);
    snprintf(path, sizeof path, "%s/id", dir);
    snprintf(command, sizeof command, "cp /usr/bin/id %s && chmod 4755 %s", path, path);
    assert_int_equal(system(command), 0);
    struct process_options o = {.paths = FILES(path), .argv = FILES("id", "-u"), .account = nobody};
    struct outcome r = run(o);
    assert_string_equal(r.text, "65534\n");
    o.new_privileges = true;
    r = run(o);
    if (strcmp(r.text, "0\n") != 0)
        print_message("setuid programs have no effect below /tmp: the test shows little\n");
    unlink(path);
    rmdir(dir);
}

/* Directories and files are those that the user can reach. */

static void it_begins_where_its_user_can_be(void **state)
{
    char home[] = "/tmp/drover-home-XXXXXX";
    (void)state;
    need_root();
    struct account other = *nobody;
    assert_non_null(mkdtemp(home));
    other.home = home;
    struct outcome r = shell("pwd", (struct process_options){.account = &other});
    assert_string_equal(r.text, "/\n"); /* mode 0700 */
    chmod(home, 0755);
    r = shell("pwd", (struct process_options){.account = &other});
    assert_memory_equal(r.text, home, strlen(home));
    chmod(home, 0700);
    r = shell("pwd", (struct process_options){.account = &other, .cwd = home});
    assert_int_equal(r.error, EACCES);
    assert_int_equal(r.step, PROCESS_CWD);
    rmdir(home);
}

static void the_first_file_that_it_can_execute(void **state)
{
    char dir[] = "/tmp/drover-files-XXXXXX", path[64];
    (void)state;
    need_root();
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/true", dir);
    assert_int_equal(symlink("/bin/false", path), 0);
    struct process_options o = {.paths = FILES(path, "/no/such/file", "/bin/true"),
                                .argv = FILES("true"),
                                .account = nobody};
    struct outcome r = run(o);
    assert_int_equal(r.error, 0);
    assert_int_equal(r.status, 0);
    o.paths = FILES(path, "/no/such/file");
    r = run(o);
    assert_int_equal(r.error, EACCES);
    assert_int_equal(r.step, PROCESS_EXEC);
    unlink(path);
    rmdir(dir);
}

static void limits_are_set(void **state)
{
    (void)state;
    struct process_options o = {.rlimits = {{RLIMIT_NOFILE, {13, 13}}, {RLIMIT_CPU, {7, 9}}},
                                .rlimit_count = 2};
    struct outcome r = shell("ulimit -n; ulimit -t; ulimit -H -t", o);
    assert_string_equal(r.text, "13\n7\n9\n");
    o.rlimits[0].limit = (struct rlimit){14, 13}; /* the soft one is above the hard one */
    r = shell("true", o);
    assert_int_equal(r.error, EINVAL);
    assert_int_equal(r.step, PROCESS_LIMITS);
}

static void it_has_three_descriptors(void **state)
{
    int open_fd = open("/dev/null", O_RDONLY); /* not closed by execve */
    (void)state;
    struct outcome r = shell("exec ls /proc/self/fd", (struct process_options){0});
    assert_string_equal(r.text, "0\n1\n2\n3\n"); /* 3 is the directory */
    close(open_fd);
}

/* Somebody stops each process of the same user before it can execute its file. */

static _Noreturn void stop_new_processes(void)
{
    int last = open("/proc/sys/kernel/ns_last_pid", O_RDONLY);
    char text[16] = {0};
    if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
        _exit(2);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    for (;;) {
        if (pread(last, text, sizeof text - 1, 0) <= 0)
            _exit(3);
        for (int i = 0; i < 200; i++)
            for (int next = 0; next < 3; next++)
                kill(atoi(text) + next, SIGSTOP);
    }
}

/* Returns how many of the started processes were held up; -1: something else failed. */
static int count_held_up(void)
{
    enum { STARTS = 300, HELD_ENOUGH = 1 };
    struct process_options o = {
        .paths = FILES("/bin/true"),
        .argv = FILES("true"),
        .envp = ENVIRONMENT,
        .fds = {0, 1, 2},
        .cgroup = -1,
        .account = nobody,
    };
    int held = 0;
    pid_t attacker = fork();
    if (!attacker)
        stop_new_processes();
    process_guard_start();
    for (int i = 0; i < STARTS && held >= 0 && held < HELD_ENOUGH; i++) {
        enum process_step step;
        pid_t pid;
        int pidfd, error = process_start(&o, &pid, &pidfd, &step);
        held = error == ETIME ? held + 1 : error ? -1 : held;
        if (error)
            continue;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(pidfd);
    }
    process_guard_stop();
    kill(attacker, SIGKILL);
    waitpid(attacker, NULL, 0);
    return held;
}

/* In a pid namespace of its own, so that no process of somebody else is stopped. */
static void who_is_held_up_is_killed(void **state)
{
    int status;
    (void)state;
    need_root();
    pid_t pid = fork();
    if (!pid) {
        if (unshare(CLONE_NEWPID))
            _exit(100);
        pid_t first = fork();
        if (!first)
            _exit(count_held_up() & 0x7f);
        waitpid(first, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 101);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 100) {
        print_message("no pid namespace can be created here\n");
        skip();
    }
    assert_in_range(WEXITSTATUS(status), 0, 99);
    print_message("%d of the processes were held up\n", WEXITSTATUS(status));
}

/* As the filter of some containers does. For the rest of this process: the last test. */
static void where_clone3_is_refused(void **state)
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
    limits_are_set(state);
    it_has_three_descriptors(state);
    need_root();
    struct outcome r = shell("cat /proc/self/status", (struct process_options){.account = nobody});
    status_is_that_of_nobody(r.text);
    it_begins_where_its_user_can_be(state);
    the_first_file_that_it_can_execute(state);
    who_is_held_up_is_killed(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_user_has_its_own_ids),
        cmocka_unit_test(capabilities_are_not_inherited),
        cmocka_unit_test(a_setuid_program_gains_nothing),
        cmocka_unit_test(it_begins_where_its_user_can_be),
        cmocka_unit_test(the_first_file_that_it_can_execute),
        cmocka_unit_test(limits_are_set),
        cmocka_unit_test(it_has_three_descriptors),
        cmocka_unit_test(who_is_held_up_is_killed),
        cmocka_unit_test(where_clone3_is_refused),
    };

    return cmocka_run_group_tests(tests, find_nobody, forget_nobody);
}
