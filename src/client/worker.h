/*
 * worker - a queue worker: the state machine of queue/worker.h on a real keeper, with threads.
 *
 * One thread carries out the actions on the keeper; `parallel` others read messages and call the
 * handler; one hears of new messages. worker_start() returns at once. The calls of drover/queue.h
 * end it: drover_worker_stop() asks it to finish the messages in progress and leave,
 * drover_worker_wait() returns when it has left, drover_worker_free() does both if needed.
 *
 * A lost session is replaced: the worker joins again under a new name.
 *
 * The inside, struct drover_worker: worker.c is the control thread, which owns the state machine;
 * worker_job.c the threads that handle messages, and the one that hears of new ones.
 */
#ifndef CLIENT_WORKER_H
#define CLIENT_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/json.h"
#include "queue/message.h"
#include "queue/registration.h"

/* Queues that have new messages; one may stand twice. NULL: any queue. */
struct message_news {
    struct str *queues;
    size_t count;
};

/* Parse the server's answers; DAMAGED if they are invalid. Text is borrowed from the body. */
int message_parse_list(const struct json *body, struct queue_message_list *l,
                       struct err_info *ret_error);
int message_parse_news(const struct json *body, struct arena *a, int64_t *ret_number,
                       struct message_news *ret_news);

/* What a worker works on, so that tests can give it another. Calls come from several threads. */
struct queue_source {
    /* Opens a keeper with a new session, which the worker closes. */
    int (*connect)(struct queue_source *s, struct keeper **ret_keeper, struct err_info *ret_error);

    /* At most limit messages with ids above `after`. */
    int (*read)(struct queue_source *s, const char *queue, int64_t after, size_t limit,
                struct queue_message_list *ret_list, struct err_info *ret_error);
    int (*post)(struct queue_source *s, const char *queue, struct str data, int64_t *ret_id,
                struct err_info *ret_error);

    /*
     * Returns when there are news, or after a while; called repeatedly from a thread of its own.
     * CLOSED after unlisten, which any thread may call. NULL: queues are only polled.
     */
    int (*listen)(struct queue_source *s, struct arena *a, struct message_news *ret_news);
    void (*unlisten)(struct queue_source *s);

    void (*free)(struct queue_source *s); /* when the worker is freed; NULL: nothing to do */
};

/* ns and the queues in `o` are borrowed. */
struct drover_worker *worker_start(struct queue_source *source, const char *ns,
                                   const struct drover_worker_options *o);

/* The inside. */

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
    char queue[QUEUE_NAME_LEN_MAX + 1];
};

/* Prefetched messages of a queue. */
struct worker_prefetch {
    struct worker_prefetch *next;
    char queue[QUEUE_NAME_LEN_MAX + 1];
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
    char (*posted)[QUEUE_NAME_LEN_MAX + 1];
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
