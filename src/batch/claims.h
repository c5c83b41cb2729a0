/*
 * claims - what this process knows of jobs: of those that its sessions hold, so that moving one does not
 * read again what acquiring it has read, and of those that it gave back with a move, so that acquiring one
 * for the next step does not read what was just written. On an ensemble each read is a round trip.
 *
 * It is a hint: what is built from it insists on the versions it knows, and starts anew from the tree when
 * they have changed. What is held is only used for the session that holds the lock: while that lives, the
 * lock is there and is its own, unless it was broken, and breaking sets the status.
 *
 * A table of fixed size: a claim that falls into the place of another takes it. From any thread.
 */
#ifndef BATCH_CLAIMS_H
#define BATCH_CLAIMS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { CLAIMS_MAX = 4096, CLAIMS_DATE_LEN = 24 };

struct claim {
    int64_t job, batch;     /* numbers */
    int64_t token, session; /* 0: nobody holds it */
    char modified[CLAIMS_DATE_LEN + 1];
    bool known; /* false: the place is empty */
    int state, last_successful, priority;
    int64_t retry_count;
    int32_t version, priority_version, batch_version;
};

struct claims {
    pthread_mutex_t lock;
    struct claim places[CLAIMS_MAX];
};

void claims_init(struct claims *cs);
void claims_release(struct claims *cs);

void claims_put(struct claims *cs, const struct claim *c);
bool claims_get(struct claims *cs, int64_t job, int64_t token, int64_t session, struct claim *ret);
void claims_forget(struct claims *cs, int64_t job);

#endif
