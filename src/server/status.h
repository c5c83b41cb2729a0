/*
 * status - whether the server is ready, and the metrics of the process and the keeper.
 */
#ifndef SERVER_STATUS_H
#define SERVER_STATUS_H

#include "server/context.h"

enum { MODULES_MAX = 16 };

/* The modules of a server. */
struct module_set {
    struct context *context;
    const struct module *const *all; /* at most MODULES_MAX, then NULL */
    void *open[MODULES_MAX];         /* the first of them, as they opened */
    size_t open_count;
};

struct route_table status_routes(struct module_set *m);
void status_metrics(struct module_set *m);

#endif
