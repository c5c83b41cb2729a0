#include "batch/claims.h"

void claims_init(struct claims *cs)
{
    pthread_mutex_init(&cs->lock, NULL);
}

void claims_release(struct claims *cs)
{
    pthread_mutex_destroy(&cs->lock);
}

void claims_put(struct claims *cs, const struct claim *c)
{
    pthread_mutex_lock(&cs->lock);
    cs->places[c->job % CLAIMS_MAX] = *c;
    pthread_mutex_unlock(&cs->lock);
}

bool claims_get(struct claims *cs, int64_t job, int64_t token, int64_t session, struct claim *ret)
{
    const struct claim *c = &cs->places[job % CLAIMS_MAX];
    bool found;

    pthread_mutex_lock(&cs->lock);
    found = c->known && c->job == job && c->token == token && c->session == session;
    if (found)
        *ret = *c;
    pthread_mutex_unlock(&cs->lock);
    return found;
}

void claims_forget(struct claims *cs, int64_t job)
{
    struct claim *c = &cs->places[job % CLAIMS_MAX];

    pthread_mutex_lock(&cs->lock);
    if (c->job == job)
        c->known = false;
    pthread_mutex_unlock(&cs->lock);
}
