/*
 * runner - runs commands on a loop: starts them, reads their output, reports their end, kills them.
 * It knows nothing about nodes.
 *
 * In order: runner_open() -> runner_start() for each command -> `done` is called once for each,
 * with how it ended -> run_free() -> runner_close(), when no run is left.
 *
 * Each command has its own session and process group, /dev/null as stdin, and none of the server's
 * descriptors. Its stdout and stderr are pipes. Each loop iteration reads at most RUN_PIECE_LEN
 * bytes from a pipe; output beyond the cap is read and discarded, so a command that prints without
 * end does not slow down others.
 *
 * Invariants:
 *  - A run is over when its process has exited and its pipes are closed, or RUN_LINGER_MS after the
 *    exit if a descendant still holds a pipe open.
 *  - A run that is killed or times out is over when all its processes have ended: its process
 *    group, its session, every process that inherited its token (struct run_spec), and every
 *    process in its cgroup, where cgroups can be created. They get SIGTERM, and SIGKILL after the
 *    grace period.
 *  - A run never exceeds its limits unnoticed: it is ended, or refused what it asks for (memory,
 *    files, processes). A limit that cannot be set prevents the start.
 *
 * Everything runs on the loop's thread.
 */
#ifndef DAG_RUNNER_H
#define DAG_RUNNER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/policy.h"

enum {
    RUN_CAP_LEN = 1024 * 1024, /* stored of each output */
    RUN_GRACE_MS = 5000,       /* between SIGTERM and SIGKILL */
    RUN_LINGER_MS = 500,       /* after the exit, while descendants hold a pipe open */
    RUN_PIECE_LEN = 64 * 1024, /* read from a pipe in one loop iteration */
};

enum run_stream { RUN_STDOUT, RUN_STDERR, RUN_MIXED, RUN_STREAMS };

/* The output of a run, up to the cap. */
struct run_output {
    struct buf text;
    uint64_t total; /* bytes printed, stored or not */
    bool cut;       /* the text ends with the truncation mark */
};

/* The longest prefix of at most len bytes that does not split a UTF-8 character. */
size_t output_whole(const char *p, size_t len);

/*
 * The environment of a command: a few of the server's variables, the position in the DAG, and the
 * node's own variables.
 */
struct environment {
    const char *url;               /* DROVER_URL; NULL: none */
    const char *node;              /* DROVER_NODE */
    const char *parent;            /* DROVER_PARENT: ids with commas, or "root" */
    const char *token;             /* "DROVER_RUN=...": unique to this run */
    const char *password;          /* DROVER_TOKEN, to authenticate with the server; NULL: none */
    const struct account *account; /* HOME, USER, LOGNAME, SHELL; NULL: the server's */
};

/* In the arena, NULL-terminated. given, which may be NULL, overrides the server's variables. */
const char **environment_make(struct arena *a, const struct environment *e,
                              const char *const *given);

struct run_spec {
    const char *const *argv; /* argv[0] without a slash is searched in the PATH of envp */
    const char *const *envp;
    const char *cwd;                  /* NULL: the server's, or the home of the account */
    const char *token;                /* an entry of envp, "NAME=VALUE", unique to this run */
    int64_t timeout_ms;               /* 0: none */
    size_t cap_len;                   /* 0: RUN_CAP_LEN */
    const char *log_path;             /* a file for the complete output; NULL: none */
    const struct policy_grant *grant; /* NULL: our user, no limits, no new privileges */
};

enum run_how { RUN_EXITED, RUN_SIGNALLED, RUN_TIMED_OUT, RUN_KILLED };

/* How a run ended. The runner sets the first three. */
struct run_end {
    enum run_how how;
    int status;         /* exit status, or the signal */
    const char *reason; /* why it did not start, was lost, or was ended by a limit; or NULL */
    bool lost;          /* the exit status is unknown */
};

struct run;
typedef void run_done_fn(void *arg, struct run *r, const struct run_end *end);

/* Called after new output was read. May be NULL. */
typedef void run_printed_fn(void *arg, struct run *r);

struct runner;

struct runner *runner_open(uv_loop_t *loop);
void runner_close(struct runner *rr);

/*
 * Starts a command. Returns NULL when that fails, with the reason in ret_error and *ret_status set
 * as shells do: 127 when the command does not exist, else 126.
 */
struct run *runner_start(struct runner *rr, const struct run_spec *spec, run_done_fn *done,
                         run_printed_fn *printed, void *arg, int *ret_status,
                         struct err_info *ret_error);

const struct run_output *run_output(const struct run *r, enum run_stream s);

/* SIGTERM now, SIGKILL after the grace period. `done` is called as usual, with RUN_KILLED. */
void run_kill(struct run *r, int64_t grace_ms);

/* To be called after `done`. */
void run_free(struct run *r);

#endif
