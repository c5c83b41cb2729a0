/*
 * rooms - the rooms of drover serve: what each of them brings, and the table of them.
 *
 * A room is opened with the house, in the order of the table; a room may use, through the house, those
 * before it. It is closed in the reverse order, when no request is left and no handler runs. What it
 * leaves on the loop closes by itself.
 */
#ifndef ROOMS_H
#define ROOMS_H

#include "house.h"

struct room {
    const char *name;
    int (*open)(struct house *h, void **ret_room, struct err_info *ret_error);
    struct route_table (*routes)(void *room); /* NULL: none */
    bool (*ready)(void *room);                /* for /readyz, on the loop; NULL: always */
    void (*close)(void *room);
};

enum { ROOMS_MAX = 16 };

struct rooms {
    void *opened[ROOMS_MAX];
    size_t count; /* of the table, so many are open */
};

/* All of them, or none and the reason. */
int rooms_open(struct rooms *r, struct house *h, struct err_info *ret_error);
void rooms_close(struct rooms *r);

/* Fills tables, which has room for ROOMS_MAX; returns how many. */
size_t rooms_routes(const struct rooms *r, struct route_table *tables);

/* NULL, or the name of one that is not ready. */
const char *rooms_not_ready(const struct rooms *r);

#endif
