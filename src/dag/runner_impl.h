/* runner_impl - the structs that runner.c and spawn.c share. */
#ifndef DAG_RUNNER_IMPL_H
#define DAG_RUNNER_IMPL_H

#include <sys/resource.h>

#include "dag/orphans.h"
#include "dag/run_log.h"
#include "dag/runner.h"

enum { KERNEL_SIGNALS = 64 };

enum { WATCH_STDOUT, WATCH_STDERR, WATCH_PROCESS, WATCH_STDIN, WATCHES };

struct run_watch {
    struct run *run;
    int kind, fd; /* fd -1: closed */
};

struct run {
    struct runner *runner;
    struct run *next, *prev;
    struct run_watch watches[WATCHES];
    struct output *output;
    bool paused;      /* the output is full, or: */
    bool stopping;    /* run_pause() */
    bool wide;        /* the pipes were made larger */
    struct buf input; /* that the command has not taken */
    bool input_ended;
    run_room_fn *room;
    int log_fd;
    struct orphans orphans;
    run_done_fn *done;
    run_printed_fn *printed;
    void *arg;

    struct limits limits;
    unsigned limited; /* by the cgroup: a set of limit_kind */
    struct run_end end;
    char reason[96]; /* end.reason, if a limit ended the run */
    bool exited, killing, killed_hard, over;
    int64_t rest_at; /* until then nothing is read; INT64_MAX: it is */
    int64_t timeout_at, cpu_at, linger_at, kill_at, give_up_at; /* INT64_MAX: never */
};

struct runner {
    uv_loop_t *loop;
    uv_poll_t poll;
    uv_timer_t timer, reaper;
    struct cgroups *cgroups; /* NULL: not available */
    int epoll, closing;
    int64_t timer_at;
    uint64_t exit_ms; /* when the last process exited, in the loop's time */
    struct run *runs; /* that are not over */
    pid_t last_zombie;

    /* For starting processes. */
    int null;                              /* the standard input of commands */
    unsigned char ignored[KERNEL_SIGNALS]; /* by this process: the child resets these signals */
    int ignored_count;
    struct rlimit files;
    char piece[RUN_PIECE_LEN];
};

/* The part that starts processes. */
void spawner_open(struct runner *rr);
void spawner_close(struct runner *rr);

/* runner_input.c: the command may take more input. */
void run_feed(struct run *r);

void run_close_watch(struct run_watch *w);

/* INT64_MAX: does nothing. */
void runner_arm_timer(struct runner *rr, int64_t at);

/* How long the run cannot exceed its CPU time, whatever it does; 0: it has exceeded it. */
int64_t run_cpu_left_ms(const struct run *r);

#endif
