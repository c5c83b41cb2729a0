/*
 * http - the queues of drover serve: /v1/queues, /v1/posted, /v1/workers, and /v1/keeper, which
 * tells workers where to meet. What the files of the module share.
 */
#ifndef QUEUE_HTTP_H
#define QUEUE_HTTP_H

#include "base/thread.h"
#include "queue/queue.h"
#include "server/modules.h"
#include "task/service.h"

extern const struct module queue_module;

struct queue_module {
    struct context *context;
    const char *ns;
    int64_t retention_ms, error_retention_ms;
    struct periodic *sweep;
    struct message_feed *feed;
    struct counter *messages;
};

/* Answers with an error: of the keeper, or of the task store. Another server may lead that one. */
void queue_refuse(struct http_request *r, int err);
void queue_refuse_task(struct http_request *r, int err);

/*
 * Borrows the server's session, or answers 503 and is false. queue_leave() returns it; if err is
 * not 0, it answers with that and is false.
 */
bool queue_enter(struct http_request *r, struct queues *qs);
bool queue_leave(struct http_request *r, struct queues *qs, int err);

/* Tells those who follow the events of the server: {"queue": name, ...}, which is in b. */
void queue_publish(struct queue_module *m, const char *kind, const char *name, const char *state,
                   struct buf *b);

/* Checks the name of a queue: NUL-terminated, or NULL after an answer of 400. */
const char *queue_named(struct http_request *r, struct str name, bool or_error_queue);

/* What requests wait for, on the topic of the context: messages of a queue; entries of the feed. */
uint64_t queue_messages_key(struct str queue); /* p NULL: any queue may have new messages */
uint64_t queue_posted_key(void);

/* The handlers of messages, and what they take. */
struct queue_messages_in {
    struct str queue, data, after;
    const struct str *messages;
    size_t message_count;
    int64_t limit, wait_ms;
};

struct queue_posted_in {
    int64_t after, wait_ms;
};

void queue_post_messages(struct http_request *r);
void queue_get_messages(struct http_request *r);
void queue_get_posted(struct http_request *r);

/*
 * The sweep removes messages older than the retention, periodically, on a thread of its own. The
 * error queue has a retention of its own. Whether a message was handled does not matter. Messages
 * of a queue that is removed are swept once, when it is removed.
 */
struct periodic *queue_sweep_start(struct queue_module *m);

/*
 * The feed tells which queues have new messages. It has a thread of its own.
 *
 * Messages are tasks, and any client can add one: through a queue, through /update, through the
 * library. Ids rise with every task, so the feed looks up each new id once. It does so every
 * FEED_MS, and at once after message_feed_nudge(), but at most every FEED_PAUSE_MS: under load,
 * waiting requests are woken a hundred times a second and not thousands of times.
 *
 * The last FEED_KEPT entries are kept and numbered. A reader that passes the last number it saw
 * misses nothing. Numbers also rise over a restart: the first one is the current time.
 */
enum {
    FEED_MS = 200,
    FEED_PAUSE_MS = 10,
    FEED_KEPT = 4096,
    FEED_IDS_MAX = 100 * 1000, /* more new ids are not looked up: any queue may have messages */
};

struct message_feed *message_feed_start(struct queue_module *m);
void message_feed_free(struct message_feed *n);

/* A message was posted just now. Any thread. */
void message_feed_nudge(struct message_feed *n);

/*
 * Writes the queues of the entries after a number, and the number to pass next time:
 * {"posted": 4711, "queues": [...]}. A queue may stand twice; null: any queue. True: there are new
 * entries.
 */
bool message_feed_put(struct message_feed *n, int64_t after, struct buf *b);

#endif
