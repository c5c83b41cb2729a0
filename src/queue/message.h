/*
 * message - the messages of queues: tasks of the group with the queue's name, read in id order.
 *
 * The calls use the task store of this server and block until it answers: not on the loop.
 * NOT_LEADER: another server has the tasks.
 */
#ifndef QUEUE_MESSAGE_H
#define QUEUE_MESSAGE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
    MESSAGES_LIMIT = 100, /* of one read, by default */
    MESSAGES_LIMIT_MAX = 1000,
    MESSAGES_LEN_MAX = 1024 * 1024, /* a read ends after the message that reaches this size */
};

struct queue_message {
    int64_t id;
    int64_t time_ms; /* when it was posted */
    struct str data;
};

/* Zero-initialise; release. */
struct queue_message_list {
    struct queue_message *messages; /* in the arena, with their data */
    size_t count;
    bool more; /* there are messages after these */
    struct arena arena;
};

static inline void queue_message_list_release(struct queue_message_list *l)
{
    arena_release(&l->arena);
    *l = (struct queue_message_list){0};
}

struct service;

/* Posts all of the messages or none; ret_ids has room for count. */
int queue_messages_post(struct service *s, struct str queue, const struct str *data, size_t count,
                        int64_t *ret_ids);

int queue_messages_read(struct service *s, struct str queue, int64_t after, size_t limit,
                        struct queue_message_list *ret_list);

/* The number of messages after that id, counted up to max. */
int queue_messages_count(struct service *s, struct str queue, int64_t after, size_t max);

/* Removes messages from before that time, unless they are claimed as tasks. Returns how many. */
int queue_messages_sweep(struct service *s, struct str queue, int64_t before_ms);

#endif
