#include "batch/job_cache.h"

void batch_job_cache_init(struct batch_job_cache *cs)
{
    pthread_mutex_init(&cs->lock, NULL);
}

void batch_job_cache_release(struct batch_job_cache *cs)
{
    pthread_mutex_destroy(&cs->lock);
}

void batch_job_cache_put(struct batch_job_cache *cs, const struct batch_cached_job *c)
{
    pthread_mutex_lock(&cs->lock);
    cs->places[c->job % BATCH_JOB_CACHE_SIZE] = *c;
    pthread_mutex_unlock(&cs->lock);
}

bool batch_job_cache_get(struct batch_job_cache *cs, int64_t job, int64_t token, int64_t session,
                         struct batch_cached_job *ret)
{
    const struct batch_cached_job *c = &cs->places[job % BATCH_JOB_CACHE_SIZE];
    bool found;

    pthread_mutex_lock(&cs->lock);
    found = c->known && c->job == job && c->token == token && c->session == session;
    if (found)
        *ret = *c;
    pthread_mutex_unlock(&cs->lock);
    return found;
}

void batch_job_cache_forget(struct batch_job_cache *cs, int64_t job)
{
    struct batch_cached_job *c = &cs->places[job % BATCH_JOB_CACHE_SIZE];

    pthread_mutex_lock(&cs->lock);
    if (c->job == job)
        c->known = false;
    pthread_mutex_unlock(&cs->lock);
}
