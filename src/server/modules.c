#include "server/modules.h"

#include <assert.h>

int modules_open(struct modules *r, struct context *h, struct err_info *ret_error)
{
    for (; r->table[r->count]; r->count++) {
        assert(r->count < MODULES_MAX);
        int err = r->table[r->count]->open(h, &r->opened[r->count], ret_error);
        if (err) {
            modules_close(r);
            return err;
        }
    }
    return 0;
}

void modules_close(struct modules *r)
{
    while (r->count) {
        r->count--;
        r->table[r->count]->close(r->opened[r->count]);
    }
}

size_t modules_routes(const struct modules *r, struct route_table *tables)
{
    size_t count = 0;

    for (size_t i = 0; i < r->count; i++)
        if (r->table[i]->routes)
            tables[count++] = r->table[i]->routes(r->opened[i]);
    return count;
}

const char *modules_not_ready(const struct modules *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->table[i]->ready && !r->table[i]->ready(r->opened[i]))
            return r->table[i]->name;
    return NULL;
}
