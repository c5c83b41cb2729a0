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

/*
 * What keeps the server from being ready: the keeper, a module, or a full disk; NULL: nothing. This
 * alone decides, for GET /readyz, the metrics, a service manager and drover doctor. GET /readyz
 * also asks an ensemble whether it answers. On the loop.
 */
const char *status_waits_for(struct module_set *m);

/*
 * The same without what only an operator can change: a server with a full disk has started, and
 * must not be ended because it has not.
 */
const char *status_starting(struct module_set *m);

struct route_table status_routes(struct module_set *m);
void status_metrics(struct module_set *m);

#endif
