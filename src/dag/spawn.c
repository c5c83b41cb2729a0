/*
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
#include "dag/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_limit.h"
#include "base/mem.h"

enum { STACK_LEN = 64 * 1024, KERNEL_SIGNALS = 64, KERNEL_SIGSET_LEN = 8 };

struct spawner {
    bool no_clone3;
    char *stack;
    unsigned char
        ignored[KERNEL_SIGNALS]; /* signals that this process ignores: the child resets them */
    int ignored_count;
    struct rlimit files;
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

struct spawner *spawner_open(void)
{
    struct spawner *s = mem_zalloc(sizeof *s);
    struct sigaction action;

    fill_low_descriptors();
    s->stack = mmap(NULL, STACK_LEN, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    s->no_clone3 = s->stack == MAP_FAILED;
    for (int i = 1; i <= KERNEL_SIGNALS; i++)
        if (i == SIGPIPE || (!sigaction(i, NULL, &action) && action.sa_handler == SIG_IGN))
            s->ignored[s->ignored_count++] = (unsigned char)i;
    s->files = file_limit_given();
    return s;
}

void spawner_close(struct spawner *s)
{
    if (s->stack != MAP_FAILED)
        munmap(s->stack, STACK_LEN);
    free(s);
}

#if defined(__x86_64__) && defined(SYS_clone3)

struct child_start {
    const struct spawn *what;
    const struct spawner *spawner;
    int error; /* set by the child when it fails */
};

#define CHILD                                                                                      \
    __attribute__((noinline, no_sanitize("address"), no_sanitize("thread"),                        \
                   no_sanitize("undefined"), no_stack_protector))

/* Sets up the child and calls execve. Returns errno. */
CHILD static int exec_child(const struct child_start *b)
{
    static const char nothing[64]; /* as a sigaction: SIG_DFL; as a signal set: empty */
    const struct spawn *w = b->what;

    for (int i = 0; i < b->spawner->ignored_count; i++)
        syscall(SYS_rt_sigaction, b->spawner->ignored[i], nothing, NULL, KERNEL_SIGSET_LEN);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, nothing, NULL, KERNEL_SIGSET_LEN);
    syscall(SYS_setsid);
    syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &b->spawner->files, NULL);
    syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (syscall(SYS_dup3, w->in, 0, 0) < 0 || syscall(SYS_dup3, w->out, 1, 0) < 0 ||
        syscall(SYS_dup3, w->err, 2, 0) < 0 || syscall(SYS_close_range, 3, ~0u, 0) < 0)
        return errno;
    if (w->cwd && syscall(SYS_chdir, w->cwd) < 0)
        return errno;
    syscall(SYS_execve, w->path, w->argv, w->envp);
    return errno;
}

CHILD static void child_main(void *arg)
{
    struct child_start *b = arg;

    b->error = exec_child(b);
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
static int start_by_clone3(struct spawner *s, const struct spawn *what, pid_t *ret_pid,
                           int *ret_pidfd)
{
    struct child_start b = {.what = what, .spawner = s};
    int pidfd = -1;
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | CLONE_CLEAR_SIGHAND |
                 (what->cgroup >= 0 ? CLONE_INTO_CGROUP : 0),
        .pidfd = (uintptr_t)&pidfd,
        .exit_signal = SIGCHLD,
        .stack = (uintptr_t)s->stack,
        .stack_size = STACK_LEN,
        .cgroup = what->cgroup >= 0 ? (uint64_t)what->cgroup : 0,
    };
    long pid = clone3(&args, child_main, &b);

    if (pid == -EAGAIN || pid == -ENOMEM)
        return (int)-pid;
    if (pid < 0)
        return -1;
    if (b.error) {
        waitpid((pid_t)pid, NULL, 0);
        close(pidfd);
        return b.error;
    }
    *ret_pid = (pid_t)pid;
    *ret_pidfd = pidfd;
    return 0;
}

#else

static int start_by_clone3(struct spawner *s, const struct spawn *what, pid_t *ret_pid,
                           int *ret_pidfd)
{
    (void)s, (void)what, (void)ret_pid, (void)ret_pidfd;
    return -1;
}

#endif

static int posix_start(const struct spawn *what, pid_t *ret_pid)
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
    posix_spawn_file_actions_adddup2(&actions, what->in, 0);
    posix_spawn_file_actions_adddup2(&actions, what->out, 1);
    posix_spawn_file_actions_adddup2(&actions, what->err, 2);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    if (what->cwd)
        posix_spawn_file_actions_addchdir_np(&actions, what->cwd);
    int error = posix_spawn(ret_pid, what->path, &actions, &attributes, (char *const *)what->argv,
                            (char *const *)what->envp);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

static int start_by_posix(const struct spawn *what, pid_t *ret_pid, int *ret_pidfd)
{
    pid_t pid;
    int error = posix_start(what, &pid), pidfd = error ? -1 : pidfd_open(pid, 0);

    if (error)
        return error;
    if (pidfd < 0) {
        error = errno;
        kill(-pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return error;
    }
    *ret_pid = pid;
    *ret_pidfd = pidfd;
    return 0;
}

int spawner_start(struct spawner *s, const struct spawn *what, pid_t *ret_pid, int *ret_pidfd)
{
    int error = s->no_clone3 ? -1 : start_by_clone3(s, what, ret_pid, ret_pidfd);

    if (error >= 0)
        return error;
    if (what->cgroup >= 0)
        return ENOTSUP;
    s->no_clone3 = true;
    return start_by_posix(what, ret_pid, ret_pidfd);
}
