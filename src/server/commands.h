/*
 * commands - ZooKeeper's four-letter words over HTTP, as JSON: GET /v1/keeper/commands.
 *
 * They are answered for the embedded keeper with a ZooKeeper port. The servers of an ensemble
 * answer for themselves.
 */
#ifndef SERVER_COMMANDS_H
#define SERVER_COMMANDS_H

#include "server/context.h"

struct route_table commands_routes(struct context *h);

#endif
