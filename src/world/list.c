/*
 * Reading: lists, one task, the whole tree. These are not snapshots: others make changes meanwhile.
 * Nodes that are not tasks are skipped.
 */
#include <stdlib.h>

#include "world/impl.h"

static const char *const LISTS[] = {
    [WORLD_IS_PENDING] = WORLD_PENDING,
    [WORLD_IS_WORKING] = WORLD_WORKING,
    [WORLD_IS_COMPLETED] = WORLD_COMPLETED,
    [WORLD_IS_FAILED] = WORLD_WORKING,
};

/* A task that is worked on, or has failed, is in two lists: the first of these counts. */
static const enum world_state ORDER[] = {WORLD_IS_WORKING, WORLD_IS_PENDING, WORLD_IS_COMPLETED};

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
    const struct keeper_names *working; /* when listing pending tasks, else empty */
    struct list_nodes nodes;            /* of the list */
    struct list_nodes records;          /* of the pending list, for working tasks */
};

/* The list of these has no records; the pending list has them. */
static bool is_locked(enum world_state state)
{
    return state == WORLD_IS_WORKING || state == WORLD_IS_FAILED;
}

static void add_item(struct lister *l, struct arena *a, const char *name, size_t i,
                     struct world_items *items)
{
    const struct list_nodes *from = is_locked(l->state) ? &l->records : &l->nodes;
    struct str key = str_of(arena_text(a, str_of(name)));
    struct str data = arena_take(a, &from->nodes[i].data);
    struct world_record r;
    if (world_record_read(a, data, key, &r)) {
        /* The view of the pending list warns about the others. */
        if (l->state == WORLD_IS_COMPLETED)
            world_warn(l->w, WORLD_COMPLETED, key, "its data is not that of a completed task");
        return;
    }
    enum world_state state = l->state;
    if (is_locked(state) || is_among(l->working, name))
        state = r.failed ? WORLD_IS_FAILED : WORLD_IS_WORKING;
    if (world_record_is_of(&r, l->w->root) && (!is_locked(l->state) || state == l->state))
        items->list[items->count++] = (struct world_item){
            .key = key, .state = state, .record = r, .since_ms = l->nodes.nodes[i].stat.ctime_ms};
}

/* Reads a page of names in parallel. */
static int list_page(struct lister *l, struct arena *a, char **names, size_t count, size_t limit,
                     struct world_items *items)
{
    int err = list_nodes_read(&l->nodes, l->k, LISTS[l->state], names, count);
    if (!err && is_locked(l->state))
        err = list_nodes_read(&l->records, l->k, WORLD_PENDING, names, count);
    for (size_t i = 0; i < count && !err; i++) {
        if (l->nodes.nodes[i].err || (l->records.count && l->records.nodes[i].err))
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
    CLEANUP(keeper_names_release) struct keeper_names names = {0}, working = {0};
    struct lister l = {.w = w, .k = k, .state = state, .working = &working};
    const char *from = arena_text(a, after);
    struct world_items items = {0};
    size_t at = 0;
    TRY(keeper_children(k, LISTS[state], &names, NULL));
    if (state == WORLD_IS_PENDING)
        TRY(keeper_children(k, WORLD_WORKING, &working, NULL));
    while (after.len && at < names.count && strcmp(names.names[at], from) <= 0)
        at++;
    limit = limit < names.count - at ? limit : names.count - at;
    items.list = arena_alloc(a, (limit + 1) * sizeof *items.list);
    for (size_t count; at < names.count && !items.more; at += count) {
        count = names.count - at < PAGE ? names.count - at : PAGE;
        TRY(list_page(&l, a, names.names + at, count, limit, &items));
    }
    *ret_items = items;
    return 0;
}

/* One task. */

static int state_of(struct keeper *k, struct arena *a, struct str key, struct world_item *item)
{
    struct keeper_stat stat;
    item->state = WORLD_IS_NONE;
    for (int i = 0; i < 3; i++) {
        int err = keeper_exists(k, world_list_path(a, LISTS[ORDER[i]], key), &stat);
        if (!err) {
            item->state = ORDER[i];
            item->since_ms = stat.ctime_ms;
        }
        if (err != DROVER_NO_NODE)
            return err;
    }
    return 0;
}

/* Whether the record of the task is in the list of its state. */
static bool read_record(struct keeper *k, struct arena *a, struct world_item *item)
{
    const char *list = LISTS[item->state == WORLD_IS_WORKING ? WORLD_IS_PENDING : item->state];
    struct str data;
    if (world_read(k, a, world_list_path(a, list, item->key), &data, NULL) ||
        world_record_read(a, data, item->key, &item->record))
        return false;
    if (item->state == WORLD_IS_WORKING && item->record.failed)
        item->state = WORLD_IS_FAILED;
    return true;
}

/* From the name alone: the type begins after the last '_'. */
static void record_guess(struct arena *a, const char *root, struct str key, struct world_record *r)
{
    struct str node = world_key_last(key), name, type = {0};
    size_t at = 0;
    while (world_split_name(node, &at, &name, &type))
        ;
    world_record_make(a, root, key, type, r);
}

int world_get(struct world *w, struct keeper *k, struct arena *a, struct str key,
              struct world_item *ret_item, struct str *ret_data, struct err_info *ret_error)
{
    struct world_item item = {.key = key};
    struct str data;
    TRY(world_check_key(key, ret_error));
    int err = world_read(k, a, world_path(a, w->root, key), &data, NULL);
    if (err == DROVER_NO_NODE)
        return err_set(ret_error, err, "there is no task '%.*s'", KEY_ARGS(key));
    if (!err)
        err = state_of(k, a, key, &item);
    if (err)
        return err_explain(ret_error, err);
    if (item.state == WORLD_IS_NONE || !read_record(k, a, &item)) {
        record_guess(a, w->root, key, &item.record);
    } else if (!world_record_is_of(&item.record, w->root)) {
        item.state = WORLD_IS_NONE;
        record_guess(a, w->root, key, &item.record);
    }
    *ret_item = item;
    *ret_data = data;
    return 0;
}

/* The tree. */

struct walker {
    struct keeper *k;
    struct arena a;
    world_walk_fn *fn;
    void *arg;
    struct keeper_names lists[3];
};

static enum world_state walker_state(struct walker *v, const char *key)
{
    struct world_item item = {.key = str_of(key), .state = WORLD_IS_NONE};
    for (int i = 0; i < 3 && item.state == WORLD_IS_NONE; i++)
        if (is_among(&v->lists[ORDER[i]], key))
            item.state = ORDER[i];
    if (item.state == WORLD_IS_WORKING)
        read_record(v->k, &v->a, &item);
    arena_reset(&v->a);
    return item.state;
}

static int walk_below(struct walker *v, const char *path, const char *key, int depth)
{
    CLEANUP(keeper_names_release) struct keeper_names names = {0};
    int err = keeper_children(v->k, path, &names, NULL);
    if (err)
        return err == DROVER_NO_NODE ? 0 : err;
    for (size_t i = 0; i < names.count; i++) {
        CLEANUP(buf_release) struct buf child = {0}, child_key = {0};
        buf_printf(&child, "%s/%s", path, names.names[i]);
        buf_printf(&child_key, "%s%s%s", key, *key ? "|" : "", names.names[i]);
        const char *below = buf_text(&child_key);
        TRY(v->fn(v->arg, str_of(below), depth, walker_state(v, below)));
        if (depth < WORLD_KEY_LEN_MAX / 3)
            TRY(walk_below(v, buf_text(&child), below, depth + 1));
    }
    return 0;
}

int world_walk(struct world *w, struct keeper *k, world_walk_fn *fn, void *arg)
{
    struct walker v = {.k = k, .fn = fn, .arg = arg};
    int err = 0;
    for (int i = 0; i < 3 && !err; i++)
        err = keeper_children(k, LISTS[i], &v.lists[i], NULL);
    if (!err)
        err = walk_below(&v, w->root, "", 0);
    for (int i = 0; i < 3; i++)
        keeper_names_release(&v.lists[i]);
    arena_release(&v.a);
    return err;
}
