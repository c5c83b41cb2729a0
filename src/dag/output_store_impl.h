/* output_store_impl - what the two parts of the store share: the caller's, and the thread's. */
#ifndef DAG_OUTPUT_STORE_IMPL_H
#define DAG_OUTPUT_STORE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "dag/output_store.h"

enum output_job_kind { OUTPUT_JOB_SEAL, OUTPUT_JOB_DROP, OUTPUT_JOB_KNOW };

struct output_job {
    struct output_job *next;
    enum output_job_kind kind;
    uint64_t node, run;
    struct output_name *names; /* of KNOW */
    size_t count;
};

struct output_store {
    char *dir;
    _Atomic int64_t total;
    bool is_shared;
    int64_t opened_ms, warned_ms;
    uint64_t last_run;
    _Atomic int64_t used; /* bytes in files, about: holes are whole pages */
    atomic_uint_fast64_t missing, removed;
    atomic_bool full, stopping;

    pthread_t thread;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t cond;
    struct output_job *jobs, **last_job;
    bool busy;
};

void *output_store_main(void *store);
void output_store_queue(struct output_store *s, enum output_job_kind kind, uint64_t node,
                        uint64_t run);
/* What a file counts for: its length without holes. Sealed ones have none. */
uint64_t output_store_size(const struct stat *st, bool sealed);
void output_store_wake(struct output_store *s);

#endif
