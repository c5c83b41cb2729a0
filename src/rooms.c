#include "rooms.h"

#include <assert.h>

#include "batch/http.h"
#include "dag/http.h"
#include "queue/http.h"
#include "session/http.h"
#include "task/http.h"
#include "world/http.h"

/* The rooms, in the order in which they open. NULL ends them. */
static const struct room *const ROOMS[] = {
    &session_room, &task_room, &world_room, &dag_room, &batch_room, &queue_room, NULL,
};

_Static_assert(sizeof ROOMS / sizeof *ROOMS <= ROOMS_MAX + 1, "too many rooms");

int rooms_open(struct rooms *r, struct house *h, struct err_info *ret_error)
{
    for (; ROOMS[r->count]; r->count++) {
        int err = ROOMS[r->count]->open(h, &r->opened[r->count], ret_error);

        if (err) {
            rooms_close(r);
            return err;
        }
    }
    return 0;
}

void rooms_close(struct rooms *r)
{
    while (r->count) {
        r->count--;
        ROOMS[r->count]->close(r->opened[r->count]);
    }
}

size_t rooms_routes(const struct rooms *r, struct route_table *tables)
{
    size_t count = 0;

    for (size_t i = 0; i < r->count; i++)
        if (ROOMS[i]->routes)
            tables[count++] = ROOMS[i]->routes(r->opened[i]);
    return count;
}

const char *rooms_not_ready(const struct rooms *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (ROOMS[i]->ready && !ROOMS[i]->ready(r->opened[i]))
            return ROOMS[i]->name;
    return NULL;
}
