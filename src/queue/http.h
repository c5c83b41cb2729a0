/*
 * The room of queues: /v1/queues, /v1/workers, and /v1/keeper, which tells workers where to meet.
 */
#ifndef QUEUE_HTTP_H
#define QUEUE_HTTP_H

#include "server/modules.h"

extern const struct module queue_module;

#endif
