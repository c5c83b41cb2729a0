/*
 * The runner has its own epoll instance, and the loop watches that one descriptor. Each command has
 * three descriptors, and with 2,000 commands a second a uv_poll_t for each would need a loop
 * iteration to close. A pidfd reports the exit of a process.
 *
 * The process is a child subreaper, so orphaned descendants become its children. A slow timer waits
 * for them, and leaves alone children that other code in this process may be about to wait for.
 * spawn.c starts commands.
 */
#include "dag/runner_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/uv_check.h"

enum {
    EVENTS_MAX = 64,
    KILL_TICK_MS = 20,
    KILL_GIVE_UP_MS = 3000,
    REAP_TICK_MS = 1000,
    CPU_TICK_MS = 50,
    DRAIN_PIECES = 16,
    CLOSE_GRACE_MS = 500,
    BUSY_MS = 20,               /* after an exit: short commands run, too */
    BUSY_PIECE_LEN = 64 * 1024, /* then one that prints much is read so much at a time, for */
    REST_MS = 4,                /* their sake, and so seldom */
};

/*
 * Closing alone would leave it in the epoll while another process has a copy: one that another
 * thread is starting.
 */
void run_close_watch(struct run_watch *w)
{
    if (w->fd < 0)
        return;
    epoll_ctl(w->run->runner->epoll, EPOLL_CTL_DEL, w->fd, NULL);
    close(w->fd);
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
        run_close_watch(&r->watches[i]);
    if (r->log_fd >= 0)
        close(r->log_fd);
    waitpid(r->orphans.leader, NULL, WNOHANG);
    if (r->prev)
        r->prev->next = r->next;
    else
        rr->runs = r->next;
    if (r->next)
        r->next->prev = r->prev;
    if (r->orphans.cgroup)
        cgroups_give(rr->cgroups, r->orphans.cgroup);
    r->orphans.cgroup = NULL;
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

size_t output_whole(const char *p, size_t len)
{
    size_t at = p ? len : 0;
    while (at && len - at < 3 && ((unsigned char)p[at - 1] & 0xc0) == 0x80)
        at--;
    if (!at || (unsigned char)p[at - 1] < 0xc0)
        return len; /* ends with a complete character, or is not UTF-8 */
    unsigned char first = (unsigned char)p[--at];
    size_t need = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    return len - at >= need ? len : at;
}

static void watch_outputs(struct run *r, uint32_t events)
{
    for (int kind = WATCH_STDOUT; kind <= WATCH_STDERR; kind++)
        if (r->watches[kind].fd >= 0)
            epoll_ctl(r->runner->epoll, EPOLL_CTL_MOD, r->watches[kind].fd,
                      &(struct epoll_event){.events = events, .data.ptr = &r->watches[kind]});
}

/* Fewer wake-ups: each costs as much as copying some ten KiB. Where it is refused, they stay. */
static void widen_pipes(struct run *r)
{
    r->wide = true;
    for (int kind = WATCH_STDOUT; kind <= WATCH_STDERR; kind++)
        if (r->watches[kind].fd >= 0)
            fcntl(r->watches[kind].fd, F_SETPIPE_SZ, RUN_PIPE_LEN);
}

static void pause_outputs(struct run *r)
{
    if (!r->paused)
        watch_outputs(r, 0);
    r->paused = true;
}

static void append_output(struct run *r, enum run_stream s, const char *p, size_t len)
{
    output_put(r->output, s, (struct str){p, len}, clock_wall_ms());
    run_log_put(&r->log_fd, p, len);
    if (!r->wide && output_offset(&r->output->total, RUN_MIXED) > RUN_PRINTS_MUCH)
        widen_pipes(r);
    if (output_is_full(r->output))
        pause_outputs(r);
}

/* Does not read for a while. */
static void rest(struct run *r)
{
    r->rest_at = clock_boot_ms() + REST_MS;
    pause_outputs(r);
    runner_arm_timer(r->runner, r->rest_at);
}

/* Reads once. Returns whether it has read something. */
static bool read_piece(struct run_watch *w)
{
    struct run *r = w->run;
    if (r->paused || w->fd < 0)
        return false;
    bool busy = r->wide && uv_now(r->runner->loop) - r->runner->exit_ms < BUSY_MS;
    ssize_t n = read(w->fd, r->runner->piece, busy ? BUSY_PIECE_LEN : RUN_PIECE_LEN);
    if (n > 0)
        append_output(r, (enum run_stream)w->kind, r->runner->piece, (size_t)n);
    if (n > 0 && busy && !r->exited)
        rest(r);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        run_close_watch(w);
    return n > 0;
}

static void on_readable(struct run_watch *w)
{
    struct run *r = w->run;
    if (read_piece(w) && r->printed)
        r->printed(r->arg, r);
    finish_if_over(r);
}

/* Reads what an exited process left in its pipes. Usually that closes them and the run is over. */
static void drain(struct run *r)
{
    for (int kind = WATCH_STDOUT; kind <= WATCH_STDERR; kind++)
        for (int i = 0; i < DRAIN_PIECES && read_piece(&r->watches[kind]); i++)
            ;
}

static void linger(struct run *r)
{
    r->linger_at = clock_boot_ms() + RUN_LINGER_MS;
    if (!r->killing && !pipes_are_closed(r))
        runner_arm_timer(r->runner, r->linger_at);
}

void run_resume(struct run *r)
{
    if (!r->paused || r->stopping || r->rest_at != INT64_MAX || output_is_full(r->output))
        return;
    r->paused = false;
    watch_outputs(r, EPOLLIN);
    if (r->exited && !r->over)
        linger(r);
}

void run_pause(struct run *r, bool pauses)
{
    r->stopping = pauses;
    if (pauses && !r->exited)
        pause_outputs(r);
    else
        run_resume(r);
}

static void set_limit_reason(struct run *r, enum limit_kind kind)
{
    static const char *const names[LIMIT_KINDS] = {[LIMIT_CPU] = "CPU time",
                                                   [LIMIT_MEMORY] = "memory",
                                                   [LIMIT_FILES] = "files",
                                                   [LIMIT_PROCESSES] = "processes"};
    char text[HUMAN_SIZE];
    snprintf(r->reason, sizeof r->reason, "used more than its limit of %s: %s", names[kind],
             limit_text(text, kind, r->limits.of[kind]));
    r->end.reason = r->reason;
}

/* Whether a limit ended the process. */
static void look_for_limit(struct run *r)
{
    if (r->end.how != RUN_SIGNALLED)
        return;
    if (r->end.status == SIGXCPU && r->limits.of[LIMIT_CPU])
        set_limit_reason(r, LIMIT_CPU);
    if (r->end.status == SIGKILL && r->limited & 1u << LIMIT_MEMORY &&
        cgroup_ran_out_of_memory(r->orphans.cgroup))
        set_limit_reason(r, LIMIT_MEMORY);
}

/*
 * The process has exited. It stays a zombie until the run is over, so that its pid, which is also
 * its process group, is not reused.
 */
static void on_exit_of(struct run *r)
{
    siginfo_t info = {0};
    if (r->exited ||
        waitid(P_PIDFD, (id_t)r->watches[WATCH_PROCESS].fd, &info, WEXITED | WNOHANG | WNOWAIT) ||
        !info.si_pid)
        return;
    r->exited = true;
    r->rest_at = INT64_MAX;
    run_resume(r);
    r->runner->exit_ms = uv_now(r->runner->loop);
    run_close_watch(&r->watches[WATCH_PROCESS]);
    drain(r);
    if (!r->killing)
        r->end.how = info.si_code == CLD_EXITED ? RUN_EXITED : RUN_SIGNALLED;
    r->end.status = info.si_status;
    r->timeout_at = r->cpu_at = INT64_MAX;
    if (!r->killing)
        look_for_limit(r);
    if (!r->paused)
        linger(r);
    finish_if_over(r);
}

/*
 * Handles output first, so that the pipes are read before the exit of the process is handled. Exits
 * come last because `done` may free the run, which other events in the list refer to.
 */
static void on_events(uv_poll_t *poll, int status, int flags)
{
    struct runner *rr = poll->data;
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(rr->epoll, events, EVENTS_MAX, 0);
    (void)status;
    (void)flags;
    for (int i = 0; i < n; i++) {
        struct run_watch *w = events[i].data.ptr;
        if (w->kind == WATCH_PROCESS)
            continue;
        if (w->kind == WATCH_STDIN)
            run_feed(w->run);
        else
            on_readable(w);
        events[i].data.ptr = NULL;
    }
    for (int i = 0; i < n; i++)
        if (events[i].data.ptr)
            on_exit_of(((struct run_watch *)events[i].data.ptr)->run);
}

/* Killing. */

static bool kill_all(struct run *r)
{
    kill(-r->orphans.leader, SIGKILL);
    return orphans_signal(&r->orphans, SIGKILL);
}

void run_kill(struct run *r, int64_t grace_ms)
{
    if (r->over || r->killing)
        return;
    r->killing = true;
    r->end.how = RUN_KILLED;
    r->kill_at = clock_boot_ms() + grace_ms;
    orphans_terminate(&r->orphans);
    runner_arm_timer(r->runner, clock_boot_ms() + KILL_TICK_MS);
}

static void kill_tick(struct run *r, int64_t now)
{
    if (now >= r->kill_at && !r->killed_hard) {
        r->killed_hard = true;
        r->give_up_at = now + KILL_GIVE_UP_MS;
    }
    bool alive = r->killed_hard ? kill_all(r) : orphans_terminate(&r->orphans);
    if (r->exited && (!alive || now >= r->give_up_at))
        finish(r); /* give_up_at: a process is stuck in the kernel and cannot die yet */
}

/* Time. */

/* It can use the time of all processors at once. */
int64_t run_cpu_left_ms(const struct run *r)
{
    int64_t used = cgroup_cpu_ms(r->orphans.cgroup), left = r->limits.of[LIMIT_CPU] - used;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (left <= 0)
        return 0;
    left /= cores > 0 ? cores : 1;
    return left > CPU_TICK_MS ? left : CPU_TICK_MS;
}

static void check_cpu(struct run *r, int64_t now)
{
    int64_t left = run_cpu_left_ms(r);
    r->cpu_at = now + left;
    if (left)
        return;
    run_kill(r, RUN_GRACE_MS);
    r->end.how = RUN_SIGNALLED;
    set_limit_reason(r, LIMIT_CPU);
}

static int64_t due_at(const struct run *r, int64_t now)
{
    int64_t at = r->linger_at < r->timeout_at ? r->linger_at : r->timeout_at;
    at = at < r->rest_at ? at : r->rest_at;
    if (r->killing)
        return now + KILL_TICK_MS;
    return at < r->cpu_at ? at : r->cpu_at;
}

static void tick_run(struct run *r, int64_t now)
{
    if (now >= r->rest_at) {
        r->rest_at = INT64_MAX;
        run_resume(r);
    }
    if (!r->killing && !r->exited && now >= r->timeout_at) {
        run_kill(r, RUN_GRACE_MS);
        r->end.how = RUN_TIMED_OUT;
    }
    if (!r->killing && !r->exited && now >= r->cpu_at)
        check_cpu(r, now);
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
        runner_arm_timer(rr, next);
}

void runner_arm_timer(struct runner *rr, int64_t at)
{
    int64_t now = clock_boot_ms();
    if (at >= rr->timer_at || rr->closing)
        return;
    rr->timer_at = at;
    uv_update_time(rr->loop);
    UV_CHECK(uv_timer_start(&rr->timer, on_timer, at > now ? (uint64_t)(at - now) : 0, 0));
}

static bool is_run(const struct runner *rr, pid_t pid)
{
    const struct run *r = rr->runs;
    while (r && r->orphans.leader != pid)
        r = r->next;
    return r != NULL;
}

/* Reaps orphans that were zombies already at the previous tick. */
static void on_reaper(uv_timer_t *timer)
{
    struct runner *rr = timer->data;
    siginfo_t info = {0};
    if (rr->cgroups)
        cgroups_sweep(rr->cgroups);
    while (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid) {
        if (is_run(rr, info.si_pid) || info.si_pid != rr->last_zombie) {
            rr->last_zombie = info.si_pid;
            return;
        }
        waitpid(info.si_pid, NULL, WNOHANG);
        info.si_pid = 0;
    }
    rr->last_zombie = 0;
}

void run_free(struct run *r)
{
    buf_release(&r->input);
    free((char *)r->orphans.token);
    orphans_release(&r->orphans);
    free(r);
}

/* The runner. */

struct runner *runner_open(uv_loop_t *loop)
{
    struct runner *rr = mem_zalloc(sizeof *rr);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    rr->loop = loop;
    rr->timer_at = INT64_MAX;
    spawner_open(rr);
    rr->cgroups = cgroups_open();
    rr->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (rr->epoll < 0)
        err_fatal("epoll_create1: %s", strerror(errno));
    UV_CHECK(uv_poll_init(loop, &rr->poll, rr->epoll));
    UV_CHECK(uv_timer_init(loop, &rr->timer));
    UV_CHECK(uv_timer_init(loop, &rr->reaper));
    rr->poll.data = rr->timer.data = rr->reaper.data = rr;
    UV_CHECK(uv_poll_start(&rr->poll, UV_READABLE, on_events));
    UV_CHECK(uv_timer_start(&rr->reaper, on_reaper, REAP_TICK_MS, REAP_TICK_MS));
    return rr;
}

static void on_closed(uv_handle_t *handle)
{
    struct runner *rr = handle->data;
    if (--rr->closing)
        return;
    close(rr->epoll);
    spawner_close(rr);
    if (rr->cgroups)
        cgroups_close(rr->cgroups);
    free(rr);
}

/* Ends all runs: SIGTERM, a short grace period, then SIGKILL. */
static void end_all(struct runner *rr)
{
    int64_t until = clock_boot_ms() + CLOSE_GRACE_MS;
    struct timespec tick = {.tv_nsec = 5 * 1000 * 1000};
    bool left = true;
    for (struct run *r = rr->runs; r; r = r->next)
        orphans_terminate(&r->orphans);
    while (left && clock_boot_ms() < until) {
        nanosleep(&tick, NULL);
        left = false;
        for (struct run *r = rr->runs; r; r = r->next)
            left |= orphans_terminate(&r->orphans);
    }
    while (rr->runs) {
        struct run *r = rr->runs;
        kill_all(r);
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
