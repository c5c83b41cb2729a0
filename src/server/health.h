/*
 * health - GET /healthz (the server runs), GET /readyz (it is ready for requests), and the metrics
 * of the process and the keeper.
 */
#ifndef SERVER_HEALTH_H
#define SERVER_HEALTH_H

#include "server/modules.h"

struct health {
    struct context *context;
    struct modules *modules;
    struct local_stats stats; /* of the present page of metrics */
};

/* context->metrics must be set. */
void health_init(struct health *h, struct context *context, struct modules *modules);

struct route_table health_routes(struct health *h);

#endif
