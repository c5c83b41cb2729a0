#include "world/http.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "world/name.h"
#include "world/record.h"

enum { WORLD_SWEEP_MIN_MS = 500, WORLD_SWEEP_MAX_MS = 10 * 60 * 1000 };

struct world_sweep {
    struct context *context;
    struct world_registry *registry;
    struct periodic *periodic;
    int64_t retention_ms;
};

/* The world in a record's path. */
static struct str world_of(const struct world_record *r)
{
    struct str prefix = STR(WORLD_ROOT_PREFIX);
    struct str rest = {r->path.p + prefix.len, r->path.len - prefix.len};
    const char *slash = memchr(rest.p, '/', rest.len);

    return (struct str){rest.p, slash ? (size_t)(slash - rest.p) : rest.len};
}

/* Whether it was removed. Young tasks, tasks with children and foreign nodes stay. */
static bool sweep_one(struct world_sweep *s, struct keeper *k, struct arena *a, const char *name,
                      int64_t before_ms)
{
    struct str key = str_of(name);
    struct keeper_stat stat;
    struct world_record r;
    struct buf data = {0};
    struct world *w;
    int err = keeper_get(k, world_list_path(a, WORLD_COMPLETED, key), &data, &stat);

    if (!err && stat.ctime_ms >= before_ms)
        err = DROVER_NOT_ALLOWED;
    if (!err)
        err = world_record_read(a, buf_str(&data), key, &r);
    if (!err)
        err = world_registry_get(s->registry, world_of(&r), &w, NULL);
    if (!err) {
        err = world_remove(w, k, key, before_ms, NULL);
        world_registry_put(s->registry, w);
    }
    buf_release(&data);
    return !err;
}

/* Backwards: children come after their parents. */
static void sweep_all(struct periodic *c, void *arg)
{
    struct world_sweep *s = arg;
    int64_t before_ms = clock_wall_ms() - s->retention_ms;
    struct keeper *k = context_keeper(s->context);
    struct keeper_names names = {0};
    struct arena a = {0};
    size_t swept = 0;

    if (!k)
        return;
    if (!keeper_children(k, WORLD_COMPLETED, &names, NULL))
        for (size_t i = names.count; i-- > 0 && !periodic_is_stopping(c);) {
            arena_reset(&a);
            swept += sweep_one(s, k, &a, names.names[i], before_ms);
        }
    context_return(s->context, k);
    keeper_names_release(&names);
    arena_release(&a);
    if (swept)
        log_info("worlds: removed %zu tasks that were completed long ago", swept);
}

static int64_t every_ms(const struct world_sweep *s)
{
    int64_t ms = s->retention_ms / 100;

    ms = ms < WORLD_SWEEP_MIN_MS ? WORLD_SWEEP_MIN_MS : ms;
    return ms > WORLD_SWEEP_MAX_MS ? WORLD_SWEEP_MAX_MS : ms;
}

struct world_sweep *world_sweep_start(struct context *h, struct world_registry *registry,
                                      int64_t retention_ms)
{
    struct world_sweep *s = mem_zalloc(sizeof *s);

    s->context = h;
    s->registry = registry;
    s->retention_ms = retention_ms;
    s->periodic = periodic_start("world-sweep", every_ms(s), sweep_all, s);
    return s;
}

void world_sweep_free(struct world_sweep *s)
{
    periodic_stop(s->periodic);
    free(s);
}
