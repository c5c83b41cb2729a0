/*
 * Uses clone3 where it is available. The child shares the parent's memory until execve, as with
 * vfork, so a large server starts processes as fast as a small one. The kernel resets the signal
 * handlers, returns a pidfd, and creates the child in its cgroup. posix_spawn of glibc has no
 * pidfd, cgroup, user, limit or PDEATHSIG. Where clone3 is refused (an older kernel, a container's
 * seccomp filter) and on other architectures, it forks, and the child reports a failure through a
 * pipe that execve closes.
 *
 * The child shares the parent's memory and thread-local variables. Therefore it only makes system
 * calls, and is compiled without sanitizers, whose shadow state would outlive the child. The
 * functions of glibc that set ids would set them for all threads.
 *
 * The ids come last, just before execve. Until then no process of the new user can send the child a
 * signal or trace it. The directory is entered with the file system ids of that user. The kernel
 * clears PDEATHSIG when ids change, and makes the memory, which is also the parent's, not dumpable:
 * nobody else can trace the child or read its memory. So a server that has started a process as
 * another user leaves no core.
 */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

enum { STACK_LEN = 16 * 1024, KERNEL_SIGSET_LEN = 8, SIGNALS = 64 };

/* As a sigaction: SIG_DFL; as a signal set: empty; as capabilities: none. */
static const char NOTHING[64];

/* Set by the child when it fails. */
struct process_failure {
    int error;
    enum process_step step;
};

struct process_child {
    const struct process_options *o;
    int report; /* a descriptor that execve closes, above 2; 0: none */
    struct process_failure failure;
};

/* The child. */

#define CHILD                                                                                      \
    __attribute__((noinline, no_sanitize("address"), no_sanitize("thread"),                        \
                   no_sanitize("undefined"), no_stack_protector))

CHILD static bool failed(struct process_child *c, enum process_step step)
{
    c->failure = (struct process_failure){errno, step};
    return false;
}

/* Closes descriptors one by one where the kernel cannot close a range. */
CHILD static void close_range_of(unsigned first, unsigned last)
{
    struct rlimit limit = {0};
    if (first > last || syscall(SYS_close_range, first, last, 0) >= 0)
        return;
    syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit);
    for (unsigned fd = first; fd <= last && fd < limit.rlim_max; fd++)
        syscall(SYS_close, fd);
}

CHILD static bool set_descriptors(struct process_child *c)
{
    const int *fds = c->o->fds;
    for (int i = 0; i < 3; i++) {
        if (fds[i] == i)
            syscall(SYS_fcntl, i, F_SETFD, 0);
        else if (syscall(SYS_dup3, fds[i], i, 0) < 0)
            return failed(c, PROCESS_SETUP);
    }
    if (c->report > 2)
        close_range_of(3, (unsigned)c->report - 1);
    close_range_of(c->report > 2 ? (unsigned)c->report + 1 : 3, INT32_MAX);
    return true;
}

CHILD static void set_signals(const struct process_options *o)
{
    for (int i = 0; i < o->signal_count; i++)
        syscall(SYS_rt_sigaction, o->signals[i], NOTHING, NULL, KERNEL_SIGSET_LEN);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, NOTHING, NULL, KERNEL_SIGSET_LEN);
}

CHILD static bool set_limits(struct process_child *c)
{
    const struct process_options *o = c->o;
    for (int i = 0; i < o->rlimit_count; i++)
        if (syscall(SYS_prlimit64, 0, o->rlimits[i].resource, &o->rlimits[i].limit, NULL) < 0)
            return failed(c, PROCESS_LIMITS);
    return true;
}

/* The groups, and the ids that count for files. */
CHILD static bool set_groups(struct process_child *c)
{
    const struct account *a = c->o->account;
    if (!a)
        return true;
    if (syscall(SYS_setgroups, (size_t)a->group_count, a->groups) < 0 ||
        syscall(SYS_setresgid, a->gid, a->gid, a->gid) < 0)
        return failed(c, PROCESS_USER);
    syscall(SYS_setfsuid, a->uid);
    return true;
}

CHILD static bool enter_directory(struct process_child *c)
{
    const struct process_options *o = c->o;
    if (o->cwd && syscall(SYS_chdir, o->cwd) < 0)
        return failed(c, PROCESS_CWD);
    if (!o->cwd && o->account && syscall(SYS_chdir, o->account->home) < 0 &&
        syscall(SYS_chdir, "/") < 0)
        return failed(c, PROCESS_CWD);
    return true;
}

/* Nothing is left of our capabilities, also if we have some without being root. */
CHILD static bool set_user(struct process_child *c)
{
    static const struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct account *a = c->o->account;
    syscall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (!c->o->new_privileges && syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return failed(c, PROCESS_SETUP);
    if (a && (syscall(SYS_setresuid, a->uid, a->uid, a->uid) < 0 ||
              (a->uid && syscall(SYS_capset, &header, NOTHING) < 0)))
        return failed(c, PROCESS_USER);
    return true;
}

/* The first file that can be executed. If there is none, it matters more that one was refused. */
CHILD static void execute(struct process_child *c)
{
    const struct process_options *o = c->o;
    bool refused = false;
    for (const char *const *path = o->paths; *path; path++) {
        syscall(SYS_execve, *path, o->argv, o->envp);
        refused |= errno == EACCES;
        if (errno != EACCES && errno != ENOENT && errno != ENOTDIR)
            break;
    }
    failed(c, PROCESS_EXEC);
    if (refused)
        c->failure.error = EACCES;
}

/* Returns when something has failed. */
CHILD static void run_child(struct process_child *c)
{
    const struct process_options *o = c->o;
    set_signals(o);
    if (o->leads_session)
        syscall(SYS_setsid);
    else
        syscall(SYS_setpgid, 0, 0);
    if (!set_descriptors(c) || !set_limits(c) || !set_groups(c) || !enter_directory(c) ||
        !set_user(c))
        return;
    if (o->leads_session)
        syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    execute(c);
}

/* The guard. */

/* A child that is being started, in the guard's list while its parent waits for it. */
struct process_held {
    struct process_held *next;
    int64_t until_ms;
    _Atomic(pid_t) pid; /* the kernel sets it; 0: it does not exist yet */
    bool killed;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    pthread_t thread;
    int users;
    bool stopping, idle;
    struct process_held *held;
} guard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *guard_main(void *arg)
{
    (void)arg;
    LOCKED(&guard.lock);
    while (!guard.stopping) {
        int64_t now_ms = clock_boot_ms(), next_ms = INT64_MAX;
        for (struct process_held *h = guard.held; h; h = h->next) {
            if (h->until_ms <= now_ms && h->pid) {
                kill(h->pid, SIGKILL);
                h->killed = true;
            }
            next_ms = now_ms + PROCESS_HELD_MS / 2;
        }
        guard.idle = !guard.held;
        cond_wait_until(&guard.cond, &guard.lock, next_ms);
    }
    return NULL;
}

void process_guard_start(void)
{
    LOCKED(&guard.lock);
    if (guard.users++)
        return;
    guard.stopping = false;
    cond_init(&guard.cond);
    thread_must_start(&guard.thread, "process-guard", guard_main, NULL);
}

void process_guard_stop(void)
{
    {
        LOCKED(&guard.lock);
        if (--guard.users)
            return;
        guard.stopping = true;
        pthread_cond_signal(&guard.cond);
    }
    pthread_join(guard.thread, NULL);
    pthread_cond_destroy(&guard.cond);
}

/* Wakes the guard only if it does not look at its list anyway. */
static void hold(struct process_held *h)
{
    LOCKED(&guard.lock);
    if (!guard.users)
        return;
    h->until_ms = clock_boot_ms() + PROCESS_HELD_MS;
    h->next = guard.held;
    guard.held = h;
    if (guard.idle)
        pthread_cond_signal(&guard.cond);
    guard.idle = false;
}

static void let_go(struct process_held *h)
{
    LOCKED(&guard.lock);
    for (struct process_held **at = &guard.held; *at; at = &(*at)->next)
        if (*at == h) {
            *at = h->next;
            return;
        }
}

/* By clone3. */

static atomic_bool no_clone3;

#if defined(__x86_64__) && defined(SYS_clone3)

CHILD static void child_main(void *arg)
{
    run_child(arg);
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

/* Returns 0, errno, or -1: clone3 cannot be used. */
static int start_by_clone3(struct process_child *c, struct process_held *held, pid_t *ret_pid,
                           int *ret_pidfd)
{
    _Alignas(16) char stack[STACK_LEN];
    int pidfd = -1, cgroup = c->o->cgroup;
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | CLONE_PARENT_SETTID | CLONE_CLEAR_SIGHAND |
                 (cgroup >= 0 ? CLONE_INTO_CGROUP : 0),
        .pidfd = (uintptr_t)&pidfd,
        .parent_tid = (uintptr_t)&held->pid,
        .exit_signal = SIGCHLD,
        .stack = (uintptr_t)stack,
        .stack_size = sizeof stack,
        .cgroup = cgroup >= 0 ? (uint64_t)cgroup : 0,
    };
    long pid = atomic_load(&no_clone3) ? -1 : clone3(&args, child_main, c);
    if (pid == -EAGAIN || pid == -ENOMEM)
        return (int)-pid;
    if (pid < 0)
        return -1;
    *ret_pid = (pid_t)pid;
    *ret_pidfd = pidfd;
    return 0;
}

#else

static int start_by_clone3(struct process_child *c, struct process_held *held, pid_t *ret_pid,
                           int *ret_pidfd)
{
    (void)c, (void)held, (void)ret_pid, (void)ret_pidfd;
    return -1;
}

#endif

/* By fork. */

/* Handlers are ours, also while the child still has them. */
CHILD static void reset_handlers(void)
{
    struct {
        void (*handler)(int);
        unsigned long rest[7];
    } action;
    for (int i = 1; i <= SIGNALS; i++)
        if (!syscall(SYS_rt_sigaction, i, NULL, &action, KERNEL_SIGSET_LEN) &&
            action.handler != SIG_IGN)
            syscall(SYS_rt_sigaction, i, NOTHING, NULL, KERNEL_SIGSET_LEN);
}

CHILD static _Noreturn void forked_main(struct process_child *c)
{
    reset_handlers();
    run_child(c);
    syscall(SYS_write, c->report, &c->failure, sizeof c->failure);
    for (;;)
        syscall(SYS_exit_group, 127);
}

/* Returns 0 or errno. */
static int start_by_fork(struct process_child *c, struct process_held *held, pid_t *ret_pid,
                         int *ret_pidfd)
{
    sigset_t all, before;
    int report[2];
    if (pipe2(report, O_CLOEXEC))
        return errno;
    c->report = fcntl(report[1], F_DUPFD_CLOEXEC, 3);
    close(report[1]);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = _Fork();
    int error = pid < 0 ? errno : 0;
    if (!pid)
        forked_main(c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(c->report);
    if (!error) {
        held->pid = pid;
        while (read(report[0], &c->failure, sizeof c->failure) < 0 && errno == EINTR)
            ;
        *ret_pid = pid;
        *ret_pidfd = pidfd_open(pid, 0);
        error = *ret_pidfd < 0 ? errno : 0;
        if (error) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
    }
    close(report[0]);
    return error;
}

/* Starting. */

static int start(struct process_child *c, struct process_held *held, pid_t *ret_pid, int *ret_pidfd)
{
    int error = start_by_clone3(c, held, ret_pid, ret_pidfd);
    if (error >= 0)
        return error;
    if (c->o->cgroup >= 0)
        return PROCESS_NO_CGROUP;
    atomic_store(&no_clone3, true);
    return start_by_fork(c, held, ret_pid, ret_pidfd);
}

int process_start(const struct process_options *o, pid_t *ret_pid, int *ret_pidfd,
                  enum process_step *ret_step)
{
    struct process_child c = {.o = o};
    struct process_held held = {0};
    pid_t pid;
    int pidfd;

    if (o->account)
        hold(&held);
    int error = start(&c, &held, &pid, &pidfd);
    if (o->account)
        let_go(&held);
    *ret_step = c.failure.step;
    if (error)
        return error;
    if (held.killed)
        c.failure.error = ETIME;
    if (!c.failure.error) {
        *ret_pid = pid;
        *ret_pidfd = pidfd;
        return 0;
    }
    waitpid(pid, NULL, 0);
    close(pidfd);
    return c.failure.error;
}

const char *process_path(void)
{
    const char *path = getenv("PATH");
    return path ? path : "/usr/local/bin:/usr/bin:/bin";
}

const char **process_find(struct arena *a, const char *name, const char *dirs, bool all)
{
    enum { ALL_MAX = 16 };
    size_t count = 0, most = all ? ALL_MAX : 1;
    const char **found = arena_zalloc(a, (most + 1) * sizeof *found), *end;
    struct stat st;
    if (strchr(name, '/'))
        found[count++] = name;
    else
        for (; dirs && *name && count < most; dirs = *end ? end + 1 : NULL) {
            end = strchrnul(dirs, ':');
            const char *path = arena_printf(a, "%.*s/%s", (int)(end - dirs), dirs, name);
            if (!access(path, X_OK) && !stat(path, &st) && S_ISREG(st.st_mode))
                found[count++] = path;
        }
    return found;
}
