/*
 * worker_impl - the inside of struct drover_worker: worker.c is the control thread, which owns the
 * state machine; worker_job.c the threads that handle messages, and the one that hears of new ones.
 */
#ifndef CLIENT_WORKER_IMPL_H
#define CLIENT_WORKER_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "client/worker.h"

enum job_state { JOB_FREE, JOB_READY, JOB_RUNNING, JOB_DONE };

/* A message to handle; one per handler thread. */
struct worker_job {
    enum job_state state;
    struct queue_worker_action action;
    int64_t fence;
    enum queue_worker_result result;
    int64_t id;
};

/* A queue that should be ours and has another owner. */
struct worker_wanted {
    struct drover_worker *worker;
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

struct drover_worker {
    struct queue_source *source;
    struct drover_worker_options o;
    int parallel;
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

/* The main functions of a handler thread and of the listener thread. */
void *worker_handle_all(void *arg);
void *worker_listen(void *arg);

/* Drops the prefetched messages of a queue; NULL: of all. */
void worker_forget(struct drover_worker *w, const char *queue);

void worker_note(struct drover_worker *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
