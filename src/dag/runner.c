/*
 * The runner has an epoll of its own, of which the loop watches one descriptor: three descriptors a
 * command come and go two thousand times a second, and a uv_poll_t for each would cost a turn of the
 * loop to close. The end of a process is told by its pidfd.
 *
 * We ask to be the reaper of what our commands leave behind, so that orphans come to us and not to
 * init; they are waited for by a slow tick, which leaves alone the children that somebody else in
 * this process may be about to wait for.
 */
#include "dag/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/uv_check.h"
#include "dag/cgroup.h"
#include "dag/orphans.h"
#include "dag/output.h"
#include "dag/spawn.h"

enum {
    EVENTS_MAX = 64,
    KILL_TICK_MS = 20,
    KILL_GIVE_UP_MS = 3000,
    REAP_TICK_MS = 1000,
    DRAIN_PIECES = 16,
    CLOSE_GRACE_MS = 500,
};
enum { WATCH_STDOUT, WATCH_STDERR, WATCH_PROCESS, WATCHES };

struct watch {
    struct run *run;
    int kind, fd; /* fd -1: closed */
};

struct run {
    struct runner *runner;
    struct run *next, *prev;
    pid_t pid;
    struct watch watches[WATCHES];
    struct run_output outputs[RUN_STREAMS];
    size_t cap_len;
    int log_fd;
    char *token;
    struct cgroup *cgroup; /* NULL: it has none */
    struct orphans orphans;
    run_done_fn *done;
    run_printed_fn *printed;
    void *arg;

    struct run_end end;
    bool exited, killing, killed_hard, over;
    int64_t timeout_at, linger_at, kill_at, give_up_at; /* INT64_MAX: not */
};

struct runner {
    uv_loop_t *loop;
    uv_poll_t poll;
    uv_timer_t timer, reaper;
    struct spawner *spawner;
    struct cgroups *cgroups; /* NULL: there are none here */
    int epoll, closing, null;
    int64_t timer_at;
    uint32_t count;
    struct run *runs;
    pid_t last_zombie;
    char piece[RUN_PIECE_LEN];
};

static void arm_timer(struct runner *rr, int64_t at);

static void close_watch(struct watch *w)
{
    if (w->fd >= 0)
        close(w->fd); /* leaves the epoll with it: no other process has our end */
    w->fd = -1;
}

/* The end of a run. */

static void finish(struct run *r)
{
    struct runner *rr = r->runner;

    if (r->over)
        return;
    r->over = true;
    for (int i = 0; i < WATCHES; i++)
        close_watch(&r->watches[i]);
    if (r->log_fd >= 0)
        close(r->log_fd);
    waitpid(r->pid, NULL, WNOHANG);
    if (r->prev)
        r->prev->next = r->next;
    else
        rr->runs = r->next;
    if (r->next)
        r->next->prev = r->prev;
    rr->count--;
    if (r->cgroup)
        cgroups_give(rr->cgroups, r->cgroup);
    r->cgroup = NULL;
    r->done(r->arg, r, &r->end);
}

static bool pipes_are_closed(const struct run *r)
{
    return r->watches[WATCH_STDOUT].fd < 0 && r->watches[WATCH_STDERR].fd < 0;
}

static void finish_if_over(struct run *r)
{
    if (r->exited && !r->killing && pipes_are_closed(r))
        finish(r);
}

/* Output. */

static void keep(struct run *r, enum run_stream s, const char *p, size_t len)
{
    output_put(&r->outputs[s], p, len, r->cap_len);
    output_put(&r->outputs[RUN_MIXED], p, len, r->cap_len);
    if (r->log_fd >= 0 && write(r->log_fd, p, len) < 0) {
        close(r->log_fd); /* a full disk under the logs is no reason to fail the command */
        r->log_fd = -1;
    }
}

/* Reads once. False when there is nothing to read for now, or ever. */
static bool read_piece(struct watch *w)
{
    struct run *r = w->run;
    ssize_t n = w->fd < 0 ? -1 : read(w->fd, r->runner->piece, RUN_PIECE_LEN);

    if (n > 0)
        keep(r, (enum run_stream)w->kind, r->runner->piece, (size_t)n);
    else if (w->fd >= 0 && (n == 0 || (errno != EAGAIN && errno != EINTR)))
        close_watch(w);
    return n > 0;
}

static void on_readable(struct watch *w)
{
    struct run *r = w->run;

    if (read_piece(w) && r->printed)
        r->printed(r->arg, r);
    finish_if_over(r);
}

/* What a process that has ended left in its pipes: usually all of it, and the end is told at once. */
static void drain(struct run *r)
{
    for (int kind = WATCH_STDOUT; kind <= WATCH_STDERR; kind++)
        for (int i = 0; i < DRAIN_PIECES && read_piece(&r->watches[kind]); i++)
            ;
}

/*
 * The process itself has ended. It is not waited for until the run is over, so that its number, which
 * is also that of its group, is not given to another.
 */
static void on_exit_of(struct run *r)
{
    siginfo_t info = {0};

    if (r->exited ||
        waitid(P_PIDFD, (id_t)r->watches[WATCH_PROCESS].fd, &info, WEXITED | WNOHANG | WNOWAIT) ||
        !info.si_pid)
        return;
    r->exited = true;
    close_watch(&r->watches[WATCH_PROCESS]);
    drain(r);
    if (!r->killing)
        r->end.how = info.si_code == CLD_EXITED ? RUN_EXITED : RUN_SIGNALLED;
    r->end.status = info.si_status;
    r->linger_at = clock_boot_ms() + RUN_LINGER_MS;
    if (!r->killing && !pipes_are_closed(r))
        arm_timer(r->runner, r->linger_at);
    finish_if_over(r);
}

/*
 * Output first: an end that is told in the same turn then finds its pipes read. Ends come last, since
 * `done` may free the run, to which earlier entries of the list may point.
 */
static void on_events(uv_poll_t *poll, int status, int flags)
{
    struct runner *rr = poll->data;
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(rr->epoll, events, EVENTS_MAX, 0);

    (void)status;
    (void)flags;
    for (int i = 0; i < n; i++) {
        struct watch *w = events[i].data.ptr;

        if (w->kind == WATCH_PROCESS)
            continue;
        on_readable(w);
        events[i].data.ptr = NULL;
    }
    for (int i = 0; i < n; i++)
        if (events[i].data.ptr)
            on_exit_of(((struct watch *)events[i].data.ptr)->run);
}

/* Killing. */

static struct orphan_signs signs(const struct run *r)
{
    return (struct orphan_signs){.leader = r->pid, .token = r->token, .cgroup = r->cgroup};
}

static bool ask_all(struct run *r)
{
    struct orphan_signs by = signs(r);

    return orphans_ask(&r->orphans, &by);
}

static bool end_hard(struct run *r)
{
    struct orphan_signs by = signs(r);

    kill(-r->pid, SIGKILL);
    return orphans_signal(&by, SIGKILL);
}

void run_kill(struct run *r, int64_t grace_ms)
{
    if (r->over || r->killing)
        return;
    r->killing = true;
    r->end.how = RUN_KILLED;
    r->kill_at = clock_boot_ms() + grace_ms;
    ask_all(r);
    arm_timer(r->runner, clock_boot_ms() + KILL_TICK_MS);
}

static void kill_tick(struct run *r, int64_t now)
{
    bool alive;

    if (now >= r->kill_at && !r->killed_hard) {
        r->killed_hard = true;
        r->give_up_at = now + KILL_GIVE_UP_MS;
    }
    alive = r->killed_hard ? end_hard(r) : ask_all(r);
    if (!alive && r->exited)
        finish(r);
    else if (now >= r->give_up_at && r->exited)
        finish(r); /* something sits in the kernel and cannot die yet */
}

/* Time. */

static int64_t due_at(const struct run *r, int64_t now)
{
    int64_t at = r->timeout_at;

    if (r->killing)
        return now + KILL_TICK_MS;
    if (r->linger_at < at)
        at = r->linger_at;
    return at;
}

static void tick_run(struct run *r, int64_t now)
{
    if (!r->killing && !r->exited && now >= r->timeout_at) {
        run_kill(r, RUN_GRACE_MS);
        r->end.how = RUN_TIMED_OUT;
    }
    if (r->killing)
        kill_tick(r, now);
    else if (now >= r->linger_at)
        finish(r);
}

static void on_timer(uv_timer_t *timer)
{
    struct runner *rr = timer->data;
    int64_t now = clock_boot_ms(), next = INT64_MAX;

    rr->timer_at = INT64_MAX;
    for (struct run *r = rr->runs, *after; r; r = after) {
        after = r->next;
        tick_run(r, now);
    }
    for (struct run *r = rr->runs; r; r = r->next)
        if (due_at(r, now) < next)
            next = due_at(r, now);
    if (next != INT64_MAX)
        arm_timer(rr, next);
}

static void arm_timer(struct runner *rr, int64_t at)
{
    int64_t now = clock_boot_ms();

    if (at >= rr->timer_at || rr->closing)
        return;
    rr->timer_at = at;
    uv_update_time(rr->loop);
    uv_timer_start(&rr->timer, on_timer, at > now ? (uint64_t)(at - now) : 0, 0);
}

static bool is_ours(const struct runner *rr, pid_t pid)
{
    for (const struct run *r = rr->runs; r; r = r->next)
        if (r->pid == pid)
            return true;
    return false;
}

/* Waits for orphans: those that were dead already a tick ago. */
static void on_reaper(uv_timer_t *timer)
{
    struct runner *rr = timer->data;
    siginfo_t info = {0};

    if (rr->cgroups)
        cgroups_sweep(rr->cgroups);
    while (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid) {
        if (is_ours(rr, info.si_pid) || info.si_pid != rr->last_zombie) {
            rr->last_zombie = info.si_pid;
            return;
        }
        waitpid(info.si_pid, NULL, WNOHANG);
        info.si_pid = 0;
    }
    rr->last_zombie = 0;
}

/* Starting. */

static const char *look_up(const char *const *envp, const char *name)
{
    size_t len = strlen(name);

    for (; *envp; envp++)
        if (!strncmp(*envp, name, len) && (*envp)[len] == '=')
            return *envp + len + 1;
    return NULL;
}

/* The file of a command, as a shell would look for it. False: there is none. */
static bool find_file(const struct run_spec *s, char path[PATH_MAX])
{
    const char *name = s->argv[0], *dirs = look_up(s->envp, "PATH"), *end;
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

    r->watches[kind] = (struct watch){r, kind, fd};
    return !epoll_ctl(rr->epoll, EPOLL_CTL_ADD, fd, &event);
}

static int explain(const struct run_spec *s, int error, int *ret_status, struct err_info *e)
{
    struct stat st;

    *ret_status = error == ENOENT ? 127 : 126;
    if (s->cwd && (stat(s->cwd, &st) || !S_ISDIR(st.st_mode)))
        return err_set(e, DROVER_BAD_ARGUMENT, "cannot start: the directory %s is not there",
                       s->cwd);
    return err_set(e, DROVER_BAD_ARGUMENT, "cannot start %s: %s", s->argv[0], strerror(error));
}

/* In a cgroup of its own, as long as this system lets us. Returns 0 or errno. */
static int spawn(struct runner *rr, struct run *r, const struct run_spec *s, const char *path,
                 int out, int err, int *ret_pidfd)
{
    struct spawn what = {
        .path = path,
        .argv = s->argv,
        .envp = s->envp,
        .cwd = s->cwd,
        .in = rr->null,
        .out = out,
        .err = err,
        .cgroup = -1,
    };
    int error;

    r->cgroup = rr->cgroups ? cgroups_take(rr->cgroups) : NULL;
    if (r->cgroup)
        what.cgroup = cgroup_dir(r->cgroup);
    error = spawner_start(rr->spawner, &what, &r->pid, ret_pidfd);
    if (error && r->cgroup) {
        cgroups_give(rr->cgroups, r->cgroup);
        r->cgroup = NULL;
    }
    if (error != ENOTSUP || what.cgroup < 0)
        return error;
    what.cgroup = -1;
    return spawner_start(rr->spawner, &what, &r->pid, ret_pidfd);
}

/* The pipes and the process. Returns 0 or errno. */
static int begin(struct runner *rr, struct run *r, const struct run_spec *s, const char *path)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1}, pidfd = -1, error = 0;

    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
        error = errno;
    if (!error)
        error = spawn(rr, r, s, path, out[1], err[1], &pidfd);
    close(out[1]);
    close(err[1]);
    if (!error) {
        fcntl(out[0], F_SETFL, O_NONBLOCK);
        fcntl(err[0], F_SETFL, O_NONBLOCK);
        if (!watch(rr, r, WATCH_STDOUT, out[0]) || !watch(rr, r, WATCH_STDERR, err[0]) ||
            !watch(rr, r, WATCH_PROCESS, pidfd)) {
            error = errno;
            kill(-r->pid, SIGKILL);
            waitpid(r->pid, NULL, 0);
        }
    }
    if (error) {
        close(out[0]);
        close(err[0]);
        if (pidfd >= 0)
            close(pidfd);
    }
    return error;
}

struct run *runner_start(struct runner *rr, const struct run_spec *spec, run_done_fn *done,
                         run_printed_fn *printed, void *arg, int *ret_status,
                         struct err_info *ret_error)
{
    char path[PATH_MAX];
    struct run *r;
    int error = find_file(spec, path) ? 0 : ENOENT;

    r = mem_zalloc(sizeof *r);
    if (!error)
        error = begin(rr, r, spec, path);
    if (error) {
        if (r->cgroup)
            cgroups_give(rr->cgroups, r->cgroup);
        free(r);
        explain(spec, error, ret_status, ret_error);
        return NULL;
    }
    r->runner = rr;
    r->cap_len = spec->cap_len ? spec->cap_len : RUN_CAP_LEN;
    r->token = mem_dup(spec->token, strlen(spec->token));
    r->log_fd = -1;
    if (spec->log_path)
        r->log_fd = open(spec->log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    r->done = done;
    r->printed = printed;
    r->arg = arg;
    r->linger_at = r->kill_at = r->give_up_at = r->timeout_at = INT64_MAX;
    r->next = rr->runs;
    if (rr->runs)
        rr->runs->prev = r;
    rr->runs = r;
    rr->count++;
    if (spec->timeout_ms) {
        r->timeout_at = clock_boot_ms() + spec->timeout_ms;
        arm_timer(rr, r->timeout_at);
    }
    return r;
}

const struct run_output *run_output(const struct run *r, enum run_stream s)
{
    return &r->outputs[s];
}

pid_t run_pid(const struct run *r)
{
    return r->pid;
}

void run_free(struct run *r)
{
    for (int i = 0; i < RUN_STREAMS; i++)
        buf_release(&r->outputs[i].text);
    orphans_release(&r->orphans);
    free(r->token);
    free(r);
}

/* The runner. */

struct runner *runner_open(uv_loop_t *loop, enum runner_reach reach)
{
    struct runner *rr = mem_zalloc(sizeof *rr);

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    rr->loop = loop;
    rr->timer_at = INT64_MAX;
    rr->spawner = spawner_open();
    rr->cgroups = reach == RUNNER_BY_CGROUP ? cgroups_open() : NULL;
    rr->epoll = epoll_create1(EPOLL_CLOEXEC);
    rr->null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    UV_CHECK(uv_poll_init(loop, &rr->poll, rr->epoll));
    rr->poll.data = rr;
    uv_poll_start(&rr->poll, UV_READABLE, on_events);
    UV_CHECK(uv_timer_init(loop, &rr->timer));
    rr->timer.data = rr;
    UV_CHECK(uv_timer_init(loop, &rr->reaper));
    rr->reaper.data = rr;
    uv_timer_start(&rr->reaper, on_reaper, REAP_TICK_MS, REAP_TICK_MS);
    return rr;
}

bool runner_has_cgroups(const struct runner *rr)
{
    return rr->cgroups != NULL;
}

uint32_t runner_count(const struct runner *rr)
{
    return rr->count;
}

static void on_closed(uv_handle_t *handle)
{
    struct runner *rr = handle->data;

    if (--rr->closing)
        return;
    close(rr->epoll);
    close(rr->null);
    spawner_close(rr->spawner);
    if (rr->cgroups)
        cgroups_close(rr->cgroups);
    free(rr);
}

/* Those that still run: a short time to end by themselves, then none. */
static void end_all(struct runner *rr)
{
    int64_t until = clock_boot_ms() + CLOSE_GRACE_MS;
    struct timespec tick = {.tv_nsec = 5 * 1000 * 1000};
    bool left = true;

    for (struct run *r = rr->runs; r; r = r->next)
        ask_all(r);
    while (left && clock_boot_ms() < until) {
        nanosleep(&tick, NULL);
        left = false;
        for (struct run *r = rr->runs; r; r = r->next)
            left |= ask_all(r);
    }
    while (rr->runs) {
        struct run *r = rr->runs;

        end_hard(r);
        r->end.how = RUN_KILLED;
        finish(r);
    }
}

void runner_close(struct runner *rr)
{
    rr->closing = 3;
    if (rr->runs)
        end_all(rr);
    uv_close((uv_handle_t *)&rr->poll, on_closed);
    uv_close((uv_handle_t *)&rr->timer, on_closed);
    uv_close((uv_handle_t *)&rr->reaper, on_closed);
}
