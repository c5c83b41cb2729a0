/*
 * pool - threads that run jobs which may block.
 *
 * A thread is started when a job is submitted and none is idle, up to a maximum; further jobs
 * queue. A job belongs to its submitter again as soon as it runs.
 */
#ifndef HTTP_POOL_H
#define HTTP_POOL_H

#include <stddef.h>

struct pool;

struct pool_job {
    void (*run)(struct pool_job *job);
    struct pool_job *next;
};

struct pool *pool_new(size_t threads_max);
void pool_submit(struct pool *p, struct pool_job *job);

/* Returns when all submitted jobs have run. */
void pool_free(struct pool *p);

#endif
