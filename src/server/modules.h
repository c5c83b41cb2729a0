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
    struct context *context;
    void *opened[MODULES_MAX];
    size_t count; /* how many of the table are open */
};

/*
 * Opens all modules of the table, or none and says why; and adds the metrics of the process and the
 * keeper. context->metrics must be set.
 */
int modules_open(struct modules *m, struct context *h, struct err_info *ret_error);
void modules_close(struct modules *m);

/*
 * Fills tables, which has room for MODULES_MAX + 1; returns how many. The last one has GET /healthz
 * (the server runs) and GET /readyz (it is ready for requests).
 */
size_t modules_routes(struct modules *m, struct route_table *tables);

#endif
