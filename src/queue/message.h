/*
 * tasks - the messages of queues in the task store of this server. Every call waits for the store: not on
 * the loop.
 *
 * NOT_LEADER: another server has the tasks.
 */
#ifndef QUEUE_MESSAGE_H
#define QUEUE_MESSAGE_H

#include "client/queue_messages.h"
#include "task/service.h"

/* All of the messages or none; ret_ids has room for count. */
int queue_messages_post(struct service *s, struct str queue, const struct str *data, size_t count,
                        int64_t *ret_ids);

int queue_messages_read(struct service *s, struct str queue, int64_t after, size_t limit,
                        struct message_list *ret_list);

/* How many there are after that one, counted up to max. */
int queue_messages_count(struct service *s, struct str queue, int64_t after, size_t max);

/*
 * Removes messages that were posted before that moment, and that nobody has claimed as tasks. How many.
 */
int queue_messages_sweep(struct service *s, struct str queue, int64_t before_ms);

#endif
