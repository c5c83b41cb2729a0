/*
 * worker_impl - the inside of struct worker_runtime: worker.c is the control thread, which owns the
 * state machine; worker_job.c the threads that handle messages; worker_listen.c the thread that
 * hears of new ones.
 */
#ifndef CLIENT_WORKER_IMPL_H
#define CLIENT_WORKER_IMPL_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "client/worker.h"

enum job_state { JOB_FREE, JOB_READY, JOB_RUNNING, JOB_DONE };

/* A message to handle; one per handler thread. */
struct worker_job {
    enum job_state state;
    char queue[QUEUE_NAME_LEN + 1];
    int64_t last, fence;
    bool aside;
    enum queue_worker_result result;
    int64_t id;
};

/* A queue that should be ours and has another owner. */
struct worker_wanted {
    struct worker_runtime *runtime;
    struct worker_wanted *next;
    struct keeper_watch *watch;
    bool freed;
    char queue[QUEUE_NAME_LEN + 1];
};

/* Prefetched messages of a queue. */
struct worker_prefetch {
    struct worker_prefetch *next;
    char queue[QUEUE_NAME_LEN + 1];
    struct queue_message_list list;
    int64_t after; /* the id before the first message */
};

struct worker_runtime {
    struct worker_runtime_options o;
    struct queue_steps steps; /* used by the control thread only */
    struct keeper *keeper;
    struct keeper_watch *watches[2];
    struct worker_wanted *wanted; /* `freed` under the lock */
    int join_err;
    bool was_joined;

    pthread_t control, listener, *handlers;
    _Atomic int64_t contact_ms, timeout_ms;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed, work;
    bool lists_changed, expired, stop, ended;
    int err;
    struct worker_job *jobs;
    struct worker_prefetch *aheads;
    bool posted_any; /* any queue has new messages; or these: */
    char (*posted)[QUEUE_NAME_LEN + 1];
    size_t posted_count, posted_cap;
};

/* The main function of a handler thread. */
void *worker_handle_all(void *arg);

/* The main function of the listener thread; and reporting what it heard, under the lock. */
void *worker_listen(void *arg);
void worker_tell_posted(struct worker_runtime *s, int64_t now_ms);

/* Drops the prefetched messages of a queue; NULL: of all. */
void worker_forget(struct worker_runtime *s, const char *queue);

void worker_note(struct worker_runtime *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
