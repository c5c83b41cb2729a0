/* Two queues: sealed letters wait for the disk, ready ones for the thread that reads them. */
#include "keeper/local/callback_queue.h"
#include "base/thread.h"

void callback_queue_init(struct callback_queue *m, struct journal *journal,
                         const struct keeper_options *o)
{
    *m = (struct callback_queue){.journal = journal, .wake = o->wake, .wake_arg = o->wake_arg};
    m->sealed_end = &m->sealed;
    m->ready_end = &m->ready;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
}

static void put(struct callback ***end, struct callback *callback)
{
    callback->next = NULL;
    **end = callback;
    *end = &callback->next;
}

static struct callback *take(struct callback **head, struct callback ***end)
{
    struct callback *callback = *head;

    *head = callback->next;
    if (!*head)
        *end = head;
    return callback;
}

/* Runs one letter. Under the lock, which it releases meanwhile. */
static void run(struct callback_queue *m, struct callback *callback)
{
    int err;

    m->reading = true;
    m->reader = pthread_self();
    m->subject = callback->subject;
    pthread_mutex_unlock(&m->lock);
    err = m->journal ? journal_wait(m->journal, callback->ticket) : 0;
    callback->run(callback, err);
    pthread_mutex_lock(&m->lock);
    m->reading = false;
    m->subject = NULL;
    pthread_cond_broadcast(&m->changed);
}

/* Opens the next sealed letter once it may be; it may have been withdrawn meanwhile. */
static void deliver_next(struct callback_queue *m)
{
    struct journal_ticket ticket = m->sealed->ticket;
    bool was_empty;

    if (!m->wake) {
        run(m, take(&m->sealed, &m->sealed_end));
        return;
    }
    pthread_mutex_unlock(&m->lock);
    if (m->journal)
        journal_wait(m->journal, ticket);
    pthread_mutex_lock(&m->lock);
    if (!m->sealed || m->sealed->ticket.lsn > ticket.lsn)
        return;
    was_empty = !m->ready;
    put(&m->ready_end, take(&m->sealed, &m->sealed_end));
    if (was_empty) {
        pthread_mutex_unlock(&m->lock);
        m->wake(m->wake_arg);
        pthread_mutex_lock(&m->lock);
    }
}

static void *delivery_main(void *arg)
{
    struct callback_queue *m = arg;

    pthread_mutex_lock(&m->lock);
    for (;;) {
        if (m->sealed)
            deliver_next(m);
        else if (m->stop)
            break;
        else
            pthread_cond_wait(&m->changed, &m->lock);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

void callback_queue_post(struct callback_queue *m, struct callback *callback)
{
    pthread_mutex_lock(&m->lock);
    if (!m->delivery_runs) {
        thread_must_start(&m->delivery, "keeper-callback", delivery_main, m);
        m->delivery_runs = true;
    }
    if (!m->sealed)
        pthread_cond_broadcast(&m->changed);
    put(&m->sealed_end, callback);
    pthread_mutex_unlock(&m->lock);
}

static bool is_inside(const struct callback_queue *m)
{
    return m->reading && pthread_equal(m->reader, pthread_self());
}

/* From inside a letter it does nothing: the dispatch that runs that letter goes on with the rest. */
void callback_queue_dispatch(struct callback_queue *m)
{
    pthread_mutex_lock(&m->lock);
    while (m->ready && !is_inside(m))
        run(m, take(&m->ready, &m->ready_end));
    pthread_mutex_unlock(&m->lock);
}

static void drop_from(struct callback **head, struct callback ***end, const void *subject)
{
    struct callback **link = head;

    while (*link) {
        struct callback *callback = *link;

        if (callback->subject != subject) {
            link = &callback->next;
            continue;
        }
        *link = callback->next;
        callback->drop(callback);
    }
    *end = link;
}

bool callback_queue_withdraw(struct callback_queue *m, const void *subject)
{
    bool inside;

    pthread_mutex_lock(&m->lock);
    drop_from(&m->sealed, &m->sealed_end, subject);
    drop_from(&m->ready, &m->ready_end, subject);
    inside = is_inside(m);
    while (!inside && m->reading && m->subject == subject)
        pthread_cond_wait(&m->changed, &m->lock);
    inside = inside && m->subject == subject;
    pthread_mutex_unlock(&m->lock);
    return inside;
}

void callback_queue_close(struct callback_queue *m)
{
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    if (m->delivery_runs)
        pthread_join(m->delivery, NULL);
    pthread_mutex_lock(&m->lock);
    while (m->ready || m->sealed) { /* a letter that is read here may post another */
        if (m->ready)
            run(m, take(&m->ready, &m->ready_end));
        else
            deliver_next(m);
    }
    pthread_mutex_unlock(&m->lock);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
}
