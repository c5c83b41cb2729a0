/*
 * run_impl - the inside of struct run: run.c is the thread that owns the state machine, run_job.c are
 * those that handle messages.
 */
#ifndef QUEUE_RUN_IMPL_H
#define QUEUE_RUN_IMPL_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "queue/run.h"

enum job_state { JOB_FREE, JOB_READY, JOB_RUNNING, JOB_DONE };

/* A message to be handled: one a handler's thread. */
struct run_job {
    enum job_state state;
    char queue[QUEUE_NAME_LEN + 1];
    int64_t last, fence;
    bool aside;
    enum worker_result result;
    int64_t id;
};

/* A queue that should be ours and is another's. */
struct run_wanted {
    struct run *run;
    struct run_wanted *next;
    struct keeper_watch *watch;
    bool freed;
    char queue[QUEUE_NAME_LEN + 1];
};

/* Messages of a queue that were read ahead. */
struct run_ahead {
    struct run_ahead *next;
    char queue[QUEUE_NAME_LEN + 1];
    struct message_list list;
    int64_t after; /* what stands before the first */
};

struct run {
    struct run_options o;
    struct act act; /* the control thread's own */
    struct keeper *keeper;
    struct keeper_watch *watches[2];
    struct run_wanted *wanted; /* `freed` under the lock */
    int join_err;
    bool was_joined;

    pthread_t control, *handlers;
    _Atomic int64_t contact_ms, timeout_ms;

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed, work;
    bool lists_changed, expired, stop, ended;
    int err;
    struct run_job *jobs;
    struct run_ahead *aheads;
};

/* A handler's thread. */
void *run_handle_all(void *arg);

/* Drops what was read ahead of a queue; NULL: of all. */
void run_forget(struct run *r, const char *queue);

void run_note(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
