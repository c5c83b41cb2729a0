/*
 * worker - a queue worker: the state machine of queue/worker.h on a real keeper, with threads.
 *
 * One thread carries out the actions on the keeper; `parallel` others read messages and call the
 * handler; one hears of new messages. worker_start() returns at once. The calls of drover/queue.h
 * end it: drover_worker_stop() asks it to finish the messages in progress and leave,
 * drover_worker_wait() returns when it has left, drover_worker_free() does both if needed.
 *
 * A lost session is replaced: the worker joins again under a new name.
 */
#ifndef CLIENT_WORKER_H
#define CLIENT_WORKER_H

#include "client/queue_messages.h"
#include "queue/registration.h"

/* What a worker works on, so that tests can give it another. Calls come from several threads. */
struct queue_source {
    /* Opens a keeper with a new session, which the worker closes. */
    int (*connect)(struct queue_source *s, struct keeper **ret_keeper, struct err_info *ret_error);

    /* At most limit messages with ids above `after`. */
    int (*read)(struct queue_source *s, const char *queue, int64_t after, size_t limit,
                struct queue_message_list *ret_list, struct err_info *ret_error);
    int (*post)(struct queue_source *s, const char *queue, struct str data, int64_t *ret_id,
                struct err_info *ret_error);

    /*
     * Returns when there are news, or after a while; called repeatedly from a thread of its own.
     * CLOSED after unlisten, which any thread may call. NULL: queues are only polled.
     */
    int (*listen)(struct queue_source *s, struct arena *a, struct message_news *ret_news);
    void (*unlisten)(struct queue_source *s);

    void (*free)(struct queue_source *s); /* when the worker is freed; NULL: nothing to do */
};

/* ns and the queues in `o` are borrowed. */
struct drover_worker *worker_start(struct queue_source *source, const char *ns,
                                   const struct drover_worker_options *o);

#endif
