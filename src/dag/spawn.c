/*
 * Starting a run: its environment, the file of the command, the pipes, the process.
 *
 * The process leads its own session and process group, has only the three given descriptors, and
 * neither blocks nor ignores any signal. It is in the given cgroup from its first instruction on,
 * so all its descendants are in it too.
 *
 * Uses clone3 where it is available. The child shares the parent's memory until execve, as with
 * vfork, so a large server starts processes as fast as a small one. The kernel resets the signal
 * handlers, returns a pidfd, and creates the child in its cgroup; PDEATHSIG kills it when the
 * server dies. posix_spawn of glibc has no pidfd, cgroup or PDEATHSIG, and resets the handlers with
 * sixty system calls. It is the fallback where clone3 is refused (an older kernel, a container's
 * seccomp filter) and on other architectures.
 *
 * The child shares the parent's memory and thread-local variables. Therefore it only makes system
 * calls, and is compiled without sanitizers, whose shadow state would outlive the child.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file_limit.h"
#include "base/mem.h"
#include "dag/runner_impl.h"

enum { KERNEL_SIGSET_LEN = 8 };

struct spawn {
    const struct runner *runner;
    const struct run_spec *spec;
    const char *path; /* of the executable */
    int out, err;     /* descriptors above 2 */
    int cgroup;       /* a descriptor of its directory; -1: the parent's cgroup */
    int error;        /* set by the child when it fails */
};

/* The child replaces descriptors 0 to 2, so none of the server's may be among them. */
static void fill_low_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2);
    if (fd > 2)
        close(fd);
}

void spawner_open(struct runner *rr)
{
    struct sigaction action;
    fill_low_descriptors();
    rr->null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    rr->stack = mmap(NULL, RUNNER_STACK_LEN, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    rr->no_clone3 = rr->stack == MAP_FAILED;
    for (int i = 1; i <= KERNEL_SIGNALS; i++)
        if (i == SIGPIPE || (!sigaction(i, NULL, &action) && action.sa_handler == SIG_IGN))
            rr->ignored[rr->ignored_count++] = (unsigned char)i;
    rr->files = file_limit_given();
}

void spawner_close(struct runner *rr)
{
    close(rr->null);
    if (rr->stack != MAP_FAILED)
        munmap(rr->stack, RUNNER_STACK_LEN);
}

#if defined(__x86_64__) && defined(SYS_clone3)

#define CHILD                                                                                      \
    __attribute__((noinline, no_sanitize("address"), no_sanitize("thread"),                        \
                   no_sanitize("undefined"), no_stack_protector))

/* Sets up the child and calls execve. Returns errno. */
CHILD static int exec_child(const struct spawn *w)
{
    static const char nothing[64]; /* as a sigaction: SIG_DFL; as a signal set: empty */
    const struct runner *rr = w->runner;
    for (int i = 0; i < rr->ignored_count; i++)
        syscall(SYS_rt_sigaction, rr->ignored[i], nothing, NULL, KERNEL_SIGSET_LEN);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, nothing, NULL, KERNEL_SIGSET_LEN);
    syscall(SYS_setsid);
    syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &rr->files, NULL);
    syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (syscall(SYS_dup3, rr->null, 0, 0) < 0 || syscall(SYS_dup3, w->out, 1, 0) < 0 ||
        syscall(SYS_dup3, w->err, 2, 0) < 0 || syscall(SYS_close_range, 3, ~0u, 0) < 0)
        return errno;
    if (w->spec->cwd && syscall(SYS_chdir, w->spec->cwd) < 0)
        return errno;
    syscall(SYS_execve, w->path, w->spec->argv, w->spec->envp);
    return errno;
}

CHILD static void child_main(void *arg)
{
    struct spawn *w = arg;
    w->error = exec_child(w);
    for (;;)
        syscall(SYS_exit, 127);
}

/* Returns only in the parent. The child calls `child` on the new stack, which does not return. */
CHILD static long clone3(struct clone_args *args, void (*child)(void *arg), void *arg)
{
    register void (*fn)(void *) __asm__("r8") = child;
    register void *fn_arg __asm__("r9") = arg;
    long ret;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %%r9, %%rdi\n\t"
                     "call *%%r8\n\t"
                     "hlt\n"
                     "1:"
                     : "=a"(ret)
                     : "0"((long)SYS_clone3), "D"(args), "S"(sizeof *args), "r"(fn), "r"(fn_arg)
                     : "rcx", "r11", "memory", "cc");
    return ret;
}

/* 0, the child's errno, or -1: clone3 cannot be used. */
static int start_by_clone3(struct spawn *w, pid_t *ret_pid, int *ret_pidfd)
{
    int pidfd = -1;
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | CLONE_CLEAR_SIGHAND |
                 (w->cgroup >= 0 ? CLONE_INTO_CGROUP : 0),
        .pidfd = (uintptr_t)&pidfd,
        .exit_signal = SIGCHLD,
        .stack = (uintptr_t)w->runner->stack,
        .stack_size = RUNNER_STACK_LEN,
        .cgroup = w->cgroup >= 0 ? (uint64_t)w->cgroup : 0,
    };
    long pid = w->runner->no_clone3 ? -1 : clone3(&args, child_main, w);

    if (pid == -EAGAIN || pid == -ENOMEM)
        return (int)-pid;
    if (pid < 0)
        return -1;
    if (w->error) {
        waitpid((pid_t)pid, NULL, 0);
        close(pidfd);
        return w->error;
    }
    *ret_pid = (pid_t)pid;
    *ret_pidfd = pidfd;
    return 0;
}

#else

static int start_by_clone3(struct spawn *w, pid_t *ret_pid, int *ret_pidfd)
{
    (void)w, (void)ret_pid, (void)ret_pidfd;
    return -1;
}

#endif

/* Returns 0 or errno. */
static int start_by_posix(const struct spawn *w, pid_t *ret_pid, int *ret_pidfd)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, w->runner->null, 0);
    posix_spawn_file_actions_adddup2(&actions, w->out, 1);
    posix_spawn_file_actions_adddup2(&actions, w->err, 2);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    if (w->spec->cwd)
        posix_spawn_file_actions_addchdir_np(&actions, w->spec->cwd);
    int error = posix_spawn(ret_pid, w->path, &actions, &attributes, (char *const *)w->spec->argv,
                            (char *const *)w->spec->envp);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error || (*ret_pidfd = pidfd_open(*ret_pid, 0)) >= 0)
        return error;
    error = errno;
    kill(-*ret_pid, SIGKILL);
    waitpid(*ret_pid, NULL, 0);
    return error;
}

/* Runs. */

static const char *get_variable(const char *const *envp, const char *name)
{
    size_t len = strlen(name);
    for (; *envp; envp++)
        if (!strncmp(*envp, name, len) && (*envp)[len] == '=')
            return *envp + len + 1;
    return NULL;
}

/* Finds the file of a command as a shell does. */
static bool find_file(const struct run_spec *s, char path[PATH_MAX])
{
    const char *name = s->argv[0], *dirs = get_variable(s->envp, "PATH"), *end;
    struct stat st;
    if (strchr(name, '/'))
        return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX;
    for (; dirs && *name; dirs = *end ? end + 1 : NULL) {
        end = strchrnul(dirs, ':');
        if (snprintf(path, PATH_MAX, "%.*s/%s", (int)(end - dirs), dirs, name) < PATH_MAX &&
            !access(path, X_OK) && !stat(path, &st) && S_ISREG(st.st_mode))
            return true;
    }
    return false;
}

static bool watch(struct runner *rr, struct run *r, int kind, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &r->watches[kind]};
    r->watches[kind] = (struct run_watch){r, kind, fd};
    return !epoll_ctl(rr->epoll, EPOLL_CTL_ADD, fd, &event);
}

static int explain(const struct run_spec *s, int error, int *ret_status, struct err_info *e)
{
    struct stat st;
    *ret_status = error == ENOENT ? 127 : 126;
    if (s->cwd && (stat(s->cwd, &st) || !S_ISDIR(st.st_mode)))
        return err_set(e, DROVER_BAD_ARGUMENT, "cannot start: there is no directory %s", s->cwd);
    return err_set(e, DROVER_BAD_ARGUMENT, "cannot start %s: %s", s->argv[0], strerror(error));
}

/* In its own cgroup, by clone3, where the system allows that. Returns 0 or errno. */
static int start_process(struct runner *rr, struct orphans *o, struct spawn *w, int *ret_pidfd)
{
    int error = -1;
    o->cgroup = rr->cgroups ? cgroups_take(rr->cgroups) : NULL;
    if (o->cgroup) {
        w->cgroup = o->cgroup->dir;
        error = start_by_clone3(w, &o->leader, ret_pidfd);
        if (error) {
            cgroups_give(rr->cgroups, o->cgroup);
            o->cgroup = NULL;
        }
        w->cgroup = -1;
    }
    if (error < 0)
        error = start_by_clone3(w, &o->leader, ret_pidfd);
    rr->no_clone3 |= error < 0;
    return error < 0 ? start_by_posix(w, &o->leader, ret_pidfd) : error;
}

/* Creates the pipes and the process. Returns 0 or errno. */
static int begin(struct runner *rr, struct run *r, const struct run_spec *s, const char *path)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1}, pidfd = -1, error = 0;
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
        error = errno;
    struct spawn w = {
        .runner = rr, .spec = s, .path = path, .out = out[1], .err = err[1], .cgroup = -1};
    if (!error)
        error = start_process(rr, &r->orphans, &w, &pidfd);
    close(out[1]);
    close(err[1]);
    if (!error) {
        fcntl(out[0], F_SETFL, O_NONBLOCK);
        fcntl(err[0], F_SETFL, O_NONBLOCK);
        if (watch(rr, r, WATCH_STDOUT, out[0]) && watch(rr, r, WATCH_STDERR, err[0]) &&
            watch(rr, r, WATCH_PROCESS, pidfd))
            return 0;
        error = errno;
        kill(-r->orphans.leader, SIGKILL);
        waitpid(r->orphans.leader, NULL, 0);
        close(pidfd);
    }
    close(out[0]);
    close(err[0]);
    return error;
}

struct run *runner_start(struct runner *rr, const struct run_spec *spec, run_done_fn *done,
                         run_printed_fn *printed, void *arg, int *ret_status,
                         struct err_info *ret_error)
{
    char path[PATH_MAX];
    struct run *r = mem_zalloc(sizeof *r);
    int error = find_file(spec, path) ? 0 : ENOENT;
    *r = (struct run){
        .runner = rr,
        .log_fd = -1,
        .cap_len = spec->cap_len ? spec->cap_len : RUN_CAP_LEN,
        .done = done,
        .printed = printed,
        .arg = arg,
        .linger_at = INT64_MAX,
        .kill_at = INT64_MAX,
        .give_up_at = INT64_MAX,
        .timeout_at = INT64_MAX,
    };
    if (!error && spec->log_path) /* first: a run that has started has a log */
        r->log_fd = run_log_open(spec->log_path);
    if (!error)
        error = begin(rr, r, spec, path);
    if (error) {
        if (r->orphans.cgroup)
            cgroups_give(rr->cgroups, r->orphans.cgroup);
        if (r->log_fd >= 0) {
            close(r->log_fd);
            unlink(spec->log_path);
        }
        free(r);
        explain(spec, error, ret_status, ret_error);
        return NULL;
    }
    r->orphans.token = mem_dup(spec->token, strlen(spec->token));
    r->next = rr->runs;
    if (rr->runs)
        rr->runs->prev = r;
    rr->runs = r;
    if (spec->timeout_ms) {
        r->timeout_at = clock_boot_ms() + spec->timeout_ms;
        runner_arm_timer(rr, r->timeout_at);
    }
    return r;
}

/* The environment. */

/* The variables of the server that commands inherit. */
static const char *const PASSED[] = {"HOME", "USER", "LOGNAME", "SHELL",
                                     "LANG", "TZ",   "TMPDIR",  "LC_ALL"};

enum { PASSED_COUNT = sizeof PASSED / sizeof *PASSED };

const char **environment_make(struct arena *a, const struct environment *e,
                              const char *const *given)
{
    static const char *const nothing[] = {NULL};
    const char *path = getenv("PATH");
    size_t count = 0, at = 0;
    given = given ? given : nothing;
    while (given[count])
        count++;
    const char **env = arena_alloc(a, (count + PASSED_COUNT + 7) * sizeof *env);
    env[at++] = e->token;
    env[at++] = arena_printf(a, "DROVER_NODE=%s", e->node);
    env[at++] = arena_printf(a, "DROVER_PARENT=%s", e->parent);
    if (e->url)
        env[at++] = arena_printf(a, "DROVER_URL=%s", e->url);
    if (e->password)
        env[at++] = arena_printf(a, "DROVER_TOKEN=%s", e->password);
    for (size_t i = 0; i < count; i++)
        if (strncmp(given[i], "DROVER_", 7) != 0)
            env[at++] = given[i];
    if (!get_variable(given, "PATH"))
        env[at++] = arena_printf(a, "PATH=%s", path ? path : "/usr/local/bin:/usr/bin:/bin");
    for (int i = 0; i < PASSED_COUNT; i++) {
        const char *value = getenv(PASSED[i]);
        if (value && !get_variable(given, PASSED[i]))
            env[at++] = arena_printf(a, "%s=%s", PASSED[i], value);
    }
    env[at] = NULL;
    return env;
}
