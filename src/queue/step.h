/*
 * act - carries out what a worker wants of the keeper, and tells it how that went.
 *
 * WAIT and WORK are the caller's own. Before a JOIN that is not the first the caller gives the member a
 * keeper with a new session.
 */
#ifndef QUEUE_STEP_H
#define QUEUE_STEP_H

#include "queue/registration.h"
#include "queue/worker.h"

struct queue_steps {
    struct queue_registration registration;
    struct queue_worker worker;
    struct queue_membership membership;
    struct queue_warnings notes;
    int64_t (*now_ms)(void *arg);
    void *arg;
};

/* Returns the error of a JOIN, TAKE or whatever it was, which the worker has been told. */
int queue_step(struct queue_steps *act, const struct queue_worker_action *a);

void queue_steps_release(struct queue_steps *act);

#endif
