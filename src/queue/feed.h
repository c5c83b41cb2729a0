/*
 * feed - tells which queues have new messages. It has a thread of its own.
 *
 * Messages are tasks, and any client can add one: through a queue, through /update, through the
 * library. Ids rise with every task, so the feed looks up each new id once. It does so every
 * FEED_MS, and at once after message_feed_nudge(), but at most every FEED_PAUSE_MS: under load,
 * waiting requests are woken a hundred times a second and not thousands of times.
 *
 * The last FEED_KEPT entries are kept and numbered. A reader that passes the last number it saw
 * misses nothing. Numbers also rise over a restart: the first one is the current time.
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
    FEED_IDS_MAX =
        100 *
        1000, /* if more ids are new, they are not looked up: any queue may have new messages */
};

struct message_feed_options {
    struct service *tasks;

    /* A queue has `count` new messages; the last one is `id`. NULL: any queue may have some. */
    void (*posted)(void *arg, const char *queue, int64_t id, int64_t count);

    /* Called after one or more calls of `posted`: waiting requests should look again. */
    void (*told)(void *arg);
    void *arg;
};

struct message_feed;

struct message_feed *message_feed_start(const struct message_feed_options *o);
void message_feed_free(struct message_feed *n);

/* A message was posted just now. Any thread. */
void message_feed_nudge(struct message_feed *n);

/* The queues of the entries after a number; a queue may stand twice. NULL: any queue. */
struct message_feed_list {
    int64_t number; /* pass this number next time */
    const char **queues;
    size_t count;
};

/* True: there are new entries; ret_list is in the arena. */
bool message_feed_since(struct message_feed *n, int64_t number, struct arena *a,
                        struct message_feed_list *ret_list);

#endif
