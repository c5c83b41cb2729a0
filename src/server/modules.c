#include "server/modules.h"

#include <assert.h>

#include "batch/http.h"
#include "dag/http.h"
#include "queue/http.h"
#include "server/sessions_http.h"
#include "task/http.h"
#include "world/http.h"

/* The rooms, in the order in which they open. NULL ends them. */
static const struct module *const MODULES[] = {
    &session_module, &task_module, &world_module, &dag_module, &batch_module, &queue_module, NULL,
};

_Static_assert(sizeof MODULES / sizeof *MODULES <= MODULES_MAX + 1, "too many rooms");

int modules_open(struct modules *r, struct context *h, struct err_info *ret_error)
{
    for (; MODULES[r->count]; r->count++) {
        int err = MODULES[r->count]->open(h, &r->opened[r->count], ret_error);

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
        MODULES[r->count]->close(r->opened[r->count]);
    }
}

size_t modules_routes(const struct modules *r, struct route_table *tables)
{
    size_t count = 0;

    for (size_t i = 0; i < r->count; i++)
        if (MODULES[i]->routes)
            tables[count++] = MODULES[i]->routes(r->opened[i]);
    return count;
}

const char *modules_not_ready(const struct modules *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (MODULES[i]->ready && !MODULES[i]->ready(r->opened[i]))
            return MODULES[i]->name;
    return NULL;
}
