/*
 * http - the queues of drover serve: /v1/queues, /v1/posted, /v1/workers, and /v1/keeper, which
 * tells workers where to meet. What the files of the module share.
 */
#ifndef QUEUE_HTTP_H
#define QUEUE_HTTP_H

#include "queue/feed.h"
#include "queue/queue.h"
#include "server/modules.h"

extern const struct module queue_module;

/*
 * The sweep removes messages older than the retention, periodically, on a thread of its own. The
 * error queue has a retention of its own. Whether a message was handled does not matter. Messages
 * of a queue that is removed are swept once, when it is removed.
 */
#define SWEEP_RETENTION_MS (INT64_C(3) * 24 * 3600 * 1000)
#define SWEEP_ERROR_RETENTION_MS (INT64_C(30) * 24 * 3600 * 1000)

struct queue_sweep;

struct queue_sweep_options {
    struct context *context;
    const char *ns;
    int64_t retention_ms, error_retention_ms;
};

struct queue_sweep *queue_sweep_start(const struct queue_sweep_options *o);
void queue_sweep_free(struct queue_sweep *s);

struct queue_module {
    struct context *context;
    const char *ns;
    struct queue_sweep *sweep;
    struct message_feed *feed;
    struct counter *messages;
};

/* Answers with an error: of the keeper, or of the task store. Another server may lead that one. */
void queue_refuse(struct http_request *r, int err);
void queue_refuse_task(struct http_request *r, int err);

/* Borrows the server's session, or answers 503. Return it with queue_leave(). */
bool queue_enter(struct http_request *r, struct queues *qs);
void queue_leave(struct http_request *r, struct queues *qs);

/* Answers with what is in b, and releases it. */
void queue_answer(struct http_request *r, struct buf *b);

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

#endif
