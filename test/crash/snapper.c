/* One lock, one condition: steps are few and snapshots slow. */
#include "snapper.h"

enum { STEPS_PER_WRITE = 12 };

void snapper_before(void *arg, enum fs_op op, const char *name)
{
    struct snapper *n = arg;
    uint64_t target;

    if (op != FS_PWRITE || strcmp(name, "snapshot.tmp") != 0)
        return;
    pthread_mutex_lock(&n->lock);
    target = n->steps + 1 + rng_below(&n->rng, STEPS_PER_WRITE);
    while (n->steps < target && !n->hurry)
        pthread_cond_wait(&n->changed, &n->lock);
    pthread_mutex_unlock(&n->lock);
}

static void *snapper_main(void *arg)
{
    struct snapper *n = arg;

    pthread_mutex_lock(&n->lock);
    while (!n->stop) {
        struct local *l = n->l;
        uint64_t steps = n->steps;
        int err;

        if (!l) {
            pthread_cond_wait(&n->changed, &n->lock);
            continue;
        }
        n->busy = true;
        pthread_mutex_unlock(&n->lock);
        err = local_snapshot(l);
        pthread_mutex_lock(&n->lock);
        n->busy = false;
        n->done++;
        n->err = n->err ? n->err : err;
        pthread_cond_broadcast(&n->changed);
        while (n->steps == steps && n->l == l && !n->stop)
            pthread_cond_wait(&n->changed, &n->lock);
    }
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

void snapper_start(struct snapper *n, uint64_t seed)
{
    *n = (struct snapper){.rng = {seed}};
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->changed, NULL);
    if (pthread_create(&n->thread, NULL, snapper_main, n))
        abort();
}

void snapper_stop(struct snapper *n)
{
    snapper_use(n, NULL);
    pthread_mutex_lock(&n->lock);
    n->stop = true;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
    pthread_join(n->thread, NULL);
    pthread_cond_destroy(&n->changed);
    pthread_mutex_destroy(&n->lock);
}

void snapper_use(struct snapper *n, struct local *l)
{
    pthread_mutex_lock(&n->lock);
    n->l = l;
    n->hurry = !l;
    pthread_cond_broadcast(&n->changed);
    while (!l && n->busy)
        pthread_cond_wait(&n->changed, &n->lock);
    pthread_mutex_unlock(&n->lock);
}

void snapper_step(struct snapper *n)
{
    pthread_mutex_lock(&n->lock);
    n->steps++;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}
