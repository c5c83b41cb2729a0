/*
 * health - how the server is: GET /healthz (it runs), /readyz (it can do what it is asked), and the
 * figures of the process and the keeper for /metrics.
 */
#ifndef HEALTH_H
#define HEALTH_H

#include "rooms.h"

struct health {
    struct house *house;
    struct rooms *rooms;
    struct local_stats stats; /* of the page that is being made */
};

/* The house has its metrics. */
void health_init(struct health *h, struct house *house, struct rooms *rooms);

struct route_table health_routes(struct health *h);

#endif
