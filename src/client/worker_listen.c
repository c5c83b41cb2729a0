/*
 * The listener thread records which queues have new messages; the control thread reports it to the
 * state machine. Queues are also polled (poll_ms): news may be lost with a connection.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "client/worker_impl.h"

enum { AGAIN_MS = 1000, POSTED_MAX = 10000 };

/* Under the lock. */
static void note_posted(struct worker_runtime *s, struct str queue)
{
    if (queue.len != QUEUE_NAME_LEN || s->posted_any)
        return;
    if (s->posted_count == POSTED_MAX) { /* so many that every queue may as well be read */
        s->posted_any = true;
        return;
    }
    if (s->posted_count == s->posted_cap) {
        s->posted_cap = s->posted_cap ? 2 * s->posted_cap : 16;
        s->posted = mem_realloc(s->posted, s->posted_cap * sizeof *s->posted);
    }
    memcpy(s->posted[s->posted_count], queue.p, QUEUE_NAME_LEN);
    s->posted[s->posted_count++][QUEUE_NAME_LEN] = '\0';
}

static void note_news(struct worker_runtime *s, const struct message_news *news)
{
    LOCKED(&s->lock);
    if (!news->queues)
        s->posted_any = true;
    for (size_t i = 0; i < news->count; i++)
        note_posted(s, news->queues[i]);
    pthread_cond_broadcast(&s->changed);
}

void worker_tell_posted(struct worker_runtime *s, int64_t now_ms)
{
    if (s->posted_any)
        queue_worker_posted(&s->steps.worker, now_ms, NULL);
    for (size_t i = 0; i < s->posted_count && !s->posted_any; i++)
        queue_worker_posted(&s->steps.worker, now_ms, s->posted[i]);
    s->posted_any = false;
    s->posted_count = 0;
}

/* False: the runtime has ended. */
static bool pause_for(struct worker_runtime *s, int64_t ms)
{
    int64_t until_ms = clock_boot_ms() + ms;

    pthread_mutex_lock(&s->lock);
    while (!s->ended && clock_boot_ms() < until_ms)
        cond_wait_until(&s->changed, &s->lock, until_ms);
    bool ended = s->ended;
    pthread_mutex_unlock(&s->lock);
    return !ended;
}

void *worker_listen(void *arg)
{
    struct worker_runtime *s = arg;
    struct message_news news;
    CLEANUP(arena_release) struct arena a = {0};
    int err;

    do {
        arena_reset(&a);
        err = s->o.listen(s->o.arg, &a, &news);
        if (!err)
            note_news(s, &news);
    } while (err != DROVER_CLOSED && pause_for(s, err ? AGAIN_MS : 0));
    return NULL;
}
