/*
 * queue_messages - the messages of queues on a server, over HTTP: reading, posting, and hearing
 * which queues have new ones.
 *
 * A message is a task of the group that has the queue's name; messages are read in the order of
 * their ids.
 */
#ifndef CLIENT_QUEUE_MESSAGES_H
#define CLIENT_QUEUE_MESSAGES_H

#include "base/json.h"
#include "queue/message.h"

/* At most limit messages with ids above `after`. */
int message_read(struct drover_client *c, const char *queue, int64_t after, size_t limit,
                 struct queue_message_list *ret_list, struct err_info *ret_error);
int message_post(struct drover_client *c, const char *queue, struct str data, int64_t *ret_id,
                 struct err_info *ret_error);

/* Queues that have new messages; one may stand twice. NULL: any queue. */
struct message_news {
    struct str *queues;
    size_t count;
};

/*
 * Waits at the server for messages of any queue (GET /v1/posted) and passes the number where it
 * left off. So it misses nothing between two requests, and does not depend on which queues are the
 * worker's. Returns when there are news, or after LISTEN_WAIT_MS; CLOSED: by the client's stop_fd.
 */
enum { LISTEN_WAIT_MS = 30 * 1000 };

int message_listen(struct drover_client *c, int64_t *number, struct arena *a,
                   struct message_news *ret_news);

/* The keeper that the server names in GET /v1/keeper. The caller frees the URL. */
int message_keeper(struct drover_client *c, char **ret_url, struct err_info *ret_error);

/* Parse the server's answers; DAMAGED if they are invalid. Text is borrowed from the body. */
int message_parse_list(const struct json *body, struct queue_message_list *l,
                       struct err_info *ret_error);
int message_parse_news(const struct json *body, struct arena *a, int64_t *ret_number,
                       struct message_news *ret_news);

#endif
