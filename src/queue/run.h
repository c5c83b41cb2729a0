/*
 * run - a worker at work: its state machine (worker.h) on a real keeper, with threads.
 *
 * One thread carries out what the worker wants of the keeper; `parallel` others read messages and hand
 * them to the handler. run_start() returns at once; run_stop() asks it to finish what is in hand and
 * leave; run_wait() returns when it has; run_free() does both, if need be, and frees it.
 *
 * A session that is lost is replaced by a new one: the worker joins again, as another.
 */
#ifndef QUEUE_RUN_H
#define QUEUE_RUN_H

#include "queue/act.h"
#include "queue/messages.h"

/* A message in hand. */
struct run_message {
    const char *queue;
    int64_t id, time_ms;
    struct str data;
    int64_t fence;   /* rises with every change of the queue's owner */
    char error[256]; /* for the handler to say what went wrong */
    const void *run; /* for run_is_sure() */
};

enum run_verdict {
    RUN_HANDLED,
    RUN_FAILED,     /* the policy says what happens to the message */
    RUN_BROKEN_OFF, /* it was not handled to its end, through no fault of its own: again, later */
};

typedef enum run_verdict run_handler(void *arg, struct run_message *m);

struct run_options {
    struct worker_options worker;
    const char *ns;          /* borrowed, as is all below */
    const char *const *only; /* NULL: all queues */
    size_t only_count;

    /* A keeper with a new session, which the run closes. */
    int (*connect)(void *arg, struct keeper **ret_keeper, struct err_info *ret_error);
    struct messages *messages;
    run_handler *handle;                       /* from `parallel` threads */
    void (*note)(void *arg, const char *line); /* what an operator should know; may be NULL */
    void *arg;
};

struct run;

struct run *run_start(const struct run_options *o);
void run_stop(struct run *r);

/* 0 when it was stopped, REFUSED when a message failed and the policy is STOP. */
int run_wait(struct run *r);
void run_free(struct run *r);

/*
 * Whether the queue is ours for certain: the keeper has confirmed the session not long ago. A handler
 * that takes its time asks now and then, and breaks off when it is not: another may begin soon.
 */
bool run_is_sure(const struct run_message *m);

/* After that long without certainty a handler must have ended. */
int64_t run_grace_ms(const struct run_message *m);

#endif
