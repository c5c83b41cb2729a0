/*
 * notice - sees which queues have got messages, whichever way, on a thread of its own.
 *
 * Messages are tasks, and anybody may add one: through the queues, through /update, from a library. Ids
 * rise with every task, so what was added is found by its id, at the cost of a look-up for each id that
 * is new. That happens every FEED_MS, and at once after message_feed_nudge(); then not again for
 * FEED_PAUSE_MS, so that who waits is woken a hundred times a second under load, and not thousands.
 *
 * The last FEED_KEPT findings are kept, numbered, so that who comes back with the number that it has
 * seen misses nothing. Numbers rise, also over a restart: the first one is made from the time.
 */
#ifndef QUEUE_FEED_H
#define QUEUE_FEED_H

#include "base/arena.h"
#include "queue/queue.h"
#include "task/service.h"

enum {
    FEED_MS = 200,
    FEED_PAUSE_MS = 10,
    FEED_KEPT = 4096,
    FEED_IDS_MAX = 100 * 1000, /* more at once are not looked up: any queue may have got some */
};

struct message_feed_options {
    struct service *tasks;

    /* A queue has got so many messages, of which this is the last. */
    void (*posted)(void *arg, const char *queue, int64_t id, int64_t count);

    /* After one or more of these: who waits should look. */
    void (*told)(void *arg);
    void *arg;
};

struct message_feed;

struct message_feed *message_feed_start(const struct message_feed_options *o);
void message_feed_free(struct message_feed *n);

/* Something was posted a moment ago. Any thread. */
void message_feed_nudge(struct message_feed *n);

/* The queues of what was found after a number, each once or more. NULL: it may be any. */
struct message_feed_list {
    int64_t number; /* up to which this is: what to ask with next */
    const char **queues;
    size_t count;
};

/* True: there is something new, in the arena. */
bool message_feed_since(struct message_feed *n, int64_t number, struct arena *a,
                        struct message_feed_list *ret_list);

#endif
