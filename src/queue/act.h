/*
 * act - carries out what a worker wants of the keeper, and tells it how that went.
 *
 * WAIT and WORK are the caller's own. Before a JOIN that is not the first the caller gives the member a
 * keeper with a new session.
 */
#ifndef QUEUE_ACT_H
#define QUEUE_ACT_H

#include "queue/member.h"
#include "queue/worker.h"

struct act {
    struct member member;
    struct worker worker;
    struct census census;
    struct census_notes notes;
    int64_t (*now_ms)(void *arg);
    void *arg;
};

/* Returns the error of a JOIN, TAKE or whatever it was, which the worker has been told. */
int act_on(struct act *act, const struct worker_action *a);

void act_release(struct act *act);

#endif
