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
#ifndef BATCH_JOB_CACHE_H
#define BATCH_JOB_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { BATCH_JOB_CACHE_SIZE = 4096, BATCH_DATE_LEN = 24 };

struct batch_cached_job {
    int64_t job, batch;     /* numbers */
    int64_t token, session; /* 0: nobody holds it */
    char modified[BATCH_DATE_LEN + 1];
    bool known; /* false: the place is empty */
    int state, last_successful, priority;
    int64_t retry_count;
    int32_t version, priority_version, batch_version;
};

struct batch_job_cache {
    pthread_mutex_t lock;
    struct batch_cached_job places[BATCH_JOB_CACHE_SIZE];
};

void batch_job_cache_init(struct batch_job_cache *cs);
void batch_job_cache_release(struct batch_job_cache *cs);

void batch_job_cache_put(struct batch_job_cache *cs, const struct batch_cached_job *c);
bool batch_job_cache_get(struct batch_job_cache *cs, int64_t job, int64_t token, int64_t session,
                         struct batch_cached_job *ret);
void batch_job_cache_forget(struct batch_job_cache *cs, int64_t job);

#endif
