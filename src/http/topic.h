/*
 * topic - what requests wait for: "a task of this type may have come", "this session has ended".
 *
 * A handler that found nothing parks its request under one or several keys; whoever makes a change
 * wakes the key, from any thread. Up to so many of the requests that have waited longest for that
 * key are run again, from the beginning of their handler. A parked request costs its memory and no
 * thread, and nothing runs while it waits.
 *
 *     uint64_t keys[] = {http_key("type", type, world)};
 *     struct http_watch w = http_watch(r, topic, keys, 1);
 *     ... look ...
 *     if (nothing && http_park(r, &w, wait_ms))
 *         return 0; // the handler runs again when woken, or when the time is up
 *
 *     http_topic_wake(topic, http_key("type", type, world), 1); // whoever adds a task
 *
 * No wake-up is lost: http_watch() counts the wake-ups of the keys before the handler looks, and
 * http_park() runs the handler again at once if there was one since. A wake-up for a client that
 * has left, or whose request then ends with an error, is passed on to the next. Two keys may share
 * a count, so a handler may run without need, never the reverse.
 *
 * Initialise; release when no server knows it any more: a topic outlives the requests that wait on
 * it.
 */
#ifndef HTTP_TOPIC_H
#define HTTP_TOPIC_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct http_request;
struct topic_wait;

enum { HTTP_TOPIC_BUCKETS = 64, HTTP_TOPIC_ALL = 0x7fffffff };

struct http_topic {
    pthread_mutex_t lock;
    struct topic_bucket {
        uint64_t wakes;
        struct topic_wait *first, *last; /* parked, oldest first */
    } buckets[HTTP_TOPIC_BUCKETS];
};

struct http_watch {
    struct http_topic *topic;
    uint64_t *keys; /* in the arena of the request */
    size_t count;
    uint64_t seen;
};

void http_topic_init(struct http_topic *t);
void http_topic_release(struct http_topic *t);

/* A key: a kind of thing, and up to two names; those that are not needed are {0}. */
uint64_t http_key(const char *kind, struct str name, struct str within);

/* Call this before looking. */
struct http_watch http_watch(struct http_request *r, struct http_topic *t, const uint64_t *keys,
                             size_t count);

/*
 * Parks the request until one of its keys is woken or wait_ms have passed since the request came,
 * and returns true: the handler returns and will run again. False when there is nothing left to
 * wait for: the handler answers.
 *
 * r->unparked, if the handler sets it before, is called on the loop when the request is no longer
 * parked: before the handler runs again, or when the client has left.
 */
bool http_park(struct http_request *r, const struct http_watch *w, int64_t wait_ms);

/* Whether the handler runs for the last time because the time to wait is up. */
bool http_wait_over(const struct http_request *r);

/* Whether the handler runs again after it was parked. */
bool http_was_parked(const struct http_request *r);

/* Wakes up to max of the requests that wait for the key. */
void http_topic_wake(struct http_topic *t, uint64_t key, int max);

/* How many requests wait for the key. */
size_t http_topic_parked(struct http_topic *t, uint64_t key);

#endif
