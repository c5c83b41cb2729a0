#include "http/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/thread.h"

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct pool_job *first, **last;
    size_t queued, idle;
    size_t count, max;
    bool ending;
    pthread_t threads[];
};

struct pool *pool_new(size_t threads_max)
{
    struct pool *p = mem_zalloc(sizeof *p + sizeof *p->threads * threads_max);

    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    p->last = &p->first;
    p->max = threads_max;
    return p;
}

/* With the lock held. NULL: the pool ends. */
static struct pool_job *next_job(struct pool *p)
{
    while (!p->first && !p->ending) {
        p->idle++;
        pthread_cond_wait(&p->more, &p->lock);
        p->idle--;
    }
    struct pool_job *job = p->first;
    if (job) {
        p->first = job->next;
        p->queued--;
        if (!p->first)
            p->last = &p->first;
    }
    return job;
}

static void *run_jobs(void *arg)
{
    struct pool *p = arg;
    struct pool_job *job;

    pthread_mutex_lock(&p->lock);
    while ((job = next_job(p))) {
        pthread_mutex_unlock(&p->lock);
        job->run(job);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

void pool_submit(struct pool *p, struct pool_job *job)
{
    struct err_info e;

    job->next = NULL;
    LOCKED(&p->lock);
    *p->last = job;
    p->last = &job->next;
    p->queued++;
    if (p->queued > p->idle && p->count < p->max &&
        !thread_start(&p->threads[p->count], "http-worker", run_jobs, p, &e))
        p->count++;
    else if (!p->count)
        err_fatal("%s", e.text);
    pthread_cond_signal(&p->more);
}

void pool_free(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->ending = true;
    pthread_cond_broadcast(&p->more);
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->count; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->more);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
