/*
 * health - how the server is: GET /healthz (it runs), /readyz (it can do what it is asked), and the
 * figures of the process and the keeper for /metrics.
 */
#ifndef SERVER_HEALTH_H
#define SERVER_HEALTH_H

#include "server/modules.h"

struct health {
    struct context *context;
    struct modules *modules;
    struct local_stats stats; /* of the page that is being made */
};

/* The house has its metrics. */
void health_init(struct health *h, struct context *context, struct modules *modules);

struct route_table health_routes(struct health *h);

#endif
