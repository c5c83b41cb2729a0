/*
 * rooms - the rooms of drover serve: what each of them brings, and the table of them.
 *
 * A room is opened with the house, in the order of the table; a room may use, through the house, those
 * before it. It is closed in the reverse order, when no request is left and no handler runs. What it
 * leaves on the loop closes by itself.
 */
#ifndef SERVER_MODULES_H
#define SERVER_MODULES_H

#include "server/context.h"

struct module {
    const char *name;
    int (*open)(struct context *h, void **ret_module, struct err_info *ret_error);
    struct route_table (*routes)(void *module); /* NULL: none */
    bool (*ready)(void *module);                /* for /readyz, on the loop; NULL: always */
    void (*close)(void *module);
};

enum { MODULES_MAX = 16 };

struct modules {
    void *opened[MODULES_MAX];
    size_t count; /* of the table, so many are open */
};

/* All of them, or none and the reason. */
int modules_open(struct modules *r, struct context *h, struct err_info *ret_error);
void modules_close(struct modules *r);

/* Fills tables, which has room for ROOMS_MAX; returns how many. */
size_t modules_routes(const struct modules *r, struct route_table *tables);

/* NULL, or the name of one that is not ready. */
const char *modules_not_ready(const struct modules *r);

#endif
