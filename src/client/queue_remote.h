/*
 * remote - the messages of queues, on a server, over HTTP.
 */
#ifndef CLIENT_QUEUE_REMOTE_H
#define CLIENT_QUEUE_REMOTE_H

#include "client/queue_messages.h"
#include "drover.h"

struct remote {
    struct messages base;
    struct drover_client *client; /* borrowed */
};

void remote_init(struct remote *r, struct drover_client *client);

/* The keeper that the server names, for a worker that was told none. The caller frees it. */
int remote_keeper(struct drover_client *client, char **ret_url, struct err_info *ret_error);

#endif
