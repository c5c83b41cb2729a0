/*
 * Starting a run: its environment, the file of the command, its limits, the pipes, the process.
 *
 * Limits hold for all processes of the run together where its cgroup has the controller for it.
 * Where not, they are resource limits: of CPU time and memory for each process, and of processes
 * for all processes of the user. Resource limits cannot limit the processes of root, so that is
 * refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file_limit.h"
#include "base/mem.h"
#include "base/process.h"
#include "dag/runner_impl.h"

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
    if (rr->null < 0)
        err_fatal("cannot open /dev/null: %s", strerror(errno));
    for (int i = 1; i <= KERNEL_SIGNALS; i++)
        if (i == SIGPIPE || (!sigaction(i, NULL, &action) && action.sa_handler == SIG_IGN))
            rr->ignored[rr->ignored_count++] = (unsigned char)i;
    rr->files = file_limit_given();
}

void spawner_close(struct runner *rr)
{
    close(rr->null);
}

/* Limits. */

static void add_rlimit(struct process_options *p, int resource, rlim_t soft, rlim_t hard)
{
    p->rlimits[p->rlimit_count++] = (struct process_rlimit){resource, {soft, hard}};
}

/* By resource limits, those that are not in the set. Returns 0 or errno. */
static int plan_rlimits(const struct runner *rr, const struct limits *l, unsigned set,
                        struct process_options *p)
{
    struct rlimit files = rr->files;
    rlim_t cpu_s = (rlim_t)((l->of[LIMIT_CPU] + 999) / 1000),
           file_count = (rlim_t)l->of[LIMIT_FILES];
    if (file_count && file_count < files.rlim_max)
        files.rlim_max = file_count;
    if (files.rlim_cur > files.rlim_max || file_count)
        files.rlim_cur = files.rlim_max;
    p->rlimit_count = 0;
    add_rlimit(p, RLIMIT_NOFILE, files.rlim_cur, files.rlim_max);
    if (cpu_s && !(set & 1u << LIMIT_CPU)) /* first SIGXCPU */
        add_rlimit(p, RLIMIT_CPU, cpu_s, cpu_s + RUN_GRACE_MS / 1000);
    if (l->of[LIMIT_MEMORY] && !(set & 1u << LIMIT_MEMORY))
        add_rlimit(p, RLIMIT_DATA, (rlim_t)l->of[LIMIT_MEMORY], (rlim_t)l->of[LIMIT_MEMORY]);
    if (!l->of[LIMIT_PROCESSES] || set & 1u << LIMIT_PROCESSES)
        return 0;
    if (p->account ? !p->account->uid : !geteuid())
        return ENOTSUP;
    add_rlimit(p, RLIMIT_NPROC, (rlim_t)l->of[LIMIT_PROCESSES], (rlim_t)l->of[LIMIT_PROCESSES]);
    return 0;
}

/* The processes. */

static const char *get_variable(const char *const *envp, const char *name)
{
    size_t len = strlen(name);
    for (; *envp; envp++)
        if (!strncmp(*envp, name, len) && (*envp)[len] == '=')
            return *envp + len + 1;
    return NULL;
}

static const char *const *find_files(const struct run_spec *s, struct arena *a)
{
    const struct policy_grant *g = s->grant;
    if (g && g->paths)
        return g->paths;
    return process_find(a, s->argv[0], get_variable(s->envp, "PATH"), g && g->account);
}

static bool watch(struct runner *rr, struct run *r, int kind, int fd)
{
    struct epoll_event event = {.events = kind == WATCH_STDIN ? 0 : EPOLLIN,
                                .data.ptr = &r->watches[kind]};
    if (fd < 0)
        return true;
    r->watches[kind] = (struct run_watch){r, kind, fd};
    return !epoll_ctl(rr->epoll, EPOLL_CTL_ADD, fd, &event);
}

/* In its own cgroup, with its limits, where the system allows that. */
static int start_in_cgroup(struct runner *rr, struct run *r, struct process_options *p,
                           int *ret_pidfd, enum process_step *ret_step)
{
    bool limited = limits_any(&r->limits);
    struct cgroup *c = rr->cgroups ? cgroups_take(rr->cgroups, limited) : NULL;
    if (!c)
        return PROCESS_NO_CGROUP;
    r->limited = limited ? cgroup_limit(rr->cgroups, c, &r->limits) : 0;
    p->cgroup = c->dir;
    *ret_step = PROCESS_LIMITS;
    int error = plan_rlimits(rr, &r->limits, r->limited, p);
    if (!error)
        error = process_start(p, &r->orphans.leader, ret_pidfd, ret_step);
    r->orphans.cgroup = c;
    if (error) {
        cgroups_give(rr->cgroups, c);
        r->orphans.cgroup = NULL;
        r->limited = 0;
    }
    p->cgroup = -1;
    return error;
}

/* Returns 0 or errno. */
static int start_process(struct runner *rr, struct run *r, struct process_options *p,
                         int *ret_pidfd, enum process_step *ret_step)
{
    int error = start_in_cgroup(rr, r, p, ret_pidfd, ret_step);
    if (error != PROCESS_NO_CGROUP)
        return error;
    *ret_step = PROCESS_LIMITS;
    error = plan_rlimits(rr, &r->limits, 0, p);
    return error ? error : process_start(p, &r->orphans.leader, ret_pidfd, ret_step);
}

/* Creates the pipes and the process. Returns 0 or errno. */
static int begin(struct runner *rr, struct run *r, const struct run_spec *s,
                 const char *const *paths, enum process_step *ret_step)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1}, pidfd = -1, error = 0;
    *ret_step = PROCESS_SETUP;
    for (int i = 0; i < WATCHES; i++)
        r->watches[i] = (struct run_watch){r, i, -1};
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) || (s->has_input && pipe2(in, O_CLOEXEC)))
        error = errno;
    struct process_options p = {
        .paths = paths,
        .argv = s->argv,
        .envp = s->envp,
        .cwd = s->cwd,
        .fds = {s->has_input ? in[0] : rr->null, out[1], err[1]},
        .cgroup = -1,
        .leads_session = true,
        .new_privileges = s->grant && s->grant->new_privileges,
        .account = s->grant ? s->grant->account : NULL,
        .signals = rr->ignored,
        .signal_count = rr->ignored_count,
    };
    if (!error)
        error = start_process(rr, r, &p, &pidfd, ret_step);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    if (!error) {
        fcntl(in[1], F_SETFL, O_NONBLOCK);
        fcntl(out[0], F_SETFL, O_NONBLOCK);
        fcntl(err[0], F_SETFL, O_NONBLOCK);
        if (watch(rr, r, WATCH_STDOUT, out[0]) && watch(rr, r, WATCH_STDERR, err[0]) &&
            watch(rr, r, WATCH_STDIN, in[1]) && watch(rr, r, WATCH_PROCESS, pidfd))
            return 0;
        error = errno;
        kill(-r->orphans.leader, SIGKILL);
        waitpid(r->orphans.leader, NULL, 0);
        close(pidfd);
    }
    close(in[1]);
    close(out[0]);
    close(err[0]);
    return error;
}

static int explain(const struct run_spec *s, int error, enum process_step step, int *ret_status,
                   struct err_info *e)
{
    const struct account *a = s->grant ? s->grant->account : NULL;
    struct stat st;
    *ret_status = error == ENOENT ? 127 : 126;
    if (s->cwd && (stat(s->cwd, &st) || !S_ISDIR(st.st_mode)))
        return err_set(e, DROVER_BAD_ARGUMENT, "cannot start: there is no directory %s", s->cwd);
    if (step == PROCESS_CWD && s->cwd)
        return err_set(e, DROVER_BAD_ARGUMENT, "cannot start in %s%s%s: %s", s->cwd,
                       a ? " as " : "", a ? a->name : "", strerror(error));
    if (step == PROCESS_LIMITS && error == ENOTSUP)
        return err_set(e, DROVER_BAD_ARGUMENT,
                       "cannot start: without a cgroup the number of root's processes cannot be "
                       "limited; run it as another user");
    if (step == PROCESS_LIMITS)
        return err_set(e, DROVER_BAD_ARGUMENT, "cannot start: its limits cannot be set: %s",
                       strerror(error));
    if (error == ETIME)
        return err_set(e, DROVER_BAD_ARGUMENT, "cannot start %s: held up for more than %d s",
                       s->argv[0], PROCESS_HELD_MS / 1000);
    return err_set(e, DROVER_BAD_ARGUMENT, "cannot start %s%s%s: %s", s->argv[0], a ? " as " : "",
                   a ? a->name : "", strerror(error));
}

struct run *runner_start(struct runner *rr, const struct run_spec *spec, run_done_fn *done,
                         run_printed_fn *printed, void *arg, int *ret_status,
                         struct err_info *ret_error)
{
    enum process_step step = PROCESS_EXEC;
    CLEANUP(arena_release) struct arena a = {0};
    const char *const *paths = find_files(spec, &a);
    struct run *r = mem_zalloc(sizeof *r);
    int error = paths[0] ? 0 : ENOENT;
    *r = (struct run){
        .runner = rr,
        .log_fd = -1,
        .output = spec->output,
        .room = spec->room,
        .done = done,
        .printed = printed,
        .arg = arg,
        .rest_at = INT64_MAX,
        .linger_at = INT64_MAX,
        .kill_at = INT64_MAX,
        .give_up_at = INT64_MAX,
        .timeout_at = INT64_MAX,
        .cpu_at = INT64_MAX,
    };
    if (spec->grant)
        r->limits = spec->grant->limits;
    if (!error && spec->log_path) /* first: a run that has started has a log */
        r->log_fd = run_log_open(spec->log_path);
    if (!error)
        error = begin(rr, r, spec, paths, &step);
    if (error) {
        if (r->orphans.cgroup)
            cgroups_give(rr->cgroups, r->orphans.cgroup);
        if (r->log_fd >= 0) {
            close(r->log_fd);
            unlink(spec->log_path);
        }
        free(r);
        explain(spec, error, step, ret_status, ret_error);
        return NULL;
    }
    r->orphans.token = mem_dup(spec->token, strlen(spec->token));
    r->next = rr->runs;
    if (rr->runs)
        rr->runs->prev = r;
    rr->runs = r;
    if (spec->timeout_ms)
        r->timeout_at = clock_boot_ms() + spec->timeout_ms;
    if (r->limited & 1u << LIMIT_CPU)
        r->cpu_at = clock_boot_ms() + run_cpu_left_ms(r);
    runner_arm_timer(rr, r->timeout_at < r->cpu_at ? r->timeout_at : r->cpu_at);
    return r;
}

/* The environment. */

/* The variables of the server that commands inherit. The last ones belong to its user. */
static const char *const PASSED[] = {"LANG", "LC_ALL", "TZ",      "TMPDIR",
                                     "HOME", "USER",   "LOGNAME", "SHELL"};

enum { PASSED_COUNT = sizeof PASSED / sizeof *PASSED, PASSED_TO_OTHERS = 3 };

/* Adds the variables whose names the node's own do not have. */
static size_t add_missing(const char **env, size_t at, const char *const *given,
                          const char *const *more, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(more[i], "="), more[i]);
        if (!get_variable(given, name))
            env[at++] = more[i];
    }
    return at;
}

const char **environment_make(struct arena *a, const struct environment *e,
                              const char *const *given)
{
    static const char *const nothing[] = {NULL};
    const char *passed[PASSED_COUNT + ACCOUNT_VARIABLES];
    size_t count = 0, at = 0, passed_count = 0;
    given = given ? given : nothing;
    while (given[count])
        count++;
    const char **env = arena_alloc(a, (count + PASSED_COUNT + 12) * sizeof *env);
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
        env[at++] = arena_printf(a, "PATH=%s", process_path());
    for (int i = 0; i < (e->account ? PASSED_TO_OTHERS : PASSED_COUNT); i++)
        if (getenv(PASSED[i]))
            passed[passed_count++] = arena_printf(a, "%s=%s", PASSED[i], getenv(PASSED[i]));
    if (e->account) {
        account_variables(e->account, a, passed + passed_count);
        passed_count += ACCOUNT_VARIABLES;
    }
    at = add_missing(env, at, given, passed, passed_count);
    env[at] = NULL;
    return env;
}
