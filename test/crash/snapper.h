/*
 * snapper - takes snapshots of a store on its own thread, one after the other, and slows each down:
 * before every write to its file the test must have made a few changes. So a snapshot shows many
 * moments, and only the journal makes it exact.
 */
#ifndef CRASH_SNAPPER_H
#define CRASH_SNAPPER_H

#include <pthread.h>

#include "fs_faulty.h"
#include "keeper/local/local.h"
#include "support.h"

struct snapper {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    struct local *l; /* NULL: none at the moment */
    uint64_t steps;
    struct rng rng;
    bool busy, hurry, stop;
    int err;       /* the first that a snapshot gave */
    uint64_t done; /* snapshots */
    pthread_t thread;
};

void snapper_start(struct snapper *n, uint64_t seed);
void snapper_stop(struct snapper *n);

/* Goes to fs_faulty, with the snapper as its argument. */
void snapper_before(void *arg, enum fs_op op, const char *name);

/* Works on this store from now on; NULL: on none, and the last snapshot is over on return. */
void snapper_use(struct snapper *n, struct local *l);

/* The test has made a change. */
void snapper_step(struct snapper *n);

#endif
