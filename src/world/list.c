/*
 * Reading: lists, one task, the whole tree. These are not snapshots: others make changes meanwhile.
 * Nodes that are not tasks are skipped.
 */
#include <stdlib.h>

#include "keeper/path.h"
#include "world/impl.h"

static const char *const LISTS[] = {
    [WORLD_IS_PENDING] = WORLD_PENDING,
    [WORLD_IS_WORKING] = WORLD_WORKING,
    [WORLD_IS_COMPLETED] = WORLD_COMPLETED,
};

/* The list that holds the record of a task. */
static const char *record_list(enum world_state state)
{
    return state == WORLD_IS_WORKING ? WORLD_PENDING : LISTS[state];
}

static int by_name(const void *key, const void *name)
{
    return strcmp(key, *(char *const *)name);
}

static bool is_among(const struct keeper_names *n, const char *name)
{
    return n->count && bsearch(name, n->names, n->count, sizeof *n->names, by_name);
}

struct lister {
    struct world *w;
    struct keeper *k;
    enum world_state state;
    struct keeper_names working; /* when listing pending tasks */
    struct list_nodes nodes;     /* of the list */
    struct list_nodes records;   /* of the pending list, for working tasks */
};

static void add_item(struct lister *l, struct arena *a, const char *name, size_t i,
                     struct world_items *items)
{
    const struct list_nodes *from = l->state == WORLD_IS_WORKING ? &l->records : &l->nodes;
    struct str key = str_of(arena_text(a, str_of(name)));
    struct str data = {from->data[i].p ? from->data[i].p : "", from->data[i].len};
    struct world_record r;

    data.p = arena_text(a, data);
    if (world_record_read(a, data, key, &r)) {
        if (l->state ==
            WORLD_IS_COMPLETED) /* the view of the pending list warns about the others */
            world_warn(l->w, WORLD_COMPLETED, key, "its data is not that of a completed task");
        return;
    }
    if (!world_record_is_of(&r, l->w->root))
        return;
    items->list[items->count++] =
        (struct world_item){.key = key,
                            .state = is_among(&l->working, name) ? WORLD_IS_WORKING : l->state,
                            .record = r,
                            .since_ms = l->nodes.stats[i].ctime_ms};
}

/* Reads a page of names in parallel. */
static int list_page(struct lister *l, struct arena *a, char **names, size_t count, size_t limit,
                     struct world_items *items)
{
    int err = list_nodes_read(&l->nodes, l->k, LISTS[l->state], names, count);

    if (!err && l->state == WORLD_IS_WORKING)
        err = list_nodes_read(&l->records, l->k, WORLD_PENDING, names, count);
    for (size_t i = 0; i < count && !err; i++) {
        if (l->nodes.errs[i] || (l->records.count && l->records.errs[i]))
            continue;
        if (items->count < limit)
            add_item(l, a, names[i], i, items);
        else
            items->more = true;
    }
    list_nodes_release(&l->nodes);
    list_nodes_release(&l->records);
    return err;
}

int world_list(struct world *w, struct keeper *k, struct arena *a, enum world_state state,
               struct str after, size_t limit, struct world_items *ret_items)
{
    enum { PAGE = 1000 };
    struct lister l = {.w = w, .k = k, .state = state};
    const char *from = arena_text(a, after);
    struct world_items items = {0};
    struct keeper_names names = {0};
    size_t at = 0;
    int err = keeper_children(k, LISTS[state], &names, NULL);

    if (!err && state == WORLD_IS_PENDING)
        err = keeper_children(k, WORLD_WORKING, &l.working, NULL);
    if (err) {
        keeper_names_release(&names);
        return err;
    }
    while (after.len && at < names.count && strcmp(names.names[at], from) <= 0)
        at++;
    limit = limit < names.count - at ? limit : names.count - at;
    items.list = arena_alloc(a, (limit + 1) * sizeof *items.list);
    while (at < names.count && !err && !items.more) {
        size_t count = names.count - at < PAGE ? names.count - at : PAGE;

        err = list_page(&l, a, names.names + at, count, limit, &items);
        at += count;
    }
    keeper_names_release(&l.working);
    keeper_names_release(&names);
    if (!err)
        *ret_items = items;
    return err;
}

/* One task. */

static int state_of(struct keeper *k, struct arena *a, struct str key, enum world_state *ret_state,
                    int64_t *ret_since_ms)
{
    static const enum world_state order[] = {WORLD_IS_WORKING, WORLD_IS_PENDING,
                                             WORLD_IS_COMPLETED};
    struct keeper_stat stat;
    int err = DROVER_NO_NODE;

    for (int i = 0; i < 3 && err == DROVER_NO_NODE; i++) {
        err = keeper_exists(k, world_list_path(a, LISTS[order[i]], key), &stat);
        *ret_state = order[i];
    }
    if (err == DROVER_NO_NODE)
        *ret_state = WORLD_IS_NONE;
    *ret_since_ms = err ? 0 : stat.ctime_ms;
    return err == DROVER_NO_NODE ? 0 : err;
}

/* From the name alone: the type begins after the last '_'. */
static void record_guess(struct arena *a, const char *root, struct str key, struct world_record *r)
{
    struct str parent = world_parent_key(key), node = world_key_last(key);
    size_t at = 0;

    *r = (struct world_record){.path = str_of(world_path(a, root, key))};
    while (world_split_name(node, &at, &r->name, &r->type))
        ;
    if (parent.len)
        r->parent = str_of(world_path(a, root, parent));
}

int world_get(struct world *w, struct keeper *k, struct arena *a, struct str key,
              struct world_item *ret_item, struct str *ret_data, struct err_info *ret_error)
{
    struct world_item item = {.key = key};
    struct str data, record;
    TRY(world_check_key(key, ret_error));
    int err = world_read(k, a, world_path(a, w->root, key), &data, NULL);
    if (err == DROVER_NO_NODE)
        return err_set(ret_error, err, "there is no task '%.*s'",
                       (int)(key.len < 300 ? key.len : 300), key.p);
    if (!err)
        err = state_of(k, a, key, &item.state, &item.since_ms);
    if (err)
        return world_explain(ret_error, err);
    if (item.state == WORLD_IS_NONE ||
        world_read(k, a, world_list_path(a, record_list(item.state), key), &record, NULL) ||
        world_record_read(a, record, key, &item.record) ||
        !world_record_is_of(&item.record, w->root)) {
        item.state = item.record.path.len ? WORLD_IS_NONE : item.state;
        record_guess(a, w->root, key, &item.record);
    }
    *ret_item = item;
    *ret_data = data;
    return 0;
}

/* The tree. */

struct walker {
    struct world *w;
    struct keeper *k;
    world_walk_fn *fn;
    void *arg;
    struct keeper_names lists[3];
};

static enum world_state walker_state(const struct walker *v, const char *key)
{
    static const enum world_state order[] = {WORLD_IS_WORKING, WORLD_IS_PENDING,
                                             WORLD_IS_COMPLETED};

    for (int i = 0; i < 3; i++) {
        const struct keeper_names *n = &v->lists[order[i]];

        if (is_among(n, key))
            return order[i];
    }
    return WORLD_IS_NONE;
}

static int walk_below(struct walker *v, const char *path, const char *key, int depth)
{
    struct keeper_names names = {0};
    int err = keeper_children(v->k, path, &names, NULL);

    if (err)
        return err == DROVER_NO_NODE ? 0 : err;
    for (size_t i = 0; i < names.count && !err; i++) {
        struct buf child = {0}, child_key = {0};

        buf_printf(&child, "%s/%s", path, names.names[i]);
        buf_printf(&child_key, "%s%s%s", key, *key ? "|" : "", names.names[i]);
        err = v->fn(v->arg, str_of(buf_text(&child_key)), depth,
                    walker_state(v, buf_text(&child_key)));
        if (!err && depth < WORLD_KEY_LEN_MAX / 3)
            err = walk_below(v, buf_text(&child), buf_text(&child_key), depth + 1);
        buf_release(&child);
        buf_release(&child_key);
    }
    keeper_names_release(&names);
    return err;
}

int world_walk(struct world *w, struct keeper *k, world_walk_fn *fn, void *arg)
{
    struct walker v = {.w = w, .k = k, .fn = fn, .arg = arg};
    int err = 0;

    for (int i = 0; i < 3 && !err; i++)
        err = keeper_children(k, LISTS[i], &v.lists[i], NULL);
    if (!err)
        err = walk_below(&v, w->root, "", 0);
    for (int i = 0; i < 3; i++)
        keeper_names_release(&v.lists[i]);
    return err;
}
