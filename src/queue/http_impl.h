/*
 * http_impl - what the files of the queues' routes share: the room, and reading and answering
 * requests.
 */
#ifndef QUEUE_HTTP_IMPL_H
#define QUEUE_HTTP_IMPL_H

#include "queue/feed.h"
#include "queue/queue.h"
#include "queue/sweep.h"
#include "server/context.h"

struct queue_module {
    struct context *context;
    const char *ns;
    struct queue_sweep *sweep;
    struct message_feed *feed;
    struct http_topic posted; /* a message */
    struct counter *messages;
};

/* Answers with an error: of the keeper, or of the task store, which another server may have. */
void queue_refuse(struct http_request *r, int err);
void queue_refuse_task(struct queue_module *module, struct http_request *r, int err);
void queue_send_on(struct queue_module *module, struct http_request *r);

/* Borrows the server's session, or answers 503. Give it back with queue_leave(). */
bool queue_enter(struct http_request *r, struct queues *qs);
void queue_leave(struct http_request *r, struct queues *qs);

/* Answers with what was written, and releases it. */
void queue_answer(struct http_request *r, int status, struct buf *b);

/* The name of a queue in the path, NUL-terminated; the body, an object. Or they answer: NULL. */
const char *queue_named(struct http_request *r, bool or_error_queue);
const struct json *queue_body(struct http_request *r);

/* The handlers of messages. */
void queue_post_messages(struct http_request *r);
void queue_get_messages(struct http_request *r);
void queue_get_posted(struct http_request *r);

#endif
