/*
 * shift_impl - the inside of struct worker_runtime: shift.c is the thread that owns the state machine, worker_job.c are
 * those that handle messages, worker_listen.c is the one that hears of new ones.
 */
#ifndef CLIENT_WORKER_IMPL_H
#define CLIENT_WORKER_IMPL_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "client/worker.h"

enum job_state { JOB_FREE, JOB_READY, JOB_RUNNING, JOB_DONE };

/* A message to be handled: one a handler's thread. */
struct worker_job {
    enum job_state state;
    char queue[QUEUE_NAME_LEN + 1];
    int64_t last, fence;
    bool aside;
    enum queue_worker_result result;
    int64_t id;
};

/* A queue that should be ours and is another's. */
struct worker_wanted {
    struct worker_runtime *runtime;
    struct worker_wanted *next;
    struct keeper_watch *watch;
    bool freed;
    char queue[QUEUE_NAME_LEN + 1];
};

/* Messages of a queue that were read ahead. */
struct worker_prefetch {
    struct worker_prefetch *next;
    char queue[QUEUE_NAME_LEN + 1];
    struct message_list list;
    int64_t after; /* what stands before the first */
};

struct worker_runtime {
    struct worker_runtime_options o;
    struct queue_steps steps; /* the control thread's own */
    struct keeper *keeper;
    struct keeper_watch *watches[2];
    struct worker_wanted *wanted; /* `freed` under the lock */
    int join_err;
    bool was_joined;

    pthread_t control, listener, *handlers;
    _Atomic int64_t contact_ms, timeout_ms;

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed, work;
    bool lists_changed, expired, stop, ended;
    int err;
    struct worker_job *jobs;
    struct worker_prefetch *aheads;
    bool posted_any; /* messages, to any queue; or to these: */
    char (*posted)[QUEUE_NAME_LEN + 1];
    size_t posted_count, posted_cap;
};

/* A handler's thread. */
void *worker_handle_all(void *arg);

/* The thread that listens; and telling what it has heard, under the lock. */
void *worker_listen(void *arg);
void worker_tell_posted(struct worker_runtime *s, int64_t now_ms);

/* Drops what was read ahead of a queue; NULL: of all. */
void worker_forget(struct worker_runtime *s, const char *queue);

void worker_note(struct worker_runtime *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
