/* runner_impl - the structs that runner.c and spawn.c share. */
#ifndef DAG_RUNNER_IMPL_H
#define DAG_RUNNER_IMPL_H

#include "dag/orphans.h"
#include "dag/runner.h"

enum { WATCH_STDOUT, WATCH_STDERR, WATCH_PROCESS, WATCHES };

struct run_watch {
    struct run *run;
    int kind, fd; /* fd -1: closed */
};

struct run {
    struct runner *runner;
    struct run *next, *prev;
    struct run_watch watches[WATCHES];
    struct run_output outputs[RUN_STREAMS];
    size_t cap_len;
    int log_fd;
    struct orphans orphans;
    run_done_fn *done;
    run_printed_fn *printed;
    void *arg;

    struct run_end end;
    bool exited, killing, killed_hard, over;
    int64_t timeout_at, linger_at, kill_at, give_up_at; /* INT64_MAX: never */
};

struct runner {
    uv_loop_t *loop;
    uv_poll_t poll;
    uv_timer_t timer, reaper;
    struct spawner *spawner;
    struct cgroups *cgroups; /* NULL: not available */
    int epoll, closing, null;
    int64_t timer_at;
    uint32_t count;
    struct run *runs;
    pid_t last_zombie;
    char piece[RUN_PIECE_LEN];
};

/* What starts processes; used by one thread. */
struct spawner *spawner_open(void);
void spawner_close(struct spawner *s);

void runner_arm_timer(struct runner *rr, int64_t at);

#endif
