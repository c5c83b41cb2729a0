/*
 * shift - a worker at work: its state machine (worker.h) on a real keeper, with threads.
 *
 * One thread carries out what the worker wants of the keeper; `parallel` others read messages and hand
 * them to the handler. worker_runtime_start() returns at once; worker_runtime_stop() asks it to finish what is in hand and
 * leave; worker_runtime_wait() returns when it has; worker_runtime_free() does both, if need be, and frees it.
 *
 * A session that is lost is replaced by a new one: the worker joins again, as another.
 */
#ifndef CLIENT_WORKER_H
#define CLIENT_WORKER_H

#include "client/queue_messages.h"
#include "queue/step.h"

/* A message in hand. */
struct worker_message {
    const char *queue;
    int64_t id, time_ms;
    struct str data;
    int64_t fence;       /* rises with every change of the queue's owner */
    char error[256];     /* for the handler to say what went wrong */
    const void *runtime; /* for worker_message_is_sure() */
};

enum worker_verdict {
    MESSAGE_HANDLED,
    MESSAGE_FAILED,      /* the policy says what happens to the message */
    MESSAGE_INTERRUPTED, /* it was not handled to its end, through no fault of its own: again, later */
};

typedef enum worker_verdict worker_handler(void *arg, struct worker_message *m);

struct worker_runtime_options {
    struct queue_worker_options worker;
    const char *ns;          /* borrowed, as is all below */
    const char *const *only; /* NULL: all queues */
    size_t only_count;

    /* A keeper with a new session, which the shift closes. */
    int (*connect)(void *arg, struct keeper **ret_keeper, struct err_info *ret_error);
    struct messages *messages;

    /*
     * Returns when there are news, or after a while without; from a thread of its own, and again and
     * again. CLOSED: after unlisten, which any thread may call. NULL: queues are only polled.
     */
    int (*listen)(void *arg, struct arena *a, struct message_news *ret_news);
    void (*unlisten)(void *arg);
    worker_handler *handle;                    /* from `parallel` threads */
    void (*note)(void *arg, const char *line); /* what an operator should know; may be NULL */
    void *arg;
};

struct worker_runtime;

struct worker_runtime *worker_runtime_start(const struct worker_runtime_options *o);
void worker_runtime_stop(struct worker_runtime *s);

/* 0 when it was stopped, REFUSED when a message failed and the policy is STOP. */
int worker_runtime_wait(struct worker_runtime *s);
void worker_runtime_free(struct worker_runtime *s);

/*
 * Whether the queue is ours for certain: the keeper has confirmed the session not long ago. A handler
 * that takes its time asks now and then, and breaks off when it is not: another may begin soon.
 */
bool worker_message_is_sure(const struct worker_message *m);

/* After that long without certainty a handler must have ended. */
int64_t worker_message_grace_ms(const struct worker_message *m);

#endif
