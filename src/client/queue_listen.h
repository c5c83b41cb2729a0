/*
 * listen - hears from the server which queues have got messages, so that workers need not ask for each.
 *
 * One request waits at the server for messages of any queue (GET /v1/posted) and says where it left off
 * when it is made again. So it does not depend on which queues are the worker's, and nothing that comes
 * between two requests is missed.
 *
 * One thread waits; any may end it.
 */
#ifndef CLIENT_QUEUE_LISTEN_H
#define CLIENT_QUEUE_LISTEN_H

#include "client/queue_messages.h"
#include "drover.h"

enum { LISTEN_WAIT_MS = 30 * 1000 };

struct listen;

/* Takes the server and the token of the options; the rest is its own. */
int listen_open(const struct drover_client_options *o, struct listen **ret_listen,
                struct err_info *ret_error);
void listen_close(struct listen *l);

/* Returns when there are news, or after LISTEN_WAIT_MS without any. CLOSED after listen_end(). */
int listen_wait(struct listen *l, struct arena *a, struct message_news *ret_news);
void listen_end(struct listen *l);

#endif
