/*
 * queue_messages - the messages of queues on a server, over HTTP: reading, posting, and hearing
 * which queues have new ones.
 *
 * A message is a task of the group that has the queue's name; messages are read in the order of
 * their ids. A worker reads through a message_source, so that tests can give it another.
 */
#ifndef CLIENT_QUEUE_MESSAGES_H
#define CLIENT_QUEUE_MESSAGES_H

#include "base/json.h"
#include "drover.h"
#include "queue/message.h"

/* Calls may come from several threads. */
struct message_source {
    /* At most limit messages with ids above `after`. */
    int (*read)(struct message_source *s, const char *queue, int64_t after, size_t limit,
                struct queue_message_list *ret_list, struct err_info *ret_error);
    int (*post)(struct message_source *s, const char *queue, struct str data, int64_t *ret_id,
                struct err_info *ret_error);
};

struct message_remote {
    struct message_source base;
    struct drover_client *client; /* borrowed */
};

void message_remote_init(struct message_remote *r, struct drover_client *client);

/* The keeper that the server names in GET /v1/keeper. The caller frees the URL. */
int message_remote_keeper(struct drover_client *client, char **ret_url, struct err_info *ret_error);

/* Queues that have new messages; one may stand twice. NULL: any queue. */
struct message_news {
    struct str *queues;
    size_t count;
};

/*
 * A listener waits at the server for messages of any queue (GET /v1/posted) and passes the number
 * where it left off. So it misses nothing between two requests, and does not depend on which queues
 * are the worker's. One thread waits; any thread may end it.
 */
enum { LISTEN_WAIT_MS = 30 * 1000 };

struct message_listener;

/* Uses the server and the token of the options only. */
int message_listener_open(const struct drover_client_options *o,
                          struct message_listener **ret_listener, struct err_info *ret_error);
void message_listener_close(struct message_listener *l);

/* Returns when there are news, or after LISTEN_WAIT_MS. CLOSED after message_listener_end(). */
int message_listener_wait(struct message_listener *l, struct arena *a,
                          struct message_news *ret_news);
void message_listener_end(struct message_listener *l);

/* Parse the server's answers; DAMAGED if they are invalid. Text is borrowed from the body. */
int message_parse_list(const struct json *body, struct queue_message_list *l,
                       struct err_info *ret_error);
int message_parse_news(const struct json *body, struct arena *a, int64_t *ret_number,
                       struct message_news *ret_news);

#endif
