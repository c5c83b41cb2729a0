/*
 * runner - runs commands on a loop: starts them, reads their output, reports their end, kills them.
 * It knows nothing about nodes.
 *
 * In order: runner_open() -> runner_start() for each command -> `done` is called once for each,
 * with how it ended -> run_free() -> runner_close(), when no run is left.
 *
 * Each command has its own session and process group, /dev/null as stdin, or a pipe, and none of
 * the server's descriptors. Its stdout and stderr are pipes. Each loop iteration reads at most
 * RUN_PIECE_LEN bytes from a pipe and passes them to the run's output (output.h), which decides
 * what is kept. While that is full, nothing is read.
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
#include "dag/output.h"

enum {
    RUN_GRACE_MS = 5000,         /* between SIGTERM and SIGKILL */
    RUN_LINGER_MS = 500,         /* after the exit, while descendants hold a pipe open */
    RUN_PIECE_LEN = 256 * 1024,  /* read from a pipe in one loop iteration */
    RUN_INPUT_LEN = 256 * 1024,  /* of standard input, that the command has not read */
    RUN_PIPE_LEN = 1024 * 1024,  /* of the pipes of a command that prints much */
    RUN_PRINTS_MUCH = 256 * 1024 /* bytes */
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

typedef void run_room_fn(void *arg);

struct run_spec {
    const char *const *argv; /* argv[0] without a slash is searched in the PATH of envp */
    const char *const *envp;
    const char *cwd;                  /* NULL: the server's, or the home of the account */
    const char *token;                /* an entry of envp, "NAME=VALUE", unique to this run */
    int64_t timeout_ms;               /* 0: none */
    struct output *output;            /* the caller's; outlives the run */
    bool has_input;                   /* standard input is a pipe: run_write() */
    run_room_fn *room;                /* all input was written; NULL: nobody asks */
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

/* Reads on, if the output was full and is not any more; pauses: does not read, nor if it is not. */
void run_resume(struct run *r);
void run_pause(struct run *r, bool pauses);

/*
 * Standard input: passes bytes to the command, and then its end. Returns how many were taken: there
 * is room for RUN_INPUT_LEN. What comes when the command has closed it is taken and dropped.
 */
size_t run_write(struct run *r, struct str data, bool is_end);

/* Sends a signal to the process group of the command. */
void run_signal(struct run *r, int number);

/* SIGTERM now, SIGKILL after the grace period. `done` is called as usual, with RUN_KILLED. */
void run_kill(struct run *r, int64_t grace_ms);

/* To be called after `done`. */
void run_free(struct run *r);

#endif
