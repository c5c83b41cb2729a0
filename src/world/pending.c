/*
 * The pending list as this process knows it: a list_view whose groups are the types, ordered by the
 * transaction that created the node. zoott_w holds the locks. Tasks of other worlds and invalid
 * nodes are idle; both keep their names.
 */
#include "world/impl.h"

static bool is_plain(struct world *w, struct arena *a, struct str key, struct str type,
                     struct str data)
{
    struct world_record made;

    world_record_make(a, w->root, key, type, &made);
    return str_eq(world_record_write(a, &made), data);
}

void world_classify(struct world *w, struct arena *a, struct str key, struct str data,
                    const struct keeper_stat *stat, struct list_class *ret_class)
{
    struct world_record r;

    *ret_class = (struct list_class){.idle = true};
    if (world_record_read(a, data, key, &r)) {
        world_warn(w, WORLD_PENDING, key, "its data is not that of a pending task");
    } else if (!world_record_is_of(&r, w->root)) {
        ret_class->flags = PENDING_FOREIGN;
    } else {
        *ret_class = (struct list_class){.order = stat->czxid, .group = r.type};
        if (is_plain(w, a, key, r.type, data))
            ret_class->flags = PENDING_PLAIN;
    }
}

/* Under the lock of the view, so one scratch arena is enough. */
static void classify(void *arg, struct str key, struct str data, const struct keeper_stat *stat,
                     struct list_class *ret_class)
{
    struct world *w = arg;

    arena_reset(&w->scratch);
    world_classify(w, &w->scratch, key, data, stat, ret_class);
}

static void on_ready(void *arg, struct str type, uint32_t count)
{
    struct world *w = arg;

    if (w->o.ready)
        w->o.ready(w->o.arg, type, count);
}

static void on_changed(void *arg)
{
    on_ready(arg, (struct str){0}, 1);
}

struct list_view *world_pending_new(struct world *w)
{
    struct list_view_options o = {
        .dir = WORLD_PENDING,
        .locks = WORLD_WORKING,
        .data = true,
        .classify = classify,
        .ready = on_ready,
        .changed = on_changed,
        .arg = w,
    };

    return list_view_new(&o);
}
