/*
 * http - the queues of drover serve: /v1/queues, /v1/posted, /v1/workers, and /v1/keeper, which
 * tells workers where to meet. What the files of the module share.
 */
#ifndef QUEUE_HTTP_H
#define QUEUE_HTTP_H

#include "base/thread.h"
#include "queue/queue.h"
#include "server/context.h"
#include "task/service.h"

extern const struct module queue_module;

struct queue_module {
    struct context *context;
    const char *ns;
    _Atomic int64_t retention_ms, error_retention_ms;
    struct periodic *sweep;
    struct message_feed *feed;
    struct counter *messages;
    struct queue_metrics *metrics;
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

/*
 * Adds a "warning" if messages would be skipped silently: `last` is larger than any id that was
 * given, the largest of which is last_id.
 */
void queue_put_warning(struct buf *b, int64_t last, int64_t last_id);

/* Tells those who follow the events of the server: {"queue": name, ...}, which is in b. */
void queue_publish(struct queue_module *m, const char *kind, const char *name, const char *state,
                   struct buf *b);

/* Checks the name of a queue: NUL-terminated, or NULL after an answer of 400. */
const char *queue_named(struct http_request *r, struct str name, bool or_error_queue);

/* What the handlers take, each some of it; and those of messages. */
struct queue_in {
    struct str queue, data, after;
    const struct str *messages;
    size_t message_count;
    int64_t limit, posted, wait_ms;
};

void queue_post_messages(struct http_request *r);
void queue_get_messages(struct http_request *r);
void queue_get_posted(struct http_request *r);

/* metrics.c: how far workers are behind. */
struct queue_metrics *queue_metrics_open(struct queue_module *m);
void queue_metrics_close(struct queue_metrics *m);

/* The threads of messages: the feed of new ones, the sweep of old ones. */
void queue_messages_open(struct queue_module *m);
void queue_messages_close(struct queue_module *m);

#endif
