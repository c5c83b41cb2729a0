/*
 * messages - where a worker reads the messages of its queues, and posts those that it sets aside.
 *
 * A message is a task of the group that has the queue's name; a queue's messages are read in the order of
 * their ids. Calls may come from several threads.
 */
#ifndef CLIENT_QUEUE_MESSAGES_H
#define CLIENT_QUEUE_MESSAGES_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

enum {
    MESSAGES_LIMIT = 100, /* of one read, unless it says otherwise */
    MESSAGES_LIMIT_MAX = 1000,
    MESSAGES_LEN_MAX =
        1024 * 1024, /* a read ends early, after at least one, when it has so much data */
};

struct message {
    int64_t id;
    int64_t time_ms; /* when it was posted */
    struct str data;
};

/* Zero-initialise; release. */
struct message_list {
    struct message *messages; /* in the arena, as is their data */
    size_t count;
    struct arena arena;
};

static inline void message_list_release(struct message_list *l)
{
    arena_release(&l->arena);
    *l = (struct message_list){0};
}

/* Queues that have got messages, perhaps more than once. NULL: it may be any. */
struct message_news {
    struct str *queues;
    size_t count;
};

/* What a server says, read: DAMAGED and why, when it is something else. The text stays where it is. */
int messages_parse(const struct json *body, struct message_list *l, struct err_info *ret_error);
int messages_parse_news(const struct json *body, struct arena *a, int64_t *ret_number,
                        struct message_news *ret_news);

struct messages {
    /* At most limit, with larger ids than `after`. */
    int (*read)(struct messages *m, const char *queue, int64_t after, size_t limit,
                struct message_list *ret_list, struct err_info *ret_error);
    int (*post)(struct messages *m, const char *queue, struct str data, int64_t *ret_id,
                struct err_info *ret_error);
};

#endif
