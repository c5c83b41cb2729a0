/*
 * The queue of the user's callbacks that are due. The keeper's own thread runs them, or
 * keeper_dispatch() if the options have a wake.
 *
 * wake is called when the queue was empty before, and by a dispatch that leaves callbacks behind:
 * one dispatch runs only those that were due when it began, so that a busy keeper does not block
 * its user's event loop.
 */
#include "keeper/zookeeper/zookeeper_impl.h"

void zk_ready(struct zk *zk, struct zk_item *item)
{
    bool first = TAILQ_EMPTY(&zk->ready);
    if (item->queued)
        return;
    item->queued = true;
    TAILQ_INSERT_TAIL(&zk->ready, item, link);
    zk->ready_count++;
    if (!zk->wake)
        pthread_cond_signal(&zk->due);
    else if (first && !zk->closing) /* closing runs the rest itself */
        zk->wake(zk->wake_arg);
}

void zk_unready(struct zk *zk, struct zk_item *item)
{
    if (!item->queued)
        return;
    item->queued = false;
    TAILQ_REMOVE(&zk->ready, item, link);
    zk->ready_count--;
}

bool zk_is_dispatcher(struct zk *zk)
{
    return zk->dispatching && pthread_equal(zk->dispatcher, pthread_self());
}

/* Runs up to count callbacks. Does nothing if called from inside one. */
static void run_items(struct zk *zk, size_t count)
{
    struct zk_item *item;
    if (zk->dispatching)
        return;
    zk->dispatching = true;
    zk->dispatcher = pthread_self();
    while (count-- > 0 && (item = TAILQ_FIRST(&zk->ready))) {
        zk_unready(zk, item);
        item->run(zk, item);
    }
    zk->dispatching = false;
}

void zk_dispatch(struct keeper *k)
{
    struct zk *zk = zk_of(k);
    if (!zk->wake)
        return;
    LOCKED(&zk->lock);
    run_items(zk, zk->ready_count);
    if (!zk->dispatching && !TAILQ_EMPTY(&zk->ready))
        zk->wake(zk->wake_arg);
}

static void *queue_main(void *arg)
{
    struct zk *zk = arg;
    LOCKED(&zk->lock);
    while (!zk->stop || !TAILQ_EMPTY(&zk->ready)) {
        if (TAILQ_EMPTY(&zk->ready))
            pthread_cond_wait(&zk->due, &zk->lock);
        run_items(zk, zk->ready_count);
    }
    return NULL;
}

int zk_queue_start(struct zk *zk, struct err_info *ret_error)
{
    if (!zk->wake) {
        TRY(thread_start(&zk->thread, "zk-callbacks", queue_main, zk, ret_error));
        zk->thread_runs = true;
    }
    return 0;
}

void zk_queue_close(struct zk *zk)
{
    pthread_mutex_lock(&zk->lock);
    zk->stop = true;
    pthread_cond_signal(&zk->due);
    while (!zk->thread_runs && !TAILQ_EMPTY(&zk->ready))
        run_items(zk, zk->ready_count);
    pthread_mutex_unlock(&zk->lock);
    if (zk->thread_runs)
        pthread_join(zk->thread, NULL);
}
