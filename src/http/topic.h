/*
 * topic - something that requests wait for: "a task may have come into this queue".
 *
 * A handler that found nothing parks its request on a topic with http_wait(); whoever makes a change
 * signals the topic, from any thread, and up to so many of the requests that have waited longest are
 * run again, from the beginning. A parked request costs its memory and no thread.
 *
 * No wake-up is lost: the handler reads the topic's count before it looks, and a request whose topic
 * was signalled since then is not parked but run again. A wake-up for a client that has left is passed
 * on to the next.
 *
 * Initialise; release when no server knows it any more. A topic outlives the requests that may wait
 * on it, so have few of them and keep them as long as the server.
 */
#ifndef HTTP_TOPIC_H
#define HTTP_TOPIC_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct exchange;

struct http_topic {
    pthread_mutex_t lock;
    uint64_t signals;
    struct exchange *first, *last; /* parked */
};

enum { HTTP_TOPIC_ALL = 0x7fffffff };

void http_topic_init(struct http_topic *t);
void http_topic_release(struct http_topic *t);

/* Read this before looking; http_wait() takes it. */
uint64_t http_topic_seen(struct http_topic *t);

/* Something has changed: wakes up to max_to_wake. */
void http_topic_signal(struct http_topic *t, int max_to_wake);

#endif
