/*
 * The room of queues: /v1/queues, /v1/workers, and /v1/keeper, which tells workers where to meet.
 */
#ifndef QUEUE_HTTP_H
#define QUEUE_HTTP_H

#include "rooms.h"

extern const struct room queue_room;

#endif
