/*
 * worker - the worker runtime: the state machine of queue/worker.h on a real keeper, with threads.
 *
 * One thread carries out the actions on the keeper; `parallel` others read messages and call the
 * handler. worker_runtime_start() returns at once; worker_runtime_stop() asks it to finish the
 * messages in progress and leave; worker_runtime_wait() returns when it has left;
 * worker_runtime_free() does both if needed.
 *
 * A lost session is replaced: the worker joins again under a new name.
 */
#ifndef CLIENT_WORKER_H
#define CLIENT_WORKER_H

#include "client/queue_messages.h"
#include "queue/registration.h"

/* The message that a handler gets. */
struct worker_message {
    const char *queue;
    int64_t id, time_ms;
    struct str data;
    int64_t fence;       /* rises with each owner of the queue */
    char error[256];     /* the handler writes the reason of a failure here */
    const void *runtime; /* for worker_message_is_sure() */
};

enum worker_verdict {
    MESSAGE_HANDLED,
    MESSAGE_FAILED, /* the policy decides what happens to the message */
    /* handling was interrupted, not at fault of the message: it is handled again later */
    MESSAGE_INTERRUPTED,
};

typedef enum worker_verdict worker_handler(void *arg, struct worker_message *m);

struct worker_runtime_options {
    struct queue_worker_options worker;
    const char *ns;          /* borrowed, as is all below */
    const char *const *only; /* NULL: all queues */
    size_t only_count;

    /* Opens a keeper with a new session, which the runtime closes. */
    int (*connect)(void *arg, struct keeper **ret_keeper, struct err_info *ret_error);
    struct message_source *messages;

    /*
     * Returns when there are news, or after a while; called repeatedly from a thread of its own.
     * CLOSED after unlisten, which any thread may call. NULL: queues are only polled.
     */
    int (*listen)(void *arg, struct arena *a, struct message_news *ret_news);
    void (*unlisten)(void *arg);
    worker_handler *handle;                    /* from `parallel` threads */
    void (*note)(void *arg, const char *line); /* log lines for an operator; may be NULL */
    void *arg;
};

struct worker_runtime;

struct worker_runtime *worker_runtime_start(const struct worker_runtime_options *o);
void worker_runtime_stop(struct worker_runtime *s);

/* 0 if it was stopped, REFUSED if a message failed and the policy is STOP. */
int worker_runtime_wait(struct worker_runtime *s);
void worker_runtime_free(struct worker_runtime *s);

/*
 * Whether the queue is certainly ours: the keeper confirmed the session recently. A handler that
 * takes long calls this now and then, and stops if it is false: another worker may start soon.
 */
bool worker_message_is_sure(const struct worker_message *m);

/* A handler must have stopped this long after the ownership became uncertain. */
int64_t worker_message_grace_ms(const struct worker_message *m);

#endif
