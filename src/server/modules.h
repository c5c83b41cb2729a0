/*
 * modules - the parts of drover serve: tasks, the DAG, worlds, queues, batches.
 *
 * Modules are opened in the order of their table, which the command `serve` owns; a module may use,
 * through the context, the modules before it. They are closed in the reverse order, when no request
 * is left and no handler runs. Handles that a module leaves on the loop close by themselves.
 *
 * A module declares its own options of `serve` and keeps their values itself. The command line is
 * parsed before the modules are opened.
 */
#ifndef SERVER_MODULES_H
#define SERVER_MODULES_H

#include "base/option.h"
#include "server/context.h"

struct module {
    const char *name;
    int (*open)(struct context *h, void **ret_module, struct err_info *ret_error);
    struct route_table (*routes)(void *module); /* NULL: none */
    bool (*ready)(void *module);                /* for /readyz, on the loop; NULL: always */
    void (*close)(void *module);
    const struct option *options; /* of `drover serve` */
    size_t option_count;
};

enum { MODULES_MAX = 16 };

struct modules {
    const struct module *const *table; /* ends with NULL; at most MODULES_MAX entries */
    void *opened[MODULES_MAX];
    size_t count; /* how many of the table are open */
};

/* Opens all modules of the table, or none and says why. */
int modules_open(struct modules *r, struct context *h, struct err_info *ret_error);
void modules_close(struct modules *r);

/* Fills tables, which has room for MODULES_MAX; returns how many. */
size_t modules_routes(const struct modules *r, struct route_table *tables);

/* The name of a module that is not ready; NULL: all are. */
const char *modules_not_ready(const struct modules *r);

/*
 * GET /healthz (the server runs), GET /readyz (it is ready for requests), and the metrics of the
 * process and the keeper. context->metrics must be set.
 */
struct health {
    struct context *context;
    struct modules *modules;
    struct local_stats stats; /* of the present page of metrics */
};

void health_init(struct health *h, struct context *context, struct modules *modules);
struct route_table health_routes(struct health *h);

#endif
