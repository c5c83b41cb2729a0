#include "base/thread.h"
#include "batch/job.h"

#include <stdlib.h>

#include "base/mem.h"

enum { CACHE_SIZE = 4096, DATE_LEN = 24 };

struct batch_job_cache {
    pthread_mutex_t lock;
    struct batch_cached_job {
        bool used;
        int64_t session; /* that holds the lock; 0: the job is not locked */
        struct batch_item job;
        char modified[DATE_LEN];
    } slots[CACHE_SIZE];
};

struct batch_job_cache *batch_job_cache_new(void)
{
    struct batch_job_cache *cache = mem_zalloc(sizeof *cache);

    pthread_mutex_init(&cache->lock, NULL);
    return cache;
}

void batch_job_cache_free(struct batch_job_cache *cache)
{
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

static int64_t session_of(struct batch_call *c, int64_t token)
{
    struct keeper_session session = {.id = 0};

    if (token)
        keeper_session(c->k, &session);
    return session.id;
}

/* A move writes a new message, but acquiring a job keeps its message, which is not cached. */
void batch_job_cache_put(struct batch_call *c, const struct batch_item *job)
{
    struct batch_job_cache *cache = c->store->job_cache;
    struct batch_cached_job *slot = &cache->slots[job->number % CACHE_SIZE];
    const struct batch_status *s = &job->status;

    if (!batch_status_is_plain(s) || s->modified.len > DATE_LEN || (!job->token && s->message.p)) {
        batch_job_cache_drop(c, job->number);
        return;
    }
    LOCKED(&cache->lock);
    *slot = (struct batch_cached_job){.used = true, .session = session_of(c, job->token), *job};
    slot->job.status.json = NULL;
    slot->job.status.message = (struct str){0};
    if (s->modified.len) /* a foreign client may have left it out */
        memcpy(slot->modified, s->modified.p, s->modified.len);
}

bool batch_job_cache_get(struct batch_call *c, int64_t number, int64_t token,
                         struct batch_item *ret_job)
{
    struct batch_job_cache *cache = c->store->job_cache;
    const struct batch_cached_job *slot = &cache->slots[number % CACHE_SIZE];
    int64_t session = session_of(c, token);

    LOCKED(&cache->lock);
    bool found = slot->used && slot->job.number == number && slot->job.token == token &&
                 slot->session == session;
    if (found) {
        struct str modified = {slot->modified, slot->job.status.modified.len};

        *ret_job = slot->job;
        ret_job->status.modified.p = arena_text(c->a, modified);
    }
    return found;
}

void batch_job_cache_drop(struct batch_call *c, int64_t number)
{
    struct batch_job_cache *cache = c->store->job_cache;
    struct batch_cached_job *slot = &cache->slots[number % CACHE_SIZE];

    LOCKED(&cache->lock);
    if (slot->job.number == number)
        slot->used = false;
}
