/*
 * runner - starts commands and follows them on a loop: their output as it comes, their end, their
 * death when asked for. It knows nothing of nodes.
 *
 * In order: runner_open() -> runner_start() each command -> `done` is called once for each, with how
 * it ended -> run_free() -> runner_close(), when no run is left.
 *
 * Each command has a session and a process group of its own, /dev/null as its input, and no
 * descriptor of ours. Its two outputs are pipes, read as they fill, a bounded piece in each turn of
 * the loop; what is beyond the cap is read and dropped, so that a command that prints without end
 * slows down nobody.
 *
 * What always holds:
 *  - A run is over when its process has ended and its pipes are closed, or, when something that it
 *    left behind holds them open, RUN_LINGER_MS after its end.
 *  - A run that is killed, or was over its time, is over when nothing of it is left: its group, its
 *    session, every process that inherited its token (struct run_spec), and, where this system has
 *    cgroups that we may make, everything in the run's own. They get TERM, and KILL after the grace.
 *
 * All on the thread of the loop.
 */
#ifndef DAG_RUNNER_H
#define DAG_RUNNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    RUN_CAP_LEN = 1024 * 1024, /* kept of each output */
    RUN_GRACE_MS = 5000,       /* between TERM and KILL */
    RUN_LINGER_MS = 500,       /* for what holds the pipes open after the end */
    RUN_PIECE_LEN = 64 * 1024, /* read from a pipe in one turn */
};

enum run_stream { RUN_STDOUT, RUN_STDERR, RUN_MIXED, RUN_STREAMS };

/* What was printed, up to the cap. */
struct run_output {
    struct buf text;
    uint64_t total; /* bytes printed, kept or not */
    bool cut;       /* the mark has been put */
};

struct run_spec {
    const char *const *argv; /* argv[0] is looked for in the PATH of envp unless it has a slash */
    const char *const *envp;
    const char *cwd;      /* NULL: ours */
    const char *token;    /* one entry of envp, "NAME=VALUE", that no other run has */
    int64_t timeout_ms;   /* 0: none */
    size_t cap_len;       /* 0: RUN_CAP_LEN */
    const char *log_path; /* NULL: no file with all of it */
};

enum run_how { RUN_EXITED, RUN_SIGNALLED, RUN_TIMED_OUT, RUN_KILLED };

struct run_end {
    enum run_how how;
    int status; /* exit status, or the signal */
};

struct run;
typedef void run_done_fn(void *arg, struct run *r, const struct run_end *end);

/* Something was printed. May be NULL. */
typedef void run_printed_fn(void *arg, struct run *r);

struct runner;

/* What tells which processes belong to a run: a cgroup too, where there is one, or never that. */
enum runner_reach { RUNNER_BY_CGROUP, RUNNER_BY_GROUP };

struct runner *runner_open(uv_loop_t *loop, enum runner_reach reach);
bool runner_has_cgroups(const struct runner *rr);
void runner_close(struct runner *rr);

/* How many runs are not over. */
uint32_t runner_count(const struct runner *rr);

/*
 * Starts a command. NULL when it cannot be, and ret_error says why, in words for people; then
 * *ret_status is 127 when there is no such command, else 126, as shells have it.
 */
struct run *runner_start(struct runner *rr, const struct run_spec *spec, run_done_fn *done,
                         run_printed_fn *printed, void *arg, int *ret_status,
                         struct err_info *ret_error);

const struct run_output *run_output(const struct run *r, enum run_stream s);
pid_t run_pid(const struct run *r);

/* TERM now, KILL after the grace. `done` comes as usual, with RUN_KILLED. */
void run_kill(struct run *r, int64_t grace_ms);

/* After `done`. */
void run_free(struct run *r);

#endif
