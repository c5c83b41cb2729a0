/*
 * shift_impl - the inside of struct shift: shift.c is the thread that owns the state machine, shift_job.c are
 * those that handle messages, shift_listen.c is the one that hears of new ones.
 */
#ifndef CLIENT_WORKER_IMPL_H
#define CLIENT_WORKER_IMPL_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "client/worker.h"

enum job_state { JOB_FREE, JOB_READY, JOB_RUNNING, JOB_DONE };

/* A message to be handled: one a handler's thread. */
struct shift_job {
    enum job_state state;
    char queue[QUEUE_NAME_LEN + 1];
    int64_t last, fence;
    bool aside;
    enum worker_result result;
    int64_t id;
};

/* A queue that should be ours and is another's. */
struct shift_wanted {
    struct shift *shift;
    struct shift_wanted *next;
    struct keeper_watch *watch;
    bool freed;
    char queue[QUEUE_NAME_LEN + 1];
};

/* Messages of a queue that were read ahead. */
struct shift_ahead {
    struct shift_ahead *next;
    char queue[QUEUE_NAME_LEN + 1];
    struct message_list list;
    int64_t after; /* what stands before the first */
};

struct shift {
    struct shift_options o;
    struct act act; /* the control thread's own */
    struct keeper *keeper;
    struct keeper_watch *watches[2];
    struct shift_wanted *wanted; /* `freed` under the lock */
    int join_err;
    bool was_joined;

    pthread_t control, listener, *handlers;
    _Atomic int64_t contact_ms, timeout_ms;

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed, work;
    bool lists_changed, expired, stop, ended;
    int err;
    struct shift_job *jobs;
    struct shift_ahead *aheads;
    bool posted_any; /* messages, to any queue; or to these: */
    char (*posted)[QUEUE_NAME_LEN + 1];
    size_t posted_count, posted_cap;
};

/* A handler's thread. */
void *shift_handle_all(void *arg);

/* The thread that listens; and telling what it has heard, under the lock. */
void *shift_listen(void *arg);
void shift_tell_posted(struct shift *s, int64_t now_ms);

/* Drops what was read ahead of a queue; NULL: of all. */
void shift_forget(struct shift *s, const char *queue);

void shift_note(struct shift *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
