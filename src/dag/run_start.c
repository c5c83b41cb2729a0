/* Starting a run: finding the file, the pipes, the process. */
#include "dag/runner_impl.h"

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
#include "base/mem.h"
#include "dag/spawn.h"

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

/* In its own cgroup where the system allows that. Returns 0 or errno. */
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

/* Creates the pipes and the process. Returns 0 or errno. */
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
    r->log_fd = -1;
    if (!error && spec->log_path) /* first: a run that has started has a log */
        r->log_fd = open(spec->log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (!error)
        error = begin(rr, r, spec, path);
    if (error) {
        if (r->cgroup)
            cgroups_give(rr->cgroups, r->cgroup);
        if (r->log_fd >= 0) {
            close(r->log_fd);
            unlink(spec->log_path);
        }
        free(r);
        explain(spec, error, ret_status, ret_error);
        return NULL;
    }
    r->runner = rr;
    r->cap_len = spec->cap_len ? spec->cap_len : RUN_CAP_LEN;
    r->token = mem_dup(spec->token, strlen(spec->token));
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
        runner_arm_timer(rr, r->timeout_at);
    }
    return r;
}

int run_make_log_dir(const char *dir, struct err_info *ret_error)
{
    struct stat st;

    if (mkdir(dir, 0700) && errno != EEXIST)
        return err_set_errno(ret_error, errno, "cannot create the log directory %s", dir);
    if (stat(dir, &st))
        return err_set_errno(ret_error, errno, "cannot use the log directory %s", dir);
    if (!S_ISDIR(st.st_mode))
        return err_set_errno(ret_error, ENOTDIR, "cannot use the log directory %s", dir);
    if (faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS))
        return err_set_errno(ret_error, errno, "cannot use the log directory %s", dir);
    return 0;
}
