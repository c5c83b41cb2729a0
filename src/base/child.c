/*
 * A process and its pidfd. The input is a file in memory, so a command that does not read it, or
 * reads it late, cannot block us.
 */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/process.h"

extern char **environ;

/* Signals. */

static atomic_int caught;
static atomic_int stop_fd = -1;

/* timeout(1) and some shells send a signal twice, to us and to our group: these count as one. */
static void on_signal(int number)
{
    enum { SAME_MS = 500 };
    static const uint64_t one = 1;
    static atomic_llong caught_ms;
    int saved = errno;

    if (!atomic_load(&caught)) {
        atomic_store(&caught_ms, clock_boot_ms());
        atomic_store(&caught, number);
        if (write(stop_fd, &one, sizeof one) < 0)
            (void)0; /* already readable */
    } else if (clock_boot_ms() - atomic_load(&caught_ms) > SAME_MS) {
        signal(number, SIG_DFL);
        raise(number); /* delivered when this returns */
    }
    errno = saved;
}

void child_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

int child_signal(void)
{
    return atomic_load(&caught);
}

int child_stop_fd(void)
{
    return stop_fd;
}

void child_pause(int64_t ms)
{
    struct pollfd p = {.fd = stop_fd, .events = POLLIN};
    poll(&p, 1, (int)(ms > INT32_MAX ? INT32_MAX : ms));
}

/* Starting. */

static int make_input(struct str input, struct err_info *ret_error)
{
    int fd = memfd_create("drover-input", MFD_CLOEXEC);
    if (fd >= 0 && !fs_write_all(&fs_system, fd, input.p, input.len, 0, false))
        return fd;
    int err = err_set_errno(ret_error, errno, "cannot create the input of the command");
    if (fd >= 0)
        close(fd);
    return err;
}

static bool is_replaced(const char *entry, const struct child_options *o)
{
    size_t len = strcspn(entry, "=");
    for (const char *const *v = o->variables; v && *v; v++)
        if (!strncmp(entry, *v, len) && (*v)[len] == '=')
            return true;
    for (const char *const *name = o->hidden; name && *name; name++)
        if (!strncmp(entry, *name, len) && !(*name)[len])
            return true;
    return false;
}

/* Our environment with the variables replaced or added. The caller frees the array. */
static const char **make_environment(const struct child_options *o)
{
    size_t count = 1, kept = 0;
    for (char **e = environ; *e; e++)
        count++;
    for (const char *const *v = o->variables; v && *v; v++)
        count++;
    const char **made = mem_alloc(count * sizeof *made);
    for (char **e = environ; *e; e++)
        if (!is_replaced(*e, o))
            made[kept++] = *e;
    for (const char *const *v = o->variables; v && *v; v++)
        made[kept++] = *v;
    made[kept] = NULL;
    return made;
}

/* A process group of its own, default signal handling, the input on stdin. Returns errno. */
static int start(const struct child_options *o, const int fds[3], pid_t *ret_pid, int *ret_pidfd)
{
    static const unsigned char usual[] = {SIGTERM, SIGINT, SIGPIPE};
    const char **environment = make_environment(o);
    enum process_step step;
    CLEANUP(arena_release) struct arena a = {0};
    struct process_options p = {
        .paths = process_find(&a, o->argv[0], process_path(), o->account != NULL),
        .argv = (const char *const *)o->argv,
        .envp = environment,
        .fds = {fds[0], fds[1], fds[2]},
        .cgroup = -1,
        .new_privileges = !o->no_new_privs,
        .account = o->account,
        .signals = usual,
        .signal_count = sizeof usual,
    };
    int errnum = p.paths[0] ? process_start(&p, ret_pid, ret_pidfd, &step) : ENOENT;
    free(environment);
    return errnum;
}

/* Running. */

struct child {
    const struct child_options *o;
    pid_t pid;
    int pidfd;
    int64_t next_tick_ms, kill_at_ms; /* by clock_boot_ms(); INT64_MAX: never */
    bool signalled;
    int outputs[3]; /* pipes from its descriptors 1 and 2; -1: none */
};

/* Passes on what has been written. False: there is nothing at the moment, or no more. */
static bool take_output(struct child *f, int fd)
{
    char bytes[16 * 1024];
    ssize_t len = f->outputs[fd] < 0 ? 0 : read(f->outputs[fd], bytes, sizeof bytes);
    if (len > 0)
        f->o->output(f->o->output_arg, fd, (struct str){bytes, (size_t)len});
    if (len > 0 || (len < 0 && (errno == EAGAIN || errno == EINTR)))
        return len > 0;
    if (f->outputs[fd] >= 0)
        close(f->outputs[fd]);
    f->outputs[fd] = -1;
    return false;
}

/* After its end: what is in the pipes, and no more, for others may still write. */
static void take_rest(struct child *f)
{
    enum { READS_MAX = 8 };
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        for (int i = 0; i < READS_MAX && take_output(f, fd); i++)
            ;
        if (f->outputs[fd] >= 0)
            close(f->outputs[fd]);
    }
}

static void signal_group(struct child *f, int number)
{
    kill(-f->pid, number);
    f->signalled = true;
    f->kill_at_ms = clock_boot_ms() + (f->o->grace_ms ? f->o->grace_ms : CHILD_GRACE_MS);
}

/* Handles the tick, a signal and the end of the grace time, if they are due. */
static void handle_due(struct child *f)
{
    int64_t now_ms = clock_boot_ms();
    if (!f->signalled && child_signal())
        signal_group(f, child_signal());
    if (now_ms >= f->next_tick_ms) {
        f->next_tick_ms = now_ms + f->o->tick_ms;
        if (!f->o->tick(f->o->arg) && !f->signalled)
            signal_group(f, SIGTERM);
    }
    if (now_ms >= f->kill_at_ms) {
        kill(-f->pid, SIGKILL);
        f->kill_at_ms = INT64_MAX;
    }
}

static int until_due(const struct child *f)
{
    int64_t due_ms = f->kill_at_ms < f->next_tick_ms ? f->kill_at_ms : f->next_tick_ms;
    if (due_ms == INT64_MAX)
        return -1;
    int64_t left_ms = due_ms - clock_boot_ms();
    return left_ms < 0 ? 0 : left_ms > INT32_MAX ? INT32_MAX : (int)left_ms;
}

static void follow(struct child *f)
{
    struct pollfd fds[4] = {{.events = POLLIN, .fd = f->pidfd},
                            {.events = POLLIN},
                            {.events = POLLIN},
                            {.events = POLLIN}};
    for (;;) {
        fds[STDOUT_FILENO].fd = f->outputs[STDOUT_FILENO];
        fds[STDERR_FILENO].fd = f->outputs[STDERR_FILENO];
        fds[3].fd = f->signalled ? -1 : stop_fd;
        if (poll(fds, 4, until_due(f)) < 0)
            continue;
        for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
            if (fds[fd].revents)
                take_output(f, fd);
        if (fds[0].revents)
            break;
        handle_due(f);
    }
    if (f->signalled) /* it is not reaped yet, so no other group can have its id */
        kill(-f->pid, SIGKILL);
}

static int wait_for(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The pipes of its output: ours are in outputs, its in fds. Returns errno. */
static int make_outputs(const struct child_options *o, int outputs[3], int fds[3])
{
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        int ends[2];
        if (!(o->outputs & 1U << fd))
            continue;
        if (pipe2(ends, O_CLOEXEC))
            return errno;
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        outputs[fd] = ends[0];
        fds[fd] = ends[1];
    }
    return 0;
}

/* Starts it. Returns errno. */
static int start_child(struct child *f, int input_fd)
{
    int fds[3] = {input_fd, STDOUT_FILENO, STDERR_FILENO};
    int errnum = make_outputs(f->o, f->outputs, fds);
    if (!errnum)
        errnum = start(f->o, fds, &f->pid, &f->pidfd);
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fds[fd] != fd)
            close(fds[fd]);
    if (errnum)
        take_rest(f);
    return errnum;
}

int child_run(const struct child_options *o, int *ret_status, struct err_info *ret_error)
{
    struct child f = {
        .o = o, .next_tick_ms = INT64_MAX, .kill_at_ms = INT64_MAX, .outputs = {-1, -1, -1}};
    int input_fd = make_input(o->input, ret_error);
    if (input_fd < 0)
        return input_fd;
    int errnum = start_child(&f, input_fd);
    close(input_fd);
    if (errnum) {
        int err = err_set_errno(ret_error, errnum, "cannot start '%s'", o->argv[0]);
        *ret_status = errnum == ENOENT ? 127 : 126;
        return errnum == EAGAIN || errnum == ENOMEM ? err : 0;
    }
    if (o->tick && o->tick_ms)
        f.next_tick_ms = clock_boot_ms() + o->tick_ms;
    follow(&f);
    take_rest(&f);
    close(f.pidfd);
    *ret_status = wait_for(f.pid);
    ret_error->text[0] = '\0';
    return 0;
}
